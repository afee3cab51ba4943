"""Runs that train on another machine and may outlive this program: where their workers are."""

from __future__ import annotations

import sqlite3

from engine.protocol.jobs import FarPlace
from engine.store.schema import insert


def keep(connection: sqlite3.Connection, run_id: str, place: FarPlace) -> None:
    """Notes where a run trains, and how far it has been recorded."""
    row = {"run": run_id, "machine": place.machine, "worker": place.worker}
    insert(
        connection,
        "kept_runs",
        "INSERT OR REPLACE",
        **row,
        events_at=place.events_at,
        errors_at=place.errors_at,
    )


def place_of(connection: sqlite3.Connection, run_id: str) -> FarPlace | None:
    """Where a run trains on; None where it does not."""
    row = connection.execute("SELECT * FROM kept_runs WHERE run = ?", (run_id,)).fetchone()
    if row is None:
        return None
    return FarPlace(row["machine"], row["worker"], row["events_at"], row["errors_at"])


def forget(connection: sqlite3.Connection, run_id: str) -> None:
    """A run has ended."""
    connection.execute("DELETE FROM kept_runs WHERE run = ?", (run_id,))
