"""Brings a store of format 17 up to date, which had no checksums, and did not know what a study lacks."""

from __future__ import annotations

import sqlite3

from engine.store.checksums import BLOCKS, SEALED, TRIGGERS, seal_all


def bring_over(connection: sqlite3.Connection) -> None:
    """Add columns of checksums, what studies lack, and two indices, within a transaction."""
    connection.execute("ALTER TABLE studies ADD COLUMN not_done TEXT NOT NULL DEFAULT '[]'")
    for table in (*SEALED, *BLOCKS):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
    connection.execute("CREATE INDEX runs_by_time ON runs (created, id) WHERE deleted IS NULL")
    connection.execute("CREATE INDEX runs_by_deletion ON runs (deleted) WHERE deleted IS NOT NULL")
    for trigger in TRIGGERS:
        connection.execute(trigger)


def seal(connection: sqlite3.Connection) -> None:
    """Write the checksums of what is saved, after the transaction of `bring_over`.

    SQLite writes nothing more in a transaction that met a damaged page, which must not hide other runs: all
    goes without checksums then.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        seal_all(connection)
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code != sqlite3.SQLITE_CORRUPT:
            raise
