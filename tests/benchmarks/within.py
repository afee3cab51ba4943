"""Work that is given only so much time, and has something to show for it in any case."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def within(items: Iterable[T], seconds: float | None) -> Iterator[T]:
    """The items: the first of them, and each other one as long as so many seconds are not over."""
    began = time.monotonic()
    for number, item in enumerate(items):
        if number and seconds is not None and time.monotonic() - began >= seconds:
            return
        yield item
