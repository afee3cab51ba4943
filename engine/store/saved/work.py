"""Work that is saved as it goes on, in a numbered table of its own: searches, diagnoses and timings."""

from __future__ import annotations

import secrets
import sqlite3
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import ClassVar, Generic, TypeVar

from engine import __version__
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.text import one_line
from engine.store.connection import Connection
from engine.store.queue import claims

Record = TypeVar("Record")


class SavedWork(ABC, Generic[Record]):
    """The saved work of a table. Every method raises ProblemError of kind STORE when the file fails."""

    _table: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def newest(self, limit: int | None = None) -> tuple[Record, ...]:
        """The records, newest first, all without a limit; those that cannot be read are left out."""
        statement = f"SELECT * FROM {self._table} ORDER BY number DESC LIMIT ?"
        with self._connection.reading() as connection:
            rows = connection.execute(statement, (-1 if limit is None else limit,)).fetchall()
            records = (self._readable(connection, row) for row in rows)
            return tuple(record for record in records if record is not None)

    def find(self, work_id: str) -> Record:
        """The record of that id. Raises ProblemError of kind REQUEST where there is none."""
        with self._connection.reading() as connection:
            row = connection.execute(
                f"SELECT * FROM {self._table} WHERE id = ?",
                (work_id,),
            ).fetchone()
            if row is not None:
                return self._record(connection, row)
        raise ProblemError(self._missing(work_id))

    def starting(self, start: str) -> tuple[str, ...]:
        """The ids that start so, as a user writes them; none for an empty start."""
        start = one_line(start).strip().lower()
        if not start:
            return ()
        with self._connection.reading() as connection:
            rows = connection.execute(
                f"SELECT id FROM {self._table} WHERE substr(id, 1, ?) = ?", (len(start), start)
            ).fetchall()
        return tuple(row["id"] for row in rows)

    def delete(self, work_id: str) -> None:
        """Deletes a record with all that belongs to it, also from the queue."""
        with self._connection.writing() as connection:
            connection.execute(f"DELETE FROM {self._table} WHERE id = ?", (work_id,))
            claims.leave(connection, work_id)

    @abstractmethod
    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> Record:
        """The record of a row. Raises ProblemError or ValueError where it cannot be read."""

    @abstractmethod
    def _missing(self, work_id: str) -> Problem:
        """Says that there is no record of that id."""

    def _readable(self, connection: sqlite3.Connection, row: sqlite3.Row) -> Record | None:
        try:
            return self._record(connection, row)
        except (ProblemError, ValueError):
            # one record must not hide the others
            return None

    def _add(self, connection: sqlite3.Connection, work_id: str | None = None, **columns: object) -> str:
        """Adds a row with the next number, the time and the version, and returns its id.

        An order of that key has begun.
        """
        values = {"id": work_id or new_id(), "created": time.time(), "ammeter": __version__, **columns}
        names, places = ", ".join(values), ", ".join("?" * len(values))
        number = f"SELECT coalesce(max(number), 0) + 1 FROM {self._table}"
        connection.execute(
            f"INSERT INTO {self._table} (number, {names}) VALUES (({number}), {places})",
            tuple(values.values()),
        )
        claims.leave(connection, str(values["id"]))
        return str(values["id"])

    def _set(self, work_id: str, **columns: object) -> None:
        """Changes columns of a row."""
        changes = ", ".join(f"{name} = ?" for name in columns)
        with self._connection.writing() as connection:
            connection.execute(
                f"UPDATE {self._table} SET {changes} WHERE id = ?",
                (*columns.values(), work_id),
            )


def new_id() -> str:
    """An id that no other record has."""
    return secrets.token_hex(6)


def created(row: sqlite3.Row) -> datetime:
    """When a row was added."""
    return datetime.fromtimestamp(row["created"], UTC)
