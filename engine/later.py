"""NumPy and psutil, imported when something of them is first asked for: the window opens without them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "psutil"]


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        # found without this function from now on
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import psutil
else:
    np, psutil = _Later("numpy"), _Later("psutil")
