"""The deletion of runs: hidden first, so that it can be taken back, and gone for good later."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from engine.problem import Kind, Problem, ProblemError, request_problem
from engine.records import checkpoint_files, pictures, turns
from engine.records.record import Status

KEPT_SECONDS = 24 * 3600.0
"""How long a deletion that its window never finished can be taken back."""


def hide(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Marks runs as deleted. Raises ProblemError for one that another process trains, or that is gone."""
    for run_id in run_ids:
        check(connection, run_id)
        connection.execute("UPDATE runs SET deleted = ? WHERE id = ?", (time.time(), run_id))


def bring_back(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Takes a deletion back. Raises ProblemError of kind STORE where a run is gone for good."""
    for run_id in run_ids:
        found = connection.execute("UPDATE runs SET deleted = NULL WHERE id = ?", (run_id,))
        if not found.rowcount:
            message = f"Run {run_id} is gone for good."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Train it as a new run."))


def deleted_before(connection: sqlite3.Connection, unix_seconds: float) -> tuple[str, ...]:
    """The ids of the runs that were deleted before that moment."""
    rows = connection.execute("SELECT id FROM runs WHERE deleted < ?", (unix_seconds,))
    return tuple(row["id"] for row in rows)


def all_deleted(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The ids of the runs that are deleted and not gone for good, oldest deletion first."""
    rows = connection.execute("SELECT id FROM runs WHERE deleted IS NOT NULL ORDER BY deleted, number")
    return tuple(row["id"] for row in rows)


def still_deleted(connection: sqlite3.Connection, run_ids: Iterable[str]) -> tuple[str, ...]:
    """Those of the runs that are deleted, and not gone for good or brought back."""
    statement = "SELECT 1 FROM runs WHERE id = ? AND deleted IS NOT NULL"
    return tuple(run_id for run_id in run_ids if connection.execute(statement, (run_id,)).fetchone())


def remove(connection: sqlite3.Connection, run_ids: Iterable[str], store: Path) -> None:
    """Takes runs out of the store with all that was recorded; a comparison and pictures go with their last.

    Their checkpoints are marked, and go with `remove_files` once this is committed.
    """
    for run_id in run_ids:
        checkpoint_files.mark(checkpoint_files.folder_of(store, run_id))
        row = connection.execute("SELECT comparison, pictures FROM runs WHERE id = ?", (run_id,)).fetchone()
        connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
        connection.execute(
            "DELETE FROM comparisons WHERE id = :id"
            " AND NOT EXISTS (SELECT 1 FROM runs WHERE comparison = :id)",
            {"id": row["comparison"] if row else None},
        )
        pictures.drop(connection, row["pictures"] if row else None)


def remove_files(run_ids: Iterable[str], store: Path) -> None:
    """Deletes the checkpoints of runs that were taken out."""
    for run_id in run_ids:
        checkpoint_files.remove(checkpoint_files.folder_of(store, run_id))


def check(connection: sqlite3.Connection, run_id: str) -> None:
    """Raises ProblemError for a run that may not be deleted from here, or that is gone."""
    row = turns.row_of(connection, run_id)
    if row["status"] == Status.RUNNING and not turns.may_take(row):
        message = f"{row['name']} is being trained by another Ammeter."
        raise ProblemError(request_problem(message, "Stop it there first.", key="run"))
