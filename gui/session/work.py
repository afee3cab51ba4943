"""The window's jobs of one kind: queued, running, over and saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Problem
from engine.protocol.events import Failed, Phase
from engine.store.store import Store
from gui.session.background import attempt
from gui.session.engine_thread import EngineThread
from gui.session.jobs import QueuedJob


@dataclass(frozen=True, kw_only=True)
class JobView:
    """The state of a job for display. It `is_waiting` while queued, and `is_live` while it runs.

    `doing` is the current phase of the worker, and `fraction` its progress (0 to 1), None if unknown.
    """

    key: str
    created: datetime
    device_name: str = ""
    problem: Problem | None = None
    doing: str = ""
    fraction: float | None = None
    is_live: bool = False
    is_waiting: bool = False

    @property
    def is_unfinished(self) -> bool:
        return self.is_live or self.is_waiting

    @property
    def name(self) -> str:
        """Return the title in a menu."""
        raise NotImplementedError

    def with_event(self, event: object) -> Self:
        """Return the view after an event that any job can have."""
        match event:
            case Phase(name=name, detail=detail, fraction=fraction):
                return replace(self, doing=detail or name.value, fraction=fraction)
            case Failed(problem=problem):
                return replace(self, problem=problem)
        return self


View = TypeVar("View", bound=JobView)

MOST_SAVED = 30
"""The number of entries in a menu."""


class Jobs(QObject, Generic[View]):
    """All jobs of one `kind` by key: queued, running, ended and saved. Signals carry the key of a job."""

    changed = Signal(str)  # key
    began = Signal(str)
    ended = Signal(str)
    deleted = Signal(str)
    busy_changed = Signal(bool)  # True while any is in progress
    problem = Signal(object)  # Problem
    logged = Signal(str, str, object)  # level, message, subject
    run_began = Signal(str)  # the id of a run that it trains itself
    run_event = Signal(str, object)  # that, and the worker's event
    run_ended = Signal(str)

    def __init__(self, kind: str, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.kind = kind
        self._store, self._thread = store, thread
        self._views: dict[str, View] = {}
        self.running: str | None = None
        """The key of the work in progress."""
        self._run: str | None = None
        thread.job_began.connect(self._on_began)
        thread.job_event.connect(self._on_job_event)
        thread.job_ended.connect(self._on_ended)
        thread.job_yielded.connect(self._on_yielded)

    @property
    def waiting(self) -> int:
        """Return the number of waiting jobs."""
        works = self._thread.waiting_list.waiting()
        return sum(isinstance(work, QueuedJob) and work.kind == self.kind for work in works)

    def unfinished(self) -> tuple[View, ...]:
        """Return the current job, then the waiting ones."""
        return tuple(view for view in self._views.values() if view.is_unfinished)

    def stop(self, key: str) -> None:
        """Stop a job and keep its results so far. A waiting one is removed from the queue."""
        if self._thread.stop_job(key):
            attempt(lambda: self._store.waiting.remove([key]), self.problem)
            del self._views[key]
            self.ended.emit(key)

    def delete(self, key: str) -> None:
        """Delete a saved job unless it is running. A waiting one is removed from the queue."""
        view = self.view(key)
        if key == self.running or view is None:
            return
        # one that cannot be taken out has begun meanwhile
        if view.is_waiting and not self._thread.stop_job(key):
            return
        if attempt(lambda: self._delete_saved(key), self.problem):
            del self._views[key]
            self.deleted.emit(key)

    def progress(self, key: str) -> float | None:
        """Return the progress of a running job, 0 to 1. None if unknown."""
        return None

    def seconds_left(self, job: QueuedJob) -> float | None:
        """Return the seconds that a running or waiting job still takes. None if unknown."""
        return None

    def submit_job(self, job: QueuedJob) -> str:
        """Save and queue a job, and return its key. Raises ProblemError if it could not be saved."""
        self._store.waiting.add([job.item()])
        return self.enqueue(job)

    def enqueue(self, job: QueuedJob, *, is_held: bool = False) -> str:
        """Queue a job that is already saved, and return its key."""
        self._views[job.key] = self._queued_view(job)
        self._thread.enqueue_job(job, is_held=is_held)
        return job.key

    @abstractmethod
    def submit_again(self, job: QueuedJob) -> str:
        """Queue the same job again, and return the new key. Raises ProblemError if it could not be saved."""

    def view(self, key: str) -> View | None:
        """Return the view of a job, of this session or saved. None for an unknown key."""
        if key not in self._views and (saved := self._saved_view(key)) is not None:
            self._views[key] = saved
        return self._views.get(key)

    @abstractmethod
    def saved(self) -> Sequence[str]:
        """Return the keys of the saved jobs, newest first, without the running one."""

    @abstractmethod
    def _saved_view(self, key: str) -> View | None: ...

    @abstractmethod
    def _delete_saved(self, key: str) -> None: ...

    @abstractmethod
    def _queued_view(self, job: QueuedJob) -> View:
        """Return the view of a job that was just queued."""

    @abstractmethod
    def _on_event(self, key: str, event: Any) -> None:
        """Handle an event of the current job."""

    @abstractmethod
    def _ended_view(self, view: View, problem: Problem | None) -> View | None:
        """Return the view of an ended job, or None if there is nothing to show."""

    def _on_began(self, key: str) -> None:
        # all kinds of work share the thread's signals
        if key in self._views:
            self.running = key
            self._update(key, replace(self._views[key], is_waiting=False, is_live=True))
            self.busy_changed.emit(True)
            self.began.emit(key)

    def _on_yielded(self, key: str) -> None:
        if key == self.running:
            self.running = None
            self._update(key, replace(self._views[key], is_waiting=True, is_live=False))
            self.busy_changed.emit(False)

    def _on_job_event(self, key: str, event: Any) -> None:
        if key == self.running:
            self._on_event(key, event)

    def _on_ended(self, key: str, problem: Problem | None) -> None:
        if key != self.running:
            return
        self._follow(None)
        self.running = None
        kept = self._ended_view(replace(self._views[key], is_live=False), problem)
        if kept is None:
            del self._views[key]
        else:
            self._update(key, kept)
        if problem is not None:
            self.problem.emit(problem)
        self.busy_changed.emit(False)
        self.ended.emit(key)

    def _update(self, key: str, view: View) -> None:
        self._views[key] = view
        self.changed.emit(key)

    def _follow(self, run_id: str | None) -> None:
        """Set the run to which the next events belong, or None."""
        if run_id == self._run:
            return
        ended, self._run = self._run, run_id
        if ended is not None:
            self.run_ended.emit(ended)
        if run_id is not None:
            self.run_began.emit(run_id)

    def _report_run_event(self, event: object) -> None:
        if self._run is not None:
            self.run_event.emit(self._run, event)
