"""The parts of an archive of runs, and how large each may be."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.value import BYTES_PER_MIB, LONGEST_TEXT, Whole
from engine.protocol.events import SAMPLE_COLUMNS, Environment, Samples, Summary
from engine.protocol.pictures import MOST_BYTES as MOST_SHEET_BYTES
from engine.protocol.pictures import MOST_SIDE, MOST_TILES
from engine.store.edits import LONGEST_NOTE, LONGEST_TAG, MOST_TAGS
from engine.store.record import Status

FORMAT = 2
"""Incremented when an older Ammeter could not read the new format; 2 added pictures."""

FORMAT_WITHOUT_PICTURES = 1
"""Written for runs without pictures, so that an older Ammeter can read them."""

MANIFEST = "ammeter.json"
RECORD, EVENTS, SAMPLES = "record.json", "events.jsonl", "samples.f8"
PARTS = (RECORD, EVENTS, SAMPLES)
"""The parts of each run. Samples are little-endian float64, column after column as the record names them."""

SHEET = "pictures"
"""A sheet of pictures, which runs may share."""

MOST_RUNS = 2_000
MOST_BYTES = {
    MANIFEST: 8 * BYTES_PER_MIB,
    RECORD: 8 * BYTES_PER_MIB,
    EVENTS: 64 * BYTES_PER_MIB,
    SAMPLES: 2**29,
    SHEET: MOST_SHEET_BYTES,
}
"""The most bytes of each part, unpacked; a record has room for the largest code of a model's own file."""

MOST_BYTES_IN_ALL = 2**29
"""All parts together, unpacked: room for 40 runs of 100,000 steps. They are held in memory until all were
checked, and added in one transaction, during which no run can be recorded."""

MOST_EVENTS = 500_000
MOST_RATIO = 200
"""The highest compression ratio; above it is a zip bomb, since noise in the times keeps real runs below
20."""

SMALL_BYTES = 16 * BYTES_PER_MIB
"""This much may be unpacked from any archive, whatever its ratio."""

VALUE_BYTES = 8
NEEDED_COLUMNS = tuple(name for name in SAMPLE_COLUMNS if Samples.model_fields[name].is_required())

_Id = Annotated[str, Field(pattern=r"\A[0-9a-f]{12}\z")]
_Key = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
_Name = Annotated[str, Field(max_length=LONGEST_TEXT)]
_Version = Annotated[str, Field(max_length=100)]
_Tag = Annotated[str, Field(max_length=LONGEST_TAG)]
_IS_MEMBER = re.compile(rf"runs/[0-9a-f]{{12}}/({'|'.join(map(re.escape, PARTS))})")
_IS_SHEET = re.compile(r"pictures/[0-9a-f]{64}\.jpg")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class FileEntry(_Entry):
    """One part of the archive: its unpacked size in bytes, and the SHA-256 in hexadecimal."""

    name: Annotated[str, Field(max_length=100)]
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES_IN_ALL)]
    sha256: _Key


class ComparisonEntry(_Entry):
    """A comparison that some of the runs belong to."""

    id: _Id
    title: _Name
    created: AwareDatetime
    ammeter: _Version | None = None


class SheetEntry(_Entry):
    """A sheet of pictures; `key` names its part."""

    key: _Key
    side: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    count: Annotated[int, Field(ge=1, le=MOST_TILES)]


class Manifest(_Entry):
    """Everything in the archive."""

    format: Literal[1, 2]
    ammeter: _Version
    runs: Annotated[tuple[_Id, ...], Field(max_length=MOST_RUNS)]
    comparisons: Annotated[tuple[ComparisonEntry, ...], Field(max_length=MOST_RUNS)]
    files: Annotated[tuple[FileEntry, ...], Field(max_length=MOST_RUNS * (len(PARTS) + 1))]
    pictures: Annotated[tuple[SheetEntry, ...], Field(max_length=MOST_RUNS)] = ()


class FormatOnly(BaseModel):
    """All that is read of a manifest until its format is known."""

    model_config = ConfigDict(extra="ignore")

    format: Annotated[int, Field(ge=1)]


class RecordPart(_Entry):
    """A run's row, and the names and length of its columns of samples."""

    id: _Id
    name: _Name
    status: Status
    label: _Name | None
    comparison: _Id | None
    created: AwareDatetime
    started: AwareDatetime | None
    ended: AwareDatetime | None
    experiment: Experiment
    environment: Environment | None
    summary: Summary | None
    problem: Problem | None
    detail: str
    total_steps: Whole | None
    tags: Annotated[tuple[_Tag, ...], Field(max_length=MOST_TAGS)] = ()
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    columns: Annotated[tuple[str, ...], Field(max_length=len(SAMPLE_COLUMNS))]
    rows: Annotated[int, Field(ge=0, le=MOST_BYTES_IN_ALL // VALUE_BYTES)]
    pictures: _Key | None = None


def member(run_id: str, part: str) -> str:
    """The name of a run's part inside the archive."""
    return f"runs/{run_id}/{part}"


def sheet_member(key: str) -> str:
    """The name of a sheet of pictures inside the archive."""
    return f"pictures/{key}.jpg"


def part_of(name: str) -> str | None:
    """The part that a name inside the archive stands for; None for any other name."""
    if name == MANIFEST:
        return MANIFEST
    if _IS_SHEET.fullmatch(name):
        return SHEET
    match = _IS_MEMBER.fullmatch(name)
    return match[1] if match else None
