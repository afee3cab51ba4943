"""Keeps the machine from going to sleep while something is measured; the screen may still turn off."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


@contextmanager
def kept_awake() -> Iterator[bool]:
    """Keeps the system awake while entered, if it agrees; leave it in the same thread.

    A system without power management, such as a server, has nobody to ask, and does not go to sleep either.
    """
    # the import takes a tenth of a second
    from wakepy import keep

    with keep.running(on_fail="pass") as mode:
        if not mode.active:
            _log.info("%s", mode.result.get_failure_text(style="inline"))
        yield mode.active
