"""Saved diagnoses of experiments' numerics: their settings, each part as it became known, and their end."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.protocol.numerics.diagnosis import Diagnosis, Part, PartResult, part_from_json
from engine.store.connection import Connection


@dataclass(frozen=True)
class DiagnosisRecord:
    """A diagnosis: the `parts` asked for, and the run that it started from, if any.

    `is_over` is False while it goes on, or if its program ended; what was known by then is there all the
    same. `problem` ended it early.
    """

    id: str
    number: int
    created: datetime
    experiment: Experiment
    device_name: str
    run_id: str | None
    parts: tuple[Part, ...]
    problem: Problem | None
    is_over: bool
    results: tuple[str, ...] = field(repr=False)
    """The known parts as JSON."""

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The known parts, read at first use; those that cannot be read are left out."""
        diagnosis = Diagnosis()
        for text in self.results:
            try:
                diagnosis = diagnosis.with_part(part_from_json(text))
            except ValueError:
                # one part must not hide the others
                continue
        return diagnosis


class Diagnoses:
    """The saved diagnoses. Every method raises ProblemError of kind STORE when the file fails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self, experiment: Experiment, parts: Sequence[Part], *, device_name: str, run_id: str | None = None
    ) -> str:
        """Adds a diagnosis and returns its id."""
        diagnosis_id = secrets.token_hex(6)
        with self._connection.writing() as connection:
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM diagnoses").fetchone()[0]
            connection.execute(
                "INSERT INTO diagnoses (id, number, created, experiment, device_name, run, parts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    diagnosis_id,
                    number,
                    time.time(),
                    experiment.to_json(),
                    device_name,
                    run_id,
                    json.dumps(list(parts)),
                ),
            )
        return diagnosis_id

    def record(self, diagnosis_id: str, result: PartResult) -> None:
        """Adds a part to a diagnosis, in place of an earlier one of its kind."""
        with self._connection.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO diagnosis_parts (diagnosis, name, result) VALUES (?, ?, ?)",
                (diagnosis_id, result.part, result.model_dump_json()),
            )

    def end(self, diagnosis_id: str, problem: Problem | None = None) -> None:
        """Marks a diagnosis as over, because of `problem` if that ended it early."""
        text = None if problem is None else problem.model_dump_json()
        with self._connection.writing() as connection:
            connection.execute(
                "UPDATE diagnoses SET ended = ?, problem = ? WHERE id = ?", (time.time(), text, diagnosis_id)
            )

    def delete(self, diagnosis_id: str) -> None:
        """Deletes a diagnosis with its parts."""
        with self._connection.writing() as connection:
            connection.execute("DELETE FROM diagnoses WHERE id = ?", (diagnosis_id,))

    def newest(self, limit: int | None = None) -> tuple[DiagnosisRecord, ...]:
        """The diagnoses, newest first, all without a limit; those that cannot be read are left out."""
        with self._connection.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM diagnoses ORDER BY number DESC LIMIT ?", (-1 if limit is None else limit,)
            ).fetchall()
            records = (_readable(connection, row) for row in rows)
            return tuple(record for record in records if record is not None)

    def find(self, diagnosis_id: str) -> DiagnosisRecord:
        """The diagnosis of that id. Raises ProblemError of kind REQUEST where there is none."""
        with self._connection.reading() as connection:
            row = connection.execute("SELECT * FROM diagnoses WHERE id = ?", (diagnosis_id,)).fetchone()
            if row is not None:
                return _record(connection, row)
        message = f"There is no diagnosis with the id '{diagnosis_id}'."
        raise ProblemError(request_problem(message, "Diagnose again.", key="diagnosis", value=diagnosis_id))


def _readable(connection: sqlite3.Connection, row: sqlite3.Row) -> DiagnosisRecord | None:
    try:
        return _record(connection, row)
    except (ProblemError, ValueError):
        # one diagnosis must not hide the others
        return None


def _record(connection: sqlite3.Connection, row: sqlite3.Row) -> DiagnosisRecord:
    results = connection.execute(
        "SELECT result FROM diagnosis_parts WHERE diagnosis = ? ORDER BY rowid", (row["id"],)
    ).fetchall()
    return DiagnosisRecord(
        id=row["id"],
        number=row["number"],
        created=datetime.fromtimestamp(row["created"], UTC),
        experiment=Experiment.from_json(row["experiment"]),
        device_name=row["device_name"],
        run_id=row["run"],
        parts=tuple(json.loads(row["parts"])),
        problem=Problem.model_validate_json(row["problem"]) if row["problem"] else None,
        is_over=row["ended"] is not None,
        results=tuple(result["result"] for result in results),
    )
