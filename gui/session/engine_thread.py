"""The QThread that runs the engine: it owns the queue of runs and searches, and reports by signals."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.limit.prober import DEFAULT_MARGIN, ProbeEvent, Prober
from engine.protocol.events import Failed, Finished, ForecastMade
from engine.protocol.trials import ProbeEnded
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher


@dataclass(frozen=True)
class SearchOrder:
    """One search a side, each with its label; `series` names them together in the store."""

    series: str
    sides: tuple[tuple[str, Experiment], ...]
    granularity: int = 1
    margin_fraction: float = DEFAULT_MARGIN


def carry_out(
    order: SearchOrder,
    prober: Prober,
    tell: Callable[[int, ProbeEvent], None],
    is_stopped: Callable[[], bool],
) -> Problem | None:
    """Searches side after side; `tell` gets the side's place and each event. The first problem, if any.

    A side that cannot be searched does not keep the next one from it.
    """
    first: Problem | None = None
    for place, (_, experiment) in enumerate(order.sides):
        if is_stopped():
            break
        try:
            for event in prober.probe(
                experiment,
                order.granularity,
                order.margin_fraction,
                series=order.series,
            ):
                tell(place, event)
                if is_stopped() and not isinstance(event, ProbeEnded):
                    # asked again, in case the wish came before the search was there
                    prober.stop()
                if isinstance(event, Failed):
                    first = first or event.problem
        except ProblemError as error:
            tell(place, Failed(problem=error.problem))
            first = first or error.problem
    return first


_ASK_AGAIN_MS = 500


class EngineThread(QThread):
    """Runs what is queued, one after another, and reads the catalog first. The training is another process.

    Only signals leave this thread. `told` carries (run id, engine event). When the queue is empty it readies
    a spare worker, so that the next click trains at once. A search for the largest batch waits its turn as a
    run does: `search_told` carries (series, side, probe event), `search_ended` its Problem or None. Forecasts
    are made while nothing waits: `forecast_made` carries (Experiment, ForecastMade or None), and before it
    `forecast_refused` (Experiment, Problem) where a setting is why there is none.
    """

    catalog_read = Signal(object)
    run_began = Signal(str)
    told = Signal(str, object)
    run_ended = Signal(str, object)
    search_began = Signal(str)
    search_told = Signal(str, int, object)
    search_ended = Signal(str, object)
    forecast_made = Signal(object, object)
    forecast_refused = Signal(object, object)
    problem = Signal(object)
    idle = Signal()

    def __init__(self, store_path: Path, launcher: Launcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("engine")
        self._store_path = store_path
        self._launcher = launcher
        self._changed = threading.Condition()
        self._waiting: deque[str | SearchOrder] = deque()
        self._to_forecast: deque[Experiment] = deque()
        self._closing = False
        self._stop_asked = False
        self._pause_asked = False
        self._current: str | SearchOrder | None = None
        self._runner: Runner | None = None
        self._prober: Prober | None = None
        self._catalog: Catalog | None = None

    def enqueue(self, run_ids: tuple[str, ...], *, goes_first: bool = False) -> None:
        """Adds runs that are queued in the store, behind what waits or before it."""
        self._add(*run_ids, goes_first=goes_first)

    def enqueue_search(self, order: SearchOrder) -> None:
        """Adds a search for the largest batch."""
        self._add(order)

    def _add(self, *work: str | SearchOrder, goes_first: bool = False) -> None:
        with self._changed:
            if goes_first:
                self._waiting.extendleft(reversed(work))
            else:
                self._waiting.extend(work)
            self._changed.notify()

    def ask_forecasts(self, experiments: tuple[Experiment, ...]) -> None:
        """Asks what these need, as soon as nothing else waits; what was asked before is forgotten."""
        with self._changed:
            self._to_forecast.clear()
            self._to_forecast.extend(experiments)
            self._changed.notify()

    def take_out(self, run_id: str) -> bool:
        """Takes a run out again; False if it runs already or is not there."""
        with self._changed:
            if run_id not in self._waiting:
                return False
            self._waiting.remove(run_id)
            return True

    def stop_search(self, series: str) -> bool:
        """Ends a search with what it knows; True for one that still waited and was taken out again."""
        with self._changed:
            # in one breath: else one that has just left the queue, and has not been told to begin, is missed
            if isinstance(self._current, SearchOrder) and self._current.series == series:
                self.stop_run()
            found = [one for one in self._waiting if isinstance(one, SearchOrder) and one.series == series]
            for order in found:
                self._waiting.remove(order)
            return bool(found)

    def waiting_searches(self) -> int:
        """How many searches wait."""
        with self._changed:
            return sum(isinstance(work, SearchOrder) for work in self._waiting)

    def waiting(self) -> tuple[str, ...]:
        """The ids of the runs that wait, next first."""
        with self._changed:
            return tuple(work for work in self._waiting if isinstance(work, str))

    def stop_run(self) -> None:
        """Asks the run or search in progress to end; those that wait go on waiting their turn.

        A forecast is neither: it goes on, and makes way by itself for what is to be measured.
        """
        with self._changed:
            if self._current is not None:
                self._stop_asked = True
                self._stop_job()

    def pause_run(self) -> None:
        """Asks the run in progress to wait after the step in flight."""
        with self._changed:
            self._pause_asked = True
            if self._runner is not None:
                self._runner.pause()

    def continue_run(self) -> None:
        """Asks the run that waits to go on."""
        with self._changed:
            self._pause_asked = False
            if self._runner is not None:
                self._runner.go_on()

    def shut_down(self) -> None:
        """Stops the run in progress, forgets the queue, and waits until the worker is gone."""
        with self._changed:
            self._waiting.clear()
            self._to_forecast.clear()
            self._closing = True
            self._changed.notify()
            self._stop_asked = True
        self._stop_job()
        while not self.wait(_ASK_AGAIN_MS):
            # the wish may have come before there was a job to stop
            self._stop_job()

    def _stop_job(self) -> None:
        if self._runner is not None:
            self._runner.stop()
        if self._prober is not None:
            self._prober.stop()

    def run(self) -> None:
        try:
            with self._launcher, Store(self._store_path) as store:
                # a person has seen it wait in the table, and looks for it there
                self._runner = Runner(store, self._launcher, keeps_refused=True)
                self._work(self._runner, store)
        except ProblemError as error:
            self.problem.emit(error.problem)
        finally:
            self._runner = None

    def _work(self, runner: Runner, store: Store) -> None:
        self._read_catalog(runner)
        while not self._closing:
            if not self._has_work():
                self._launcher.prepare()
                self.idle.emit()
            match self._next():
                case str(run_id):
                    self._train(runner, run_id)
                case SearchOrder() as order:
                    self._search(store, order)
                case Experiment() as experiment:
                    self._forecast(runner, experiment)

    def _read_catalog(self, runner: Runner) -> None:
        try:
            self._catalog = runner.catalog()
            self.catalog_read.emit(self._catalog)
        except ProblemError as error:
            if not self._closing:
                self.problem.emit(error.problem)

    def _has_work(self) -> bool:
        with self._changed:
            return bool(self._waiting or self._to_forecast)

    def _next(self) -> str | SearchOrder | Experiment | None:
        """What to do next: what waits comes before what is only to be guessed."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting or self._to_forecast) or self._closing)
            self._stop_asked = self._pause_asked = False
            self._current = None
            if self._closing:
                return None
            if self._waiting:
                self._current = self._waiting.popleft()
                return self._current
            return self._to_forecast.popleft()

    def _forecast(self, runner: Runner, experiment: Experiment) -> None:
        made: ForecastMade | None = None
        try:
            made = runner.forecast(experiment, self._is_wanted_elsewhere)
        except ProblemError as error:
            # a model that cannot be forecast is nobody's fault; a setting that it refuses is told
            if error.problem.kind is Kind.REQUEST and error.problem.key is not None:
                self.forecast_refused.emit(experiment, error.problem)
        with self._changed:
            if made is None and self._current is None and self._is_wanted_elsewhere():
                # given up for something to measure: it is made when that is over
                self._to_forecast.append(experiment)
                return
        self.forecast_made.emit(experiment, made)

    def _is_wanted_elsewhere(self) -> bool:
        """Nobody waits for a guess when there is something to measure."""
        return bool(self._waiting) or self._closing

    def _answer_known(self, runner: Runner) -> None:
        """Tells the forecasts that are known already, beside a run: nothing is computed for it."""
        with self._changed:
            asked = tuple(self._to_forecast)
            self._to_forecast.clear()
        for experiment in asked:
            self._forecast(runner, experiment)

    def _search(self, store: Store, order: SearchOrder) -> None:
        problem: Problem | None = None
        self.search_began.emit(order.series)
        prober = self._prober = Prober(store, self._launcher, self._catalog)
        try:
            problem = carry_out(
                order,
                prober,
                lambda side, event: self.search_told.emit(order.series, side, event),
                lambda: self._stop_asked,
            )
        except ProblemError as error:
            problem = error.problem
        except Exception as error:  # noqa: BLE001 - as for a run
            problem = _internal(error)
        finally:
            self._prober = None
        self.search_ended.emit(order.series, problem)

    def _train(self, runner: Runner, run_id: str) -> None:
        last: Finished | Failed | None = None
        is_first = True
        self.run_began.emit(run_id)
        try:
            for event in runner.run(run_id):
                self.told.emit(run_id, event)
                if isinstance(event, Finished | Failed):
                    last = event
                self._answer_known(runner)
                if self._stop_asked:
                    # asked again, in case the wish came before the session was there
                    runner.stop()
                elif is_first:
                    self._ask_again_to_pause(runner)
                is_first = False
        except ProblemError as error:
            last = Failed(problem=error.problem)
        except Exception as error:  # noqa: BLE001 - the thread must outlive one run, and the user must be told
            last = Failed(problem=_internal(error))
        self.run_ended.emit(run_id, last)

    def _ask_again_to_pause(self, runner: Runner) -> None:
        """In case the wish came before the session was there."""
        with self._changed:
            if self._pause_asked:
                runner.pause()


def _internal(error: Exception) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"It was lost to a fault in Ammeter: {error}.",
        remedy="The other runs go on. Please report it with the text of the log.",
    )
