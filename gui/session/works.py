"""All work of the window by key: runs, studies and sweeps that wait, run, have ended or are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from engine.compare.split import MOST_OTHERS
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Event, Log, Phase, Started
from engine.store.record import RUN, Work
from engine.store.saved.sweeps import SweepTable
from engine.store.store import Store
from engine.sweep.estimate import estimate_of
from engine.sweep.order import Estimate
from gui.session.background import Background
from gui.session.engine_thread import EngineThread
from gui.session.items import ItemFactory, QueueItem, describe_work
from gui.session.kinds import Undo, kinds_of
from gui.session.live_run import LiveRun, run_lines
from gui.session.queue import SWEEP, Queue
from gui.session.saved_runs import SavedRuns
from gui.session.views import SweepView, WorkView

_T = TypeVar("_T")


class Works(QObject):
    """All work by key, whatever its kind. It is queued, stopped, repeated and deleted here.

    Signals carry the key of the work, or the id of a run in training, which can be part of a sweep or study.
    """

    changed = Signal(str)  # key: its view is another, or None
    began = Signal(str)
    ended = Signal(str)  # also: taken out of the queue, deleted or restored
    busy_changed = Signal()  # other work is in progress, or none
    run_began = Signal(str)
    run_event = Signal(str, object)  # run id, the event, which the run's curves have
    run_ended = Signal(str)
    pause_request_changed = Signal(object)  # True to pause, False to continue, None for neither
    finished = Signal(str)  # a sentence on what was done, when nothing is left that can start
    logged = Signal(str, str, object)  # level, message, the subject's name or None
    problem = Signal(object)  # Problem, for the user

    def __init__(
        self, store: Store, queue: Queue, thread: EngineThread, runs: SavedRuns, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store, self.queue, self._thread, self._runs = store, queue, thread, runs
        self.kinds = kinds_of(store, runs)
        self.factory = ItemFactory(runs)
        self._views: dict[str, WorkView] = {}
        self.running: str | None = None
        """The key of the work in progress."""
        self.training: str | None = None
        """The id of the run in training."""
        self._in_training: LiveRun | None = None
        self._pause_request: bool | None = None
        self._done: list[str] = []
        self._failed = self._ended = 0
        # estimates of waiting sweeps
        self._background = Background(self)
        self.stop_reading = self._background.stop
        queue.problem.connect(self.report)
        thread.began.connect(self._on_began)
        thread.reported.connect(self._on_event)
        thread.ended.connect(self._on_ended)
        thread.yielded.connect(self._on_yielded)

    def submit(self, *works: Work, goes_first: bool = False) -> tuple[str, ...]:
        """Queue work and return its keys. Raises ProblemError if it cannot be saved."""
        views = [self.kinds[work.kind].queued(work) for work in works]
        self.queue.add(works, goes_first=goes_first)
        self._add(views)
        return tuple(work.key for work in works)

    def resume(self, key: str) -> str:
        """Queue work to resume where it stopped, and return its key. Raises ProblemError."""
        view = self.view(key)
        if view is not None and not view.is_unfinished:
            self.submit(self.kinds[view.kind].resumed(view))
        return key

    def repeat(self, key: str) -> str:
        """Queue the same work again, and return the new key. Raises ProblemError."""
        view = self.view(key)
        return key if view is None else self.submit(self.kinds[view.kind].again(view))[0]

    def stop(self, key: str) -> None:
        """Stop work and keep its results so far. Waiting work is removed from the queue."""
        with self.queue.lock:
            # under one lock: else work that has just left the queue would be missed
            self._thread.stop_current(key)
            taken = self.queue.take_out(key)
        for work in taken:
            self._attempt(partial(self.kinds[work.kind].withdraw, key))
            self._drop(key)

    def remove(self, key: str) -> Undo | None:
        """Remove waiting work. Return a function that puts it back, or None if it is not waiting."""
        keys, work = self.queue.keys(), next(iter(self.queue.take_out(key)), None)
        if work is None:
            return None
        back = self._attempt(partial(self.kinds[work.kind].withdraw, key))
        self._drop(key)
        # the first signal came before a run left the store
        self.queue.changed.emit()

        def put_back() -> None:
            if back is not None:
                back()
            self._runs.reload()
            self.submit(work)
            self.queue.arrange(keys)

        return lambda: self._attempt(put_back)

    def dequeue(self, *run_ids: str) -> None:
        """Remove runs from the queue. New ones are deleted, resumed ones return to their earlier state."""
        self._runs.withdraw(*self._take_out(run_ids))

    def _take_out(self, run_ids: Iterable[str]) -> tuple[str, ...]:
        taken = tuple(work.key for work in self.queue.take_out(*run_ids))
        for run_id in taken:
            self._views.pop(run_id, None)
        return taken

    def delete(self, key: str) -> Undo | None:
        """Delete work unless it is in progress, also from the queue. Return what restores it, if possible."""
        view = self.view(key)
        if view is None or key == self.running or self.queue.is_current(key):
            return None
        self.queue.take_out(key)
        restores: list[Undo | None] = []
        self._attempt(lambda: restores.append(self.kinds[view.kind].delete(view)))
        if restores:
            self._drop(key)
        if (restore := next(iter(restores), None)) is None:
            return None

        def undo() -> None:
            self._attempt(restore)
            self.ended.emit(key)

        return undo

    def delete_runs(self, run_ids: Iterable[str]) -> tuple[str, ...]:
        """Delete all of these runs except one that has started, and return the ids of the deleted ones."""
        known = (run_id for run_id in run_ids if self._runs.contains(run_id) and run_id != self.training)
        deleted = tuple(run_id for run_id in known if not self.queue.is_current(run_id))
        self._take_out(deleted)
        return deleted if deleted and self._runs.delete(deleted) else ()

    def view(self, key: str) -> WorkView | None:
        """Return the view of work, of this session or saved. None for an unknown key."""
        if key in self._views:
            return self._views[key]
        found = next(filter(None, (kind.find(key) for kind in self.kinds.values())), None)
        if found is not None and found.kind != RUN:
            self._views[key] = found
        return found

    def of(self, kind: str) -> tuple[WorkView, ...]:
        """Return the work of a kind that is in progress or waits."""
        return tuple(view for view in self._views.values() if view.kind == kind and view.is_unfinished)

    def saved(self, kind: str) -> tuple[str, ...]:
        """Return the keys of the saved work of a kind, newest first, without the running one."""
        return tuple(key for key in self.kinds[kind].saved() if key != self.running)

    def newest(self, kind: str) -> str | None:
        """Return the work of a kind in progress, else the newest saved, or None."""
        if self.running is not None and self._views[self.running].kind == kind:
            return self.running
        return next(iter(self.saved(kind)), None)

    @property
    def in_progress(self) -> str | None:
        """Return the kind of the work in progress, or None."""
        return None if self.running is None else self._views[self.running].kind

    def edit_sweep(self, key: str, change: Callable[[SweepTable], object]) -> None:
        """Change the name or a cell of a saved sweep."""
        view = self.view(key)
        self._attempt(lambda: change(self._store.sweeps))
        if isinstance(view, SweepView) and (saved := self.kinds[SWEEP].find(key)) is not None:
            self._put(replace(view, title=saved.title, revision=view.revision + 1))

    def items(self) -> tuple[QueueItem, ...]:
        """Return the work in progress, then the waiting work in order, as the queue shows it."""
        return tuple(
            self.factory.make(work, self._views.get(work.key), is_running=self.queue.is_current(work.key))
            for work in self.queue.works()
        )

    def left(self, *, tells: bool = True) -> tuple[Work, ...]:
        """Return the work that an earlier window left in the queue, and waiting runs in no queue, next first.

        If the store fails, return nothing, and report it if `tells`.
        """
        try:
            return self.queue.left()
        except ProblemError as error:
            if tells:
                self.report(error.problem)
            return ()

    def claim(self, works: Sequence[Work], *, is_paused: bool | None = None) -> None:
        """Queue work that an earlier window left. `is_paused` overrides whether each is paused."""
        wanted = works if is_paused is None else [replace(work, is_paused=is_paused) for work in works]
        found = {work: self._attempt(partial(self.kinds[work.kind].queued, work)) for work in wanted}
        views = {work: view for work, view in found.items() if view is not None}
        # another window may be quicker, or a run be deleted meanwhile: the others are taken up
        for work, problem in (self._attempt(lambda: self.queue.claim(list(views))) or {}).items():
            if problem is None:
                self._add([views[work]])
            else:
                self.report(problem)
        self._runs.reload()
        self.queue.changed.emit()

    def discard(self, works: Sequence[Work]) -> None:
        """Remove work that an earlier window left. New runs are deleted, others return to their old state."""
        self._attempt(lambda: self._store.waiting.remove([work.key for work in works]))
        self._runs.withdraw(*(work.key for work in works if work.kind == RUN))
        self.queue.changed.emit()

    def stop_comparison(self) -> None:
        """Stop the comparison in progress: its run ends after the current step, the others do not start.

        A sweep continues with its next combination.
        """
        if not self._thread.skip_turn():
            # the store is slow, and what is next must not begin meanwhile, or it would be stopped
            taken = self._take_out(self._waiting_mates())
            self._thread.stop_current()
            self._runs.withdraw(*taken)

    def _waiting_mates(self) -> tuple[str, ...]:
        # the engine's thread may be further than its signals
        current = self.queue.current
        run = self._runs.record(current.key if current is not None else self.training or "")
        if run is None or run.comparison is None:
            return ()
        mates = (self._runs.record(work.key) for work in self.queue.waiting())
        return tuple(mate.id for mate in mates if mate is not None and mate.comparison == run.comparison)

    @property
    def live(self) -> LiveRun | None:
        """Return the run in training."""
        return self._in_training

    def toggle_pause(self) -> None:
        """Ask the current run to pause after the current step, or to resume. Does nothing for a script."""
        if self.live is not None and not self.live.experiment.is_script:
            pauses = not (self.live.is_paused if self._pause_request is None else self._pause_request)
            self._thread.pause_run(pauses)
            self._set_pause_request(pauses)

    def report(self, problem: Problem, subject: str | None = None) -> None:
        """Log a problem, and show it to the user."""
        self.logged.emit("problem", f"{problem.message} {problem.remedy}", subject)
        self.problem.emit(problem)

    def _add(self, views: Iterable[WorkView]) -> None:
        for view in views:
            self._put(view)
            if view.kind == SWEEP:
                read = partial(_estimate, self._store.path, view.key)
                self._background.do(read, partial(self._on_estimate, view.key), self.problem.emit)

    def _on_estimate(self, key: str, estimate: Estimate | None) -> None:
        view = self._views.get(key)
        # its own turns know better
        if isinstance(view, SweepView) and view.estimate is None:
            self._put(replace(view, estimate=estimate))

    def _on_began(self, key: str) -> None:
        # else it was over so soon that it was deleted before this signal arrived
        if (view := self._views.get(key)) is not None and (view.kind != RUN or self._runs.contains(key)):
            self.running = key
            self._put(replace(view, is_waiting=False, is_live=True))
            self.busy_changed.emit()
            self._follow(self._views[key].trains)
            self.began.emit(key)
        self.queue.changed.emit()

    def _on_event(self, key: str, event: Event) -> None:
        if key != self.running:
            return
        before = self._views[key]
        if self.training is not None:
            self._on_run_event(self.training, event)
        for level, message in before.log_lines(event):
            self.logged.emit(level, message, before.subject)
        view = self.kinds[before.kind].after(before, event)
        self._put(view)
        self._follow(view.trains)

    def _on_yielded(self, key: str) -> None:
        if key == self.running:
            self.running = None
            self._put(replace(self._views[key], is_waiting=True, is_live=False))
            self.busy_changed.emit()
        self.queue.changed.emit()

    def _on_ended(self, key: str, problem: Problem | None) -> None:
        if key == self.running:
            view, run_id = self._views[key], self.training
            self.running = self.training = self._in_training = None
            if problem is not None:
                self.report(problem, view.subject)
            if run_id is not None:
                self._end_run(run_id)
            self.busy_changed.emit()
            ended = self.kinds[view.kind].ended(replace(view, is_live=False), problem)
            if ended is None:
                self._drop(key)
            else:
                self._put(ended)
                self.ended.emit(key)
            self._done.append(view.kind)
            self._failed += problem is not None
        self._ended += 1
        self.queue.changed.emit()
        # the engine's thread may be further than its signals
        if self._ended == self.queue.ended and not self.queue.has_work and self._done:
            self.finished.emit(_done_sentence(self._done, self._failed, len(self.queue.keys())))
            self._done, self._failed = [], 0

    def _follow(self, run_id: str | None) -> None:
        """Follow the run to which the next events belong, or None."""
        if run_id == self.training:
            return
        ended, self.training, self._in_training = self.training, None, None
        if ended is not None:
            self._end_run(ended)
        if run_id is None:
            return
        if run_id != self.running:
            # the engine's thread has added it, perhaps in place of one that did not come to its end
            self._runs.reload()
        if self._runs.contains(run_id):
            self.training = run_id
            self._set_pause_request(None)
            self._runs.watch(False)
            # whatever else is opened meanwhile, its events need a place
            self._in_training = self._runs.live(run_id)
            self._runs.refresh(run_id)
            self.run_began.emit(run_id)

    def _end_run(self, run_id: str) -> None:
        self._set_pause_request(None)
        self._runs.watch(True)
        self._attempt(partial(self._runs.refresh, run_id))
        self.busy_changed.emit()
        self.run_ended.emit(run_id)

    def _on_run_event(self, run_id: str, event: Event) -> None:
        live = self._in_training
        if live is None:
            return
        live.add(event)
        for level, message in run_lines(event):
            self.logged.emit(level, message, self._runs.name(run_id))
        if isinstance(event, Started):
            self._runs.refresh(run_id)
        if isinstance(event, Log) and event.level == "problem":
            self.problem.emit(Problem(kind=Kind.STORE, message=event.message, remedy=""))
            self._runs.reload()
        if isinstance(event, Phase) and live.is_paused == self._pause_request:
            self._set_pause_request(None)
        self.run_event.emit(run_id, event)

    def _set_pause_request(self, asked: bool | None) -> None:
        """Remember a request to pause or resume until it has taken effect."""
        if asked != self._pause_request:
            self._pause_request = asked
            self.pause_request_changed.emit(asked)

    def _put(self, view: WorkView) -> None:
        if self._views.get(view.key) is not view:
            self._views[view.key] = view
            self.changed.emit(view.key)

    def _drop(self, key: str) -> None:
        self._views.pop(key, None)
        if key == self.running:
            # stopped as it yielded, before the end of its run was signaled
            self._follow(None)
            self.running = None
            self.busy_changed.emit()
        self.changed.emit(key)
        self.ended.emit(key)

    def _attempt(self, change: Callable[[], _T]) -> _T | None:
        """Return the result of a change. None if the store refuses it, which is reported."""
        try:
            return change()
        except ProblemError as error:
            self.report(error.problem)
            return None


def _estimate(store_path: Path, sweep_id: str) -> Estimate | None:
    """Return the estimate of a waiting sweep, by its own runs and pilots and other saved runs."""
    with Store(store_path) as store:
        return estimate_of(store.sweeps.find(sweep_id), store.runs(MOST_OTHERS))


def _done_sentence(kinds: Sequence[str], failed: int, waiting: int) -> str:
    what = describe_work(kinds)
    words = f"{what[:1].upper()}{what[1:]} {'is' if len(kinds) == 1 else 'are'} done."
    words += f" {failed:,} failed." if failed else ""
    return f"{words} {waiting:,} still waiting." if waiting else words
