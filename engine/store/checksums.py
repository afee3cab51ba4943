"""Checksums of saved data, so that a flipped bit on a disk never counts as a measurement."""

from __future__ import annotations

import sqlite3
import zlib

SEALED = {
    "runs": ("experiment", "environment", "summary"),
    "studies": ("title", "digest", "answer"),
    "sweeps": ("grid", "plan"),
}
"""By table, the columns that a row's checksum covers."""
BLOCKS = {
    "samples": ("run", "position", "names", "rows", "data"),
    "outlines": ("run", "position", "steps", "data"),
    "events": ("run", "position", "line"),
}
"""As `SEALED`, of the parts of a run. An index whose damage leads to another row is seen, too."""


def checksum_of(*values: object) -> int:
    """Return the CRC-32 of the values of some columns."""
    checksum = 0
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        checksum = zlib.crc32(b"\0", zlib.crc32(data, checksum))
    return checksum


def is_intact(row: sqlite3.Row, columns: tuple[str, ...]) -> bool:
    """Return whether the columns have the row's checksum. A row without one counts as intact."""
    return row["checksum"] is None or row["checksum"] == checksum_of(*(row[name] for name in columns))


def seal(connection: sqlite3.Connection, table: str, row_id: str) -> None:
    """Write the checksum of a row of `SEALED` after a change."""
    columns = SEALED[table]
    row = connection.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE id = ?", (row_id,)).fetchone()
    if row is not None:
        values = (checksum_of(*row), row_id)
        connection.execute(f"UPDATE {table} SET checksum = ? WHERE id = ?", values)
