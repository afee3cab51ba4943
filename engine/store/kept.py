"""Runs on remote machines, which may outlive this program, and the place of their workers."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict

from engine.protocol.jobs import RemotePlace
from engine.store.schema import insert


def keep(connection: sqlite3.Connection, run_id: str, place: RemotePlace) -> None:
    """Record where a run trains, and how far it has been recorded."""
    insert(connection, "kept_runs", "INSERT OR REPLACE", run=run_id, **asdict(place))


def place_of(connection: sqlite3.Connection, run_id: str) -> RemotePlace | None:
    """Return where a run trains, or None if it does not."""
    statement = "SELECT machine, worker, events_at, errors_at FROM kept_runs WHERE run = ?"
    row = connection.execute(statement, (run_id,)).fetchone()
    return None if row is None else RemotePlace(*row)


def forget(connection: sqlite3.Connection, run_id: str) -> None:
    """Forget a run that has ended."""
    connection.execute("DELETE FROM kept_runs WHERE run = ?", (run_id,))
