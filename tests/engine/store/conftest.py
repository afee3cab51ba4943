"""A full disk for the tests of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest


@pytest.fixture
def no_room() -> Callable[..., AbstractContextManager[None]]:
    """Keeps the files of this process from growing beyond some bytes, as on a full disk."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(most_bytes: int = 0) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
