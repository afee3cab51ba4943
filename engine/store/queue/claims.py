"""Which process may train a queued run, and the statements by which it takes and leaves the queue."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.store import checkpoints as resume
from engine.store import recording
from engine.store.queue.owner import owner_from, this_process
from engine.store.record import RunRecord, Status


def row_of(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row:
    """The columns that decide who may train a run. Raises ProblemError of kind STORE where it is gone."""
    columns = "name, status, owner, comparison, environment"
    statement = f"SELECT {columns} FROM runs WHERE id = ? AND deleted IS NULL"
    row = connection.execute(statement, (run_id,)).fetchone()
    if row is None:
        message = f"Run {run_id} is no longer among the saved runs."
        raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Start it as a new run."))
    assert isinstance(row, sqlite3.Row)
    return row


def may_take(row: sqlite3.Row) -> bool:
    """Whether the run belongs to this process or to one that is gone."""
    owner = owner_from(row["owner"])
    return owner is not None and (owner == this_process() or owner.is_gone)


def deserted(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The ids of running runs whose process is gone."""
    statement = "SELECT id, owner FROM runs WHERE status = 'running' AND deleted IS NULL"
    return tuple(row["id"] for row in connection.execute(statement) if _is_deserted(row))


def at_work(connection: sqlite3.Connection) -> frozenset[str]:
    """The ids of runs that a living process trains or will train; another host's counts as living."""
    statement = "SELECT id, owner FROM runs WHERE status IN ('queued', 'running')"
    return frozenset(row["id"] for row in connection.execute(statement) if not _is_deserted(row))


def _is_deserted(row: sqlite3.Row) -> bool:
    owner = owner_from(row["owner"])
    return owner is not None and owner.is_gone


def begin(connection: sqlite3.Connection, run_id: str) -> None:
    """Marks a queued run as running in this process."""
    _check_turn(row_of(connection, run_id))
    connection.execute(
        "UPDATE runs SET status = ?, started = coalesce(started, ?), owner = ? WHERE id = ?",
        (Status.RUNNING, time.time(), this_process().model_dump_json(), run_id),
    )
    leave(connection, run_id)


def claim(connection: sqlite3.Connection, run_id: str) -> None:
    """Takes over a queued run whose process is gone."""
    _check_turn(row_of(connection, run_id))
    connection.execute("UPDATE runs SET owner = ? WHERE id = ?", (this_process().model_dump_json(), run_id))


def unfinished_at(
    connection: sqlite3.Connection, sweep: str | None, cell: int | None, repeat: int | None
) -> tuple[str, ...]:
    """The run at a place in a sweep, if there is one, that may be replaced: it did not come to its end.

    Raises ProblemError where it may not.
    """
    rows = connection.execute(
        "SELECT id, name, status, owner FROM runs"
        " WHERE sweep = ? AND cell = ? AND repeat = ? AND deleted IS NULL",
        (sweep, cell, repeat),
    ).fetchall()
    for row in rows:
        status = Status(row["status"])
        if status in (Status.FINISHED, Status.FAILED) or not (status.is_over or may_take(row)):
            message = f"{row['name']} is {status} and has that place in the sweep."
            raise ProblemError(request_problem(message, "Delete it first.", key="sweep", value=sweep))
    return tuple(row["id"] for row in rows)


def queue_again(connection: sqlite3.Connection, run: RunRecord, checkpoints: Path) -> None:
    """Queues a run that ended early. Raises ProblemError where it cannot resume from a checkpoint."""
    problem = resume.obstacle(run, checkpoints)
    if problem is not None:
        raise ProblemError(problem)
    connection.execute(
        "UPDATE runs SET status = ?, owner = ? WHERE id = ?",
        (Status.QUEUED, this_process().model_dump_json(), run.id),
    )


def take_back(connection: sqlite3.Connection, run_id: str) -> None:
    """Returns a run that was queued again to what it was before."""
    row = row_of(connection, run_id)
    if not may_take(row):
        message = f"{row['name']} belongs to another Ammeter."
        raise ProblemError(request_problem(message, "Take it out of the queue there.", key="run"))
    recording.put_back(connection, run_id)
    leave(connection, run_id)


def leave(connection: sqlite3.Connection, key: str) -> None:
    """Takes an item out of the queue, in the transaction in which it begins or is withdrawn."""
    connection.execute("DELETE FROM waiting WHERE key = ?", (key,))


def _check_turn(row: sqlite3.Row) -> None:
    if row["status"] != Status.QUEUED:
        message = f"{row['name']} is {row['status']}, not queued."
        raise ProblemError(request_problem(message, "Start it as a new run.", key="run"))
    if not may_take(row):
        message = f"{row['name']} waits in the queue of another Ammeter."
        raise ProblemError(request_problem(message, "Start it there, or start a new run.", key="run"))
