"""The sweeps in the window: running, waiting and saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.compare.split import MOST_OTHERS
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.sweep import Grid, Plan
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.estimate import estimate_of
from engine.sweep.order import Estimate, SweepEvent, SweepStarted, Turn, TurnEnded, TurnStarted
from engine.words.numbers import share_text
from gui.session.background import Background, attempt
from gui.session.engine_thread import EngineThread
from gui.session.jobs import SWEEP, QueuedJob
from gui.session.live_run import sweep_lines
from gui.session.work import MOST_SAVED, Jobs, JobView


def _estimate(store_path: Path, sweep_id: str) -> Estimate | None:
    """Return the estimate of a waiting sweep, by its own runs and pilots and other saved runs."""
    with Store(store_path) as store:
        return estimate_of(store.sweeps.find(sweep_id), store.runs(MOST_OTHERS))


@dataclass(frozen=True, kw_only=True)
class SweepView(JobView):
    """The state of a sweep for display. `turn` is the current pilot (a short trial run) or run.

    `estimate` is the remaining time, None if unknown. `is_elsewhere` is True while another program runs the
    sweep.
    """

    title: str
    grid: Grid
    plan: Plan
    is_over: bool = False
    is_elsewhere: bool = False
    spent_seconds: float = 0.0
    turn: Turn | None = None
    estimate: Estimate | None = None

    @classmethod
    def of_record(cls, record: SweepRecord) -> SweepView:
        """Make the view of a saved sweep."""
        same = ("created", "device_name", "problem", "grid", "plan", "spent_seconds")
        values = {name: getattr(record, name) for name in same}
        is_over, is_elsewhere = record.ended is not None, record.is_claimed
        return cls(key=record.id, title=record.name, is_over=is_over, is_elsewhere=is_elsewhere, **values)

    @property
    def name(self) -> str:
        return self.title

    def after_event(self, event: SweepEvent) -> SweepView:
        match event:
            case SweepStarted(estimate=estimate):
                return replace(self, estimate=estimate)
            case TurnStarted(turn=turn):
                return replace(self, turn=turn, doing="", fraction=None)
            case TurnEnded(estimate=estimate):
                return replace(self, turn=None, doing="", fraction=None, estimate=estimate)
        # a failure during a turn ends only that turn, as TurnEnded reports
        return replace(self.with_event(event), problem=self.problem) if self.turn else self.with_event(event)

    def pilot_words(self) -> str:
        """Return the current pilot and its phase, or "" if none is running."""
        if self.turn is None or self.turn.kind != "pilot":
            return ""
        share = f" {share_text(self.fraction)}" if self.fraction is not None else ""
        return f"Pilot of {self.cell_name(self.turn.cell)}{': ' + self.doing if self.doing else ''}{share}"

    def cell_name(self, index: int) -> str:
        return self.grid.name(self.grid.places(index))


class Sweeps(Jobs[SweepView]):
    """All sweeps by id.

    `turn_ended` carries a sweep's id when a run of it was saved, or its plan has changed.
    """

    turn_ended = Signal(str)

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        # its cells and runs are read in another thread: they can be thousands
        super().__init__(SWEEP, store, thread, parent)
        self._table = store.sweeps.bare
        self._background = Background(self)
        self.stop_reading = self._background.stop
        """Waits for an estimate that is being made, before the window closes."""

    def enqueue(self, job: QueuedJob, *, is_held: bool = False) -> str:
        key = super().enqueue(job, is_held=is_held)
        estimate = partial(_estimate, self._store.path, key)
        self._background.do(estimate, partial(self._on_estimate, key), self.problem.emit)
        return key

    def resume(self, sweep_id: str) -> str:
        """Queue a saved sweep to resume where it stopped, and return its id. Raises ProblemError."""
        view = self.view(sweep_id)
        if view is not None and not view.is_unfinished:
            machine = self._store.sweeps.find(sweep_id).machine
            self.submit_job(QueuedJob(sweep_id, SWEEP, view.name, machine=machine))
        return sweep_id

    def submit_again(self, job: QueuedJob) -> str:
        record = self._store.sweeps.find(job.key)
        left_out = {cell.index: cell.left_out for cell in record.cells if cell.left_out}
        add = self._store.sweeps.add
        again = add(
            record.name,
            record.grid,
            record.plan,
            device_name=record.device_name,
            left_out=left_out,
            machine=record.machine,
        )
        return self.resume(again)

    def repeat(self, sweep_id: str) -> str:
        """Queue a new sweep with the same grid and plan, and return its id. Raises ProblemError."""
        return self.submit_again(QueuedJob(sweep_id, SWEEP, ""))

    def progress(self, key: str) -> float | None:
        view = self._views.get(key)
        if view is None or view.estimate is None:
            return None
        return view.spent_seconds / ((view.spent_seconds + view.estimate.seconds_left) or 1.0)

    def seconds_left(self, job: QueuedJob) -> float | None:
        view = self._views.get(job.key)
        return None if view is None or view.estimate is None else view.estimate.seconds_left

    def rename(self, sweep_id: str, name: str) -> None:
        self._change(sweep_id, lambda: self._store.sweeps.rename(sweep_id, name))
        record = self.record(sweep_id)
        if record is not None:
            self._update(sweep_id, replace(self._views[sweep_id], title=record.name))

    def pause_cell(self, sweep_id: str, cell: int, is_paused: bool) -> None:
        """Pause a cell, or run it again if it was paused, skipped or has failed."""
        sweeps = self._store.sweeps
        self._change(sweep_id, lambda: sweeps.pause(sweep_id, cell, is_paused))
        if not is_paused:
            self._change(sweep_id, lambda: sweeps.set_cell_problem(sweep_id, cell, None))

    def skip_cell(self, sweep_id: str, cell: int, why: str) -> None:
        """Skip a cell for a reason, given as a sentence. An empty reason includes the cell again."""
        self._change(sweep_id, lambda: self._store.sweeps.leave_out(sweep_id, cell, why))

    def _on_estimate(self, key: str, estimate: Estimate | None) -> None:
        view = self._views.get(key)
        # its own turns know better
        if view is not None and view.estimate is None:
            self._update(key, replace(view, estimate=estimate))

    def _change(self, sweep_id: str, change: Callable[[], object]) -> None:
        if attempt(change, self.problem):
            self.turn_ended.emit(sweep_id)

    def _on_event(self, key: str, event: SweepEvent) -> None:
        before = self._views[key]
        view = before.after_event(event)
        turn = view.turn or before.turn
        for level, message in sweep_lines(event, "" if turn is None else before.cell_name(turn.cell)):
            self.logged.emit(level, message, view.name)
        self._update(key, view)
        match event:
            case TurnStarted(turn=turn):
                self._follow(turn.run_id)
            case TurnEnded():
                self._follow(None)
                if (record := self.record(key)) is not None:
                    self._update(key, replace(view, spent_seconds=record.spent_seconds))
                self.turn_ended.emit(key)
            case _:
                self._report_run_event(event)

    def _ended_view(self, view: SweepView, problem: Problem | None) -> SweepView | None:
        record = self.record(view.key)
        if record is None:
            return None
        kept = SweepView.of_record(record)
        return replace(kept, problem=kept.problem or problem, estimate=view.estimate)

    def _queued_view(self, job: QueuedJob) -> SweepView:
        view = SweepView.of_record(self._table.find(job.key))
        return replace(view, is_waiting=True, is_elsewhere=False, problem=None)

    def saved(self) -> list[str]:
        return [record.id for record in self._table.newest(MOST_SAVED) if record.id != self.running]

    def record(self, sweep_id: str) -> SweepRecord | None:
        """Return the stored sweep without its cells, or None if it does not exist."""
        try:
            return self._table.find(sweep_id)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return None

    def _saved_view(self, key: str) -> SweepView | None:
        try:
            return SweepView.of_record(self._table.find(key))
        except ProblemError:
            return None

    def _delete_saved(self, key: str) -> None:
        self._store.sweeps.delete(key)
