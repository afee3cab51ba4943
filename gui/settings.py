"""What the window remembers between two starts: one JSON file, written whole, with a backup beside it."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from engine.paths import config_folder

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Key(StrEnum):
    """Everything that survives a restart."""

    GEOMETRY = "geometry"
    SIDE_SPLITTER = "side_splitter"
    DOCK_HEIGHT = "dock_height"
    DOCK_OPEN = "dock_open"
    DOCK_PAGE = "dock_page"
    THEME = "theme"
    FORM = "form"
    TICKED_RUNS = "ticked_runs"
    RUNS_TABLE = "runs_table"
    WORKSPACE = "workspace"
    MEMORY_LIMIT = "memory_limit"
    EXPORT = "export"
    SHOW = "show"
    REDUCED_MOTION = "reduced_motion"
    SMOOTHING = "smoothing"


class Settings:
    """Remembered values by name. Only plain JSON values go in."""

    def __init__(self, path: Path, values: dict[str, Any] | None = None) -> None:
        self._path = path
        self._values = dict(values or {})

    @classmethod
    def load(cls, path: Path | None = None) -> Settings:
        """Reads the settings file, its backup if the file is broken, and else starts empty. Never raises."""
        file = path or config_folder() / "window.json"
        for candidate in (file, _backup(file)):
            values = _read(candidate)
            if values is not None:
                return cls(file, values)
        return cls(file)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever remembered."""
        return not self._values

    def get(self, key: str, default: _T) -> _T:
        """The remembered value, or `default` where there is none or it is of another type."""
        value = self._values.get(key, default)
        return value if isinstance(value, type(default)) else default

    def set(self, key: str, value: Any) -> None:
        """Remembers a JSON value until `save`."""
        self._values[key] = value

    def restore(self, key: str, apply: Callable[[Any], object]) -> bool:
        """Hands the remembered value to `apply`; says whether that worked.

        A value that `apply` cannot take is logged and forgotten, so that one broken part never keeps the
        others, or the window, from coming back.
        """
        if key not in self._values:
            return False
        try:
            apply(self._values[key])
        except Exception:  # noqa: BLE001 - whatever is wrong with one value, the window must open
            _log.warning("The remembered %s could not be restored.", key, exc_info=True)
            del self._values[key]
            return False
        return True

    def save(self) -> bool:
        """Writes the file in one move, keeping the one before as the backup; False where it cannot."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # only a file that still reads is worth keeping: a broken one must not replace a good backup
            if _read(self._path) is not None:
                _write_whole(_backup(self._path), self._path.read_bytes())
            text = json.dumps(self._values, indent=1, sort_keys=True, ensure_ascii=False)
            _write_whole(self._path, text.encode())
        except (OSError, TypeError, ValueError, RecursionError):
            _log.warning("The window's settings could not be saved in %s.", self._path, exc_info=True)
            return False
        return True


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s could not be read and was left out: %s", path, error)
        return None
    if not isinstance(values, dict):
        _log.warning("%s holds no table of settings and was left out.", path)
        return None
    return values


def _write_whole(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
