"""Each part of an archive as what it stands for. ValueError says what is wrong with it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from engine.archives.layout import (
    FORMAT,
    FORMAT_WITHOUT_PICTURES,
    MOST_EVENTS,
    NEEDED_COLUMNS,
    PARTS,
    VALUE_BYTES,
    FormatOnly,
    Manifest,
    RecordPart,
    SheetEntry,
    member,
    sheet_member,
)
from engine.contact_sheet import ContactSheet
from engine.events import (
    SAMPLE_COLUMNS,
    Epoch,
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    Skipped,
    Started,
    from_line,
)
from engine.message import LARGEST_STEP, MOST_SECONDS
from engine.records.blocks import Columns
from engine.records.marks import cleaned_tags
from engine.text import shortened

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_KEPT = Started | Phase | Epoch | Skipped | Log | Finished | Failed
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
"""A clock may be wrong by as much; what lies beyond is no moment on every system."""


class NewerFormatError(ValueError):
    """The archive is of a format that this program does not know; the text names its number."""


def manifest_of(data: bytes) -> Manifest:
    """The list of contents, which names every run, comparison and part once. Raises NewerFormatError too."""
    version = FormatOnly.model_validate_json(data).format
    if version > FORMAT:
        raise NewerFormatError(shortened(version))
    manifest = Manifest.model_validate_json(data)
    _need(len(set(manifest.runs)) == len(manifest.runs), "a run is named twice")
    comparisons = {comparison.id: comparison for comparison in manifest.comparisons}
    _need(len(comparisons) == len(manifest.comparisons), "a comparison is named twice")
    sheets = [sheet_member(told.key) for told in manifest.pictures]
    _need(len(set(sheets)) == len(sheets), "a sheet of pictures is named twice")
    _need(version > FORMAT_WITHOUT_PICTURES or not sheets, "it has pictures, which its format has not")
    expected = [*(member(run_id, part) for run_id in manifest.runs for part in PARTS), *sheets]
    _need([file.name for file in manifest.files] == expected, "its list of parts is not that of its runs")
    for comparison in comparisons.values():
        _check_name(comparison.title)
        _check_moment(comparison.created)
    return manifest


def record_of(data: bytes) -> RecordPart:
    """A run's row, with its numbers, moments and names within bounds."""
    record = RecordPart.model_validate_json(data)
    for moment in (record.created, record.started, record.ended):
        if moment is not None:
            _check_moment(moment)
    _check_name(record.name)
    _check_name(record.label or "")
    _need(cleaned_tags(record.tags) == record.tags, "a tag is none")
    lines = record.note.replace("\n", " ").replace("\t", " ")
    _need(_CONTROLS.search(lines) is None, "its note has control characters")
    names = record.columns
    _need(len(set(names)) == len(names) and set(names) <= set(SAMPLE_COLUMNS), "it has columns of no meaning")
    _need(not names or set(names) >= set(NEEDED_COLUMNS), "it lacks columns that every run has")
    _need(bool(names) == bool(record.rows), "its samples have no columns, or its columns no samples")
    return record


def events_of(data: bytes) -> tuple[Event, ...]:
    """What was recorded of a run beside its samples, one event a line."""
    if not data:
        return ()
    _need(data.endswith(b"\n"), "its last line is not whole")
    _need(data.count(b"\n") <= MOST_EVENTS, f"it has more than {MOST_EVENTS:,} lines")
    return tuple(_event(line) for line in data[:-1].split(b"\n"))


def columns_of(data: bytes, record: RecordPart) -> Columns:
    """The samples of the run, float64, one value a step; NaN and infinity are kept."""
    _need(len(data) == len(record.columns) * record.rows * VALUE_BYTES, "it is not as long as its columns")
    if not data:
        return {}
    table = np.frombuffer(data, dtype="<f8").reshape(len(record.columns), record.rows).astype(np.float64)
    columns = dict(zip(record.columns, table, strict=True))
    steps, seconds = columns["step"], columns["seconds"]
    _need(bool(np.isfinite(steps).all() and np.isfinite(seconds).all()), "a step or a time is no number")
    is_counted = steps[0] >= 1 and steps[-1] <= LARGEST_STEP and np.all(np.diff(steps) > 0)
    _need(bool(is_counted and np.all(steps == np.floor(steps))), "its steps are not counted upwards")
    _need(bool(seconds.min() >= 0 and seconds.max() <= MOST_SECONDS), "a time is out of all bounds")
    return columns


def sheet_of(data: bytes, told: SheetEntry) -> ContactSheet:
    """The sheet of pictures, which can be shown."""
    sheet = ContactSheet(data, told.side, told.count)
    _need(sheet.key == told.key, "it is not the sheet that it is listed as")
    sheet.tiles()
    return sheet


def _event(line: bytes) -> Event:
    event = from_line(line)
    _need(isinstance(event, _KEPT), "it holds an event that no run has")
    return event


def _check_moment(moment: datetime) -> None:
    _need(_EARLIEST <= moment <= _LATEST, "a date is out of all bounds")


def _check_name(text: str) -> None:
    _need(_CONTROLS.search(text) is None, "a name has control characters")


def _need(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)
