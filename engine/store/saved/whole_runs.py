"""Import complete runs from other stores: the record, events, samples and images of each."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from engine.curves import Columns
from engine.experiment.problem import ProblemError
from engine.protocol.events import Event, Failed, Finished, to_line
from engine.protocol.pictures import ContactSheet
from engine.store import checkpoints, journal, samples
from engine.store.journal import summary_of
from engine.store.queue import this_owner
from engine.store.record import RUN_COLUMNS, ComparisonRecord, RunRecord, Status, comparison_from, run_from
from engine.store.runs import is_deleted, undelete
from engine.store.schema import insert, seal


@dataclass(frozen=True)
class WholeRun:
    """A run with all its recorded data, to be copied between stores. Without checkpoints.

    `comparison` is the run's, `pictures` are some of its training images. All columns, including `step`, are
    float64.
    """

    record: RunRecord
    events: tuple[Event, ...]
    columns: Columns
    comparison: ComparisonRecord | None = None
    pictures: ContactSheet | None = None


@dataclass(frozen=True)
class ImportedRun:
    """The result of importing a run: its id in this store, and whether it `is_new` there.

    `is_copy`: the run got a new id, because another run, or another state of this run, had its id.
    """

    id: str
    is_new: bool
    is_copy: bool


def add(connection: sqlite3.Connection, runs: Iterable[WholeRun]) -> tuple[ImportedRun, ...]:
    """Add finished runs, numbered in their order, and return an `ImportedRun` for each.

    A run that had not ended becomes interrupted, because another process trained it. A run that exists
    already is unchanged, or restored if it was deleted.
    """
    return tuple(_add(connection, closed(run)) for run in runs)


def _add(connection: sqlite3.Connection, run: WholeRun) -> ImportedRun:
    known, mark = run.record.id, fingerprint(run)
    # the id of a copy follows from the run's content, so that the copy is recognized again
    ids = (known, mark[: len(known)])
    for run_id in ids:
        try:
            saved = _read(connection, run_id)
        except ProblemError:
            # damaged here, which is what this one was brought for
            continue
        if saved is None:
            break
        if fingerprint(closed(saved)) == mark:
            was_deleted = is_deleted(connection, run_id)
            if was_deleted:
                undelete(connection, [run_id])
            return ImportedRun(run_id, is_new=was_deleted, is_copy=run_id != known)
    else:
        run_id = secrets.token_hex(6)
    _insert(connection, run, run_id)
    return ImportedRun(run_id, is_new=True, is_copy=run_id != known)


def _insert(connection: sqlite3.Connection, run: WholeRun, run_id: str) -> None:
    record = run.record
    is_copy = run_id != record.id
    # a copy in the same comparison would count as one repeat more
    comparison = None if is_copy else run.comparison
    if comparison is not None:
        values = (comparison.id, comparison.title, comparison.created.timestamp(), comparison.ammeter)
        statement = "INSERT OR IGNORE INTO comparisons (id, title, created, ammeter) VALUES (?, ?, ?, ?)"
        connection.execute(statement, values)
    insert(
        connection,
        "runs",
        id=run_id,
        number=connection.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0],
        name=f"{record.name} (imported)" if is_copy else record.name,
        status=record.status.value,
        created=record.created.timestamp(),
        started=record.started.timestamp() if record.started else None,
        ended=record.ended.timestamp() if record.ended else None,
        experiment=record.experiment.to_json(),
        environment=record.environment.model_dump_json() if record.environment else None,
        summary=record.summary.model_dump_json() if record.summary else None,
        problem=record.problem.model_dump_json() if record.problem else None,
        detail=record.detail,
        comparison=comparison.id if comparison else None,
        label=record.label,
        total_steps=record.total_steps,
        tags=json.dumps(record.tags, ensure_ascii=False),
        note=record.note,
        owner=this_owner(),
    )
    seal(connection, "runs", run_id)
    journal.append(connection, run_id, run.events)
    samples.append(connection, run_id, run.columns)
    if run.pictures is not None:
        journal.put(connection, run_id, run.pictures)


def closed(run: WholeRun) -> WholeRun:
    """Return the run as finished, with a summary. The same run always gives the same result."""
    record = run.record
    if record.status.is_over and record.summary is not None:
        return run
    ending = next((event for event in run.events if isinstance(event, Finished | Failed)), None)
    summary = record.summary or summary_of(run.events, [run.columns])
    ended = record.ended or (record.started or record.created) + timedelta(seconds=summary.seconds)
    status = Status.INTERRUPTED if ending is None else checkpoints.status_after(ending)
    if record.status.is_over:
        status = record.status
    return replace(run, record=replace(record, status=status, summary=summary, ended=ended))


def fingerprint(run: WholeRun) -> str:
    """Return the identity of a run by its training and measurements.

    It excludes the user's names, tags and notes, the machine, whose name is the user's too, and the images,
    which an older Ammeter did not keep.
    """
    own, experiment = run.record, json.loads(run.record.experiment.to_json())
    record = {**own.to_dict(), "experiment": experiment, "detail": own.detail, "total_steps": own.total_steps}
    measured = {key: value for key, value in record.items() if key not in _WRITTEN_BY_USER}
    digest = hashlib.sha256(json.dumps(measured, sort_keys=True).encode())
    for event in run.events:
        digest.update(to_line(event))
    for name, values in sorted(run.columns.items()):
        digest.update(name.encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


_WRITTEN_BY_USER = ("id", "name", "label", "comparison", "tags", "note", "machine")


def _read(connection: sqlite3.Connection, run_id: str) -> WholeRun | None:
    row = connection.execute(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    record = run_from(row)
    statement = "SELECT id, title, created, ammeter FROM comparisons WHERE id = ?"
    comparison = connection.execute(statement, (record.comparison,)).fetchone()
    return WholeRun(
        record=record,
        events=journal.events_of(connection, run_id),
        columns=samples.samples_of(connection, run_id),
        comparison=comparison_from(comparison) if comparison is not None else None,
    )
