"""Reads an archive of runs: all of it is checked before any of it is believed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from engine.archives import checks
from engine.archives.container import Container, opened
from engine.archives.layout import (
    EVENTS,
    FORMAT,
    MANIFEST,
    PARTS,
    RECORD,
    SAMPLES,
    Manifest,
    RecordPart,
    SheetEntry,
    member,
    sheet_member,
)
from engine.archives.refusal import ANOTHER, fault, refuse
from engine.contact_sheet import ContactSheet
from engine.records.record import ComparisonRecord, RunRecord
from engine.records.store import Store
from engine.records.whole_runs import WholeRun

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
        return checks.manifest_of(data)
    except checks.NewerFormatError as newer:
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
        return checks.sheet_of(data, told)
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
        told = checks.record_of(parts[RECORD])
        if told.id != run_id or not (told.comparison is None or told.comparison in comparisons):
            raise ValueError("it belongs to another archive")
        if not (told.pictures is None or told.pictures in sheets):
            raise ValueError("its pictures are not there")
        part = EVENTS
        events = checks.events_of(parts[EVENTS])
        part = SAMPLES
        columns = checks.columns_of(parts[SAMPLES], told)
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
