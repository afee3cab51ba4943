"""NumPy and psutil, imported on first use, so that the window opens without them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "psutil"]


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
