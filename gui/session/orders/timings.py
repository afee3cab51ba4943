"""The window's timings: profiles of steps side by side, running, waiting and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from PySide6.QtCore import QObject

from engine.experiment.checks import Catalog, look_at_nothing, problems
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem
from engine.experiment.settings import PLAIN
from engine.protocol.events import Profiled
from engine.protocol.timing.timing import (
    MOST_SIDES,
    SideFailed,
    SideStarted,
    Timing,
    TimingSide,
    TimingStarted,
)
from engine.store.record import RunRecord
from engine.store.saved.timings import TimingRecord
from engine.store.saved.work import new_id
from engine.store.store import Store
from engine.timing.names import side_names
from engine.timing.profiler import TimingEvent
from gui.session.engine_thread import EngineThread
from gui.session.log_lines import timing_lines
from gui.session.orders.order import TimingOrder
from gui.session.orders.work import SavedView, SavedWork


@dataclass(frozen=True, kw_only=True)
class TimingView(SavedView):
    """A timing; `side` is the side in progress, counted from 0."""

    timing: Timing
    side: int = 0

    @classmethod
    def of_order(cls, order: TimingOrder) -> TimingView:
        """A timing that was just queued."""
        run_ids = order.run_ids or (None,) * len(order.experiments)
        sides = tuple(
            TimingSide(experiment=experiment, run_id=run_id)
            for experiment, run_id in zip(order.experiments, run_ids, strict=True)
        )
        return cls(key=order.key, created=datetime.now(UTC), timing=Timing(sides=sides), is_waiting=True)

    def after(self, event: TimingEvent) -> TimingView:
        """The timing after an event of it."""
        match event:
            case TimingStarted(timing_id=saved_id, timing=timing):
                return replace(self, saved_id=saved_id, timing=timing)
            case SideStarted(side=side):
                return replace(self, side=side, doing="", fraction=None)
            case Profiled(profile=profile):
                return replace(self, timing=self.timing.with_side(self.side, profile=profile))
            case SideFailed(side=side, problem=problem):
                return replace(self, timing=self.timing.with_side(side, problem=problem))
        return self._during(event)

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        return tuple(side.run_id for side in self.timing.sides)

    @property
    def is_known(self) -> bool:
        """Whether there is anything to show."""
        return any(side.profile or side.problem for side in self.timing.sides)

    def progress(self) -> float:
        """How far the timing is, 0 to 1."""
        return (self.side + (self.fraction or 0.0)) / len(self.timing.sides)


def baseline_first(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The runs as they are set side by side: plain ones in strict FP32 first, then the oldest."""

    def place(run: RunRecord) -> tuple[bool, bool, int]:
        experiment = run.experiment
        return experiment.precision is not Precision.FP32, experiment.step.recipe != PLAIN, run.number

    return tuple(sorted(runs, key=place))


def _why_not_profiled(runs: Sequence[RunRecord], catalog: Catalog | None) -> str | None:
    if catalog is None:
        return "Ammeter is still looking at this machine."
    if not 1 <= len(runs) <= MOST_SIDES:
        return f"Up to {MOST_SIDES} runs can be profiled side by side."
    return next(filter(None, (_obstacle(run, catalog) for run in runs)), None)


def _obstacle(run: RunRecord, catalog: Catalog) -> str | None:
    device, machine = catalog.device(run.experiment.device), run.environment
    if device is not None and machine is not None and device.title != machine.device_name:
        return f"“{run.name}” trained on {machine.device_name}, which is not in this machine."
    against = problems(run.experiment, catalog, look_at_nothing)
    return f"“{run.name}” cannot be trained here: {against[0].message}" if against else None


class Timings(SavedWork[TimingView, TimingRecord]):
    """The timings by their keys."""

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(store, thread, TimingOrder, store.timings, parent)

    def submit(self, experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> str:
        """Queues profiles of experiments, or of the runs `run_ids`; their key.

        Raises ProblemError if they could not be saved.
        """
        order = TimingOrder(new_id(), tuple(experiments), tuple(run_ids))
        return self.submit_order(order)

    def of_runs(self, run_ids: Sequence[str]) -> str | None:
        """The key of the newest timing of exactly these runs, in this order; None if there is none."""
        wanted = tuple(run_ids)
        for view in self.unfinished():
            if view.run_ids == wanted:
                return view.key
        saved_id = self._store.timings.newest_of_runs(wanted)
        keys = {view.saved_id: view.key for view in self._views.values()}
        return keys.get(saved_id, saved_id)

    def why_not_explained(self, runs: Sequence[RunRecord], catalog: Catalog | None) -> str | None:
        """Why there can be no timing of these runs; None if there is or can be."""
        unfinished = next((run.name for run in runs if not run.status.is_over), None)
        if unfinished is not None:
            return f"“{unfinished}” has not ended yet."
        against = _why_not_profiled(runs, catalog)
        return None if against is None or self.of_runs([run.id for run in runs]) is not None else against

    def progress(self, key: str) -> float | None:
        view = self._views.get(key)
        return None if view is None else view.progress()

    def _ordered(self, order: TimingOrder) -> TimingView:
        return TimingView.of_order(order)

    def _take(self, key: str, event: TimingEvent) -> None:
        view = self._views[key].after(event)
        for level, message in timing_lines(event, side_names(view.timing)[view.side]):
            self.logged.emit(level, message, f"Timing, {view.timing.sides[view.side].experiment.model}")
        self._update(key, view)
        if isinstance(event, TimingStarted) and (record := self.record(key)) is not None:
            self._update(key, replace(view, device_name=record.device_name))

    def _kept(self, view: TimingView, problem: Problem | None) -> TimingView | None:
        if not view.is_known and problem is None:
            # stopped before there was any profile
            return None
        # a side that failed tells its own problem
        return replace(view, fraction=None, problem=None if view.is_known else problem)

    def _shown(self, record: TimingRecord, key: str) -> TimingView:
        return TimingView(
            key=key,
            created=record.created,
            saved_id=record.id,
            device_name=record.device_name,
            timing=record.timing,
        )

    def _is_known(self, record: TimingRecord) -> bool:
        return any(record.profiles) or any(side.problem for side in record.bare.sides)
