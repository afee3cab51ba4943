"""The window's searches for the largest batch: running, waiting and saved, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from PySide6.QtCore import QObject

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import MIB_PER_GIB
from engine.limit.prober import ProbeEvent
from engine.limit.result import telling, times_the_batch
from engine.limit.search import Search
from engine.protocol.events import Failed, Phase
from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import ProbeEnded, ProbeResult, ProbeStarted, Trial, TrialBegun, TrialEnded
from engine.store.saved.searches import ProbeRecord
from engine.store.saved.work import new_id
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.log_lines import search_lines
from gui.session.orders.order import SearchOrder
from gui.session.orders.work import OrderedWork, OrderView


@dataclass(frozen=True)
class SideView:
    """One precision's search.

    `trying` is the batch in trial, and `doing` its worker's phase. `forecast` are lines in MiB, in the
    quantity of the trials; empty if unknown.
    """

    label: str
    experiment: Experiment
    granularity: int = 1
    trials: tuple[Trial, ...] = ()
    budget_mib: float | None = None
    trying: int | None = None
    doing: str = ""
    result: ProbeResult | None = None
    problem: Problem | None = None
    forecast: tuple[MemoryLine, ...] = ()

    @property
    def precision(self) -> Precision:
        return self.experiment.precision

    @property
    def largest_batch(self) -> int:
        """The largest batch that passed so far; 0 if none did."""
        return max((trial.batch_size for trial in self.telling if trial.fits), default=0)

    @property
    def telling(self) -> tuple[Trial, ...]:
        """The trials that the answer rests on."""
        return telling(self.trials)

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.problem is not None

    @property
    def is_proven(self) -> bool:
        """Whether the largest batch is the answer, and not only what a stopped search had reached."""
        return self.result is not None and self.result.verified

    @property
    def seconds(self) -> float:
        """How long the search took, or its trials have taken so far."""
        return self.result.seconds if self.result else sum(trial.seconds for trial in self.trials)

    @cached_property
    def passed(self) -> tuple[tuple[int, float], ...]:
        """The passed trials whose peak is known, as (batch, GiB), the smallest first."""
        peaks = ((trial.batch_size, trial.peak_mib) for trial in self.telling if trial.fits)
        return tuple(sorted((batch, mib / MIB_PER_GIB) for batch, mib in peaks if mib is not None))

    @property
    def failed(self) -> tuple[int, ...]:
        """The batches that did not fit."""
        return tuple(trial.batch_size for trial in self.telling if not trial.fits)

    @property
    def answer(self) -> int | None:
        """The largest batch, once it is proven."""
        return self.largest_batch if self.is_proven else None

    @cached_property
    def lines(self) -> tuple[MemoryLine, ...]:
        """Memory by batch size, in MiB: through the smallest and the largest passed trial, else the forecast;
        empty if neither is known."""
        known = [point for point in self.passed if point[1]]
        if len(known) < 2 or known[0][0] == known[-1][0]:
            return self.forecast
        (low, less), (high, more) = known[0], known[-1]
        slope = (more - less) * MIB_PER_GIB / (high - low)
        return (MemoryLine(fixed_mib=less * MIB_PER_GIB - slope * low, per_sample_mib=slope),)

    def recommended_batch(self, margin_fraction: float, multiple: int = 1) -> int:
        """The largest multiple that leaves that fraction of the memory free; 0 if there is none."""
        search = Search(granularity=self.granularity, budget_mib=self.budget_mib)
        for trial in self.telling:
            search.learn(trial, self.budget_mib)
        return search.recommended_batch(margin_fraction) // multiple * multiple

    def after(self, event: ProbeEvent) -> SideView:
        """The side after an event of its search."""
        match event:
            case ProbeStarted():
                return replace(self, experiment=event.experiment, budget_mib=event.budget_mib or None)
            case TrialBegun(batch_size=size):
                return replace(self, trying=size, doing="")
            case Phase(name=name):
                return replace(self, doing=name.value)
            case TrialEnded(trial=trial, budget_mib=budget):
                trials = (*self.trials, trial)
                return replace(self, trials=trials, trying=None, doing="", budget_mib=budget or None)
            case ProbeEnded(result=result):
                return replace(self, result=result, trying=None, doing="")
            case Failed(problem=problem):
                return replace(self, problem=problem, trying=None, doing="")
        return self


@dataclass(frozen=True)
class SearchView(OrderView):
    """A search in one precision or several."""

    series: str
    sides: tuple[SideView, ...]
    created: datetime

    @classmethod
    def of_order(cls, order: SearchOrder) -> SearchView:
        """A search that was just queued."""
        sides = tuple(SideView(label, experiment, order.granularity) for label, experiment in order.sides)
        return cls(order.key, sides, datetime.now(UTC), is_waiting=True)

    @classmethod
    def of_records(cls, records: Sequence[ProbeRecord]) -> SearchView:
        """A saved search, from the records of its series in any order."""
        ordered = sorted(records, key=lambda record: record.number)
        return cls(ordered[0].series, tuple(map(_side, ordered)), ordered[0].created)

    def after(self, side: int, event: ProbeEvent) -> SearchView:
        """The search after an event of one of its sides."""
        sides = list(self.sides)
        sides[side] = sides[side].after(event)
        return replace(self, sides=tuple(sides), is_waiting=False, is_live=True)

    @property
    def trial_count(self) -> int:
        return sum(len(side.trials) for side in self.sides)

    @property
    def seconds(self) -> float:
        return sum(side.seconds for side in self.sides)

    @property
    def cap_gib(self) -> float | None:
        """The size of the simulated card; None for the device's own memory."""
        return self.sides[0].experiment.memory_cap_gib

    @property
    def budget_mib(self) -> float | None:
        """What a trial may take; the least where the sides differ."""
        return min((side.budget_mib for side in self.sides if side.budget_mib), default=None)

    @property
    def baseline(self) -> SideView:
        """The side that the others are measured against: strict FP32 if it was searched, else the first."""
        return next((side for side in self.sides if side.precision is Precision.FP32), self.sides[0])

    @property
    def best(self) -> SideView | None:
        """The side with the largest batch apart from the baseline; None if there is no other."""
        others = [side for side in self.sides if side is not self.baseline]
        return max(others, key=lambda side: side.largest_batch, default=None)

    @property
    def ratio(self) -> float | None:
        """The best side's batch over the baseline's, if both are proven and limited by memory."""
        best = self.best
        return None if best is None else times_the_batch(self.baseline, best)


def _side(record: ProbeRecord) -> SideView:
    return SideView(
        record.experiment.precision.label,
        record.experiment,
        record.granularity,
        record.trials,
        record.budget_mib,
        result=record.result,
    )


_MOST_SAVED = 60

Sides = Sequence[tuple[str, Experiment]]


class Searches(OrderedWork[SearchView]):
    """The searches by their series."""

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(store, thread, SearchOrder, parent)

    def submit(self, sides: Sides, *, granularity: int, margin_fraction: float) -> str:
        """Queues a search of these sides; its series. Raises ProblemError if it could not be saved."""
        order = SearchOrder(new_id(), _distinct(sides), granularity, margin_fraction)
        return self.submit_order(order)

    def view(self, series: str) -> SearchView | None:
        """A search of this session, or a saved one; None for an unknown series."""
        if series not in self._views:
            records = self.records(series)
            if any(record.trials for record in records):
                self._views[series] = SearchView.of_records(records)
        return self._views.get(series)

    def records(self, series: str) -> tuple[ProbeRecord, ...]:
        """A search as it is saved, in the order of its sides."""
        records = (record for record in self._store.probes.newest() if record.series == series)
        return tuple(sorted(records, key=lambda record: record.number))

    def set_forecast(self, series: str, side: int, lines: tuple[MemoryLine, ...]) -> None:
        """Adds a forecast's lines to one side."""
        view = self._views.get(series)
        if view is not None:
            sides = list(view.sides)
            sides[side] = replace(sides[side], forecast=lines)
            self._views[series] = replace(view, sides=tuple(sides))

    def saved(self) -> tuple[SearchView, ...]:
        """The saved searches that have trials, newest first, without the one in progress."""
        by_series: dict[str, list[ProbeRecord]] = {}
        for record in self._store.probes.newest(_MOST_SAVED):
            by_series.setdefault(record.series, []).append(record)
        views = (SearchView.of_records(records) for key, records in by_series.items() if key != self._running)
        return tuple(view for view in views if view.trial_count)

    def newest(self) -> str | None:
        """The series of the newest saved search."""
        return next((view.series for view in self.saved()), None)

    def delete(self, series: str) -> None:
        """Deletes a saved search, unless it is in progress."""
        if series == self._running:
            return
        try:
            for record in self.records(series):
                self._store.probes.delete(record.id)
        except ProblemError as error:
            self.problem.emit(error.problem)
        self._views.pop(series, None)
        self.deleted.emit(series)

    def _ordered(self, order: SearchOrder) -> SearchView:
        return SearchView.of_order(order)

    def _take(self, series: str, told: tuple[int, ProbeEvent]) -> None:
        view, (side, event) = self._views[series], told
        for level, message in search_lines(event):
            self.logged.emit(level, message, f"Memory limit, {view.sides[side].label}")
        self._update(series, view.after(side, event))

    def _kept(self, view: SearchView, problem: Problem | None) -> SearchView | None:
        return view if view.trial_count or any(side.problem for side in view.sides) else None


def _distinct(sides: Sides) -> tuple[tuple[str, Experiment], ...]:
    """The sides that differ in more than batch and length, which a search ignores."""
    labels: dict[Experiment, str] = {}
    for label, experiment in sides:
        searched = experiment.model_copy(update={"batch_size": 1, "epochs": None, "steps": 20})
        labels.setdefault(searched, label)
    precisions = [experiment.precision for experiment in labels]
    return tuple(
        (experiment.precision.label if precisions.count(experiment.precision) == 1 else label, experiment)
        for experiment, label in labels.items()
    )
