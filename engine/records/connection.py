"""A connection to the store's file: its statements, its transactions, and what is said when they fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.problem import ProblemError
from engine.records.database import Opened, fail, open_copy, open_database, open_to_write


class Connection:
    """For the thread that made it. `notes` says in sentences how the file had to be opened.

    Every method raises ProblemError of kind STORE when the file cannot be read or written. Where nothing can
    be saved, what is there is read from a copy in memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sqlite, self.notes, self.unwritable = open_database(path)

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
        self.check_writable()
        with self.changing() as connection:
            yield connection

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The same for what may be done to a copy in memory too."""
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

    def check_writable(self) -> None:
        """Raises ProblemError where nothing can be saved, unless what was in the way is gone by now."""
        if self.unwritable is None:
            return
        try:
            opened = open_to_write(self.path)
        except (OSError, sqlite3.Error):
            raise ProblemError(self.unwritable) from None
        self._take(opened)

    def only_read(self, error: ProblemError) -> None:
        """Goes on with a copy in memory if `error` says that nothing can be written; else raises it."""
        cause = error.__cause__
        if self.unwritable is not None or not isinstance(cause, OSError | sqlite3.Error):
            raise error
        self._take(open_copy(self.path, cause))

    def _take(self, opened: Opened) -> None:
        self._sqlite.close()
        self._sqlite, self.notes, self.unwritable = opened
