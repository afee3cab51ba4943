"""Where in the user's code, or else in a library, something happens: file and line from the stack."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import FrameType, TracebackType

import torch

from engine.experiment.code import Code

_LIBRARIES = tuple(
    dict.fromkeys(Path(sysconfig.get_path(name)).as_posix() for name in ("purelib", "platlib", "stdlib"))
)
_TORCH = Path(torch.__file__).parent.as_posix()
_ENGINE = Path(__file__).parents[2].as_posix()


@dataclass(frozen=True)
class Place:
    """A line of a file; `is_users` says whether the file is the user's own."""

    file: str
    line: int
    is_users: bool


class Places:
    """Finds the lines of a code's files, and without code those of a library's model."""

    def __init__(self, code: Code | None) -> None:
        self._names = () if code is None else (code.file, *code.beside)
        self._folder = None if code is None else PurePath(code.folder)

    def here(self) -> Place | None:
        """The innermost line of the user's that is being run, else of a library's model."""
        return self.in_frame(sys._getframe(1))

    def in_frame(self, frame: FrameType | None) -> Place | None:
        """The innermost line of the user's in a stack, else of a library's model."""
        lines = []
        while frame is not None:
            lines.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        return self._first(lines)

    def of_error(self, error: BaseException) -> Place | None:
        """The line that raised, or that called what raised."""
        syntax = self._own_name(error.filename or "") if isinstance(error, SyntaxError) else None
        if syntax is not None and isinstance(error, SyntaxError):
            return Place(syntax, error.lineno or 1, is_users=True)
        return self._first(reversed(_lines(error.__traceback__)))

    def trace(self, error: BaseException) -> str:
        """The error's traceback with the user's own frames only."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if self._own_name(frame.filename) is not None]
        last = traceback.format_exception_only(error)
        return "".join([*(["Traceback:\n", *traceback.format_list(own)] if own else []), *last])

    def _first(self, lines: Iterable[tuple[str, int]]) -> Place | None:
        library: Place | None = None
        for path, line in lines:
            name = self._own_name(path)
            if name is not None:
                return Place(name, line, is_users=True)
            if library is None and (shown := _library_name(path)) is not None:
                library = Place(shown, line, is_users=False)
        return library

    def _own_name(self, path: str) -> str | None:
        """The path as the user knows it; None where it is not the user's."""
        if not self._names or path.startswith(_LIBRARIES):
            return None
        place = PurePath(path)
        # kept code may be run from a folder other than the one it was read in
        known = (
            name for name in self._names if place.parts[-len(PurePath(name).parts) :] == PurePath(name).parts
        )
        name = next(known, None)
        if name is None and self._folder is not None and place.is_relative_to(self._folder):
            return place.relative_to(self._folder).as_posix()
        return name


def _lines(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.filename, frame.lineno or 1) for frame in traceback.extract_tb(trace)]


def _library_name(path: str) -> str | None:
    """The path within the library, without torch and this program, which call the model."""
    place = Path(path).as_posix()
    if place.startswith((_TORCH, _ENGINE)):
        return None
    base = next((base for base in _LIBRARIES[:2] if place.startswith(f"{base}/")), None)
    return None if base is None else place.removeprefix(f"{base}/")
