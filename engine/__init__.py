"""The AMP engine: it describes, trains, measures and records experiments, and knows nothing of the window."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

# there are none that this program needs, and looking for them reads the metadata of every installed package
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Later(ModuleType):
    """A module that is imported when something of it is first asked for: the window opens without NumPy."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        # found without this function from now on
        setattr(self, name, value)
        return value
