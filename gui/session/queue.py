"""The queue of the window: running and waiting work, and work that an earlier window left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.experiment.checks import Catalog
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.sweep import check_seeds
from engine.protocol.events import Failed
from engine.store.queue import RUN, WaitingItem
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.items import ItemFactory, QueueItem, describe_work
from gui.session.jobs import QueuedJob, read_job, work_key
from gui.session.saved_runs import SavedRuns
from gui.session.work import Jobs

Undo = Callable[[], None]


class Queue(QObject):
    """The window's queue of runs and jobs. It is saved at every change, so a later window can continue it."""

    changed = Signal()  # other work waits or is in progress
    finished = Signal(str)  # a sentence on what was done, when nothing is left that can begin
    problem = Signal(object)  # Problem with the store

    def __init__(
        self,
        store: Store,
        thread: EngineThread,
        runs: SavedRuns,
        jobs: Mapping[str, Jobs[Any]],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._thread, self._runs, self._jobs = store, thread, runs, jobs
        self._list = thread.waiting_list
        self.is_held = self._list.is_held
        self._kind: str | None = None
        """The kind of the current job."""
        self._done: list[str] = []
        self._failed = self._ended = 0
        self.factory = ItemFactory(runs, jobs)
        self._has_engine = True
        thread.catalog_read.connect(self._on_catalog)
        for told in (thread.queue_changed, thread.run_began, thread.job_yielded):
            told.connect(self.changed)
        thread.job_began.connect(self._on_job_began)
        thread.run_ended.connect(self._on_run_ended)
        thread.job_ended.connect(self._on_job_ended)

    def load(self) -> None:
        """Restore held work of an earlier window, and whether its queue was paused."""
        with self._reporting():
            left = self.left()
            if self._store.waiting.rests:
                self.is_paused = bool(left)
            self.enqueue_left([item for item in left if item.is_paused])

    @property
    def has_work(self) -> bool:
        """Return True if work is running or can start."""
        return self._list.current is not None or self._list.has_next()

    @property
    def has_engine(self) -> bool:
        """Return True if PyTorch is installed and not being installed now. Without it, all work waits."""
        return self._has_engine

    @has_engine.setter
    def has_engine(self, has_engine: bool) -> None:
        self._has_engine = has_engine
        self.changed.emit()

    def items(self) -> tuple[QueueItem, ...]:
        """Return the work in progress, then the waiting work in order."""
        current, entries = self._list.current, self._list.entries()
        shown = [
            self.factory.make(entry.work, is_paused=entry.is_held, is_running=entry.work is current)
            for entry in entries
        ]
        if current is not None and all(entry.work is not current for entry in entries):
            shown.insert(0, self.factory.make(current, is_running=True))
        return tuple(shown)

    def move(self, key: str, before: str | None) -> None:
        """Move waiting work before other work, or to the end. Before the running work means first."""
        all_keys = self._list.keys()
        keys = [other for other in all_keys if other != key]
        if key not in all_keys or before == key:
            return
        current = self._list.current
        is_first = current is not None and before == work_key(current) and before not in keys
        place = 0 if is_first else keys.index(before) if before in keys else len(keys)
        self._arrange((*keys[:place], key, *keys[place:]))

    def run_next(self, key: str) -> None:
        """Move work to the front and release it. A running sweep yields to it."""
        if self._list.is_held(key):
            self.set_held(key, False)
        self.move(key, next(iter(self._list.keys()), None))

    def set_held(self, key: str, is_held: bool) -> None:
        """Hold work until it is released. The queue skips held work."""
        with self._reporting():
            self._store.waiting.pause(key, is_held)
            self._list.set_held(key, is_held)
        self.changed.emit()

    def repeat(self, key: str) -> None:
        """Queue the same work again: a run with the next seed, so that both are repeats in Compare."""
        work = self._list.work(key)
        with self._reporting():
            if isinstance(work, str) and (record := self._runs.record(work)) is not None:
                self._repeat_run(record)
            elif isinstance(work, QueuedJob):
                self._jobs[work.kind].submit_again(work)
        self.changed.emit()

    def remove(self, key: str) -> Undo | None:
        """Remove waiting work. Return a function that puts it back, or None if it is not waiting."""
        work, keys = self._list.work(key), self._list.keys()
        is_held = self._list.is_held(key)
        if work is None or work is self._list.current:
            return None
        if isinstance(work, QueuedJob):
            jobs = self._jobs[work.kind]
            jobs.stop(key)
            back: Callable[[], object] = lambda: jobs.submit_job(work)  # noqa: E731
        elif (requeue := self._remove_run(work)) is not None:
            back = requeue
        else:
            return None
        # the thread's own signal came before the run left the store
        self.changed.emit()

        def undo() -> None:
            with self._reporting():
                back()
                self._arrange(keys)
                self.set_held(key, is_held)

        return undo

    @property
    def is_paused(self) -> bool:
        """Return True if no work starts after the current one, until the queue is resumed."""
        return self._list.is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        with self._reporting():
            self._list.is_paused = is_paused
            self._store.waiting.rests = is_paused
        self.changed.emit()

    def resume(self) -> None:
        """Start the waiting work, one after another."""
        self.is_paused = False

    def left(self, *, tells: bool = True) -> tuple[WaitingItem, ...]:
        """Return the work that an earlier window left in the queue, and runs in no queue, next first.

        Return nothing if the store fails, which is reported if `tells`.
        """
        mine = {*self._list.keys(), *([work_key(self._list.current)] if self._list.current else [])}
        with self._reporting() if tells else suppress(ProblemError):
            return tuple(item for item in self._store.waiting.claimable() if item.key not in mine)
        return ()

    def enqueue_left(self, items: Sequence[WaitingItem], *, is_held: bool | None = None) -> None:
        """Queue work that an earlier window left. `is_held` overrides whether it is held."""
        wanted: dict[WaitingItem, QueuedJob | None] = {}
        for item in items if is_held is None else [replace(item, is_paused=is_held) for item in items]:
            with self._reporting():
                wanted[item] = None if item.kind == RUN else read_job(item)
        with self._reporting():
            # another window may be quicker, or a run be deleted meanwhile: the others are taken up
            for problem in self._store.waiting.claim(list(wanted)):
                self.problem.emit(problem)
            mine = set(self._store.waiting.keys())
            for item, job in wanted.items():
                if item.key in mine and job is None:
                    self._list.add(item.key, is_held=item.is_paused, machine=item.machine)
                elif item.key in mine and job is not None:
                    self._jobs[job.kind].enqueue(job, is_held=item.is_paused)
        self._runs.reload()
        self.changed.emit()

    def discard(self, items: Sequence[WaitingItem]) -> None:
        """Remove work that an earlier window left. New runs are deleted, others return to their old state."""
        with self._reporting():
            self._store.waiting.remove([item.key for item in items])
        for item in items:
            if item.kind == RUN:
                self._runs.withdraw(item.key)
        self.changed.emit()

    def enqueue_runs(self, run_ids: Sequence[str], *, goes_first: bool = False) -> None:
        """Add runs of one machine that are queued in the store, at the end or at the front.

        Raises ProblemError if the store refuses.
        """
        record = self._runs.record(run_ids[0])
        machine = "" if record is None else record.machine
        self._store.waiting.add(
            [WaitingItem(run_id, RUN, self._runs.name(run_id), machine=machine) for run_id in run_ids],
            goes_first=goes_first,
        )
        self._thread.enqueue(tuple(run_ids), machine, goes_first=goes_first)

    def _arrange(self, keys: Sequence[str]) -> None:
        with self._reporting():
            self._store.waiting.arrange(keys)
            self._list.arrange(keys)
        self.changed.emit()

    def _repeat_run(self, record: RunRecord) -> None:
        experiment = record.experiment
        seed = max(run.experiment.seed for run in self._runs.records() if _are_repeats(run, record))
        check_seeds([("", experiment.model_copy(update={"seed": seed}))], 2)
        again = self._store.add(
            experiment.model_copy(update={"seed": seed + 1}),
            name=record.name if record.has_own_name else None,
            comparison=record.comparison,
            label=record.label,
            machine=record.machine,
        )
        self._runs.reload()
        self.enqueue_runs([again.id])

    def _remove_run(self, run_id: str) -> Undo | None:
        record = self._runs.record(run_id)
        if not self._thread.dequeue(run_id):
            return None
        if record is not None and record.started is not None:
            self._runs.withdraw(run_id)
            requeue: Callable[[], object] = lambda: self._store.requeue(run_id)  # noqa: E731
        else:
            self._runs.delete([run_id])
            requeue = lambda: self._runs.restore([run_id])  # noqa: E731

        def back() -> None:
            requeue()
            self._runs.reload()
            self.enqueue_runs([run_id])

        return back

    def _on_catalog(self, catalog: Catalog) -> None:
        self.factory.catalog = catalog
        self.changed.emit()

    def _on_job_began(self, key: str) -> None:
        self._kind = next((kind for kind, work in self._jobs.items() if work.running == key), None)
        self.changed.emit()

    def _on_run_ended(self, _run_id: str, last: object) -> None:
        self._end(RUN, has_failed=isinstance(last, Failed))

    def _on_job_ended(self, _key: str, problem: Problem | None) -> None:
        self._end(self._kind, has_failed=problem is not None)

    def _end(self, kind: str | None, *, has_failed: bool) -> None:
        # None: the job was deleted as it started
        if kind is not None:
            self._done.append(kind)
            self._failed += has_failed
        self._ended += 1
        self.changed.emit()
        # the engine's thread may be further than its signals
        if self._ended == self._list.ended and not self.has_work and self._done:
            self.finished.emit(_done_sentence(self._done, self._failed, len(self._list.keys())))
            self._done, self._failed = [], 0

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report errors of the store."""
        try:
            yield
        except ProblemError as error:
            self.problem.emit(error.problem)


_SETTINGS = 6
"""The number of leading fields of a run's overview that are settings."""


def _are_repeats(run: RunRecord, other: RunRecord) -> bool:
    """Return True if the runs differ only in the seed. The overview is compared first, as it is fast."""
    return run.overview[:_SETTINGS] == other.overview[
        :_SETTINGS
    ] and run.experiment == other.experiment.model_copy(update={"seed": run.experiment.seed})


def _done_sentence(kinds: Sequence[str], failed: int, waiting: int) -> str:
    what = describe_work(kinds)
    words = f"{what[:1].upper()}{what[1:]} {'is' if len(kinds) == 1 else 'are'} done."
    words += f" {failed:,} failed." if failed else ""
    return f"{words} {waiting:,} still waiting." if waiting else words
