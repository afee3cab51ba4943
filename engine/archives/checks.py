"""Each part of an archive as what it stands for. ValueError says what is wrong with it."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

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
from engine.records.blocks import Columns
from engine.records.marks import cleaned_note, cleaned_tags

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys; they have no place in a name."""

_KEPT = Started | Phase | Epoch | Skipped | Log | Finished | Failed
_MOST_WHOLE = 2**63
_MOST_SECONDS = 1e9
_EARLIEST, _LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_LAST_EXACT = 2**53


class NewerFormatError(ValueError):
    """The archive is of a format that this program does not know; the text names its number."""


def manifest_of(data: bytes) -> Manifest:
    """The list of contents, which names every run, comparison and part once. Raises NewerFormatError too."""
    version = FormatOnly.model_validate_json(data).format
    if version > FORMAT:
        raise NewerFormatError(f"{version:,}" if version < _MOST_WHOLE else "beyond counting")
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
    _check_whole_numbers(record.model_dump())
    for moment in (record.created, record.started, record.ended):
        if moment is not None:
            _check_moment(moment)
    environment = record.environment.model_dump().values() if record.environment else ()
    for text in (record.name, record.label, *environment):
        if isinstance(text, str):
            _check_name(text)
    _need(cleaned_tags(record.tags) == record.tags, "a tag is none")
    _need(cleaned_note(record.note) == record.note, "its note has control characters")
    if record.summary is not None:
        _check_seconds(record.summary.seconds)
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
    is_counted = steps[0] >= 1 and steps[-1] <= _LAST_EXACT and np.all(np.diff(steps) > 0)
    _need(bool(is_counted and np.all(steps == np.floor(steps))), "its steps are not counted upwards")
    _need(bool(seconds.min() >= 0 and seconds.max() <= _MOST_SECONDS), "a time is out of all bounds")
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
    _check_whole_numbers(event.model_dump())
    if isinstance(event, Started):
        _need(event.steps_per_epoch >= 1, "an epoch has no steps")
    elif isinstance(event, Epoch):
        _check_seconds(event.seconds)
    elif isinstance(event, Finished | Failed) and event.summary is not None:
        _check_seconds(event.summary.seconds)
    return event


def _check_whole_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for each in value:
            _check_whole_numbers(each)
    elif isinstance(value, int):
        _need(0 <= value < _MOST_WHOLE, "a number is out of all bounds")


def _check_seconds(value: float) -> None:
    _need(math.isfinite(value) and 0 <= value <= _MOST_SECONDS, "a time is out of all bounds")


def _check_moment(moment: datetime) -> None:
    _need(_EARLIEST <= moment <= _LATEST, "a date is out of all bounds")


def _check_name(text: str) -> None:
    _need(CONTROLS.search(text) is None, "a name has control characters")


def _need(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ValueError(otherwise)
