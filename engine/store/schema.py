"""The tables of the store, as the migrations that make them. A released migration never changes."""

from __future__ import annotations

APPLICATION_ID = 0x416D7472
"""Marks the file as Ammeter's in SQLite's own header."""

_FIRST = """
CREATE TABLE comparisons (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    created REAL NOT NULL
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
    owner TEXT NOT NULL
);
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_comparison ON runs (comparison);
CREATE TABLE samples (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    names TEXT NOT NULL,
    rows INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, position)
);
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (run, position)
);
CREATE TABLE trials (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    trial TEXT NOT NULL,
    PRIMARY KEY (run, position)
)
"""

_PROBES = """
CREATE TABLE probes (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    series TEXT NOT NULL,
    created REAL NOT NULL,
    experiment TEXT NOT NULL,
    granularity INTEGER NOT NULL,
    margin_fraction REAL NOT NULL,
    device_name TEXT NOT NULL,
    result TEXT
);
CREATE TABLE probe_trials (
    probe TEXT NOT NULL REFERENCES probes (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    trial TEXT NOT NULL,
    budget_mib REAL NOT NULL,
    PRIMARY KEY (probe, position)
)
"""

_MARKS = """
ALTER TABLE runs ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN deleted REAL
"""

_PICTURES = """
CREATE TABLE pictures (
    hash TEXT PRIMARY KEY,
    side INTEGER NOT NULL,
    count INTEGER NOT NULL,
    jpeg BLOB NOT NULL
);
ALTER TABLE runs ADD COLUMN pictures TEXT REFERENCES pictures (hash) ON DELETE SET NULL;
CREATE INDEX runs_by_pictures ON runs (pictures) WHERE pictures IS NOT NULL
"""

# never written to: the trials of a search are in probe_trials
_NO_TRIALS_OF_RUNS = "DROP TABLE trials"

_TRUSTED_CODE = """
CREATE TABLE trusted_code (
    sha256 TEXT NOT NULL,
    folder TEXT NOT NULL,
    added REAL NOT NULL,
    PRIMARY KEY (sha256, folder)
)
"""

# trust is kept in the user's settings: a store that was made elsewhere must bring none
_NO_TRUSTED_CODE = "DROP TABLE trusted_code"

_DIAGNOSES = """
CREATE TABLE diagnoses (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    experiment TEXT NOT NULL,
    device_name TEXT NOT NULL,
    run TEXT REFERENCES runs (id) ON DELETE SET NULL,
    parts TEXT NOT NULL,
    problem TEXT,
    ended REAL
);
CREATE INDEX diagnoses_by_run ON diagnoses (run) WHERE run IS NOT NULL;
CREATE TABLE diagnosis_parts (
    diagnosis TEXT NOT NULL REFERENCES diagnoses (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (diagnosis, name)
)
"""

_TIMINGS = """
CREATE TABLE timings (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    device_name TEXT NOT NULL,
    ended REAL
);
CREATE TABLE timing_sides (
    timing TEXT NOT NULL REFERENCES timings (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    experiment TEXT NOT NULL,
    run TEXT REFERENCES runs (id) ON DELETE SET NULL,
    profile TEXT,
    problem TEXT,
    PRIMARY KEY (timing, position)
);
CREATE INDEX timing_sides_by_run ON timing_sides (run) WHERE run IS NOT NULL
"""

_SWEEPS = """
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
    ended REAL
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
ALTER TABLE runs ADD COLUMN sweep TEXT REFERENCES sweeps (id) ON DELETE SET NULL;
ALTER TABLE runs ADD COLUMN cell INTEGER;
ALTER TABLE runs ADD COLUMN repeat INTEGER;
CREATE UNIQUE INDEX runs_by_cell ON runs (sweep, cell, repeat) WHERE sweep IS NOT NULL AND deleted IS NULL
"""

_TUNINGS = """
CREATE TABLE tunings (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    tuning TEXT NOT NULL,
    device_name TEXT NOT NULL,
    owner TEXT,
    problem TEXT,
    ended REAL
)
"""

_WAITING = """
CREATE TABLE waiting (
    key TEXT PRIMARY KEY,
    position REAL NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    request TEXT NOT NULL,
    is_held INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE resting_queues (
    owner TEXT PRIMARY KEY
)
"""

_OWN_LOOKS = """
ALTER TABLE runs ADD COLUMN is_pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN colour TEXT;
ALTER TABLE runs ADD COLUMN folder TEXT NOT NULL DEFAULT ''
"""

# runs have it in their environment
_VERSIONS = ";".join(
    f"ALTER TABLE {table} ADD COLUMN ammeter TEXT"
    for table in ("comparisons", "probes", "diagnoses", "timings", "sweeps", "tunings")
)

_OUTLINES = """
CREATE TABLE outlines (
    run TEXT NOT NULL,
    position INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, position),
    FOREIGN KEY (run, position) REFERENCES samples (run, position) ON DELETE CASCADE
)
"""

MIGRATIONS = (
    _FIRST,
    _PROBES,
    _MARKS,
    _PICTURES,
    _NO_TRIALS_OF_RUNS,
    _TRUSTED_CODE,
    _DIAGNOSES,
    _TIMINGS,
    _SWEEPS,
    _TUNINGS,
    _WAITING,
    _OWN_LOOKS,
    _VERSIONS,
    _OUTLINES,
    _NO_TRUSTED_CODE,
)
"""The script at index n makes version n + 1 of version n; statements are parted by semicolons."""

VERSION = len(MIGRATIONS)
