"""Brings a store of format 16 over, which knew no machine but this one."""

from __future__ import annotations

import sqlite3

from engine.store.schema import KEPT_RUNS

FORMAT = 16


def bring_over(connection: sqlite3.Connection) -> None:
    """Add the machine of saved runs and jobs, within a transaction. "" is this machine."""
    for table in ("runs", "sweeps", "waiting", "studies"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN machine TEXT NOT NULL DEFAULT ''")
    connection.execute(KEPT_RUNS)
