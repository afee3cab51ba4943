"""The window's state across restarts: form, tables, splitters, view and theme.

The settings are a JSON file, replaced as a whole, with a backup. Each part is restored on its own.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QMainWindow

from engine.experiment.paths import config_folder, read_file
from gui.charts.smoothing import smoothing
from gui.results.place import ResultsPlace
from gui.theme.theme import reduced_motion_choice, set_reduced_motion, theme
from gui.window.body import Body

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Key(StrEnum):
    """The names under which parts of the window's state are saved, such as its geometry and the form."""

    GEOMETRY = "geometry"
    SIDE_SPLITTER = "side_splitter"
    THEME = "theme"
    MACHINE = "machine"
    FORM = "form"
    ENGINE = "engine"
    TICKED_RUNS = "ticked_runs"
    RUNS_TABLE = "runs_table"
    RESULTS = "results"
    PAGE = "workspace"
    LIMIT = "memory_limit"
    NUMERICS = "numerics"
    PROFILE = "timing"
    SWEEP = "sweep"
    TUNE = "tune"
    EXPORT = "export"
    SHOW = "show"
    REDUCED_MOTION = "reduced_motion"
    SMOOTHING = "smoothing"


class Settings:
    """The window's state saved as JSON in a file, as values by name."""

    def __init__(self, path: Path, values: dict[str, Any] | None = None) -> None:
        self._path = path
        self._values = dict(values or {})

    @classmethod
    def load(cls, path: Path | None = None) -> Settings:
        """Read the settings file, or its backup if that is broken, or start empty. Never raises."""
        file = path or config_folder() / "window.json"
        for candidate in (file, _backup(file)):
            values = _read(candidate)
            if values is not None:
                return cls(file, values)
        return cls(file)

    @property
    def is_new(self) -> bool:
        """Return True while nothing is remembered yet."""
        return not self._values

    def get(self, key: str, default: _T) -> _T:
        """Return the remembered value, or `default` if there is none of its type."""
        value = self._values.get(key, default)
        return value if isinstance(value, type(default)) else default

    def set(self, key: str, value: Any) -> None:
        """Set a JSON value, for `save`."""
        self._values[key] = value

    def restore(self, key: str, apply: Callable[[Any], object]) -> bool:
        """Pass the remembered value to `apply`. Return True if that worked.

        A value that raises is logged and forgotten: a broken part must not affect the others or the window.
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
        """Replace the file and keep the previous one as a backup. Return False if it cannot be written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # a broken file must not replace a good backup
            if _read(self._path) is not None:
                _write_whole(_backup(self._path), read_file(self._path))
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
        values = json.loads(read_file(path).decode("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s could not be read and was ignored: %s", path, error)
        return None
    if not isinstance(values, dict):
        _log.warning("%s contains no table of settings and was ignored.", path)
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


@dataclass(frozen=True)
class Kept:
    """A part of the window's state that is saved at the end and restored at the next start.

    `read` returns it as plain JSON values. `write` restores it, and raises an error if the value is invalid.
    """

    key: Key
    read: Callable[[], Any]
    write: Callable[[Any], object]


def kept_bytes(key: Key, read: Callable[[], QByteArray], write: Callable[[QByteArray], bool]) -> Kept:
    """Return a saved part of the window's state that is a QByteArray, such as a splitter's."""

    def read_text() -> str:
        return base64.b64encode(read().data()).decode("ascii")

    def write_text(text: str) -> None:
        if not write(QByteArray(base64.b64decode(text, validate=True))):
            raise ValueError(f"Qt does not accept this {key}.")

    return Kept(key, read_text, write_text)


def restore(settings: Settings, parts: Sequence[Kept]) -> None:
    """Restore the parts. A part that fails is logged and keeps its default."""
    for part in parts:
        settings.restore(part.key, part.write)


def remember(settings: Settings, parts: Sequence[Kept]) -> None:
    """Read every part and save the settings."""
    for part in parts:
        settings.set(part.key, part.read())
    settings.save()


class HasState(Protocol):
    """The interface of a panel or controller whose state can be saved as plain JSON values."""

    def state(self) -> Mapping[str, Any]: ...

    def restore(self, state: Any, /) -> object: ...


def state_parts(states: Mapping[Key, HasState]) -> tuple[Kept, ...]:
    """Return the remembered state of a widget that has `state` and `restore`."""
    return tuple(Kept(key, part.state, part.restore) for key, part in states.items())


def kept_parts(
    window: QMainWindow,
    body: Body,
    results: ResultsPlace,
    states: Mapping[Key, HasState],
    show_page: Callable[[str], object],
) -> tuple[Kept, ...]:
    """Return the parts in the order of restoring: the page after its contents."""
    runs = results.runs
    return (
        Kept(Key.RUNS_TABLE, runs.state, runs.restore),
        Kept(Key.RESULTS, results.state, results.restore),
        Kept(Key.TICKED_RUNS, lambda: list(runs.checked()), runs.set_checked),
        kept_bytes(Key.GEOMETRY, window.saveGeometry, lambda value: _restore_geometry(window, value)),
        kept_bytes(Key.SIDE_SPLITTER, body.saveState, body.restoreState),
        *state_parts(states),
        Kept(Key.REDUCED_MOTION, reduced_motion_choice, _restore_motion),
        Kept(Key.SMOOTHING, lambda: smoothing().steps, lambda steps: smoothing().set_steps(steps)),
        Kept(Key.PAGE, lambda: body.place, show_page),
        Kept(Key.THEME, lambda: theme().mode, theme().set_mode),
    )


def _restore_geometry(window: QMainWindow, value: QByteArray) -> bool:
    # False here only means that the screen is much smaller or larger, which is no broken value
    window.restoreGeometry(value)
    return True


def _restore_motion(choice: object) -> None:
    if choice is not None and not isinstance(choice, bool):
        raise ValueError(choice)
    set_reduced_motion(choice)
