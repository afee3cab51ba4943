"""The window's side of the searches for the largest batch: the one going on, the waiting, the saved."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from engine.experiment import Experiment
from engine.memory_lines import MemoryLine
from engine.probing import ProbeEvent
from engine.problem import Problem, ProblemError
from engine.records.probes import ProbeRecord
from engine.records.store import Store
from gui.engine_thread import EngineThread
from gui.log_lines import search_lines
from gui.search_order import SearchOrder
from gui.search_view import SearchView

_MOST_SAVED = 60

Sides = Sequence[tuple[str, Experiment]]


class Searches(QObject):
    """`changed` (series) when a search's view did; `began` and `ended` (series); `problem` (Problem);
    `logged` (level, message, what it is about); `deleted` (series)."""

    changed = Signal(str)
    began = Signal(str)
    ended = Signal(str)
    problem = Signal(object)
    logged = Signal(str, str, object)
    deleted = Signal(str)

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store, self._thread = store, thread
        self._views: dict[str, SearchView] = {}
        self._running: str | None = None
        thread.search_began.connect(self._begin)
        thread.search_told.connect(self._take)
        thread.search_ended.connect(self._end)

    @property
    def running(self) -> str | None:
        """The series that is searched now."""
        return self._running

    def submit(self, sides: Sides, *, granularity: int, margin_fraction: float) -> str:
        """Queues a search in each of the sides; its series. Raises ProblemError if it could not be saved."""
        self._store.check_writable()
        order = SearchOrder(secrets.token_hex(6), _distinct(sides), granularity, margin_fraction)
        self._views[order.series] = SearchView.of_order(order)
        self._thread.enqueue_search(order)
        return order.series

    def stop(self, series: str) -> None:
        """Ends a search with what it knows; one that still waits is taken out of the queue."""
        if self._thread.stop_search(series):
            del self._views[series]
            self.ended.emit(series)

    def view(self, series: str) -> SearchView | None:
        """A search of this session, or a saved one; None where there is none of that name."""
        if series not in self._views:
            found = [record for record in self._store.probes.newest() if record.series == series]
            if any(record.trials for record in found):
                self._views[series] = SearchView.of_records(found)
        return self._views.get(series)

    def set_forecast(self, series: str, side: int, lines: tuple[MemoryLine, ...]) -> None:
        """Lays a forecast's lines under one side's trials."""
        view = self._views.get(series)
        if view is not None:
            sides = list(view.sides)
            sides[side] = replace(sides[side], forecast=lines)
            self._views[series] = replace(view, sides=tuple(sides))

    def saved(self) -> tuple[SearchView, ...]:
        """The newest saved searches that tried anything, newest first, without the one that goes on."""
        by_series: dict[str, list[ProbeRecord]] = {}
        for record in self._store.probes.newest(_MOST_SAVED):
            by_series.setdefault(record.series, []).append(record)
        views = (SearchView.of_records(each) for key, each in by_series.items() if key != self._running)
        return tuple(view for view in views if view.trial_count)

    def newest(self) -> str | None:
        """The series of the newest saved search."""
        return next((view.series for view in self.saved()), None)

    @property
    def waiting(self) -> int:
        """How many searches wait for their turn."""
        return self._thread.waiting_searches()

    def delete(self, series: str) -> None:
        """Forgets a saved search, unless it goes on."""
        if series == self._running:
            return
        try:
            for record in self._store.probes.newest():
                if record.series == series:
                    self._store.probes.delete(record.id)
        except ProblemError as error:
            self.problem.emit(error.problem)
        self._views.pop(series, None)
        self.deleted.emit(series)

    def _begin(self, series: str) -> None:
        self._running = series
        self._update(series, replace(self._views[series], is_waiting=False, is_live=True))
        self.began.emit(series)

    def _take(self, series: str, side: int, event: ProbeEvent) -> None:
        view = self._views[series]
        for level, message in search_lines(event):
            self.logged.emit(level, message, f"Memory limit, {view.sides[side].label}")
        self._update(series, view.after(side, event))

    def _end(self, series: str, problem: Problem | None) -> None:
        self._running = None
        view = replace(self._views[series], is_waiting=False, is_live=False)
        if view.trial_count or any(side.problem for side in view.sides):
            self._update(series, view)
        else:
            del self._views[series]
        if problem is not None:
            self.problem.emit(problem)
        self.ended.emit(series)

    def _update(self, series: str, view: SearchView) -> None:
        self._views[series] = view
        self.changed.emit(series)


def _distinct(sides: Sides) -> tuple[tuple[str, Experiment], ...]:
    """The sides that differ in more than what a search does not look at: the batch and the length."""
    found: dict[Experiment, str] = {}
    for label, experiment in sides:
        same = experiment.model_copy(update={"batch_size": 1, "epochs": None, "steps": 20})
        found.setdefault(same, label)
    precisions = [experiment.precision for experiment in found]
    return tuple(
        (one.precision.label if precisions.count(one.precision) == 1 else label, one)
        for one, label in found.items()
    )
