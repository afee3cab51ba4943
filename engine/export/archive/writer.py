"""Writes whole runs into an archive that another Ammeter imports; the same runs give the same bytes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from engine import __version__
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.value import BYTES_PER_MIB, LONGEST_TEXT, one_line
from engine.export.archive.layout import (
    EVENTS,
    FORMAT,
    FORMAT_WITHOUT_PICTURES,
    MANIFEST,
    MOST_BYTES,
    MOST_BYTES_IN_ALL,
    MOST_EVENTS,
    MOST_RATIO,
    MOST_RUNS,
    RECORD,
    SAMPLES,
    SMALL_BYTES,
    ComparisonEntry,
    FileEntry,
    Manifest,
    RecordPart,
    SheetEntry,
    member,
    sheet_member,
)
from engine.export.content import Content
from engine.protocol.events import to_line
from engine.store.record import ComparisonRecord, RunRecord
from engine.store.saved.whole_runs import WholeRun
from engine.words.numbers import memory_text

# the earliest date that a .zip can have, so that the date of writing does not change the bytes
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
# float64 columns hardly shrink further, and level 1 is three times as fast
_LEVEL = 1


def write_runs(runs: Callable[[], Iterable[WholeRun]], path: Path) -> None:
    """Writes runs into a new file at `path`, one in memory at a time; `runs` may be called twice.

    Raises ProblemError for more than an archive can hold, OSError if the file cannot be written.
    """
    unpacked = _write(runs(), path, zipfile.ZIP_DEFLATED)
    if unpacked > SMALL_BYTES + MOST_RATIO * path.stat().st_size:
        # such runs shrink so much that they would be refused as a zip bomb
        _write(runs(), path, zipfile.ZIP_STORED)


def _write(runs: Iterable[WholeRun], path: Path, compression: int) -> int:
    """Writes the archive and returns its unpacked size in bytes."""
    ids: list[str] = []
    files: list[FileEntry] = []
    sheets: dict[str, SheetEntry] = {}
    sheet_files: list[FileEntry] = []
    comparisons: dict[str, ComparisonEntry] = {}
    with zipfile.ZipFile(path, "w") as archive:
        for run in runs:
            ids.append(run.record.id)
            if run.comparison is not None:
                comparisons[run.comparison.id] = _comparison(run.comparison)
            for part, data in _parts(run):
                _check_size(run, part, len(data))
                files.append(_put(archive, member(run.record.id, part), data, compression))
            sheet = run.pictures
            if sheet is not None and sheet.key not in sheets:
                sheets[sheet.key] = SheetEntry(key=sheet.key, side=sheet.side, count=sheet.count)
                sheet_files.append(_put(archive, sheet_member(sheet.key), sheet.jpeg, compression))
            _check_size_in_all([*files, *sheet_files])
        if len(ids) > MOST_RUNS:
            _too_much(f"{len(ids):,} runs are more than one archive can hold ({MOST_RUNS:,})")
        manifest = Manifest(
            format=FORMAT if sheets else FORMAT_WITHOUT_PICTURES,
            ammeter=__version__,
            runs=tuple(ids),
            comparisons=tuple(comparisons.values()),
            files=(*files, *sheet_files),
            pictures=tuple(sheets.values()),
        )
        _put(archive, MANIFEST, _json(manifest), compression)
    return sum(file.bytes for file in manifest.files)


def _json(part: Manifest | RecordPart) -> bytes:
    # an older Ammeter refuses a key that it does not know, even an empty one
    return part.model_dump_json(indent=1, exclude=None if part.pictures else {"pictures"}).encode()


def _comparison(record: ComparisonRecord) -> ComparisonEntry:
    return ComparisonEntry(
        id=record.id, title=_cleaned(record.title), created=record.created, ammeter=record.ammeter
    )


def _parts(run: WholeRun) -> Iterator[tuple[str, bytes]]:
    yield RECORD, _json(_record(run))
    if len(run.events) > MOST_EVENTS:
        _too_much(f"{run.record.name} has more events than an archive can hold ({MOST_EVENTS:,})")
    yield EVENTS, b"".join(to_line(event) for event in run.events)
    yield SAMPLES, b"".join(np.ascontiguousarray(values, "<f8").tobytes() for values in run.columns.values())


def _record(run: WholeRun) -> RecordPart:
    record = run.record
    return RecordPart(
        id=record.id,
        name=_cleaned(record.name),
        status=record.status,
        label=None if record.label is None else _cleaned(record.label),
        comparison=run.comparison.id if run.comparison else None,
        created=record.created,
        started=record.started,
        ended=record.ended,
        experiment=record.experiment,
        environment=record.environment,
        summary=record.summary,
        problem=record.problem,
        detail=record.detail,
        total_steps=record.total_steps,
        tags=record.tags,
        note=record.note,
        columns=tuple(run.columns),
        rows=len(next(iter(run.columns.values()), ())),
        pictures=None if run.pictures is None else run.pictures.key,
    )


def _put(archive: zipfile.ZipFile, name: str, data: bytes, compression: int) -> FileEntry:
    info = zipfile.ZipInfo(name, date_time=_NO_DATE)
    info.external_attr, info.create_system, info.compress_type = _PLAIN_FILE, _UNIX, compression
    archive.writestr(info, data, compresslevel=_LEVEL)
    return FileEntry(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _cleaned(name: str) -> str:
    return one_line(name)[:LONGEST_TEXT]


def _check_size(run: WholeRun, part: str, size: int) -> None:
    if size > MOST_BYTES[part]:
        _too_much(f"{run.record.name} is larger than a run in an archive can be")


def _check_size_in_all(files: Iterable[FileEntry]) -> None:
    if sum(file.bytes for file in files) + MOST_BYTES[MANIFEST] > MOST_BYTES_IN_ALL:
        most = memory_text(MOST_BYTES_IN_ALL / BYTES_PER_MIB)
        _too_much(f"These runs are more than one archive can hold ({most})")


def _too_much(sentence: str) -> None:
    remedy = "Export fewer runs at a time, or as .csv."
    raise ProblemError(request_problem(f"{sentence}.", remedy, key="run"))


def write_archive(content: Content, path: Path) -> None:
    """Writes the runs, oldest first, with everything recorded of them except checkpoints.

    Raises ProblemError for more than an archive can hold, OSError if the file cannot be written.
    """
    write_runs(lambda: _whole_runs(content), path)


def _whole_runs(content: Content) -> Iterator[WholeRun]:
    groups = {group.id: group for group in content.groups}
    for run in sorted(content.runs, key=_number):
        columns = {name: values.astype(np.float64) for name, values in content.samples[run.id].items()}
        comparison = groups.get(run.comparison) if run.comparison is not None else None
        yield WholeRun(run, content.events[run.id], columns, comparison, content.pictures([run.id]))


def _number(run: RunRecord) -> int:
    return run.number
