"""Places in the user's code, or else in a library, and the modules of a model with their outputs."""

from __future__ import annotations

import math
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from engine.experiment.value import MOST_ENTRIES
from engine.protocol.advice import Finding, FindingKind, ModuleRow, Severity
from engine.training.models.forward import original_class, removed_at_end
from engine.training.models.own import is_own_file, own_details, own_frames, shown_file
from engine.training.precision import dtype_name, leaf_tensors

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
    """A line in a file of the user's code or of a library."""

    file: str
    line: int
    is_users: bool = True


def finding_at(
    place: CodePlace | None, kind: FindingKind, severity: Severity, message: str, remedy: str, count: int = 1
) -> Finding:
    """Return a finding at a place, if the place is known."""
    file, line = (None, None) if place is None else (place.file, place.line)
    return Finding(
        kind=kind, severity=severity, message=message, remedy=remedy, file=file, line=line, count=count
    )


def calling_line() -> CodePlace | None:
    """Return the user's line that called torch, else a library's line, else None."""
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


def running_line(thread: int | None) -> tuple[CodePlace | None, str]:
    """Return the user's line and function that a thread is running, else None and ""."""
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
    """Return the line of the `forward` that the user defined for a module, found by its parameter's name.

    Without one, the innermost surrounding module with such a `forward` counts. None if there is none.
    """
    parents = name.split(".")[:-1]
    for count in range(len(parents), -1, -1):
        forward = getattr(type(model.get_submodule(".".join(parents[:count]))).forward, "__code__", None)
        if forward is not None and is_own_file(forward.co_filename):
            return CodePlace(shown_file(forward.co_filename), forward.co_firstlineno)
    return None


def place_of(error: BaseException) -> CodePlace | None:
    """Return the line that raised an error, or that called the code that raised it."""
    if own := own_frames(error):
        return CodePlace(shown_file(own[-1].filename), own[-1].lineno or 1)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if place := _in_library(frame.filename, frame.lineno or 1):
            return place
    return None


def user_traceback(error: BaseException) -> str:
    """Return the error's traceback with the user's own frames only."""
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


_MOST_PARTS = 4
_MOST_CALLS = 5_000  # of a module in a pass, as for each element of a very long sequence


def describe_tensors(value: Any) -> str:
    """Describe the tensors in a value, such as "2×10 float32, 2×3 int64"."""
    return ", ".join(f"{shape_text(tensor)} {dtype_text(tensor)}".strip() for tensor in _tensors(value))


def shape_text(tensor: torch.Tensor) -> str:
    """Return the tensor's shape, such as "2×10". Empty for a scalar."""
    return "×".join(map(str, tensor.shape))


def dtype_text(tensor: torch.Tensor) -> str:
    """Return the tensor's dtype, such as "float32"."""
    return dtype_name(tensor.dtype)


class ModuleOutputs:
    """Records the outputs of a model's modules during a pass, and lists the modules as the rows of a tree."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._outputs: dict[str, tuple[str, str]] = {}
        self._depth = self._calls = 0
        self._returned = -math.inf
        self._is_given_up = False

    def give_up(self) -> None:
        """Abort the watched pass at the next call of a module."""
        self._is_given_up = True

    def has_advanced(self, seconds: float) -> bool:
        """Return True if a module has returned within these seconds, so the model is slow but not stuck."""
        is_endless = self._calls > _MOST_CALLS * (1 + len(self._outputs))
        return time.monotonic() - self._returned < seconds and not is_endless

    @property
    def is_in_forward(self) -> bool:
        """True while a module of the model is running."""
        return self._depth > 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the output of each module's last call in this context."""
        handles: list[RemovableHandle] = []
        for name, module in self._model.named_modules():
            handles.append(module.register_forward_pre_hook(self._enter))
            handles.append(module.register_forward_hook(self._noting(name), always_call=True))
        with removed_at_end(handles):
            yield

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if self._is_given_up:
            raise TimeoutError("the check timed out")
        self._depth += 1

    def _noting(self, name: str) -> Any:
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            self._depth -= 1
            self._calls += 1
            self._returned = time.monotonic()
            tensors = _tensors(output)
            dtypes = dict.fromkeys(map(dtype_text, tensors))
            self._outputs[name] = (", ".join(map(shape_text, tensors)), ", ".join(dtypes))

        return note

    def rows(self) -> tuple[ModuleRow, ...]:
        """Return all modules, the model itself first. A shared module is listed once."""
        return tuple(self._row(name, it) for name, it in islice(self._model.named_modules(), MOST_ENTRIES))

    def _row(self, name: str, module: nn.Module) -> ModuleRow:
        held = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        shape, dtype = self._outputs.get(name, ("", ""))
        return ModuleRow(
            name=name,
            class_name=original_class(module).__name__,
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            own=tuple(f"{own} {describe_tensors(tensor)}" for own, tensor in held[:MOST_ENTRIES]),
            output=shape,
            dtype=dtype,
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    return leaf_tensors(value)[:_MOST_PARTS]
