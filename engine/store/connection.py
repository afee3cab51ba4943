"""Read and write the store's file in transactions, and report SQLite's errors as problems."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.experiment.paths import is_in_use
from engine.experiment.problem import ProblemError
from engine.store.database import (
    BESIDE,
    Opened,
    damaged_error,
    open_copy,
    open_database,
    open_to_write,
    raise_problem,
    status_of,
)


class Connection:
    """A connection to the store's SQLite file, for use in the thread that created it.

    `notes` are sentences on how the file was opened, `moved` is a sentence on an older file that was renamed
    to make room, and `files` counts the files opened at the path so far.

    Every method raises ProblemError of kind STORE when the file cannot be read or written. If nothing can be
    saved, the saved runs are read from a copy in memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = self.files = 0
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
        with self.changing() as connection:
            yield connection

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction like `writing`, which may also change a copy in memory."""
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
        """Raise ProblemError if nothing can be saved, unless the obstacle has disappeared."""
        if self.unwritable is None:
            return
        try:
            opened = open_to_write(self.path)
        except (OSError, sqlite3.Error):
            raise ProblemError(self.unwritable) from None
        self._change_to(opened)

    def only_read(self, error: ProblemError) -> None:
        """Continue with a copy in memory if `error` means that the file is not writable, else raise it."""
        cause = error.__cause__
        if self.unwritable is not None or not isinstance(cause, OSError | sqlite3.Error):
            raise error
        self._change_to(open_copy(self.path, cause))

    def set_aside(self) -> Path | None:
        """Rename the opened damaged file, create a new one in its place, and return the renamed path.

        Return None if it stays: because another file is in its place, or because Windows does not rename open
        files, and then this connection is closed.
        """
        if _identity(status_of(self.path)) != self._identities[0]:
            return None
        aside = self.path.with_name(f"{self.path.stem}-damaged-{time.time_ns()}{self.path.suffix}")
        self._sqlite.close()
        try:
            self.path.rename(aside)
            for old, new in zip(_beside(self.path), _beside(aside), strict=True):
                with suppress(FileNotFoundError):
                    old.rename(new)
        except OSError as error:
            if is_in_use(error):
                return None
            raise_problem(self.path, error)
        self._change_to(open_database(self.path))
        return aside

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
