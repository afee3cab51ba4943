"""Saved diagnoses of experiments' numerics: their settings, each part as it became known, and their end."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, request_problem
from engine.protocol.numerics.diagnosis import Diagnosis, Part, PartResult, part_from_json
from engine.store.saved.work import SavedWork, created


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
    ammeter: str | None = None

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


class Diagnoses(SavedWork[DiagnosisRecord]):
    """The saved diagnoses."""

    _table = "diagnoses"

    def add(
        self,
        experiment: Experiment,
        parts: Sequence[Part],
        *,
        device_name: str,
        run_id: str | None = None,
        diagnosis_id: str | None = None,
    ) -> str:
        """Adds a diagnosis and returns its id, a new one by default."""
        with self._connection.writing() as connection:
            return self._add(
                connection,
                diagnosis_id,
                experiment=experiment.to_json(),
                device_name=device_name,
                run=run_id,
                parts=json.dumps(list(parts)),
            )

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
        self._set(diagnosis_id, ended=time.time(), problem=text)

    def _missing(self, work_id: str) -> Problem:
        message = f"There is no diagnosis with the id '{work_id}'."
        return request_problem(message, "Diagnose again.", key="diagnosis", value=work_id)

    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> DiagnosisRecord:
        results = connection.execute(
            "SELECT result FROM diagnosis_parts WHERE diagnosis = ? ORDER BY rowid", (row["id"],)
        ).fetchall()
        return DiagnosisRecord(
            id=row["id"],
            number=row["number"],
            created=created(row),
            ammeter=row["ammeter"],
            experiment=Experiment.from_json(row["experiment"]),
            device_name=row["device_name"],
            run_id=row["run"],
            parts=tuple(json.loads(row["parts"])),
            problem=Problem.model_validate_json(row["problem"]) if row["problem"] else None,
            is_over=row["ended"] is not None,
            results=tuple(result["result"] for result in results),
        )
