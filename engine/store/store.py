"""The saved runs, in one SQLite file that windows and command lines may share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.experiment.experiment import Experiment
from engine.experiment.paths import store_path
from engine.experiment.problem import Problem, ProblemError
from engine.protocol.events import Event
from engine.store import checkpoints, edits, recording
from engine.store.connection import Connection
from engine.store.journal import SavedPictures
from engine.store.queue import claims
from engine.store.queue.owner import this_process
from engine.store.queue.waiting import Waiting
from engine.store.readings import Readings
from engine.store.record import RunRecord, Status
from engine.store.recording import Twin
from engine.store.saved.studies import Studies
from engine.store.saved.sweeps import Sweeps
from engine.store.whole_runs import WholeRuns


class Store(Readings):
    """A connection to the saved runs: what `Readings` reads, and all that changes them.

    `studies` are the saved limits, numerics, profiles and tunings, `sweeps` the grids of settings,
    `whole_runs` the runs as they travel between stores, `pictures` their training pictures, and `waiting` the
    queue. `notes` are sentences on how the file had to be opened.
    Every method raises ProblemError: of kind STORE when the file cannot be read or written, of kind REQUEST
    for a missing run.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or store_path()
        connection = Connection(self.path)
        super().__init__(connection)
        self.studies = Studies(connection)
        self.sweeps = Sweeps(connection)
        self.whole_runs = WholeRuns(connection)
        self.pictures = SavedPictures(connection)
        self.waiting = Waiting(connection)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._connection.notes

    @property
    def unwritable(self) -> Problem | None:
        """Why nothing can be saved, though the saved runs can be read; None if saving works."""
        return self._connection.unwritable

    def check_writable(self) -> None:
        """Raises ProblemError where nothing can be saved, unless the obstacle is gone by now."""
        self._connection.check_writable()

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
        sweep: str | None = None,
        cell: int | None = None,
        repeat: int | None = None,
    ) -> RunRecord:
        """Adds a queued run of this process; without a name it is "Run N".

        A run of a `sweep` is the `repeat`, from 1, of a `cell`. It replaces a run of that place that did not
        come to its end. Raises ProblemError where that run did, or where a process that lives trains it.
        """
        run_id = secrets.token_hex(6)
        with self._connection.writing() as connection:
            replaced = claims.unfinished_at(connection, sweep, cell, repeat)
            edits.remove(connection, replaced, self.path)
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
            connection.execute(
                "INSERT INTO runs (id, number, name, status, created, experiment, comparison, label, owner,"
                " sweep, cell, repeat) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    number,
                    edits.cleaned_name(name or "") or f"Run {number}",
                    Status.QUEUED,
                    time.time(),
                    experiment.to_json(),
                    comparison,
                    None if label is None else edits.cleaned_name(label),
                    this_process().model_dump_json(),
                    sweep,
                    cell,
                    repeat,
                ),
            )
        edits.remove_files(replaced, self.path)
        return self.run(run_id)

    def begin(self, run_id: str) -> None:
        """Marks a queued run as running in this process."""
        with self._connection.writing() as connection:
            claims.begin(connection, run_id)

    def claim(self, run_id: str) -> RunRecord:
        """Takes over a queued run whose process is gone."""
        with self._connection.writing() as connection:
            claims.claim(connection, run_id)
        return self.run(run_id)

    def requeue(self, run_id: str) -> RunRecord:
        """Queues a run that ended early, to resume from its last checkpoint.

        It keeps its record until it has started again. Raises ProblemError where it cannot resume.
        """
        with self._connection.writing() as connection:
            claims.row_of(connection, run_id)
            claims.queue_again(connection, self.run(run_id), self.checkpoints_folder(run_id))
        return self.run(run_id)

    def withdraw(self, run_id: str) -> None:
        """Takes back a run that waits, or that was refused before it started.

        A new run is deleted; one that was queued again becomes what it was before.
        """
        with self._connection.reading() as connection:
            row = claims.row_of(connection, run_id)
        if Status(row["status"]).is_over:
            return
        if row["environment"] is None:
            self.remove([run_id])
            return
        with self._connection.writing() as connection:
            claims.take_back(connection, run_id)

    def checkpoints_folder(self, run_id: str) -> Path:
        """The folder of the run's checkpoints, if it has any."""
        return checkpoints.folder_of(self.path, run_id)

    def record(self, run_id: str, events: Sequence[Event]) -> None:
        """Writes events of a run in one transaction; the last one ends the run.

        A resumed start drops what was recorded after the step that the run resumes from.
        """
        with self._connection.writing() as connection:
            claims.row_of(connection, run_id)
            recording.take(connection, run_id, events)

    def has(self, run_id: str) -> bool:
        """Whether the run is in the file that is there now."""
        return bool(self._connection.read("SELECT 1 FROM runs WHERE id = ?", (run_id,)))

    def twin(self, run_id: str) -> Twin:
        """A copy of a run, to grow with it. Raises ProblemError where the run is gone."""
        with self._connection.reading() as connection:
            claims.row_of(connection, run_id)
            return Twin(connection, run_id)

    def put_back(self, twin: Twin) -> None:
        """Adds a whole run that was lost with its file."""
        with self._connection.writing() as connection:
            twin.put_into(connection)

    def set_aside(self) -> Path | None:
        """Renames a damaged file and makes a new store in its place; returns the file's path now.

        None where another file lies there now, which stays.
        """
        return self._connection.set_aside()

    def claimable(self) -> tuple[RunRecord, ...]:
        """Queued runs that this process may run, oldest first: its own, and those whose process is gone.

        Without those of sweeps, which train them themselves.
        """
        queued = [run for run in reversed(self.runs()) if run.status is Status.QUEUED and run.sweep is None]
        with self._connection.reading() as connection:
            return tuple(run for run in queued if claims.may_take(claims.row_of(connection, run.id)))

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name."""
        with self._connection.writing() as connection:
            edits.rename(connection, run_id, name)

    def set_tags(self, run_id: str, tags: Iterable[str]) -> None:
        """Gives a run these tags and no others; see `cleaned_tags` for what is kept of them."""
        self.set_all_tags({run_id: tags})

    def set_all_tags(self, tags: Mapping[str, Iterable[str]]) -> None:
        """Gives runs, by id, these tags and no others; all or none."""
        with self._connection.writing() as connection:
            for run_id, run_tags in tags.items():
                edits.set_tags(connection, run_id, run_tags)

    def set_note(self, run_id: str, note: str) -> None:
        """Replaces a run's note; an empty one removes it."""
        with self._connection.writing() as connection:
            edits.set_note(connection, run_id, note)

    def set_pinned(self, run_ids: Iterable[str], is_pinned: bool) -> None:
        """Pins runs to the top of the table, or unpins them; all or none."""
        with self._connection.writing() as connection:
            for run_id in run_ids:
                edits.set_pinned(connection, run_id, is_pinned)

    def set_colour(self, run_ids: Iterable[str], colour: str | None) -> None:
        """Gives runs one of `OWN_COLOURS`, or their precisions' colours with None; all or none."""
        with self._connection.writing() as connection:
            for run_id in run_ids:
                edits.set_colour(connection, run_id, colour)

    def set_folders(self, folders: Mapping[str, str]) -> None:
        """Puts runs, by id, into folders; an empty name is none. All or none."""
        with self._connection.writing() as connection:
            for run_id, folder in folders.items():
                edits.set_folder(connection, run_id, folder)

    def delete(self, run_ids: Iterable[str]) -> None:
        """Deletes runs, all or none, until they are restored or purged.

        A run that another process trains is refused.
        """
        with self._connection.writing() as connection:
            edits.hide(connection, run_ids)

    def restore(self, run_ids: Iterable[str]) -> None:
        """Restores deleted runs, all or none. Raises ProblemError where one was purged."""
        with self._connection.writing() as connection:
            edits.bring_back(connection, run_ids)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Deletes runs for good with their samples and checkpoints, all or none.

        A run that another process trains is refused.
        """
        run_ids = tuple(run_ids)
        with self._connection.writing() as connection:
            for run_id in run_ids:
                edits.check(connection, run_id)
            edits.remove(connection, run_ids, self.path)
        edits.remove_files(run_ids, self.path)

    def purge(self, run_ids: Iterable[str]) -> None:
        """Removes those of the runs that are deleted for good; restored runs stay."""
        with self._connection.writing() as connection:
            gone = edits.still_deleted(connection, run_ids)
            edits.remove(connection, gone, self.path)
        edits.remove_files(gone, self.path)

    def recover(self) -> tuple[str, ...]:
        """Marks runs whose process is gone as interrupted, with all their samples; returns their ids.

        Purges runs deleted more than a day ago, and checkpoints left by an earlier deletion or a kill. Where
        nothing can be saved, only the copy in memory changes.
        """
        try:
            gone = self._close_deserted()
        except ProblemError as error:
            # a full disk shows when something is written
            self._connection.only_read(error)
            gone = self._close_deserted()
        if self.unwritable is None:
            self._clean_up()
        return gone

    def _close_deserted(self) -> tuple[str, ...]:
        with self._connection.changing() as connection:
            forgotten = edits.deleted_before(connection, time.time() - edits.KEPT_SECONDS)
            edits.remove(connection, forgotten, self.path)
            gone = claims.deserted(connection)
            for run_id in gone:
                recording.close_lost(connection, run_id)
        return gone

    def _clean_up(self) -> None:
        with self._connection.reading() as connection:
            saved = {row["id"] for row in connection.execute("SELECT id FROM runs")}
            at_work = claims.at_work(connection)
        for folder in checkpoints.marked(self.path):
            if folder.name not in saved:
                checkpoints.remove(folder)
        checkpoints.remove_parts(self.path, saved - at_work)
        self.studies.clean_up()

    def add_comparison(self, title: str) -> str:
        """Adds a comparison for runs to belong to; returns its id."""
        comparison = secrets.token_hex(6)
        with self._connection.writing() as connection:
            edits.add_comparison(connection, comparison, edits.cleaned_name(title))
        return comparison
