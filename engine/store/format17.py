"""Brings a store of format 17 up to date, which had no checksums."""

from __future__ import annotations

import sqlite3

from engine.store.checksums import BLOCKS, SEALED, TRIGGERS, seal_all


def bring_over(connection: sqlite3.Connection) -> None:
    """Add a checksum to everything that is saved, within a transaction."""
    for table in (*SEALED, *BLOCKS):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
    seal_all(connection)
    for trigger in TRIGGERS:
        connection.execute(trigger)
