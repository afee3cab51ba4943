"""Read and write the store's file in transactions, and report SQLite's errors as problems."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.experiment.problem import Problem, ProblemError
from engine.store.database import (
    BESIDE,
    Opened,
    damaged_error,
    open_database,
    open_to_write,
    raise_problem,
    status_of,
    unwritable_problem,
)


class UnwritableError(ProblemError):
    """Raised if the disk is full or the file cannot be written."""


class Connection:
    """A connection to the store's SQLite file, for use in the thread that created it.

    `notes` are sentences on how the file was opened, `moved` is a sentence on an older file that was renamed
    to make room, and `files` counts the files opened at the path so far.

    Every method raises ProblemError of kind STORE when the file cannot be read or written. If nothing can be
    saved, it is `unwritable`, and only reads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = self.files = 0
        self.unwritable: Problem | None = None
        self._take_in(open_database(path))

    def close(self) -> None:
        self._sqlite.close()

    def read(self, statement: str, values: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        with self.reading() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run a block of statements that only read, inside or outside a transaction."""
        try:
            self._follow()
            yield self._sqlite
        except sqlite3.Error as error:
            raise_problem(self.path, error)
        except UnicodeDecodeError as error:
            # of SQLite's own words, which quote the damage
            raise damaged_error(self.path) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a block of statements in one transaction, which locks at once, so that its reads stay valid."""
        self.check_writable()
        with self.reading() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                # SQLite has rolled back by itself when the disk is full
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                problem = unwritable_problem(self.path, error) if isinstance(error, sqlite3.Error) else None
                if problem is not None:
                    raise UnwritableError(problem) from error
                raise

    def check_writable(self) -> None:
        """Raise ProblemError if nothing can be saved, unless the obstacle has disappeared."""
        if self.unwritable is None:
            return
        try:
            opened = open_to_write(self.path)
        except (OSError, sqlite3.Error):
            raise ProblemError(self.unwritable) from None
        self._change_to(opened)

    def only_read(self, error: UnwritableError) -> None:
        """Change nothing more until `check_writable` finds that the obstacle has disappeared."""
        self.unwritable = error.problem

    def _follow(self) -> None:
        """Opens the file at the path if that is no longer the one that was opened.

        SQLite would go on reading and writing a file that nobody finds again. Raises DamagedError for a file
        that was cut short.
        """
        if self.unwritable is not None or self._sqlite.in_transaction:
            return
        status = status_of(self.path)
        if status is None or _identity(status) != self._identities[0]:
            self._leave_behind()
            self._change_to(open_database(self.path))
            return
        if status.st_size < self._size and not self._is_whole():
            raise damaged_error(self.path)
        self._size = status.st_size

    def _is_whole(self) -> bool:
        """True if a file that became shorter is still whole: its log has the rest, or it was vacuumed."""
        try:
            # from the disk, not from this connection's cache
            self._sqlite.execute("PRAGMA shrink_memory")
            return bool(self._sqlite.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
        except sqlite3.Error:
            return False

    def _leave_behind(self) -> None:
        """Completes the moved file and removes its log, which the new file would take for its own."""
        with suppress(sqlite3.Error):
            self._sqlite.execute("PRAGMA wal_checkpoint(PASSIVE)")
        for beside, identity in zip(_beside(self.path), self._identities[1:], strict=True):
            if identity is not None and _identity(status_of(beside)) == identity:
                with suppress(OSError):
                    beside.unlink()

    def _change_to(self, opened: Opened) -> None:
        self._sqlite.close()
        self._take_in(opened)

    def _take_in(self, opened: Opened) -> None:
        self._sqlite, self.notes, self.unwritable, self.moved = opened
        self.files += 1
        status = status_of(self.path)
        self._identities = tuple(map(_identity, (status, *map(status_of, _beside(self.path)))))
        self._size = 0 if status is None else status.st_size


def _identity(status: os.stat_result | None) -> tuple[int, int] | None:
    """Return device and inode, which tell a file from another of its name."""
    return None if status is None else (status.st_dev, status.st_ino)


def _beside(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + ending) for ending in BESIDE)
