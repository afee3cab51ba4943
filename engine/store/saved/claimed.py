"""Saved work that goes on over many processes, one of them at a time."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod

from engine.experiment.problem import ProblemError, request_problem
from engine.store.queue import claims
from engine.store.queue.owner import this_process
from engine.store.saved.work import Record, SavedWork


class ClaimedWork(SavedWork[Record]):
    """Work whose table has the process that carries it on, as `owner`, and when and why it ended."""

    def claim(self, work_id: str) -> None:
        """Marks work as carried on by this process, and as not ended.

        Raises ProblemError where a process that lives, or that of another machine, carries it on.
        """
        with self._connection.writing() as connection:
            self._check_free(connection, work_id)
            connection.execute(
                f"UPDATE {self._table} SET owner = ?, ended = NULL, problem = NULL WHERE id = ?",
                (this_process().model_dump_json(), work_id),
            )

    def release(self, work_id: str) -> None:
        """Lets other processes carry the work on."""
        self._set(work_id, owner=None)

    @abstractmethod
    def _name(self, row: sqlite3.Row) -> str:
        """The name of a row's work, at the start of a sentence."""

    def _check_free(self, connection: sqlite3.Connection, work_id: str) -> sqlite3.Row:
        row = connection.execute(f"SELECT * FROM {self._table} WHERE id = ?", (work_id,)).fetchone()
        if row is None:
            raise ProblemError(self._missing(work_id))
        if row["owner"] is not None and not claims.may_take(row):
            message = f"{self._name(row)} is carried on by another Ammeter."
            raise ProblemError(
                request_problem(message, "Stop it there first.", key=self._table, value=work_id)
            )
        assert isinstance(row, sqlite3.Row)
        return row
