"""Saved searches for the largest batch: their settings, each trial as it ended, and their results."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, request_problem
from engine.protocol.trials import ProbeResult, Trial
from engine.store.queue import claims
from engine.store.saved.work import SavedWork, created, new_id


@dataclass(frozen=True)
class ProbeRecord:
    """A search in one precision; searches started together share a `series`.

    `budget_mib` is the last trial's. `result` is None while the search goes on, or if its program ended; its
    trials are there all the same.
    """

    id: str
    number: int
    series: str
    created: datetime
    experiment: Experiment
    granularity: int
    margin_fraction: float
    device_name: str
    budget_mib: float | None
    trials: tuple[Trial, ...]
    result: ProbeResult | None
    ammeter: str | None = None


class Probes(SavedWork[ProbeRecord]):
    """The saved searches."""

    _table = "probes"

    def add(
        self,
        experiment: Experiment,
        *,
        granularity: int,
        margin_fraction: float,
        device_name: str,
        series: str | None = None,
    ) -> str:
        """Adds a search and returns its id, which is also its series' where none is given."""
        probe_id = new_id()
        with self._connection.writing() as connection:
            # the order of several precisions has begun with the first
            claims.leave(connection, series or probe_id)
            return self._add(
                connection,
                probe_id,
                series=series or probe_id,
                experiment=experiment.to_json(),
                granularity=granularity,
                margin_fraction=margin_fraction,
                device_name=device_name,
            )

    def record(self, probe_id: str, trial: Trial, budget_mib: float) -> None:
        """Adds a trial to a search."""
        statement = "SELECT coalesce(max(position), -1) + 1 FROM probe_trials WHERE probe = ?"
        with self._connection.writing() as connection:
            position = connection.execute(statement, (probe_id,)).fetchone()[0]
            connection.execute(
                "INSERT INTO probe_trials (probe, position, trial, budget_mib) VALUES (?, ?, ?, ?)",
                (probe_id, position, trial.model_dump_json(), budget_mib),
            )

    def end(self, probe_id: str, result: ProbeResult) -> None:
        """Writes a search's result; its trials are kept separately."""
        self._set(probe_id, result=result.model_copy(update={"trials": ()}).model_dump_json())

    def _missing(self, work_id: str) -> Problem:
        message = f"There is no search for the largest batch with the id '{work_id}'."
        return request_problem(message, "Search again.", key="probe", value=work_id)

    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> ProbeRecord:
        rows = connection.execute(
            "SELECT trial, budget_mib FROM probe_trials WHERE probe = ? ORDER BY position", (row["id"],)
        ).fetchall()
        trials = tuple(Trial.model_validate_json(trial["trial"]) for trial in rows)
        result = ProbeResult.model_validate_json(row["result"]) if row["result"] else None
        return ProbeRecord(
            id=row["id"],
            number=row["number"],
            series=row["series"],
            created=created(row),
            ammeter=row["ammeter"],
            experiment=Experiment.from_json(row["experiment"]),
            granularity=row["granularity"],
            margin_fraction=row["margin_fraction"],
            device_name=row["device_name"],
            budget_mib=rows[-1]["budget_mib"] if rows else None,
            trials=trials,
            result=None if result is None else result.model_copy(update={"trials": trials}),
        )
