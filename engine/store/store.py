"""The saved runs, in one SQLite file that windows and command lines may share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from engine.experiment.experiment import Experiment
from engine.experiment.paths import store_path
from engine.experiment.problem import Problem, ProblemError, request_error
from engine.protocol.events import Event, is_last
from engine.protocol.jobs import RemotePlace
from engine.store import checkpoints, journal
from engine.store.connection import Connection, UnwritableError
from engine.store.queue import (
    Waiting,
    can_take_over,
    check_queued,
    drop_remote_place,
    is_deserted,
    leave,
    owner_row,
    remote_place_of,
    save_remote_place,
    this_owner,
)
from engine.store.record import RunRecord, Status
from engine.store.runs import KEPT_SECONDS, RunTable, add_comparison, cleaned_name
from engine.store.saved import whole_runs
from engine.store.saved.studies import StudyTable
from engine.store.saved.sweeps import SweepTable
from engine.store.saved.whole_runs import ImportedRun, WholeRun
from engine.store.schema import insert, seal


class Store(RunTable):
    """The saved runs, studies, sweeps and queue. Reads, edits and records runs.

    `studies` has batch-size searches, numerics studies, profiles and tunings, and `waiting` is the queue.
    `notes` are sentences on how the file was opened. Every method raises ProblemError: of kind STORE when the
    file cannot be read or written, of kind REQUEST for an unknown run.
    """

    def __init__(self, path: Path | None = None) -> None:
        path = path or store_path()
        connection = Connection(path)
        super().__init__(connection, path)
        self.studies = StudyTable(connection)
        self.sweeps = SweepTable(connection)
        self.waiting = Waiting(connection)
        self.check_writable, self.close = connection.check_writable, connection.close

    @property
    def notes(self) -> tuple[str, ...]:
        return self._connection.notes

    @property
    def moved(self) -> str:
        """A sentence on an older file that was set aside for this one, or "" if there was none."""
        return self._connection.moved

    @property
    def unwritable(self) -> Problem | None:
        """The problem that prevents saving while runs can still be read, or None if saving works."""
        return self._connection.unwritable

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self,
        experiment: Experiment,
        *,
        name: str | None = None,
        comparison: str | None = None,
        label: str | None = None,
        sweep: str | None = None,
        cell: int | None = None,
        repeat: int | None = None,
        machine: str = "",
    ) -> RunRecord:
        """Add a queued run of this process. Without a name it is "Run N".

        A run of a `sweep` is the `repeat` (1-based) of a `cell`. It replaces an unfinished run of that place.
        One that still trains on a remote `machine` is returned as it is. Raises ProblemError if the place has
        a finished run, or one that another running process trains.
        """
        run_id = secrets.token_hex(6)
        with self._connection.writing() as connection:
            rows = connection.execute(
                "SELECT id, name, status, owner FROM runs"
                " WHERE sweep = ? AND cell = ? AND repeat = ? AND deleted IS NULL",
                (sweep, cell, repeat),
            ).fetchall()
            for row in rows:
                status = Status(row["status"])
                has_ended = status in (Status.FINISHED, Status.FAILED)
                if not has_ended and can_take_over(row["owner"]) and remote_place_of(connection, row["id"]):
                    return self.run(row["id"])
                if has_ended or not (status.is_over or can_take_over(row["owner"])):
                    message = f"{row['name']} is {status} and already has this place in the sweep."
                    raise request_error(message, "Delete it first.", key="sweep", value=sweep)
            replaced = [row["id"] for row in rows]
            self._drop(connection, replaced)
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
            insert(
                connection,
                "runs",
                id=run_id,
                number=number,
                status=Status.QUEUED,
                created=time.time(),
                name=cleaned_name(name or "") or f"Run {number}",
                experiment=experiment.to_json(),
                label=None if label is None else cleaned_name(label),
                owner=this_owner(),
                comparison=comparison,
                sweep=sweep,
                cell=cell,
                repeat=repeat,
                machine=machine,
            )
            seal(connection, "runs", run_id)
        self._drop_files(replaced)
        return self.run(run_id)

    def begin(self, run_id: str) -> None:
        """Mark a queued run as running in this process."""
        with self._connection.writing() as connection:
            check_queued(connection, run_id)
            connection.execute(
                "UPDATE runs SET status = ?, started = coalesce(started, ?), owner = ? WHERE id = ?",
                (Status.RUNNING, time.time(), this_owner(), run_id),
            )
            leave(connection, run_id)

    def take_over(self, run_id: str) -> RemotePlace | None:
        """Take over a run on a remote machine from an ended process, and return its place. Return None for
        any other run. Raises ProblemError if a running process is connected to it."""
        with self._connection.writing() as connection:
            row = owner_row(connection, run_id)
            place = remote_place_of(connection, run_id) if row["status"] == Status.RUNNING else None
            if place is None:
                return None
            if not can_take_over(row["owner"]):
                message = f"{row['name']} is connected to another instance of Ammeter."
                raise request_error(message, "Close it there first.", key="run")
            connection.execute("UPDATE runs SET owner = ? WHERE id = ?", (this_owner(), run_id))
            leave(connection, run_id)
        return place

    def close_lost(self, run_id: str) -> None:
        """End a run whose remote worker is gone as interrupted, with all its samples."""
        with self._connection.writing() as connection:
            drop_remote_place(connection, run_id)
            journal.close_lost(connection, run_id)

    def requeue(self, run_id: str) -> RunRecord:
        """Queue a run to resume from its last checkpoint, with its record so far. Raises ProblemError."""
        with self._connection.writing() as connection:
            owner_row(connection, run_id)
            if problem := checkpoints.obstacle(self.run(run_id), self.checkpoints_folder(run_id)):
                raise ProblemError(problem)
            statement = "UPDATE runs SET status = ?, owner = ? WHERE id = ?"
            connection.execute(statement, (Status.QUEUED, this_owner(), run_id))
        return self.run(run_id)

    def withdraw(self, run_id: str) -> None:
        """Withdraw a queued or refused run: delete a new run, or restore the earlier state of another."""
        with self._connection.reading() as connection:
            row = owner_row(connection, run_id)
        if Status(row["status"]).is_over:
            return
        with self._connection.writing() as connection:
            drop_remote_place(connection, run_id)
        if row["environment"] is None:
            self.remove([run_id])
            return
        with self._connection.writing() as connection:
            row = owner_row(connection, run_id)
            if not can_take_over(row["owner"]):
                message = f"{row['name']} belongs to another instance of Ammeter."
                raise request_error(message, "Remove it from the queue there.", key="run")
            journal.put_back(connection, run_id)
            leave(connection, run_id)

    def record(self, run_id: str, events: Sequence[Event], place: RemotePlace | None = None) -> None:
        """Write events of a run in one transaction, with the place up to which they were read on a remote
        machine. The last event ends the run.

        A resumed start drops everything recorded after the step that the run resumes from.
        """
        with self._connection.writing() as connection:
            owner_row(connection, run_id)
            journal.write_events(connection, run_id, events)
            if events and is_last(events[-1]):
                drop_remote_place(connection, run_id)
            elif place is not None:
                save_remote_place(connection, run_id, place)

    def set_remote_place(self, run_id: str, place: RemotePlace) -> None:
        """Save where a run trains on a remote machine, on which it continues without this process."""
        with self._connection.writing() as connection:
            owner_row(connection, run_id)
            save_remote_place(connection, run_id, place)

    def remote_place(self, run_id: str) -> RemotePlace | None:
        """Return where a run trains on a remote machine, or None if it does not."""
        with self._connection.reading() as connection:
            return remote_place_of(connection, run_id)

    def remote_runs(self, machine: str) -> tuple[str, ...]:
        """Return the ids of the runs on a remote machine, whether or not a process is connected to them."""
        statement = (
            "SELECT id FROM runs JOIN kept_runs ON run = id WHERE kept_runs.machine = ? AND deleted IS NULL"
            " ORDER BY number"
        )
        return tuple(row["id"] for row in self._connection.read(statement, (machine,)))

    def disconnected_runs(self) -> tuple[str, ...]:
        """Return the ids of runs on remote machines without a connected process, except those of sweeps."""
        statement = (
            "SELECT id, owner FROM runs JOIN kept_runs ON run = id WHERE deleted IS NULL AND sweep IS NULL"
            " AND status = 'running' ORDER BY number"
        )
        return tuple(row["id"] for row in self._connection.read(statement) if can_take_over(row["owner"]))

    def has(self, run_id: str) -> bool:
        """Return True if the run is in the present file."""
        return bool(self._connection.read("SELECT 1 FROM runs WHERE id = ?", (run_id,)))

    def import_runs(self, runs: Iterable[WholeRun]) -> tuple[ImportedRun, ...]:
        """Add all runs from another store, or none. See `whole_runs.add`."""
        with self._connection.writing() as connection:
            return whole_runs.add(connection, runs)

    def recover(self) -> tuple[str, ...]:
        """Mark runs whose process has ended as interrupted, with all their samples, and return their ids.

        Purges runs deleted more than a day ago, and checkpoints left by an earlier deletion or a kill. Where
        nothing can be saved, nothing changes.
        """
        if self.unwritable is not None:
            return ()
        try:
            gone = self._close_deserted()
        except UnwritableError as error:
            # a full disk shows when something is written
            self._connection.only_read(error)
            return ()
        self._clean_up()
        return gone

    def _close_deserted(self) -> tuple[str, ...]:
        with self._connection.writing() as connection:
            before = (time.time() - KEPT_SECONDS,)
            forgotten = connection.execute("SELECT id FROM runs WHERE deleted < ?", before).fetchall()
            self._drop(connection, [row["id"] for row in forgotten])
            # one that trains on another machine goes on there, and is read on
            statement = (
                "SELECT id, owner FROM runs WHERE status = 'running' AND deleted IS NULL"
                " AND id NOT IN (SELECT run FROM kept_runs)"
            )
            running = connection.execute(statement).fetchall()
            gone = tuple(row["id"] for row in running if is_deserted(row["owner"]))
            for run_id in gone:
                journal.close_lost(connection, run_id)
        return gone

    def _clean_up(self) -> None:
        def is_idle(run_id: str) -> bool:
            rows = self._connection.read("SELECT status, owner FROM runs WHERE id = ?", (run_id,))
            return any(Status(row["status"]).is_over or is_deserted(row["owner"]) for row in rows)

        for folder in checkpoints.marked(self.path):
            if not self.has(folder.name):
                checkpoints.remove(folder)
        checkpoints.remove_parts(self.path, is_idle)
        self.studies.clean_up()

    def add_comparison(self, title: str) -> str:
        """Add a comparison, and return its id."""
        comparison = secrets.token_hex(6)
        with self._connection.writing() as connection:
            add_comparison(connection, comparison, cleaned_name(title))
        return comparison
