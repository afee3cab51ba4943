"""NumPy and psutil, imported on first use, so that the window opens without them, and modules left out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "psutil", "without"]


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        # found without this function from now on
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import psutil
else:
    np, psutil = _LazyModule("numpy"), _LazyModule("psutil")


@contextmanager
def without(package: str) -> Iterator[None]:
    """Let imports find no package of that name, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    # the import system takes this for a missing module
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
