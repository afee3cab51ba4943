"""The tables of the store, and checksums by which a flipped bit never counts as a measurement."""

from __future__ import annotations

import sqlite3
import zlib

APPLICATION_ID = 0x416D7472  # marks the file as Ammeter's in SQLite's own header
VERSION = 19

SCHEMA = """
CREATE TABLE comparisons (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    ammeter TEXT
);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('queued', 'running', 'finished', 'stopped', 'failed', 'interrupted')),
    created REAL NOT NULL,
    started REAL,
    ended REAL,
    experiment TEXT NOT NULL,
    environment TEXT,
    summary TEXT,
    problem TEXT,
    detail TEXT NOT NULL DEFAULT '',
    comparison TEXT REFERENCES comparisons (id) ON DELETE SET NULL,
    label TEXT,
    total_steps INTEGER,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    note TEXT NOT NULL DEFAULT '',
    deleted REAL,
    pictures TEXT REFERENCES pictures (hash) ON DELETE SET NULL,
    sweep TEXT REFERENCES sweeps (id) ON DELETE SET NULL,
    cell INTEGER,
    repeat INTEGER,
    is_pinned INTEGER NOT NULL DEFAULT 0,
    machine TEXT NOT NULL DEFAULT '',
    checksum INTEGER
);
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_time ON runs (created, id) WHERE deleted IS NULL;
CREATE INDEX runs_by_deletion ON runs (deleted) WHERE deleted IS NOT NULL;
CREATE INDEX runs_by_comparison ON runs (comparison);
CREATE INDEX runs_by_pictures ON runs (pictures) WHERE pictures IS NOT NULL;
CREATE UNIQUE INDEX runs_by_cell ON runs (sweep, cell, repeat) WHERE sweep IS NOT NULL AND deleted IS NULL;
CREATE TABLE samples (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    names TEXT NOT NULL,
    rows INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (run, position)
);
CREATE TABLE outlines (
    run TEXT NOT NULL,
    position INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (run, position),
    FOREIGN KEY (run, position) REFERENCES samples (run, position) ON DELETE CASCADE
);
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    line TEXT NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (run, position)
);
CREATE TABLE pictures (
    hash TEXT PRIMARY KEY,
    side INTEGER NOT NULL,
    count INTEGER NOT NULL,
    jpeg BLOB NOT NULL
);
CREATE TABLE sweeps (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    name TEXT NOT NULL,
    grid TEXT NOT NULL,
    plan TEXT NOT NULL,
    device_name TEXT NOT NULL,
    comparison TEXT REFERENCES comparisons (id) ON DELETE SET NULL,
    owner TEXT,
    spent_seconds REAL NOT NULL DEFAULT 0,
    problem TEXT,
    ended REAL,
    ammeter TEXT,
    machine TEXT NOT NULL DEFAULT '',
    checksum INTEGER
);
CREATE TABLE sweep_cells (
    sweep TEXT NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    left_out TEXT,
    is_held INTEGER NOT NULL DEFAULT 0,
    pilot TEXT,
    problem TEXT,
    PRIMARY KEY (sweep, position)
);
CREATE TABLE waiting (
    key TEXT PRIMARY KEY,
    position REAL NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    request TEXT NOT NULL,
    is_held INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    machine TEXT NOT NULL DEFAULT ''
);
CREATE TABLE resting_queues (
    owner TEXT PRIMARY KEY
);
CREATE TABLE studies (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    digest TEXT NOT NULL,
    is_known INTEGER NOT NULL,
    runs TEXT NOT NULL,
    device_name TEXT NOT NULL,
    answer TEXT NOT NULL,
    problem TEXT,
    owner TEXT,
    created REAL NOT NULL,
    ended REAL,
    ammeter TEXT,
    machine TEXT NOT NULL DEFAULT '',
    not_done TEXT NOT NULL DEFAULT '[]',
    checksum INTEGER,
    UNIQUE (kind, number)
);
CREATE TABLE kept_runs (
    run TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    machine TEXT NOT NULL,
    worker TEXT NOT NULL,
    events_at INTEGER NOT NULL,
    errors_at INTEGER NOT NULL
);
"""


def insert(connection: sqlite3.Connection, table: str, verb: str = "INSERT", /, **columns: object) -> None:
    """Insert a row. With the verb "INSERT OR IGNORE" an existing row stays."""
    places = ", ".join(f":{name}" for name in columns)
    connection.execute(f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({places})", columns)


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
