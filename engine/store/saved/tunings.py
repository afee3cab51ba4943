"""Saved tunings: the searches for the fastest settings, each as JSON as far as it has come."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, field
from datetime import datetime

from engine.experiment.problem import Problem, request_problem
from engine.protocol.tuning import Tuning
from engine.store.saved.claimed import ClaimedWork
from engine.store.saved.work import created


@dataclass(frozen=True)
class TuningRecord:
    """A tuning; `is_over` is False while it goes on, or if it gave way or its program ended.

    One that is over was finished or stopped; `problem` says why it failed. It can be carried on unless its
    phase is "over".
    """

    id: str
    number: int
    created: datetime
    device_name: str
    is_over: bool
    problem: Problem | None
    tuning: Tuning = field(repr=False)
    ammeter: str | None = None


class Tunings(ClaimedWork[TuningRecord]):
    """The saved tunings."""

    _table = "tunings"

    def add(self, tuning: Tuning, *, device_name: str) -> str:
        """Adds a tuning and returns its id."""
        with self._connection.writing() as connection:
            return self._add(connection, device_name=device_name, tuning=tuning.model_dump_json())

    def record(self, tuning_id: str, tuning: Tuning) -> None:
        """Writes a tuning as far as it is known."""
        self._set(tuning_id, tuning=tuning.model_dump_json())

    def end(self, tuning_id: str, problem: Problem | None = None) -> None:
        """Marks a tuning as over."""
        text = None if problem is None else problem.model_dump_json()
        self._set(tuning_id, ended=time.time(), problem=text)

    def delete(self, work_id: str) -> None:
        """Deletes a tuning; its runs stay. Refused while another process carries it on."""
        with self._connection.writing() as connection:
            self._check_free(connection, work_id)
            connection.execute("DELETE FROM tunings WHERE id = ?", (work_id,))

    def _name(self, row: sqlite3.Row) -> str:
        return f"Tuning {row['number']:,}"

    def _missing(self, work_id: str) -> Problem:
        message = f"There is no tuning with the id '{work_id}'."
        return request_problem(message, "Search for the fastest settings again.", key="tuning", value=work_id)

    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> TuningRecord:
        return TuningRecord(
            id=row["id"],
            number=row["number"],
            created=created(row),
            ammeter=row["ammeter"],
            device_name=row["device_name"],
            is_over=row["ended"] is not None,
            problem=Problem.model_validate_json(row["problem"]) if row["problem"] else None,
            tuning=Tuning.model_validate_json(row["tuning"]),
        )
