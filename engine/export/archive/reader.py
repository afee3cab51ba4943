"""Reads an archive of runs, and imports them only once all of it has been checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from engine.experiment.text import shortened
from engine.experiment.value import LARGEST_STEP, MOST_SECONDS
from engine.export.archive.container import ANOTHER, Container, fault, opened, refuse
from engine.export.archive.layout import (
    EVENTS,
    FORMAT,
    FORMAT_WITHOUT_PICTURES,
    MANIFEST,
    MOST_EVENTS,
    NEEDED_COLUMNS,
    PARTS,
    RECORD,
    SAMPLES,
    VALUE_BYTES,
    FormatOnly,
    Manifest,
    RecordPart,
    SheetEntry,
    member,
    sheet_member,
)
from engine.protocol.events import (
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
from engine.protocol.pictures import ContactSheet
from engine.store.edits import cleaned_tags
from engine.store.journal import Columns
from engine.store.record import ComparisonRecord, RunRecord
from engine.store.store import Store
from engine.store.whole_runs import WholeRun

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


Hashes = Mapping[str, tuple[int, str]]
"""The size and SHA-256 of each part, by its name."""


@dataclass(frozen=True)
class Imported:
    """What became of the runs of an archive, in its order.

    `copies` are those of the `added` whose id was taken by another run, or by another state of the same one:
    they have ids of their own, and belong to no comparison.
    """

    added: tuple[RunRecord, ...]
    already_here: tuple[RunRecord, ...]
    copies: tuple[RunRecord, ...]


def import_archive(store: Store, path: Path) -> Imported:
    """Adds the runs of an archive to the saved runs. Raises ProblemError; then none of them was added."""
    arrivals = store.whole_runs.add(read_archive(path))
    found = [(arrival, store.run(arrival.id)) for arrival in arrivals]
    return Imported(
        added=tuple(run for arrival, run in found if arrival.is_new),
        already_here=tuple(run for arrival, run in found if not arrival.is_new),
        copies=tuple(run for arrival, run in found if arrival.is_new and arrival.is_copy),
    )


def read_archive(path: Path) -> tuple[WholeRun, ...]:
    """The runs in an archive, each part checked. Raises ProblemError with one plain sentence."""
    with opened(path) as container:
        manifest = _manifest(container)
        if set(container.sizes) != {MANIFEST, *(file.name for file in manifest.files)}:
            missing = [file.name for file in manifest.files if file.name not in container.sizes]
            refuse(path, f"lacks its part {missing[0]}" if missing else "holds parts that it does not list")
        hashes = {file.name: (file.bytes, file.sha256) for file in manifest.files}
        comparisons = {
            told.id: ComparisonRecord(told.id, told.title, told.created.astimezone(UTC))
            for told in manifest.comparisons
        }
        sheets = {told.key: _sheet(container, hashes, told) for told in manifest.pictures}
        runs = tuple(_run(container, hashes, comparisons, sheets, run_id) for run_id in manifest.runs)
    shown = {run.pictures.key for run in runs if run.pictures is not None}
    if shown != set(sheets):
        refuse(path, "holds pictures of no run", ANOTHER)
    return runs


def _manifest(container: Container) -> Manifest:
    data = container.read(MANIFEST)
    try:
        return manifest_of(data)
    except NewerFormatError as newer:
        sentence = f"was written by a newer Ammeter (format {newer}, this one knows {FORMAT})"
        refuse(container.path, sentence, "Nothing was imported. Import it with the newer Ammeter.")
    except ValueError as error:
        refuse(container.path, f"is no archive of runs, or it was changed ({fault(error)})", ANOTHER)


def _read(container: Container, hashes: Hashes, name: str) -> bytes:
    data = container.read(name)
    if hashes[name] != (len(data), hashlib.sha256(data).hexdigest()):
        refuse(container.path, f"is damaged or was changed: the checksum of its part {name} is another")
    return data


def _sheet(container: Container, hashes: Hashes, told: SheetEntry) -> ContactSheet:
    name = sheet_member(told.key)
    data = _read(container, hashes, name)
    try:
        return sheet_of(data, told)
    except ValueError as error:
        refuse(container.path, f"holds pictures that cannot be: in {name}, {fault(error)}", ANOTHER)


def _run(
    container: Container,
    hashes: Hashes,
    comparisons: Mapping[str, ComparisonRecord],
    sheets: Mapping[str, ContactSheet],
    run_id: str,
) -> WholeRun:
    parts = {part: _read(container, hashes, member(run_id, part)) for part in PARTS}
    part = RECORD
    try:
        told = record_of(parts[RECORD])
        if told.id != run_id or not (told.comparison is None or told.comparison in comparisons):
            raise ValueError("it belongs to another archive")
        if not (told.pictures is None or told.pictures in sheets):
            raise ValueError("its pictures are not there")
        part = EVENTS
        events = events_of(parts[EVENTS])
        part = SAMPLES
        columns = columns_of(parts[SAMPLES], told)
    except ValueError as error:
        name = member(run_id, part)
        refuse(container.path, f"holds a run that cannot be: in {name}, {fault(error)}", ANOTHER)
    comparison = comparisons[told.comparison] if told.comparison else None
    pictures = sheets[told.pictures] if told.pictures else None
    return WholeRun(_record(told), events, columns, comparison, pictures)


def _record(told: RecordPart) -> RunRecord:
    """The row; its number is given where it arrives."""
    return RunRecord(
        id=told.id,
        number=0,
        name=told.name,
        status=told.status,
        created=told.created.astimezone(UTC),
        started=told.started.astimezone(UTC) if told.started else None,
        ended=told.ended.astimezone(UTC) if told.ended else None,
        experiment=told.experiment,
        environment=told.environment,
        summary=told.summary,
        problem=told.problem,
        detail=told.detail,
        comparison=told.comparison,
        label=told.label,
        total_steps=told.total_steps,
        tags=told.tags,
        note=told.note,
    )
