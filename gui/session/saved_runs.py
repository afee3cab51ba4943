"""The window's saved runs: their records, and their curves on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from PySide6.QtCore import QObject, QTimer, Signal

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem, ProblemError
from engine.store.record import RunRecord, Status, UnreadableRun
from engine.store.store import Store
from gui.session.background import attempt
from gui.session.live_run import LiveRun

_WATCH_MS = 2_000
_MOST_KEPT = 16
"""The number of last used runs whose curves are kept although they are not shown."""
_T = TypeVar("_T")


class SavedRuns(QObject):
    """The saved runs of the store. Curves are kept in memory only for runs shown or opened last."""

    list_changed = Signal()  # runs were added or removed
    run_changed = Signal(str)  # run id: its figures or status
    problem = Signal(object)  # Problem: the store refuses

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._records: dict[str, RunRecord] = {}
        self._compared: dict[str | None, list[str]] = {}
        """The runs of each comparison, as they were queued."""
        self._unreadable: dict[str, UnreadableRun] = {}
        # curves take megabytes: what is shown is held there, and else only the last ones stay
        self._live: WeakValueDictionary[str, LiveRun] = WeakValueDictionary()
        self._recent: dict[str, LiveRun] = {}
        self._deleted: set[str] = set()
        self._version = store.data_version()
        self._failing: Problem | None = None
        self._watch = QTimer(self, interval=_WATCH_MS)
        self._watch.timeout.connect(self._check_for_changes)

    @property
    def unwritable(self) -> Problem | None:
        """Return why nothing can be saved. None if the store is writable."""
        return self._store.unwritable

    @property
    def moved(self) -> str:
        """A sentence on an older store that was in the place of this one, or ""."""
        return self._store.moved

    @property
    def store_path(self) -> Path:
        return self._store.path

    def try_to_write(self) -> None:
        """Test whether the store is writable again, and read it again if so."""
        if attempt(self._store.check_writable, self.problem):
            self.recover()

    def recover(self) -> tuple[str, ...]:
        """Read the saved runs, mark those that a killed program left running, and return their names.

        Raises ProblemError if the runs cannot be read.
        """
        recovered = self._store.recover()
        self._store.listing()
        self.reload()
        return tuple(self.name(run_id) for run_id in recovered)

    def watch(self, does_watch: bool) -> None:
        """Start or stop to check every other second for changes by another window or command line."""
        if does_watch:
            self._watch.start()
        else:
            self._watch.stop()

    def records(self) -> tuple[RunRecord, ...]:
        """Return all runs, newest first."""
        return tuple(self._records.values())

    def record(self, run_id: str) -> RunRecord | None:
        return self._records.get(run_id)

    def precision_seen(self, name: str, experiment: Experiment) -> Precision | None:
        """Return the precision seen in the last finished run of a command labeled `name`. None if unknown."""
        for run in self._records.values():
            # a name is cheap to compare, the settings of 10,000 runs are not
            if run.label == name and run.status is Status.FINISHED:
                with suppress(ProblemError):
                    if run.experiment.command.sha256 == experiment.command.sha256:
                        return run.experiment.precision
        return None

    def unreadable(self) -> tuple[UnreadableRun, ...]:
        """Return the saved runs that are not in the list: damaged, or written by another version."""
        return tuple(self._unreadable.values())

    def deleted(self) -> tuple[str, ...]:
        """Return the ids of deleted runs that can still be restored, of other windows too."""
        return self._store.deleted()

    def contains(self, run_id: str) -> bool:
        """Return True if the run is saved, readable or not."""
        return run_id in self._records or run_id in self._unreadable

    def name(self, run_id: str) -> str:
        """Return the name of the run. Raises KeyError for an unknown id."""
        run = self._records.get(run_id)
        return self._unreadable[run_id].name if run is None else run.title

    def group(self, run_id: str) -> tuple[str, ...]:
        """Return the runs of the run's comparison, the baseline first.

        Of repeats, only runs with its seed are included. A run of a sweep is returned alone.
        """
        run = self._records[run_id]
        if run.sweep is not None:
            return (run_id,)
        return tuple(
            mate.id
            for side in self._sides(run).values()
            for mate in side
            if len(side) == 1 or mate.experiment.seed == run.experiment.seed
        )

    def position(self, run_id: str) -> tuple[int, int]:
        """Return the run's number in its comparison and the count, (1, 1) for a single run."""
        mates = [mate.id for mate in self._mates(self._records[run_id])]
        return mates.index(run_id) + 1, len(mates)

    def repeat_position(self, run_id: str) -> tuple[int, int]:
        """Return the run's repeat and the number of repeats, (1, 1) for a single run."""
        run = self._records[run_id]
        side = self._sides(run)[run.label or run.id]
        seeds = sorted(mate.experiment.seed for mate in side)
        return seeds.index(run.experiment.seed) + 1, len(side)

    def latest_repeat(self, run_id: str) -> str | None:
        """Return the latest finished run of the run's side of its comparison, or None."""
        run = self._records[run_id]
        side = self._sides(run)[run.label or run.id]
        ended = [mate for mate in side if mate.status is Status.FINISHED and mate.ended is not None]
        return max(ended, key=lambda mate: mate.ended or mate.created).id if ended else None

    def live(self, run_id: str) -> LiveRun:
        """Return the run's curves, growing or stored. Raises ProblemError for damaged ones."""
        live = self._live.get(run_id)
        if live is None:
            live = self._live[run_id] = self._load(run_id)
        self._recent.pop(run_id, None)
        self._recent[run_id] = live
        while len(self._recent) > _MOST_KEPT:
            del self._recent[next(iter(self._recent))]
        return live

    def opened(self, run_id: str) -> LiveRun | None:
        """Return the run's curves, if they are held already."""
        return self._live.get(run_id)

    def _forget(self, run_id: str) -> None:
        self._live.pop(run_id, None)
        self._recent.pop(run_id, None)

    def rename(self, run_id: str, name: str) -> None:
        self._change([run_id], lambda: self._store.rename(run_id, name))

    def set_tags(self, tags: Mapping[str, Sequence[str]]) -> None:
        """Replace the tags of runs, by id."""
        self._change(None, lambda: self._store.set_all_tags(tags))

    def set_note(self, run_id: str, note: str) -> None:
        """Set a run's note. Empty for none."""
        self._change([run_id], lambda: self._store.set_note(run_id, note))

    def set_pinned(self, run_ids: Sequence[str], is_pinned: bool) -> None:
        """Pin or unpin runs."""
        self._change(run_ids, lambda: self._store.set_pinned(run_ids, is_pinned))

    def delete(self, run_ids: Sequence[str]) -> bool:
        """Delete runs until they are restored or purged. Return False if the store fails."""
        if is_done := attempt(lambda: self._store.delete(run_ids), self.problem):
            self._deleted.update(run_ids)
            for run_id in run_ids:
                self._forget(run_id)
        self.reload()
        return is_done

    def restore(self, run_ids: Sequence[str]) -> bool:
        """Restore deleted runs. Return False if the store fails."""
        if is_done := attempt(lambda: self._store.restore(run_ids), self.problem):
            self._deleted.difference_update(run_ids)
        self.reload()
        return is_done

    def purge(self, run_ids: Sequence[str] | None = None) -> None:
        """Remove deleted runs from the store permanently. Without ids, remove all that were deleted here."""
        gone = set(self._deleted if run_ids is None else run_ids)
        if gone:
            attempt(lambda: self._store.purge(gone), self.problem)
            self._deleted -= gone

    def withdraw(self, *run_ids: str) -> None:
        """Withdraw queued runs: new ones are deleted, resumed ones are as they were before."""
        for run_id in run_ids:
            attempt(partial(self._store.withdraw, run_id), self.problem)
        if run_ids:
            self.reload()
        for run_id in run_ids:
            record, live = self._records.get(run_id), self._live.get(run_id)
            if record is None:
                self._forget(run_id)
            elif live is not None:
                live.set_status(record.status.value, record.summary, record.problem)

    def refresh(self, run_id: str) -> None:
        """Read a run again."""
        is_known = run_id in self._records
        try:
            self._records[run_id] = self._store.run(run_id)
        except ProblemError:
            # refused before it began and deleted by the runner, or unreadable
            self.reload()
            return
        if not is_known:
            self._group()
        self.run_changed.emit(run_id)

    def reload(self) -> None:
        """Read the list again. It does not change if the store cannot be read."""
        listing = self._read(self._store.listing)
        if listing is None:
            return
        self._records = {record.id: record for record in listing.runs}
        self._unreadable = {run.id: run for run in listing.unreadable}
        self._group()
        self.list_changed.emit()

    def _group(self) -> None:
        # the queue asks every second, for each of its runs
        self._compared = {}
        for record in sorted(self._records.values(), key=lambda record: record.number):
            if record.comparison is not None:
                self._compared.setdefault(record.comparison, []).append(record.id)

    def _sides(self, run: RunRecord) -> dict[str, list[RunRecord]]:
        """Return the runs of the run's comparison by label, in the order in which they were queued."""
        sides: dict[str, list[RunRecord]] = {}
        for mate in self._mates(run):
            sides.setdefault(mate.label or mate.id, []).append(mate)
        return sides

    def _mates(self, run: RunRecord) -> list[RunRecord]:
        """Return the runs of the run's comparison, as they were queued, or the single run."""
        return [self._records[run_id] for run_id in self._compared.get(run.comparison, (run.id,))]

    def _change(self, run_ids: Sequence[str] | None, do: Callable[[], object]) -> bool:
        is_done = attempt(do, self.problem)
        # reading thousands of runs for the sake of a single one would be felt
        if run_ids is not None and len(run_ids) == 1:
            self.refresh(run_ids[0])
        else:
            self.reload()
        return is_done

    def _load(self, run_id: str) -> LiveRun:
        record = self._records[run_id]
        live = LiveRun.queued(run_id, record.experiment, record.label)
        live.add_all(self._store.events(run_id))
        live.set_curves(self._store.curves(run_id))
        live.set_status(record.status.value, record.summary, record.problem)
        live.detail = record.detail
        return live

    def _check_for_changes(self) -> None:
        version = self._read(self._store.data_version)
        if version is not None and version != self._version:
            self._version = version
            self.reload()

    def _read(self, read: Callable[[], _T]) -> _T | None:
        """Return the result of `read`. None if it fails, which is reported once until reading works again."""
        try:
            result = read()
        except ProblemError as error:
            if error.problem != self._failing:
                self._failing = error.problem
                self.problem.emit(error.problem)
            return None
        self._failing = None
        return result
