"""Brings a store of format 17 up to date, which had no checksums, and did not know what a study lacks."""

from __future__ import annotations

import sqlite3

from engine.store.checksums import BLOCKS, SEALED, TRIGGERS, seal_all


def bring_over(connection: sqlite3.Connection) -> None:
    """Add a checksum to everything that is saved, and what studies lack, within a transaction."""
    connection.execute("ALTER TABLE studies ADD COLUMN not_done TEXT NOT NULL DEFAULT '[]'")
    for table in (*SEALED, *BLOCKS):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
    seal_all(connection)
    for trigger in TRIGGERS:
        connection.execute(trigger)
