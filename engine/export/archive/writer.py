"""Writing complete runs to an archive for import elsewhere. The same runs give the same bytes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from engine import __version__
from engine.experiment.problem import request_error
from engine.experiment.value import LONGEST_TEXT, one_line
from engine.export.archive import container as layout
from engine.export.archive.container import part_name, sheet_name
from engine.export.content import Content
from engine.protocol.events import to_line
from engine.store.saved.whole_runs import WholeRun
from engine.words.numbers import size_text

# the earliest date that a .zip can have, so that the date of writing does not change the bytes
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
# float64 columns hardly shrink further, and level 1 is three times as fast
_LEVEL = 1


def write_runs(runs: Callable[[], Iterable[WholeRun]], path: Path) -> None:
    """Write runs to a new file at `path`, one in memory at a time. `runs` may be called twice.

    Raises ProblemError for more than an archive can contain, and OSError if the file cannot be written.
    """
    unpacked = _write_archive(runs(), path, zipfile.ZIP_DEFLATED)
    if unpacked > layout.SMALL_BYTES + layout.MOST_RATIO * path.stat().st_size:
        # such runs shrink so much that they would be refused as a zip bomb
        _write_archive(runs(), path, zipfile.ZIP_STORED)


def _write_archive(runs: Iterable[WholeRun], path: Path, compression: int) -> int:
    ids: list[str] = []
    files: list[layout.FileEntry] = []
    sheets: dict[str, layout.SheetEntry] = {}
    sheet_files: list[layout.FileEntry] = []
    comparisons: dict[str, layout.ComparisonEntry] = {}
    with zipfile.ZipFile(path, "w") as archive:
        for run in runs:
            ids.append(run.record.id)
            if run.comparison is not None:
                known = run.comparison
                comparisons[known.id] = layout.ComparisonEntry(
                    id=known.id, title=_cleaned(known.title), created=known.created, ammeter=known.ammeter
                )
            for part, data in _run_parts(run):
                if len(data) > layout.MOST_BYTES[part]:
                    _too_much(f"{run.record.name} is too large for an archive")
                files.append(_add_member(archive, part_name(run.record.id, part), data, compression))
            sheet = run.pictures
            if sheet is not None and sheet.key not in sheets:
                sheets[sheet.key] = layout.SheetEntry(key=sheet.key, side=sheet.side, count=sheet.count)
                sheet_files.append(_add_member(archive, sheet_name(sheet.key), sheet.jpeg, compression))
            in_all = sum(file.bytes for file in (*files, *sheet_files))
            if in_all + layout.MOST_BYTES[layout.MANIFEST] > layout.MOST_BYTES_IN_ALL:
                most = size_text(layout.MOST_BYTES_IN_ALL)
                _too_much(f"These runs are too large for one archive (limit {most})")
        if len(ids) > layout.MOST_RUNS:
            _too_much(f"{len(ids):,} runs are too many for one archive (limit {layout.MOST_RUNS:,})")
        manifest = layout.Manifest(
            format=layout.FORMAT,
            ammeter=__version__,
            runs=tuple(ids),
            comparisons=tuple(comparisons.values()),
            files=(*files, *sheet_files),
            pictures=tuple(sheets.values()),
        )
        _add_member(archive, layout.MANIFEST, _json(manifest), compression)
    return sum(file.bytes for file in manifest.files)


def _json(part: layout.Manifest | layout.RecordPart) -> bytes:
    return part.model_dump_json(indent=1).encode()


def _run_parts(run: WholeRun) -> Iterator[tuple[str, bytes]]:
    yield layout.RECORD, _json(_record_part(run))
    if len(run.events) > layout.MOST_EVENTS:
        _too_much(f"{run.record.name} has too many events for an archive (limit {layout.MOST_EVENTS:,})")
    yield layout.EVENTS, b"".join(to_line(event) for event in run.events)
    yield (
        layout.SAMPLES,
        b"".join(np.ascontiguousarray(values, "<f8").tobytes() for values in run.columns.values()),
    )


def _record_part(run: WholeRun) -> layout.RecordPart:
    record = run.record
    shared = {name: getattr(record, name) for name in layout.SHARED}
    shared["name"] = _cleaned(record.name)
    shared["label"] = None if record.label is None else _cleaned(record.label)
    shared["comparison"] = run.comparison.id if run.comparison else None
    return layout.RecordPart(
        **shared,
        columns=tuple(run.columns),
        rows=len(next(iter(run.columns.values()), ())),
        pictures=None if run.pictures is None else run.pictures.key,
    )


def _add_member(archive: zipfile.ZipFile, name: str, data: bytes, compression: int) -> layout.FileEntry:
    info = zipfile.ZipInfo(name, date_time=_NO_DATE)
    info.external_attr, info.create_system, info.compress_type = _PLAIN_FILE, _UNIX, compression
    archive.writestr(info, data, compresslevel=_LEVEL)
    return layout.FileEntry(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _cleaned(name: str) -> str:
    return one_line(name)[:LONGEST_TEXT]


def _too_much(sentence: str) -> None:
    remedy = "Export fewer runs at a time, or export as .csv."
    raise request_error(f"{sentence}.", remedy, key="run")


def write_archive(content: Content, path: Path) -> None:
    """Write the runs, oldest first, without checkpoints. Raises ProblemError for too many, and OSError."""
    write_runs(lambda: _whole_runs(content), path)


def _whole_runs(content: Content) -> Iterator[WholeRun]:
    groups = {group.id: group for group in content.groups}
    for run in sorted(content.runs, key=lambda run: run.number):
        columns = {name: values.astype(np.float64) for name, values in content.samples[run.id].items()}
        comparison = groups.get(run.comparison) if run.comparison is not None else None
        yield WholeRun(run, content.events[run.id], columns, comparison, content.pictures([run.id]))
