"""The QThread that runs the engine: it works through the queue of jobs and reports by signals."""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QThread, Signal

from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.own.trust import is_untrusted
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.installation.installed import engine_here
from engine.protocol.events import Checked, Failed, Finished, ForecastMade, Started
from engine.runner import Runner
from engine.store.store import Store
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Launcher, kept_awake
from gui.session.background import own_error
from gui.session.jobs import Pausable, QueuedJob, WaitingList, Work, work_key

_ASK_AGAIN_MS = 500
_CONTINUES = "The queue continues."


class EngineThread(QThread):
    """The thread that reads the catalog (devices, models, precisions) and runs queued jobs one after another.

    Training runs in worker processes. The thread is the source of signals only and touches no widget. While
    no queued job can start, it makes requested checks, then forecasts. When idle, it prepares a spare worker,
    so the next run starts at once.
    """

    catalog_read = Signal(object)  # Catalog
    catalog_failed = Signal(str, object)  # the name of another machine, Problem
    machine_waits = Signal(str, str)  # its name, and what a question to it waits for
    run_began = Signal(str)  # run id
    run_event = Signal(str, object)  # run id, the engine's event
    run_ended = Signal(str, object)  # run id, Finished, Failed or None
    job_began = Signal(str)  # key
    job_event = Signal(str, object)  # key, the job's event
    job_ended = Signal(str, object)  # key, Problem or None
    job_yielded = Signal(str)  # key: it waits again
    forecast_made = Signal(object, object)  # Experiment, ForecastMade or None
    forecast_refused = Signal(object, object)  # Experiment, Problem: a setting prevents a forecast
    check_ended = Signal(object, object)  # Experiment, Checked or Problem
    queue_changed = Signal()  # something was added or taken out
    problem = Signal(object)  # Problem
    idle = Signal()
    engine_missing = Signal()  # everything waits until `renew_engine` is called

    def __init__(self, store_path: Path, launcher: Launcher) -> None:
        super().__init__()
        self.setObjectName("engine")
        self._store_path = store_path
        self._launchers = {"": launcher}
        self.machine = ""
        """The name of the machine that is asked for catalogs, checks and forecasts; "" for this one."""
        self.waiting_list = WaitingList()
        self.waiting_list.can_train = self._can_train
        self._changed = self.waiting_list.changed
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
        self._tool: Driver[Any] | Sweeper | None = None
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

    def enqueue(self, run_ids: tuple[str, ...], machine: str = "", *, goes_first: bool = False) -> None:
        """Add runs that are queued in the store, at the end of the queue or at its front."""
        self.waiting_list.add(*run_ids, goes_first=goes_first, machine=machine)
        self.queue_changed.emit()

    def enqueue_job(self, job: QueuedJob, *, is_held: bool = False) -> None:
        """Add a job at the end of the queue."""
        self.waiting_list.add(job, is_held=is_held)
        self.queue_changed.emit()

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

    def dequeue(self, run_id: str) -> bool:
        """Remove a run from the queue. Return False if it has started, even before `run_began` arrives."""
        with self._changed:
            self._remove(run_id)
            return self.waiting_list.current != run_id

    def stop_job(self, key: str) -> bool:
        """Stop a job and keep its results so far. Return True if it was still waiting and was removed."""
        with self._changed:
            # under one lock: else a job that has just left the queue would be missed
            current = self.waiting_list.current
            if isinstance(current, QueuedJob) and current.key == key:
                self.stop_run()
            return self._remove(key)

    def _remove(self, key: str) -> bool:
        is_removed = self.waiting_list.remove(key)
        self.queue_changed.emit()
        return is_removed

    def waiting(self) -> tuple[str, ...]:
        """Return the ids of the waiting runs, next first."""
        return tuple(work for work in self.waiting_list.waiting() if isinstance(work, str))

    def stop_run(self) -> None:
        """Ask the current job to stop. The queue and forecasts are kept."""
        with self._changed:
            if self.waiting_list.current is not None:
                self._stop_asked = True
                self._stop_job()

    def pause_run(self, pauses: bool) -> None:
        """Ask the current run to pause after the current step, or to resume."""
        with self._changed:
            self._pause_asked = pauses
            for job in self._pausable():
                (job.pause if pauses else job.resume)()

    def skip_turn(self) -> bool:
        """Ask the current turn of a sweep to stop. Return False if no sweep is running."""
        with self._changed:
            if isinstance(self._tool, Sweeper):
                self._pause_asked = False
                self._tool.skip()
                return True
            return False

    def _pausable(self) -> list[Pausable]:
        jobs: tuple[object, ...] = (self._runner, self._tool)
        return [job for job in jobs if isinstance(job, Pausable)]

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
            return self.waiting_list.current is None

    def shut_down(self, *, leaves: bool = False) -> None:
        """Stop the current run, empty the queue, and wait until the worker has exited.

        A run on a remote machine continues there if `leaves`.
        """
        with self._changed:
            self._leaves = leaves
            self.waiting_list.clear()
            self._to_forecast.clear()
            self._to_check = None
            self._closing = True
            self._changed.notify()
            self._stop_asked = True
        self._stop_job()
        while not self.wait(_ASK_AGAIN_MS):
            # the request may have come before there was a job to stop
            self._stop_job()

    def _stop_job(self) -> None:
        if self._runner is not None and self._leaves:
            self._runner.leave()
        elif self._runner is not None:
            self._runner.stop()
        if self._tool is not None:
            self._tool.stop()

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
        """Return a runner on the machine that `stop_run` can stop. Raises ProblemError for an unknown one."""
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
                        if isinstance(work, str):
                            self._train(store, work)
                        else:
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
        asked = self.waiting_list.has_next() or (answers and (self._to_forecast or self._to_check))
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
            if self._has_engine and self.waiting_list.has_next() and not engine_here().is_usable:
                # removed from a command line: what waits must not fail, all of it, for that
                self._has_engine, self._engine_is_new = False, True
            is_over = self._closing or self._engine_is_new or self._is_blocked
            return None if is_over else self.waiting_list.start_next()

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
            if made is None and self.waiting_list.current is None and self._should_yield():
                # interrupted for something else: it is made afterwards
                self._to_forecast.append(experiment)
                return
        self.forecast_made.emit(experiment, made)

    def _is_wanted_elsewhere(self) -> bool:
        """Return True if a check must yield to a job."""
        return self.waiting_list.has_next() or self._closing

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

    def _execute(self, store: Store, job: QueuedJob) -> None:
        problem: Problem | None = None
        yielded = False

        def should_yield() -> bool:
            nonlocal yielded
            yielded = self.waiting_list.should_yield()
            return yielded

        self.job_began.emit(job.key)
        tell = partial(self._report_event, job.key)
        try:
            launcher, catalog = self.launcher(job.machine), self._catalogs.get(job.machine)
            tool = self._tool = job.tool(store, launcher, catalog)
            problem = job.execute(tool, store, tell, lambda: self._stop_asked, should_yield)
        except ProblemError as error:
            problem = error.problem
        except Exception as error:  # noqa: BLE001 - as for a run
            problem = own_error(error, continues=_CONTINUES)
        finally:
            self._tool = None
        if yielded and not self._stop_asked and problem is None:
            self.waiting_list.end(yielded=True)
            self.job_yielded.emit(job.key)
            return
        self.job_ended.emit(job.key, self._left_queue(store, job) or problem)

    def _left_queue(self, store: Store, work: Work) -> Problem | None:
        """Remove ended or refused work from the queue. Return the problem, if any.

        As the window closes, work that can be resumed or has not started stays for the next start.
        """
        self.waiting_list.end()
        try:
            if not self._closing:
                store.waiting.remove([work_key(work)])
        except ProblemError as error:
            return error.problem
        return None

    def _report_event(self, key: str, event: object) -> None:
        self.job_event.emit(key, event)
        if isinstance(event, Started):
            self._repeat_pause_request()

    def _train(self, store: Store, run_id: str) -> None:
        last: Finished | Failed | None = None
        is_first = True
        self.run_began.emit(run_id)
        try:
            runner = self._use(store, store.run(run_id).machine)
            for event in runner.run(run_id):
                self.run_event.emit(run_id, event)
                if isinstance(event, Finished | Failed):
                    last = event
                if self._runs_on is self._launchers.get(self.machine):
                    self._answer_known(runner)
                if self._stop_asked:
                    # asked again: the request may have come before the session had begun
                    self._stop_job()
                elif is_first:
                    self._repeat_pause_request()
                is_first = False
        except ProblemError as error:
            last = Failed(problem=error.problem)
        except Exception as error:  # noqa: BLE001 - the thread must outlive the run, and the user must know
            last = Failed(problem=own_error(error, continues=_CONTINUES))
        problem = self._left_queue(store, run_id)
        self.run_ended.emit(run_id, last if last is not None or problem is None else Failed(problem=problem))

    def _repeat_pause_request(self) -> None:
        """Repeat the request, which may have come before the session started."""
        with self._changed:
            for job in self._pausable() if self._pause_asked else ():
                job.pause()
