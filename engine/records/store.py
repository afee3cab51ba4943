"""The saved runs, in one SQLite file that several windows and command lines may share."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine.events import Event, Failed, Finished, Started, Summary
from engine.experiment import Experiment
from engine.paths import store_path
from engine.probe_events import ProbeResult, Trial
from engine.problem import Kind, Problem, ProblemError, request_problem
from engine.records import checkpoint_files, journal, probes, resume
from engine.records.account import summary_of
from engine.records.database import fail, open_database
from engine.records.owner import Owner, this_process
from engine.records.probes import ProbeRecord
from engine.records.record import RUN_COLUMNS, ComparisonRecord, RunRecord, Status, comparison_from, run_from


class Store:
    """One connection to the saved runs, for the thread that made it.

    `notes` says in sentences how the file had to be opened. Every method raises ProblemError of kind STORE
    when the file cannot be read or written, and of kind REQUEST for a run that is not there.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or store_path()
        self._connection, self.notes = open_database(self.path)
        self._owner = this_process()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(
        self,
        experiment: Experiment,
        *,
        name: str | None = None,
        comparison: str | None = None,
        label: str | None = None,
    ) -> RunRecord:
        """A new queued run of this process; without a name it is "Run N"."""
        run_id = secrets.token_hex(6)
        with self._writing() as connection:
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
            connection.execute(
                "INSERT INTO runs (id, number, name, status, created, experiment, comparison, label, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    number,
                    (name or "").strip() or f"Run {number}",
                    Status.QUEUED,
                    time.time(),
                    experiment.to_json(),
                    comparison,
                    label,
                    self._owner.model_dump_json(),
                ),
            )
        return self.run(run_id)

    def begin(self, run_id: str) -> None:
        """Marks a queued run as running in this process."""
        self._take(
            run_id, "status = ?, started = coalesce(started, ?), owner = ?", (Status.RUNNING, time.time())
        )

    def claim(self, run_id: str) -> RunRecord:
        """Makes a queued run this process's own, if the process that queued it is gone."""
        self._take(run_id, "owner = ?", ())
        return self.run(run_id)

    def requeue(self, run_id: str) -> RunRecord:
        """Queues a run again that ended early, to go on from its last checkpoint.

        It keeps what it has until it has started again. Raises ProblemError where it cannot go on.
        """
        with self._writing() as connection:
            self._row(run_id)
            problem = resume.obstacle(self.run(run_id), self.checkpoints_folder(run_id))
            if problem is not None:
                raise ProblemError(problem)
            connection.execute(
                "UPDATE runs SET status = ?, owner = ? WHERE id = ?",
                (Status.QUEUED, self._owner.model_dump_json(), run_id),
            )
        return self.run(run_id)

    def withdraw(self, run_id: str) -> None:
        """Takes a run back that waits, or that was refused before it started.

        A new one is deleted; one that was queued again is what it was before.
        """
        row = self._row(run_id)
        if Status(row["status"]).is_over:
            return
        if row["environment"] is None:
            self.delete([run_id])
            return
        with self._writing():
            if not self._may_take(Owner.model_validate_json(row["owner"])):
                message = f"{row['name']} belongs to another Ammeter."
                raise ProblemError(request_problem(message, "Take it out there.", key="run"))
            self._put_back(run_id)

    def checkpoints_folder(self, run_id: str) -> Path:
        """Where the run's checkpoints lie, if it has any."""
        return checkpoint_files.folder_of(self.path, run_id)

    def record(self, run_id: str, events: Sequence[Event]) -> None:
        """Writes events of a run in one transaction; the last one ends the run.

        One that says that the run was resumed drops what was recorded after the step that it goes on from.
        """
        with self._writing() as connection:
            self._row(run_id)
            for event in events:
                if isinstance(event, Started) and event.resumed_step is not None:
                    journal.cut(connection, run_id, event.resumed_step)
            journal.append(connection, run_id, events)
            for event in events:
                self._apply(run_id, event)

    def events(self, run_id: str) -> tuple[Event, ...]:
        """What the worker said in this run, in order, without its samples."""
        with self._failures():
            return journal.events_of(self._connection, run_id)

    def samples(self, run_id: str) -> dict[str, NDArray[Any]]:
        """The run's samples by column, one value a step (`step` int64, the others float64).

        Columns that the run does not have are left out; a run without samples gives an empty dictionary.
        """
        with self._failures():
            columns: dict[str, NDArray[Any]] = {**journal.samples_of(self._connection, run_id)}
        if "step" in columns:
            columns["step"] = columns["step"].astype(np.int64)
        return columns

    def runs(self, limit: int | None = None) -> tuple[RunRecord, ...]:
        """The saved runs, newest first."""
        statement = f"SELECT {RUN_COLUMNS} FROM runs ORDER BY number DESC LIMIT ?"
        return tuple(run_from(row) for row in self._read(statement, (-1 if limit is None else limit,)))

    def run(self, id_or_start: str) -> RunRecord:
        """The run of that id, or the only one whose id starts so. Raises ProblemError."""
        statement = f"SELECT {RUN_COLUMNS} FROM runs WHERE substr(id, 1, ?) = ? ORDER BY number DESC LIMIT 6"
        start = id_or_start.strip().lower()
        rows = self._read(statement, (len(start), start)) if start else []
        if len(rows) == 1:
            return run_from(rows[0])
        if rows:
            ids = ", ".join(row["id"] for row in rows)
            message = f"'{id_or_start}' is the start of more than one run's id: {ids}."
            raise ProblemError(request_problem(message, "Give more of the id.", key="run", value=id_or_start))
        message = f"There is no run whose id starts with '{id_or_start}'."
        raise ProblemError(
            request_problem(message, "See the ids with `ammeter runs`.", key="run", value=id_or_start)
        )

    def claimable(self) -> tuple[RunRecord, ...]:
        """Queued runs, oldest first, that this process may run: its own, and those whose process is gone."""
        queued = [run for run in reversed(self.runs()) if run.status is Status.QUEUED]
        return tuple(run for run in queued if self._may_take(self._owner_of(run.id)))

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name."""
        if not name.strip():
            raise ProblemError(
                request_problem("name is empty.", "Give the run a name.", key="name", value=name)
            )
        with self._writing() as connection:
            self._row(run_id)
            connection.execute("UPDATE runs SET name = ? WHERE id = ?", (name.strip(), run_id))

    def delete(self, run_ids: Iterable[str]) -> None:
        """Deletes runs with their samples and checkpoints, all or none.

        A run that another process trains is refused.
        """
        run_ids = tuple(run_ids)
        with self._writing() as connection:
            for run_id in run_ids:
                row = self._row(run_id)
                owner = Owner.model_validate_json(row["owner"])
                if row["status"] == Status.RUNNING and not self._may_take(owner):
                    message = f"{row['name']} is being trained by another Ammeter."
                    raise ProblemError(request_problem(message, "Stop it there first.", key="run"))
                connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
                connection.execute(
                    "DELETE FROM comparisons WHERE id = :id"
                    " AND NOT EXISTS (SELECT 1 FROM runs WHERE comparison = :id)",
                    {"id": row["comparison"]},
                )
            for run_id in run_ids:
                checkpoint_files.mark(self.checkpoints_folder(run_id))
        for run_id in run_ids:
            checkpoint_files.remove(self.checkpoints_folder(run_id))

    def recover(self) -> tuple[str, ...]:
        """Marks runs whose process is gone as interrupted, with all their samples; their ids.

        What an earlier deletion left of checkpoints is deleted too.
        """
        with self._writing() as connection:
            rows = connection.execute("SELECT id, owner FROM runs WHERE status = 'running'").fetchall()
            gone = [row["id"] for row in rows if Owner.model_validate_json(row["owner"]).is_gone]
            for run_id in gone:
                if journal.ending(connection, run_id) is not None:
                    # it was to be resumed, and never came to it
                    self._put_back(run_id)
                else:
                    self._end(run_id, Status.INTERRUPTED, self.summary_so_far(run_id))
            there = {row["id"] for row in connection.execute("SELECT id FROM runs")}
        for folder in checkpoint_files.marked(self.path):
            if folder.name not in there:
                checkpoint_files.remove(folder)
        return tuple(gone)

    def summary_so_far(self, run_id: str) -> Summary:
        """What the recorded samples and events of a run say, for one that has no summary of its own."""
        with self._failures():
            samples = journal.samples_of(self._connection, run_id)
        return summary_of(self.events(run_id), samples)

    def add_comparison(self, title: str) -> str:
        """A new comparison for runs to belong to; its id."""
        comparison = secrets.token_hex(6)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO comparisons (id, title, created) VALUES (?, ?, ?)",
                (comparison, title, time.time()),
            )
        return comparison

    def comparisons(self) -> tuple[ComparisonRecord, ...]:
        """The comparisons, newest first."""
        rows = self._read("SELECT id, title, created FROM comparisons ORDER BY created DESC")
        return tuple(comparison_from(row) for row in rows)

    def add_probe(
        self,
        experiment: Experiment,
        *,
        granularity: int,
        margin_fraction: float,
        device_name: str,
        series: str | None = None,
    ) -> str:
        """A new search for the largest batch; its id, which is its series' too where none is given."""
        with self._writing() as connection:
            return probes.add(
                connection,
                experiment,
                granularity=granularity,
                margin_fraction=margin_fraction,
                device_name=device_name,
                series=series,
            )

    def record_trial(self, probe_id: str, trial: Trial, budget_mib: float) -> None:
        """Adds a trial to a search."""
        with self._writing() as connection:
            probes.record_trial(connection, probe_id, trial, budget_mib)

    def end_probe(self, probe_id: str, result: ProbeResult) -> None:
        """Writes what a search found."""
        with self._writing() as connection:
            probes.end(connection, probe_id, result)

    def delete_probe(self, probe_id: str) -> None:
        """Deletes a search with its trials."""
        with self._writing() as connection:
            probes.delete(connection, probe_id)

    def probes(self, limit: int | None = None) -> tuple[ProbeRecord, ...]:
        """The searches for the largest batch, newest first."""
        with self._failures():
            return probes.read(self._connection, limit)

    def probe(self, probe_id: str) -> ProbeRecord:
        """The search of that id. Raises ProblemError of kind REQUEST where there is none."""
        with self._failures():
            return probes.read_one(self._connection, probe_id)

    def data_version(self) -> int:
        """A number that changes when another connection has written."""
        return int(self._read("PRAGMA data_version")[0][0])

    def _take(self, run_id: str, assignments: str, values: tuple[object, ...]) -> None:
        with self._writing() as connection:
            row = self._row(run_id)
            owner = Owner.model_validate_json(row["owner"])
            if row["status"] != Status.QUEUED:
                message = f"{row['name']} is {row['status']}, not queued."
                raise ProblemError(request_problem(message, "Start it as a new run.", key="run"))
            if not self._may_take(owner):
                message = f"{row['name']} waits in the queue of another Ammeter."
                raise ProblemError(request_problem(message, "Start it there, or start a new run.", key="run"))
            connection.execute(
                f"UPDATE runs SET {assignments} WHERE id = ?",
                (*values, self._owner.model_dump_json(), run_id),
            )

    def _apply(self, run_id: str, event: Event) -> None:
        if isinstance(event, Started):
            self._connection.execute(
                "UPDATE runs SET experiment = ?, environment = ?, total_steps = ?,"
                " ended = NULL, summary = NULL, problem = NULL, detail = '' WHERE id = ?",
                (event.experiment.to_json(), event.environment.model_dump_json(), event.total_steps, run_id),
            )
        elif isinstance(event, Finished):
            self._end(run_id, resume.status_after(event), self._whole(run_id, event))
        elif isinstance(event, Failed):
            self._end(run_id, Status.FAILED, event.summary or self.summary_so_far(run_id))
            self._connection.execute(
                "UPDATE runs SET problem = ?, detail = ? WHERE id = ?",
                (event.problem.model_dump_json(), event.detail, run_id),
            )

    def _end(self, run_id: str, status: Status, summary: Summary) -> None:
        self._connection.execute(
            "UPDATE runs SET status = ?, ended = ?, summary = ? WHERE id = ?",
            (status, time.time(), summary.model_dump_json(), run_id),
        )
        journal.compact(self._connection, run_id)

    def _whole(self, run_id: str, event: Finished) -> Summary:
        """The summary of all that was recorded: a resumed run, stopped at once, may know of itself alone."""
        told = event.summary
        if not event.stopped:
            return told
        recorded = self.summary_so_far(run_id)
        note = {"speed_note": told.speed_note}
        return recorded.model_copy(update=note) if told.steps < recorded.steps else told

    def _put_back(self, run_id: str) -> None:
        """Makes a run what it was before it was queued again."""
        status = resume.status_after(journal.ending(self._connection, run_id))
        self._connection.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))

    def _row(self, run_id: str) -> sqlite3.Row:
        columns = "name, status, owner, comparison, environment"
        rows = self._read(f"SELECT {columns} FROM runs WHERE id = ?", (run_id,))
        if not rows:
            message = f"Run {run_id} is no longer among the saved runs."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Start it as a new run."))
        return rows[0]

    def _may_take(self, owner: Owner) -> bool:
        return owner == self._owner or owner.is_gone

    def _owner_of(self, run_id: str) -> Owner:
        return Owner.model_validate_json(self._row(run_id)["owner"])

    def _read(self, statement: str, values: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        with self._failures():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; the lock is taken at once, so that what was read in it still holds."""
        connection = self._connection
        with self._failures():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself when the disk is full
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            fail(self.path, error)
