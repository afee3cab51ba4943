"""A run that is being recorded, a second time in memory: for when the store's file is taken away."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.events import Event
from engine.records import recording
from engine.records.database import open_in_memory

_PARTS = ("samples", "events", "trials")


class Twin:
    """A copy of a run as it is saved, which grows by `take` as that does. For the thread that made it."""

    def __init__(self, source: sqlite3.Connection, run_id: str) -> None:
        self._run_id = run_id
        self._memory = open_in_memory()
        _copy(source, self._memory, run_id)

    def take(self, events: Sequence[Event]) -> None:
        """Adds events of the run."""
        recording.take(self._memory, self._run_id, events)

    def put_into(self, connection: sqlite3.Connection) -> None:
        """Writes the run whole into a store that lacks it, under the next number if its own is taken."""
        _copy(self._memory, connection, self._run_id)

    def close(self) -> None:
        self._memory.close()


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, run_id: str) -> None:
    run = dict(source.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone())
    for table, key, value in (
        ("comparisons", "id", run["comparison"]),
        ("pictures", "hash", run["pictures"]),
    ):
        for row in source.execute(f"SELECT * FROM {table} WHERE {key} = ?", (value,)):
            _insert(target, table, dict(row))
    if target.execute("SELECT 1 FROM runs WHERE number = ?", (run["number"],)).fetchone():
        run["number"] = target.execute("SELECT max(number) + 1 FROM runs").fetchone()[0]
    _insert(target, "runs", run)
    for table in _PARTS:
        for row in source.execute(f"SELECT * FROM {table} WHERE run = ?", (run_id,)):
            _insert(target, table, dict(row))


def _insert(target: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    places = ", ".join(f":{name}" for name in values)
    target.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(values)}) VALUES ({places})", values)
