"""The queue of the engine thread, and its jobs other than runs: waiting, saving and execution."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.limit.driver import LimitDriver
from engine.numerics.driver import NumericsDriver
from engine.profile.driver import ProfileDriver
from engine.protocol.events import Failed, Finished
from engine.store.queue import WaitingItem
from engine.store.saved.studies import ANSWERS, Study, new_id
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Launcher

SWEEP = "sweep"
DRIVERS: Mapping[str, type[Driver[Any]]] = {
    "limit": LimitDriver,
    "numerics": NumericsDriver,
    "profile": ProfileDriver,
    "tune": TuneDriver,
}
"""The driver of each kind of study."""

_DETAILS = {
    "limit": "Largest batch",
    "numerics": "Numerics",
    "profile": "Profile",
    SWEEP: "Sweep",
    "tune": "Tuning",
}


@runtime_checkable
class Pausable(Protocol):
    """A job in progress that any thread can pause after its current step, and resume."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


@dataclass(frozen=True)
class QueuedJob:
    """A study or sweep in the queue. Its unique `key` is also its id in the store.

    `study` is None for a sweep, whose settings are in the store. `title` names the job. `machine` is the name
    of the machine that it runs on, "" for this one.
    """

    key: str
    kind: str
    title: str
    study: Study[Any] | None = None
    machine: str = ""

    @classmethod
    def of(cls, study: Study[Any]) -> QueuedJob:
        return cls(study.id, study.kind, study.title, study, study.machine)

    @property
    def detail(self) -> str:
        """Return the description in the queue."""
        return _DETAILS[self.kind]

    @property
    def is_resumable(self) -> bool:
        """Return True if the job can resume where it stopped, after it yielded or the program ended."""
        return self.kind == SWEEP or DRIVERS[self.kind].keeps_place

    def item(self) -> WaitingItem:
        """Return the job as it is saved while it waits. `read_job` is the inverse."""
        request = "" if self.study is None else self.study.answer.model_dump_json()
        return WaitingItem(self.key, self.kind, self.title, request, machine=self.machine)

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Driver[Any] | Sweeper:
        """Return the driver that carries out the job."""
        driver = Sweeper if self.study is None else DRIVERS[self.kind]
        return driver(store, launcher, catalog)

    def execute(
        self,
        tool: Driver[Any] | Sweeper,
        store: Store,
        report: Callable[[object], None],
        is_stopped: Callable[[], bool],
        should_yield: Callable[[], bool],
    ) -> Problem | None:
        """Carry out the job and pass its events to `report`. Return the problem that ended it early, if any.

        A job that can resume calls `should_yield` between its turns, and returns early if it must yield.
        """
        problem: Problem | None = None
        try:
            for event in self._events(tool, store, should_yield):
                report(event)
                if is_stopped() and not isinstance(event, Finished | Failed):
                    # asked again: the request may have come before the work had begun
                    tool.stop()
                if isinstance(event, Failed):
                    problem = event.problem
                if isinstance(event, TurnEnded):
                    # what failed was one turn of a sweep, which goes on
                    problem = None
        except ProblemError as error:
            report(Failed(problem=error.problem))
            problem = error.problem
        return problem

    def _events(
        self, tool: Driver[Any] | Sweeper, store: Store, should_yield: Callable[[], bool]
    ) -> Iterator[object]:
        if isinstance(tool, Sweeper):
            return tool.run(self.key, should_yield)
        assert self.study is not None
        # another window may have gone on with it since it was ordered
        known = store.studies.find(self.key) if store.studies.starting(self.key) else self.study
        return tool.follow(known, should_yield)


def renewed(job: QueuedJob) -> QueuedJob:
    """Return a new job with the same question."""
    assert job.study is not None
    return QueuedJob.of(Study(answer=job.study.answer.afresh(), id=new_id(), machine=job.machine))


def read_job(item: WaitingItem) -> QueuedJob:
    """Return the job of a saved item. Raises ProblemError if another version of Ammeter wrote it."""
    job = QueuedJob(item.key, item.kind, item.title, machine=item.machine)
    if item.kind == SWEEP:
        return job
    try:
        answer = ANSWERS[item.kind].model_validate_json(item.request)  # type: ignore[index]
    except (KeyError, ValueError):
        message = f"“{item.title}” cannot be read from the queue: another version of Ammeter wrote it."
        raise ProblemError(
            Problem(kind=Kind.STORE, message=message, remedy="Remove it and add it again.")
        ) from None
    return replace(job, study=Study(id=item.key, answer=answer, machine=item.machine))


Work = str | QueuedJob


def work_key(work: Work) -> str:
    """Return a run's id, or a job's key."""
    return work if isinstance(work, str) else work.key


@dataclass
class Entry:
    """An entry of the queue: a run or job for a `machine`. An entry that `is_held` is skipped."""

    work: Work
    is_held: bool = False
    machine: str = ""

    @property
    def key(self) -> str:
        return work_key(self.work)


class WaitingList:
    """The thread-safe list of queued runs and jobs, next one first.

    `changed` is its lock, a condition variable that is notified of every change. A job that can resume stays
    in the list while it runs (`current`), and is paused if another job is moved ahead of it. Any other job
    leaves the list when it starts. While `is_paused`, nothing starts. `can_train(machine)` returns whether
    that machine is free to start a job.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.current: Work | None = None
        self.ended = 0
        """The number of items that have ended so far."""
        self._is_paused = False
        self._entries: list[Entry] = []
        self.can_train: Callable[[str], bool] = lambda _machine: True

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        with self.changed:
            self._is_paused = is_paused
            self.changed.notify()

    def add(self, *work: Work, goes_first: bool = False, is_held: bool = False, machine: str = "") -> None:
        """Add work at the end or at the front. A job has its own machine."""
        entries = [
            Entry(one, is_held, one.machine if isinstance(one, QueuedJob) else machine) for one in work
        ]
        with self.changed:
            self._entries[:] = [*entries, *self._entries] if goes_first else [*self._entries, *entries]
            self.changed.notify()

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, with the current job if it keeps its place."""
        with self.changed:
            return tuple(self._entries)

    def waiting(self) -> tuple[Work, ...]:
        """Return the waiting work, next first."""
        with self.changed:
            return tuple(entry.work for entry in self._entries if entry.work is not self.current)

    def keys(self) -> tuple[str, ...]:
        """Return all keys in order, with the current job if it keeps its place."""
        with self.changed:
            return tuple(entry.key for entry in self._entries)

    def work(self, key: str) -> Work | None:
        with self.changed:
            known = [*(entry.work for entry in self._entries), *([self.current] if self.current else [])]
            return next((work for work in known if work_key(work) == key), None)

    def remove(self, key: str) -> bool:
        """Remove work. Return False if it is running or not in the queue."""
        with self.changed:
            entry = self._find(key)
            if entry is None or entry.work is self.current:
                return False
            self._entries.remove(entry)
            return True

    def arrange(self, keys: Sequence[str]) -> None:
        """Sort the work by `keys`. Work with another key goes to the end."""
        with self.changed:
            order = {key: number for number, key in enumerate(keys)}
            self._entries.sort(key=lambda entry: order.get(entry.key, len(order)))
            self.changed.notify()

    def set_held(self, key: str, is_held: bool) -> None:
        """Hold or release work. A current job that can resume stops at its next turn."""
        with self.changed:
            if (entry := self._find(key)) is not None:
                entry.is_held = is_held
                self.changed.notify()

    def is_held(self, key: str) -> bool:
        with self.changed:
            return (entry := self._find(key)) is not None and entry.is_held

    def has_next(self) -> bool:
        """Return True if there is work to start."""
        with self.changed:
            return self._next() is not None

    def start_next(self) -> Work | None:
        """Return the next work, which becomes `current`, or None if there is none to start."""
        with self.changed:
            entry = self._next()
            if entry is None:
                return None
            self.current = entry.work
            if not (isinstance(entry.work, QueuedJob) and entry.work.is_resumable):
                self._entries.remove(entry)
            return self.current

    def should_yield(self) -> bool:
        """Return True if the current job must yield to work before it, or because it is held."""
        with self.changed:
            entry = self._next()
            mine = self._find(work_key(self.current)) if self.current is not None else None
            return mine is not None and (mine.is_held or (entry is not None and entry is not mine))

    def end(self, *, yielded: bool = False) -> None:
        """End the current work, or put it back into the queue if it yielded."""
        with self.changed:
            work, self.current = self.current, None
            if work is not None and not yielded:
                self.ended += 1
                self.remove(work_key(work))

    def clear(self) -> None:
        with self.changed:
            self._entries.clear()
            self.changed.notify()

    def _next(self) -> Entry | None:
        if self._is_paused:
            return None
        ready = (entry for entry in self._entries if not entry.is_held and self.can_train(entry.machine))
        return next(ready, None)

    def _find(self, key: str) -> Entry | None:
        return next((entry for entry in self._entries if entry.key == key), None)
