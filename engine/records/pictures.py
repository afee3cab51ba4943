"""The pictures that runs were trained on: each sheet is saved once, however many runs show it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from engine.contact_sheet import MOST_BYTES, ContactSheet
from engine.records.connection import Connection


class SavedPictures:
    """Reads the sheets of runs. A run without one, or with a damaged one, has None.

    Raises ProblemError of kind STORE when the file cannot be read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, run_id: str) -> ContactSheet | None:
        """The sheet of a run."""
        with self._connection.reading() as connection:
            return sheet_of_run(connection, run_id)

    def of_any(self, run_ids: Iterable[str]) -> ContactSheet | None:
        """The sheet of the first of the runs that has one."""
        return next((sheet for run_id in run_ids if (sheet := self.of(run_id)) is not None), None)


def sheet_of_run(connection: sqlite3.Connection, run_id: str) -> ContactSheet | None:
    """The sheet of a run; None where it has none, or a damaged one."""
    # the length first: what is longer than any sheet is not read into memory
    row = connection.execute(
        "SELECT hash, side, count, jpeg FROM pictures WHERE hash = (SELECT pictures FROM runs WHERE id = ?)"
        " AND typeof(jpeg) = 'blob' AND length(jpeg) <= ?",
        (run_id, MOST_BYTES),
    ).fetchone()
    if row is None or not (isinstance(row["side"], int) and isinstance(row["count"], int)):
        return None
    sheet = ContactSheet(row["jpeg"], row["side"], row["count"])
    return sheet if sheet.key == row["hash"] and sheet.is_sound() else None


def put(connection: sqlite3.Connection, run_id: str, sheet: ContactSheet) -> None:
    """Makes the sheet that of a run, in place of the one that it may have."""
    row = connection.execute("SELECT pictures FROM runs WHERE id = ?", (run_id,)).fetchone()
    key = sheet.key
    # a sheet that was damaged is mended by the next run that has it
    connection.execute(
        "INSERT INTO pictures (hash, side, count, jpeg) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE"
        " SET side = excluded.side, count = excluded.count, jpeg = excluded.jpeg"
        " WHERE (side, count, jpeg) IS NOT (excluded.side, excluded.count, excluded.jpeg)",
        (key, sheet.side, sheet.count, sheet.jpeg),
    )
    connection.execute("UPDATE runs SET pictures = ? WHERE id = ?", (key, run_id))
    if row is not None and row["pictures"] != key:
        drop(connection, row["pictures"])


def drop(connection: sqlite3.Connection, key: str | None) -> None:
    """Deletes a sheet that no run shows any longer, not even a deleted one that can come back."""
    connection.execute(
        "DELETE FROM pictures WHERE hash = :key AND NOT EXISTS (SELECT 1 FROM runs WHERE pictures = :key)",
        {"key": key},
    )
