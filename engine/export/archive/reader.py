"""Reading an archive of runs. They are imported only after the whole archive was checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

import numpy as np

from engine.curves import Columns
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import keeps_code
from engine.experiment.value import LARGEST_STEP, MOST_SECONDS, shortened
from engine.export.archive import Imported
from engine.export.archive import container as layout
from engine.export.archive.container import (
    ANOTHER,
    Container,
    describe_fault,
    open_archive,
    part_name,
    refuse,
)
from engine.protocol.events import (
    SAMPLE_COLUMNS,
    Epoch,
    Event,
    Failed,
    Finished,
    Log,
    PartMeasured,
    Phase,
    Skipped,
    Started,
    from_line,
)
from engine.protocol.pictures import ContactSheet
from engine.store.record import ComparisonRecord, RunRecord
from engine.store.runs import cleaned_tags
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store

_KEPT = Started | Phase | PartMeasured | Epoch | Skipped | Log | Finished | Failed


def _manifest_of(data: bytes) -> layout.Manifest:
    """Return the list of contents, which names every run, comparison and part once. Raises ValueError."""
    manifest = layout.Manifest.model_validate_json(data)
    comparisons = {comparison.id for comparison in manifest.comparisons}
    sheets = [layout.sheet_name(entry.key) for entry in manifest.pictures]
    _require(len(set(manifest.runs)) == len(manifest.runs), "a run is named twice")
    _require(len(comparisons) == len(manifest.comparisons), "a comparison is named twice")
    _require(len(set(sheets)) == len(sheets), "a sheet of images is named twice")
    expected = [*(part_name(run_id, part) for run_id in manifest.runs for part in layout.PARTS), *sheets]
    _require([file.name for file in manifest.files] == expected, "its list of parts does not match its runs")
    return manifest


def _record_of(data: bytes) -> layout.RecordPart:
    """Return a run's record with valid tags, columns and model. Raises ValueError."""
    record = layout.RecordPart.model_validate_json(data)
    _require(cleaned_tags(record.tags) == record.tags, "a tag is invalid")
    names = record.columns
    _require(len(set(names)) == len(names) and set(names) <= set(SAMPLE_COLUMNS), "it has unknown columns")
    _require(not names or set(names) >= set(layout.NEEDED_COLUMNS), "required columns are missing")
    _require(bool(names) == bool(record.rows), "its samples and columns do not match")
    _check_model(record.experiment)
    return record


def _events_of(data: bytes) -> tuple[Event, ...]:
    """Return the events of a run from one JSON object per line. Raises ValueError."""
    if not data:
        return ()
    _require(data.endswith(b"\n"), "its last line is incomplete")
    _require(data.count(b"\n") <= layout.MOST_EVENTS, f"it has more than {layout.MOST_EVENTS:,} lines")
    return tuple(_parse_event(line) for line in data[:-1].split(b"\n"))


def _columns_of(data: bytes, record: layout.RecordPart) -> Columns:
    """Return the samples of a run as float64 columns. NaN and infinity are kept. Raises ValueError."""
    _require(
        len(data) == len(record.columns) * record.rows * layout.VALUE_BYTES,
        "its length does not match its columns",
    )
    if not data:
        return {}
    table = np.frombuffer(data, dtype="<f8").reshape(len(record.columns), record.rows).astype(np.float64)
    columns = dict(zip(record.columns, table, strict=True))
    steps, seconds = columns["step"], columns["seconds"]
    _require(
        bool(np.isfinite(steps).all() and np.isfinite(seconds).all()), "a step or a time is not a number"
    )
    is_counted = steps[0] >= 1 and steps[-1] <= LARGEST_STEP and np.all(np.diff(steps) > 0)
    _require(bool(is_counted and np.all(steps == np.floor(steps))), "its steps do not increase")
    _require(bool(seconds.min() >= 0 and seconds.max() <= MOST_SECONDS), "a time is out of bounds")
    return columns


def _sheet_of(data: bytes, entry: layout.SheetEntry) -> ContactSheet:
    sheet = ContactSheet(data, entry.side, entry.count)
    _require(sheet.key == entry.key, "it is not the listed sheet")
    sheet.tiles()
    return sheet


def _parse_event(line: bytes) -> Event:
    event = from_line(line)
    _require(isinstance(event, _KEPT), "it contains an event that runs do not have")
    if isinstance(event, Started):
        _check_model(event.experiment)
    return event


def _check_model(experiment: Experiment) -> None:
    # a path would be that of whatever file lies there on this machine
    is_whole = experiment.model.file is None or keeps_code(experiment.model, experiment.code)
    _require(is_whole, "its model is a file whose text is missing")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def import_archive(store: Store, path: Path) -> Imported:
    """Add all runs of an archive to the saved runs, or none. Raises ProblemError."""
    arrivals = store.import_runs(read_archive(path))
    runs = [(arrival, store.run(arrival.id)) for arrival in arrivals]
    return Imported(
        added=tuple(run for arrival, run in runs if arrival.is_new),
        already_here=tuple(run for arrival, run in runs if not arrival.is_new),
        copies=tuple(run for arrival, run in runs if arrival.is_new and arrival.is_copy),
    )


def read_archive(path: Path) -> tuple[WholeRun, ...]:
    """Return the checked runs of an archive. Raises ProblemError with one plain sentence."""
    with open_archive(path) as container:
        manifest = _manifest(container)
        if set(container.sizes) != {layout.MANIFEST, *(file.name for file in manifest.files)}:
            missing = [file.name for file in manifest.files if file.name not in container.sizes]
            refuse(path, f"does not contain its part {missing[0]}" if missing else "contains unlisted parts")
        archive = _Archive(container, manifest)
        sheets = {entry.key: archive.sheet(entry) for entry in manifest.pictures}
        runs = tuple(archive.run(run_id, sheets) for run_id in manifest.runs)
    if {run.pictures.key for run in runs if run.pictures is not None} != set(sheets):
        refuse(path, "contains images that belong to none of its runs", ANOTHER)
    return runs


def _manifest(container: Container) -> layout.Manifest:
    data = container.read(layout.MANIFEST)
    try:
        version = layout.FormatOnly.model_validate_json(data).format
        if version == layout.FORMAT:
            return _manifest_of(data)
    except ValueError as error:
        refuse(
            container.path, f"is not an archive of runs, or was changed ({describe_fault(error)})", ANOTHER
        )
    sentence = f"was written by {{}} Ammeter (format {shortened(version)}, this one reads {layout.FORMAT})"
    if version < layout.FORMAT:
        remedy = "Nothing was imported. Export the runs again with this version, where they are saved."
        refuse(container.path, sentence.format("an older"), remedy)
    remedy = "Nothing was imported. Import it with the newer Ammeter."
    return refuse(container.path, sentence.format("a newer"), remedy)


class _Archive:
    def __init__(self, container: Container, manifest: layout.Manifest) -> None:
        self._container = container
        self._hashes = {file.name: (file.bytes, file.sha256) for file in manifest.files}
        self._comparisons = {
            entry.id: ComparisonRecord(entry.id, entry.title, entry.created.astimezone(UTC), entry.ammeter)
            for entry in manifest.comparisons
        }

    def _read(self, name: str) -> bytes:
        data = self._container.read(name)
        if self._hashes[name] != (len(data), hashlib.sha256(data).hexdigest()):
            sentence = f"is damaged or was changed: the checksum of its part {name} does not match"
            refuse(self._container.path, sentence)
        return data

    def sheet(self, entry: layout.SheetEntry) -> ContactSheet:
        name = layout.sheet_name(entry.key)
        data = self._read(name)
        try:
            return _sheet_of(data, entry)
        except ValueError as error:
            refuse(
                self._container.path, f"contains invalid images: in {name}, {describe_fault(error)}", ANOTHER
            )

    def run(self, run_id: str, sheets: Mapping[str, ContactSheet]) -> WholeRun:
        parts = {part: self._read(part_name(run_id, part)) for part in layout.PARTS}
        part = layout.RECORD
        try:
            record = _record_of(parts[layout.RECORD])
            is_theirs = record.comparison is None or record.comparison in self._comparisons
            _require(record.id == run_id and is_theirs, "it belongs to another archive")
            _require(record.pictures is None or record.pictures in sheets, "its images are missing")
            part = layout.EVENTS
            events = _events_of(parts[layout.EVENTS])
            part = layout.SAMPLES
            columns = _columns_of(parts[layout.SAMPLES], record)
        except ValueError as error:
            name = part_name(run_id, part)
            refuse(
                self._container.path, f"contains an invalid run: in {name}, {describe_fault(error)}", ANOTHER
            )
        comparison = self._comparisons[record.comparison] if record.comparison else None
        pictures = sheets[record.pictures] if record.pictures else None
        # the store that it arrives in gives it a number
        shared = {name: getattr(record, name) for name in layout.SHARED}
        for name in ("created", "started", "ended"):
            shared[name] = shared[name] and shared[name].astimezone(UTC)
        return WholeRun(RunRecord(number=0, **shared), events, columns, comparison, pictures)
