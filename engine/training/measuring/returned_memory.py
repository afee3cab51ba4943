"""Makes glibc give freed memory back to the system, so that a cap on the process meets what is in use."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The numbers of glibc's malloc.h; mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_AT_ONCE = 64 * 1024
_AS_GLIBC_GROWS_TO = 32 * 2**20
_ARENAS = 2


@contextmanager
def memory_given_back() -> Iterator[None]:
    """While the context lasts, what is 64 KiB or larger is mapped by itself and unmapped when it is freed.

    Else pieces that glibc keeps count against the cap though nothing uses them, and a batch that was proven
    to fit in a process that keeps none would not fit in one that does. It costs speed. A process that was
    started so is left as it is, and so is one without glibc.
    """
    mallopt = None if "MALLOC_MMAP_THRESHOLD_" in os.environ else _mallopt()
    if mallopt is None:
        yield
        return
    mallopt(_ARENA_MAX, _ARENAS)
    for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        mallopt(threshold, _AT_ONCE)
    try:
        yield
    finally:
        for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(threshold, _AS_GLIBC_GROWS_TO)


def _mallopt() -> ctypes._NamedFuncPointer | None:
    if sys.platform != "linux":
        return None
    found: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return found
