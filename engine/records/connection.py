"""A connection to the store's file: its statements, its transactions, and what is said when they fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.records.database import fail, open_database


class Connection:
    """For the thread that made it. `notes` says in sentences how the file had to be opened.

    Every method raises ProblemError of kind STORE when the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sqlite, self.notes = open_database(path)

    def close(self) -> None:
        self._sqlite.close()

    def read(self, statement: str, values: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        """All rows of one statement."""
        with self.reading() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several statements that only read, inside a transaction or outside."""
        try:
            yield self._sqlite
        except sqlite3.Error as error:
            fail(self.path, error)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; the lock is taken at once, so that what was read in it still holds."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself when the disk is full
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
