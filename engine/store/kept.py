"""Runs that train on another machine and may outlive this program: where their workers are."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict

from engine.protocol.jobs import RemotePlace
from engine.store.schema import insert


def keep(connection: sqlite3.Connection, run_id: str, place: RemotePlace) -> None:
    """Notes where a run trains, and how far it has been recorded."""
    insert(connection, "kept_runs", "INSERT OR REPLACE", run=run_id, **asdict(place))


def place_of(connection: sqlite3.Connection, run_id: str) -> RemotePlace | None:
    """Where a run trains on; None where it does not."""
    statement = "SELECT machine, worker, events_at, errors_at FROM kept_runs WHERE run = ?"
    row = connection.execute(statement, (run_id,)).fetchone()
    return None if row is None else RemotePlace(*row)


def forget(connection: sqlite3.Connection, run_id: str) -> None:
    """A run has ended."""
    connection.execute("DELETE FROM kept_runs WHERE run = ?", (run_id,))
