"""Saved searches for the largest batch: their settings, each trial as it ended, and their results."""

from __future__ import annotations

import secrets
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError, request_problem
from engine.protocol.trials import ProbeResult, Trial
from engine.store.connection import Connection


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


class Probes:
    """The saved searches. Every method raises ProblemError of kind STORE when the file fails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        probe_id = secrets.token_hex(6)
        with self._connection.writing() as connection:
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM probes").fetchone()[0]
            connection.execute(
                "INSERT INTO probes"
                " (id, number, series, created, experiment, granularity, margin_fraction, device_name)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    probe_id,
                    number,
                    series or probe_id,
                    time.time(),
                    experiment.to_json(),
                    granularity,
                    margin_fraction,
                    device_name,
                ),
            )
        return probe_id

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
        kept = result.model_copy(update={"trials": ()}).model_dump_json()
        with self._connection.writing() as connection:
            connection.execute("UPDATE probes SET result = ? WHERE id = ?", (kept, probe_id))

    def delete(self, probe_id: str) -> None:
        """Deletes a search with its trials."""
        with self._connection.writing() as connection:
            connection.execute("DELETE FROM probes WHERE id = ?", (probe_id,))

    def newest(self, limit: int | None = None) -> tuple[ProbeRecord, ...]:
        """The searches, newest first, all of them without a limit; those that cannot be read are left out."""
        with self._connection.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM probes ORDER BY number DESC LIMIT ?", (-1 if limit is None else limit,)
            ).fetchall()
            records = (_readable(connection, row) for row in rows)
            return tuple(record for record in records if record is not None)

    def find(self, probe_id: str) -> ProbeRecord:
        """The search of that id. Raises ProblemError of kind REQUEST where there is none."""
        with self._connection.reading() as connection:
            row = connection.execute("SELECT * FROM probes WHERE id = ?", (probe_id,)).fetchone()
            if row is not None:
                return _record(connection, row)
        message = f"There is no search for the largest batch with the id '{probe_id}'."
        raise ProblemError(request_problem(message, "Search again.", key="probe", value=probe_id))


def _readable(connection: sqlite3.Connection, row: sqlite3.Row) -> ProbeRecord | None:
    try:
        return _record(connection, row)
    except (ProblemError, ValueError):
        # one search must not hide the others
        return None


def _record(connection: sqlite3.Connection, row: sqlite3.Row) -> ProbeRecord:
    rows = connection.execute(
        "SELECT trial, budget_mib FROM probe_trials WHERE probe = ? ORDER BY position", (row["id"],)
    ).fetchall()
    trials = tuple(Trial.model_validate_json(trial["trial"]) for trial in rows)
    result = ProbeResult.model_validate_json(row["result"]) if row["result"] else None
    return ProbeRecord(
        id=row["id"],
        number=row["number"],
        series=row["series"],
        created=datetime.fromtimestamp(row["created"], UTC),
        experiment=Experiment.from_json(row["experiment"]),
        granularity=row["granularity"],
        margin_fraction=row["margin_fraction"],
        device_name=row["device_name"],
        budget_mib=rows[-1]["budget_mib"] if rows else None,
        trials=trials,
        result=None if result is None else result.model_copy(update={"trials": trials}),
    )
