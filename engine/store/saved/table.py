"""A numbered table of work that one process at a time carries on."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import ClassVar

from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.value import one_line
from engine.store.connection import Connection
from engine.store.queue import claims
from engine.store.queue.owner import this_process


class SavedTable:
    """The table has `owner`, the process that carries a row's work on, and `ended`, when it was over.

    Every method raises ProblemError of kind STORE when the file fails, and of kind REQUEST for an id that is
    not there.
    """

    _table: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def starting(self, start: str) -> tuple[str, ...]:
        """The ids that start so, as a user writes them; none for an empty start."""
        start = one_line(start).strip().lower()
        if not start:
            return ()
        statement = f"SELECT id FROM {self._table} WHERE substr(id, 1, ?) = ?"
        return tuple(row["id"] for row in self._connection.read(statement, (len(start), start)))

    def release(self, work_id: str) -> None:
        """Lets other processes carry the work on."""
        self._set(work_id, owner=None)

    def _row(self, connection: sqlite3.Connection, work_id: str) -> sqlite3.Row:
        row = connection.execute(f"SELECT * FROM {self._table} WHERE id = ?", (work_id,)).fetchone()
        if row is None:
            raise ProblemError(self._missing(work_id))
        assert isinstance(row, sqlite3.Row)
        return row

    def _free_row(self, connection: sqlite3.Connection, work_id: str) -> sqlite3.Row:
        """The row. Raises ProblemError where a process that lives, or that of another machine, has it."""
        row = self._row(connection, work_id)
        if row["owner"] is not None and not claims.may_take(row):
            message = f"{row['name']} is carried on by another Ammeter."
            raise ProblemError(
                request_problem(message, "Stop it there first.", key=self._table, value=work_id)
            )
        return row

    def _set(self, work_id: str, **columns: object) -> None:
        """Changes columns of a row."""
        with self._connection.writing() as connection:
            self._change(connection, work_id, **columns)

    def _change(self, connection: sqlite3.Connection, work_id: str, **columns: object) -> None:
        changes = ", ".join(f"{name} = ?" for name in columns)
        values = (*columns.values(), work_id)
        connection.execute(f"UPDATE {self._table} SET {changes} WHERE id = ?", values)

    def _insert(self, connection: sqlite3.Connection, **columns: object) -> None:
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        values = tuple(columns.values())
        connection.execute(f"INSERT INTO {self._table} ({names}) VALUES ({places})", values)

    def _missing(self, work_id: str) -> Problem:
        noun = self._table.removesuffix("s").replace("studie", "study")
        message = f"There is no {noun} with the id '{work_id}'."
        return request_problem(message, "Start it again.", key=noun, value=work_id)


def me() -> str:
    """This process, as `owner` has it."""
    return this_process().model_dump_json()


def moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
