"""The QThread that runs the engine: it works through the queue of jobs and reports by signals."""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from PySide6.QtCore import QThread, Signal

from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.own.trust import is_untrusted
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.installation.installed import engine_here
from engine.protocol.events import Checked, Failed, Finished, ForecastMade, Started
from engine.runner import Runner
from engine.store.record import RUN, Work
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Launcher, kept_awake
from gui.session.background import own_error
from gui.session.queue import DRIVERS, Queue

_ASK_AGAIN_MS = 500
_CONTINUES = "The queue continues."


@runtime_checkable
class Pausable(Protocol):
    """A driver that any thread can pause after its current step, and resume."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class EngineThread(QThread):
    """The thread that reads the catalog (devices, models, precisions) and works through the `queue`.

    Training runs in worker processes. The thread is the source of signals only and touches no widget. While
    no queued job can start, it makes requested checks, then forecasts. When idle, it prepares a spare worker,
    so the next run starts at once.
    """

    catalog_read = Signal(object)  # Catalog
    catalog_failed = Signal(str, object)  # the name of another machine, Problem
    machine_waits = Signal(str, str)  # its name, and what a question to it waits for
    began = Signal(str)  # key
    reported = Signal(str, object)  # key, the driver's event
    ended = Signal(str, object)  # key, Problem or None
    yielded = Signal(str)  # key: it waits again
    forecast_made = Signal(object, object)  # Experiment, ForecastMade or None
    forecast_refused = Signal(object, object)  # Experiment, Problem: a setting prevents a forecast
    check_ended = Signal(object, object)  # Experiment, Checked or Problem
    problem = Signal(object)  # Problem
    idle = Signal()
    engine_missing = Signal()  # everything waits until `renew_engine` is called

    def __init__(self, store_path: Path, launcher: Launcher, queue: Queue) -> None:
        super().__init__()
        self.setObjectName("engine")
        self._store_path = store_path
        self._launchers = {"": launcher}
        self.machine = ""
        """The name of the machine that is asked for catalogs, checks and forecasts; "" for this one."""
        self._queue, self._changed = queue, queue.lock
        queue.can_start = self._can_train
        self._to_forecast: deque[Experiment] = deque()
        self._to_check: Experiment | None = None
        self._closing = False
        self._engine_is_new = True
        self._has_engine = False
        self._is_blocked = False
        self._stop_asked = False
        self._pause_asked = False
        self._runner: Runner | None = None
        self._runs_on: Launcher | None = None
        self._driver: Runner | Driver[Any] | Sweeper | None = None
        self._outdated: list[Launcher] = []
        self._leaves = False
        self._catalogs: dict[str, Catalog] = {}

    def _can_train(self, machine: str) -> bool:
        # it is taken for granted until it was looked for
        return bool(machine) or self._has_engine or self._engine_is_new

    def use_machine(self, machine: str) -> Catalog | None:
        """Use another machine from now on, and read its catalog. Waiting jobs keep their machines.

        Return the catalog that is known already, since it is not read again during a run.
        """
        with self._changed:
            known = self._catalogs.get(machine)
            self.machine = machine
            self._to_forecast.clear()
            self._to_check = None
            self._engine_is_new = True
            self._changed.notify()
            return known

    def launcher(self, machine: str) -> Launcher:
        """Return the launcher on a machine. Raises ProblemError if it is not known."""
        with self._changed:
            if machine not in self._launchers:
                # most windows know one machine
                from engine.machines.machine import Machines
                from engine.machines.remote_site import launcher_on

                made = launcher_on(Machines().find(machine))
                made.trusted_code = self._launchers[""].trusted_code
                self._launchers[machine] = made
            return self._launchers[machine]

    def forget_launcher(self, machine: str) -> None:
        """Reconnect to a machine before the next job, because its program or its folder has changed."""
        with self._changed:
            self._outdated += [self._launchers.pop(machine)] if machine in self._launchers else []

    def request_forecasts(self, experiments: tuple[Experiment, ...]) -> None:
        """Request forecasts once the queue is empty. They replace an earlier request."""
        with self._changed:
            self._to_forecast.clear()
            self._to_forecast.extend(experiments)
            self._changed.notify()

    def request_check(self, experiment: Experiment | None) -> None:
        """Request a check, which replaces an earlier request. None cancels it."""
        with self._changed:
            self._to_check = experiment
            self._changed.notify()

    def stop_current(self, key: str | None = None) -> None:
        """Request the work in progress to stop.

        With a `key`, stop only work with this key. Other queued work and forecasts stay.
        """
        with self._changed:
            current = self._queue.current
            if current is not None and key in (None, current.key):
                self._stop_asked = True
                self._stop_drivers()

    def pause_run(self, pauses: bool) -> None:
        """Ask the current run to pause after the current step, or to resume."""
        with self._changed:
            self._pause_asked = pauses
            if isinstance(self._driver, Pausable):
                (self._driver.pause if pauses else self._driver.resume)()

    def skip_turn(self) -> bool:
        """Ask the current turn of a sweep to stop. Return False if no sweep is running."""
        with self._changed:
            if isinstance(self._driver, Sweeper):
                self._pause_asked = False
                self._driver.skip()
                return True
            return False

    def renew_engine(self) -> None:
        """Look for PyTorch again after the current job, and read the catalog with it."""
        with self._changed:
            self._engine_is_new = True
            self._changed.notify()

    def set_blocked(self, is_blocked: bool) -> bool:
        """Start no more jobs while blocked. Return True if no job is running."""
        with self._changed:
            self._is_blocked = is_blocked
            self._changed.notify()
            return self._queue.current is None

    def shut_down(self, *, leaves: bool = False) -> None:
        """Stop the current run, empty the queue, and wait until the worker has exited.

        A run on a remote machine continues there if `leaves`.
        """
        with self._changed:
            self._leaves = leaves
            self._queue.clear()
            self._to_forecast.clear()
            self._to_check = None
            self._closing = True
            self._changed.notify()
            self._stop_asked = True
        self._stop_drivers()
        while not self.wait(_ASK_AGAIN_MS):
            # the request may have come before there was a job to stop
            self._stop_drivers()

    def _stop_drivers(self) -> None:
        # a check or a forecast is the runner's, too
        for driver in (self._runner, None if self._driver is self._runner else self._driver):
            if self._leaves and isinstance(driver, Runner):
                driver.leave()
            elif driver is not None:
                driver.stop()

    def run(self) -> None:
        try:
            with Store(self._store_path) as store:
                self._work(store)
        except ProblemError as error:
            self.problem.emit(error.problem)
        finally:
            self._runner = None
            for launcher in (*self._launchers.values(), *self._outdated):
                launcher.close()

    def _use(self, store: Store, machine: str) -> Runner:
        """Return a runner on a machine, which can be stopped. Raises ProblemError for an unknown one."""
        launcher = self.launcher(machine)
        if self._runner is None or self._runs_on is not launcher:
            # the user has seen it waiting in the table, and will look for it there
            self._runner, self._runs_on = Runner(store, launcher, keeps_refused=True), launcher
            self._runner.on_wait = partial(self.machine_waits.emit, machine)
        return self._runner

    def _work(self, store: Store) -> None:
        while not self._closing:
            if self._engine_is_new:
                self._find_engine(store)
            with self._changed:
                has_work = self._has_work()
                outdated, self._outdated = self._outdated, []
            for launcher in outdated:
                launcher.close()
            if not has_work:
                if self.machine in self._catalogs or not self.machine:
                    self.launcher(self.machine).prepare()
                self.idle.emit()
            work = self._next_work()
            if isinstance(work, Experiment):
                look = self._check if work is self._to_check else self._forecast
                look(self._use(store, self.machine), work)
            elif work is not None:
                # and all that can begin after it
                with kept_awake():
                    while work is not None:
                        self._execute(store, work)
                        work = self._next_queued()

    def _find_engine(self, store: Store) -> None:
        with self._changed:
            self._engine_is_new = False
            self._has_engine = engine_here().is_usable
            machine = self.machine
        if not (self._has_engine or machine):
            self.engine_missing.emit()
            return
        try:
            catalog = self._catalogs[machine] = self._use(store, machine).catalog()
            if machine == self.machine:
                self.catalog_read.emit(catalog)
        except ProblemError as error:
            if self._closing or machine != self.machine:
                return
            if machine:
                self._catalogs.pop(machine, None)
                self.catalog_failed.emit(machine, error.problem)
            else:
                self.problem.emit(error.problem)

    def _has_work(self) -> bool:
        answers = self.machine in self._catalogs if self.machine else self._has_engine
        asked = self._queue.has_next() or (answers and (self._to_forecast or self._to_check))
        return self._engine_is_new or bool(asked and not self._is_blocked)

    def _next_work(self) -> Work | Experiment | None:
        """Return the next work: first from the queue, then a check, then forecasts."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_work() or self._closing)
            work = None if self._closing else self._next_queued()
            if work is not None or self._closing or self._engine_is_new:
                return work
            return self._to_check or self._to_forecast.popleft()

    def _next_queued(self) -> Work | None:
        """Return the next work of the queue, if any can begin."""
        with self._changed:
            self._stop_asked = self._pause_asked = False
            if self._has_engine and self._queue.has_next() and not engine_here().is_usable:
                # removed from a command line: what waits must not fail, all of it, for that
                self._has_engine, self._engine_is_new = False, True
            is_over = self._closing or self._engine_is_new or self._is_blocked
            return None if is_over else self._queue.start_next()

    def _refuse_wait(self) -> None:
        # nobody asked for it, so it is no reason to wait for a node of a cluster
        if self.launcher(self.machine).site.has_nodes:
            raise request_error("On a cluster, a model is checked when it trains.", "Start the training.")

    def _check(self, runner: Runner, experiment: Experiment) -> None:
        def is_unwanted() -> bool:
            return self._to_check is not experiment or self._is_wanted_elsewhere()

        answer: Checked | Problem
        try:
            self._refuse_wait()
            answer = runner.check(experiment, is_unwanted)
        except ProblemError as error:
            answer = error.problem
        with self._changed:
            is_wanted = self._to_check is experiment
            if is_wanted:
                self._to_check = None
        if is_wanted:
            self.check_ended.emit(experiment, answer)

    def _forecast(self, runner: Runner, experiment: Experiment) -> None:
        made: ForecastMade | None = None
        try:
            self._refuse_wait()
            made = runner.forecast(experiment, self._should_yield)
        except ProblemError as error:
            # a model that cannot be forecast is no problem, nor one that is asked about before it runs; a
            # setting that it refuses is
            problem = error.problem
            if problem.kind is Kind.REQUEST and problem.key is not None and not is_untrusted(problem):
                self.forecast_refused.emit(experiment, problem)
        with self._changed:
            if made is None and self._queue.current is None and self._should_yield():
                # interrupted for something else: it is made afterwards
                self._to_forecast.append(experiment)
                return
        self.forecast_made.emit(experiment, made)

    def _is_wanted_elsewhere(self) -> bool:
        """Return True if a check must yield to a job."""
        return self._queue.has_next() or self._closing

    def _should_yield(self) -> bool:
        """Return True if a forecast must yield to a job or a check."""
        return self._is_wanted_elsewhere() or self._to_check is not None

    def _answer_known(self, runner: Runner) -> None:
        """Report, during a run, the forecasts that are known already: none is computed then."""
        with self._changed:
            asked = tuple(self._to_forecast)
            self._to_forecast.clear()
        for experiment in asked:
            self._forecast(runner, experiment)

    def _execute(self, store: Store, work: Work) -> None:
        problem: Problem | None = None
        yields = False

        def should_yield() -> bool:
            nonlocal yields
            yields = self._queue.should_yield()
            return yields

        self.began.emit(work.key)
        try:
            self._driver = self._driver_of(store, work)
            for number, event in enumerate(self._driver.execute(work, should_yield)):
                self.reported.emit(work.key, event)
                problem = _problem_after(event, problem)
                self._repeat_requests(event, is_first=number == 0)
                if self._driver is self._runner and self._runs_on is self._launchers.get(self.machine):
                    self._answer_known(self._driver)
        except ProblemError as error:
            problem = error.problem
        except Exception as error:  # noqa: BLE001 - the thread must outlive the work, and the user must know
            problem = own_error(error, continues=_CONTINUES)
        finally:
            self._driver = None
        with self._changed:
            # under one lock: else a request to stop that comes in between would be lost
            yields = yields and not self._stop_asked and problem is None
            if yields:
                self._queue.end(yields=True)
        if yields:
            self.yielded.emit(work.key)
        else:
            self.ended.emit(work.key, self._left_queue(store, work) or problem)

    def _driver_of(self, store: Store, work: Work) -> Runner | Driver[Any] | Sweeper:
        if work.kind == RUN:
            return self._use(store, store.run(work.key).machine)
        return DRIVERS[work.kind](store, self.launcher(work.machine), self._catalogs.get(work.machine))

    def _repeat_requests(self, event: object, *, is_first: bool) -> None:
        """Repeat a request to stop or pause, which may have come before the session started."""
        if self._stop_asked and not isinstance(event, Finished | Failed):
            self._stop_drivers()
        elif is_first or isinstance(event, Started):
            with self._changed:
                if self._pause_asked and isinstance(self._driver, Pausable):
                    self._driver.pause()

    def _left_queue(self, store: Store, work: Work) -> Problem | None:
        """Remove ended or refused work from the queue. Return the problem, if any.

        As the window closes, work that can be resumed or has not started stays for the next start.
        """
        self._queue.end()
        try:
            if not self._closing:
                store.waiting.remove([work.key])
        except ProblemError as error:
            return error.problem
        return None


def _problem_after(event: object, problem: Problem | None) -> Problem | None:
    match event:
        case Failed():
            return event.problem
        case TurnEnded():
            # what failed was one turn of a sweep, which continues
            return None
    return problem
