"""Places in the user's code, or else in a library's model: file and line."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from engine.protocol.advice import Finding, FindingKind, Severity
from engine.training.models.own import is_own_file, own_details, own_frames, shown_file

_TORCH = Path(torch.__file__).parent.as_posix()
_LIBRARIES = tuple(
    # an installed engine has torch, and libraries that need it, in a folder of its own
    {
        *(Path(sysconfig.get_path(name)).as_posix() for name in ("purelib", "platlib")),
        Path(_TORCH).parent.as_posix(),
    }
)
_ENGINE = Path(__file__).parents[2].as_posix()
_CHECKS = Path(__file__).parent.as_posix()


@dataclass(frozen=True)
class CodePlace:
    """A line of a file, the user's own or a library's."""

    file: str
    line: int
    is_users: bool = True


def finding_at(
    place: CodePlace | None, kind: FindingKind, severity: Severity, message: str, remedy: str, count: int = 1
) -> Finding:
    """A finding at a place, if that is known."""
    file, line = (None, None) if place is None else (place.file, place.line)
    return Finding(
        kind=kind, severity=severity, message=message, remedy=remedy, file=file, line=line, count=count
    )


def calling_line() -> CodePlace | None:
    """The user's line that called torch, or a library's without one; None where it is this program."""
    frame: FrameType | None = sys._getframe(1)
    library: CodePlace | None = None
    while frame is not None:
        path = frame.f_code.co_filename
        if is_own_file(path):
            return CodePlace(shown_file(path), frame.f_lineno)
        place = _posix(path)
        if place.startswith(_ENGINE) and not place.startswith(_CHECKS):
            return library
        library = library or _in_library(path, frame.f_lineno)
        frame = frame.f_back
    return library


def running(thread: int | None) -> tuple[CodePlace | None, str]:
    """The user's line that a thread is at, and their function called to get there; None and "" elsewhere."""
    frame = sys._current_frames().get(thread or 0)
    place, called = None, ""
    while frame is not None:
        path = frame.f_code.co_filename
        if is_own_file(path):
            place = place or CodePlace(shown_file(path), frame.f_lineno)
            called = frame.f_code.co_name
        frame = frame.f_back
    return place, called


def forward_place(model: nn.Module, name: str = "") -> CodePlace | None:
    """The line of the user's forward around the module with that parameter; without a name the model's."""
    parents = name.split(".")[:-1]
    for count in range(len(parents), -1, -1):
        forward = getattr(type(model.get_submodule(".".join(parents[:count]))).forward, "__code__", None)
        if forward is not None and is_own_file(forward.co_filename):
            return CodePlace(shown_file(forward.co_filename), forward.co_firstlineno)
    return None


def place_of(error: BaseException) -> CodePlace | None:
    """The line that raised, or that called what raised."""
    if own := own_frames(error):
        return CodePlace(shown_file(own[-1].filename), own[-1].lineno or 1)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if place := _in_library(frame.filename, frame.lineno or 1):
            return place
    return None


def trace_of(error: BaseException) -> str:
    """The error's traceback with the user's own frames only."""
    return own_details(error) or "".join(traceback.format_exception_only(error))


@cache
def _posix(path: str) -> str:
    return Path(path).as_posix()


def _in_library(path: str, line: int) -> CodePlace | None:
    # as the library names it, torch excepted, whose callers are of interest
    place = _posix(path)
    if place.startswith((_TORCH, _ENGINE)):
        return None
    base = next((base for base in _LIBRARIES if place.startswith(f"{base}/")), None)
    return None if base is None else CodePlace(place.removeprefix(f"{base}/"), line, is_users=False)
