"""Reads what the observer writes: one file of JSON lines for each process that trains. All is untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from engine.experiment.catalog import Precision
from engine.experiment.value import (
    LARGEST_STEP,
    MOST_ROWS,
    MOST_SECONDS,
    Line,
    Message,
    Mib,
    Positive,
    StepNumber,
    Whole,
    check_size,
)
from engine.protocol.summary import Observed

_MOST_PROCESSES = 1_024
_DEVICE = re.compile(r"cpu|mps|(cuda|xpu)(:\d{1,3})?")
_MOST_BYTES = 2**24  # read at once from one file
_Column = Annotated[tuple[float, ...], Field(max_length=MOST_ROWS)]


class Begin(Observed):
    """The first line of a process: where it trains, and the observations of its first steps."""

    kind: Literal["begin"] = "begin"
    pid: Whole
    rank: Whole = 0
    world_size: Positive = 1
    python: Line
    torch: Line
    cuda: Line | None = None
    device: Line
    device_uuid: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{0,80}$")] = ""
    device_name: Line = ""
    device_memory_mib: Mib = 0.0

    @property
    def observed(self) -> Observed:
        seen = self.model_dump(include=set(Observed.model_fields))
        return Observed.model_validate(seen | {"processes": self.world_size})

    @property
    def setting(self) -> str:
        """The device as a setting, "auto" for one that Ammeter does not train on itself."""
        return self.device if _DEVICE.fullmatch(self.device) else "auto"

    @property
    def precision(self) -> Precision:
        """The precision in which its layers ran."""
        kinds = set(self.layers)
        if self.autocast == "float16" and (not kinds or "float16" in kinds):
            return Precision.FP16 if self.has_scaler else Precision.FP16_UNSCALED
        if self.autocast == "bfloat16" and (not kinds or "bfloat16" in kinds):
            return Precision.BF16
        total = sum(self.parameters.values())
        if total and self.parameters.get("bfloat16", 0) > total / 2:
            return Precision.BF16_PURE
        if not self.device.startswith("cuda"):
            return Precision.FP32
        if self.tf32_matmuls:
            return Precision.TF32
        return Precision.DEFAULT if self.tf32_convolutions else Precision.FP32


class Steps(Message):
    """Consecutive steps of a process, as columns, and its memory after the last of them.

    `seconds` runs from the start of the first step. `skipped` and `compiled` are step numbers.
    """

    kind: Literal["steps"] = "steps"
    step: Annotated[tuple[StepNumber, ...], Field(min_length=1, max_length=MOST_ROWS)]
    seconds: _Column
    loss: _Column
    samples: _Column | None = None
    learning_rate: _Column
    scale: _Column | None = None
    skipped: Annotated[tuple[StepNumber, ...], Field(max_length=MOST_ROWS)] = ()
    compiled: Annotated[tuple[StepNumber, ...], Field(max_length=MOST_ROWS)] = ()
    allocated_mib: Mib | None = None
    reserved_mib: Mib | None = None
    peak_allocated_mib: Mib | None = None
    peak_reserved_mib: Mib | None = None
    resident_mib: Mib | None = None
    peak_resident_mib: Mib | None = None

    @model_validator(mode="after")
    def _columns_are_sound(self) -> Steps:
        columns = (self.seconds, self.loss, self.learning_rate, self.samples, self.scale)
        if any(column is not None and len(column) != len(self.step) for column in columns):
            raise ValueError("the columns differ in length")
        if not all(0 <= seconds <= MOST_SECONDS for seconds in self.seconds):
            raise ValueError("a time is out of bounds")
        if self.samples is not None and not all(0 <= count <= LARGEST_STEP for count in self.samples):
            raise ValueError("a number of samples is out of bounds")
        return self


class Trouble(Message):
    """An error of the observer itself. The script has continued."""

    kind: Literal["problem"] = "problem"
    message: Line


class End(Message):
    """The last line of a process that ended by itself."""

    kind: Literal["end"] = "end"
    steps: Whole
    is_compiled: bool = False


_Line = Begin | Steps | Trouble | End


@cache
def _adapter() -> TypeAdapter[_Line]:
    return TypeAdapter(Annotated[_Line, Field(discriminator="kind")])


@dataclass
class Process:
    """One process that trains: its first line, and its last steps with their memory."""

    begin: Begin | None = None
    steps: Steps | None = None
    times: list[NDArray[np.float64]] = field(default_factory=list)


class Reader:
    """Follows the files of the observer in a folder.

    `main` is the process whose steps are the run: of rank 0, the first that steps. `problems` are lines that
    are not the observer's, and its own errors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, bytes]] = {}
        self.processes: dict[str, Process] = {}
        self.main: str | None = None
        self.problems: list[str] = []
        self._early: dict[str, list[Steps]] = {}

    def read(self) -> Iterator[Begin | Steps]:
        """Yield the new lines of the main process. Its steps come after its first line."""
        for path in sorted(self._folder.glob("*.jsonl"))[:_MOST_PROCESSES]:
            for line in self._lines(path):
                yield from self._add(path.stem, line)

    def unwritable(self) -> str:
        """Return why the observer cannot write to the folder, or that its file is gone. Empty if it can."""
        try:
            with TemporaryFile(dir=self._folder, buffering=0) as file:
                file.write(bytes(4_096))
            for name in self._read:
                (self._folder / name).stat()
        except OSError as error:
            return f"The observer cannot write to {self._folder}: {error.strerror}."
        return ""

    def _add(self, name: str, line: _Line) -> Iterator[Begin | Steps]:
        process = self.processes.setdefault(name, Process())
        if isinstance(line, Trouble):
            self.problems.append(f"The observer failed in process {name}: {line.message}")
        elif isinstance(line, Begin):
            process.begin = line
            if self.main is None and line.rank == 0:
                self.main = name
                yield line
                yield from self._early.pop(name, ())
        elif isinstance(line, Steps):
            process.steps = line
            process.times.append(np.asarray(line.seconds))
            if name == self.main:
                yield line
            elif process.begin is None:
                self._early.setdefault(name, []).append(line)

    def _lines(self, path: Path) -> Iterator[_Line]:
        offset, part = self._read.get(path.name, (0, b""))
        try:
            with path.open("rb") as file:
                file.seek(offset)
                new = file.read(_MOST_BYTES)
        except OSError:
            return
        *lines, rest = (part + new).split(b"\n")
        self._read[path.name] = (offset + len(new), rest)
        for line in lines:
            try:
                check_size(line)
                yield _adapter().validate_json(line)
            except (ValidationError, ValueError):
                self.problems.append(f"Process {path.stem} wrote a line that is not the observer's.")
