"""The window's side of the engine: running and waiting experiments, other jobs, and forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QCoreApplication, QObject, Signal

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Grid, Plan, alternating_turns
from engine.installation.installed import Engine, State, engine_here
from engine.protocol.events import Event, Failed, Finished, Log, Phase, Started
from engine.protocol.numerics import Numerics
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit
from engine.protocol.tune import Tuning, TuningPlan
from engine.store.checkpoints import obstacle
from engine.store.queue import RUN, WaitingItem
from engine.store.record import RunRecord, Status
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.sweep.sweeper import Sweeper
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Launcher
from gui.session.engine_thread import EngineThread
from gui.session.forecaster import Forecaster
from gui.session.live_run import LiveRun, run_lines
from gui.session.queue import Queue
from gui.session.request import CodeTrust
from gui.session.saved_runs import SavedRuns
from gui.session.studies import Studies, why_not_profiled
from gui.session.sweeps import Sweeps
from gui.session.work import Jobs

WAITS_FOR_ENGINE = "Waiting for PyTorch to be installed."
_BUSY = {
    "run": "A run is training. Add this one to the queue.",
    "limit": "A batch-size search is running. Add this to the queue.",
    "numerics": "A numerics study is running. Add this to the queue.",
    "profile": "A profile is being recorded. Add this to the queue.",
    "sweep": "A sweep is running. Add this to the queue.",
    "installation": "PyTorch is being installed. Add this to the queue.",
    "tune": "A tuning is running. Add this to the queue.",
}


class Experiments(QObject):
    """Submits, pauses and stops the window's runs and other jobs, and reports their progress by signals.

    It is the interface of the window to the engine thread and the queue. `runs` are the saved runs, updated
    from the store and from the worker's events.
    """

    catalog_known = Signal(object)  # Catalog
    began = Signal(str)  # run id
    ended = Signal(str)
    logged = Signal(str, str, object)  # level, message, the run's name or None
    problem = Signal(object)  # Problem, for the user
    event_received = Signal(str, object)  # run id, the event, which the run's curves have
    pause_request_changed = Signal(object)  # True to pause, False to continue, None for neither
    busy_changed = Signal()  # `busy_words` are others
    engine_changed = Signal(object)  # Engine: set up, updated, removed or found broken, or of another machine
    machine_changed = Signal()
    machine_failed = Signal(object)  # Problem: the other machine does not answer, or not as it should

    def __init__(self, store: Store, launcher: Launcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store, self.store_path = store, store.path
        self.machine = ""
        """The name of the machine that new work is for; "" for this one."""
        self.running: str | None = None
        """The id of the run in progress."""
        self._in_progress: LiveRun | None = None
        self._pause_request: bool | None = None
        self._has_started = self._is_held = False
        self.engine: Engine = engine_here()
        self.catalog: Catalog | None = None
        self.catalog_problem: Problem | None = None
        """Why the devices of this machine could not be read, so there is no catalog."""
        self.runs = SavedRuns(store, self)
        self.runs.problem.connect(self.problem)
        # without a parent, as in `Background`
        self._thread = EngineThread(store.path, launcher)
        self._thread.catalog_read.connect(self._on_catalog)
        self._thread.run_began.connect(self._on_began)
        self._thread.run_event.connect(self._on_event)
        self._thread.run_ended.connect(self._on_ended)
        self._thread.problem.connect(self._on_catalog_problem)
        self._thread.catalog_failed.connect(self._on_catalog_failed)
        self._thread.engine_missing.connect(self._on_engine_missing)
        self.checked, self.idle = self._thread.check_ended, self._thread.idle
        self.machine_waits = self._thread.machine_waits
        self.limits: Studies[Limit] = Studies("limit", store, self._thread, self)
        self.numerics: Studies[Numerics] = Studies("numerics", store, self._thread, self)
        self.profiles: Studies[Profiles] = Studies("profile", store, self._thread, self)
        self.sweeps = Sweeps(store, self._thread, self)
        self.tunings: Studies[Tuning] = Studies("tune", store, self._thread, self)
        works = (self.limits, self.numerics, self.profiles, self.sweeps, self.tunings)
        self.jobs: Mapping[str, Jobs[Any]] = {work.kind: work for work in works}
        for work in self.jobs.values():
            work.problem.connect(self._report)
            work.logged.connect(self.logged)
            work.busy_changed.connect(self.busy_changed)
            work.run_began.connect(self._on_job_run_began)
            work.run_event.connect(self._on_event)
            work.run_ended.connect(lambda run_id: self._on_ended(run_id, None))
        self.queue = Queue(store, self._thread, self.runs, self.jobs, self)
        self.queue.problem.connect(self._report)
        self._update_queue()
        self.forecaster = Forecaster(self._thread, self)
        self.trust = CodeTrust(launcher.trusted_code)

    def load(self) -> None:
        """Read the saved runs, and mark those that a killed program left running as interrupted."""
        for name in self.runs.recover():
            self.logged.emit("warning", "Interrupted. Its results so far are kept.", name)
        for run in self.runs.unreadable():
            self.logged.emit("warning", f"Skipped. {run.why}", run.name)
        self.queue.load()
        # those that were left training elsewhere are read on at once
        for run_id in self._store.disconnected_runs():
            if (left := self.runs.record(run_id)) is not None:
                self._thread.enqueue((run_id,), left.machine, goes_first=True)

    def set_machine(self, machine: str) -> None:
        """Use another machine for new work, "" for this one. Waiting jobs keep their machines."""
        self.machine = machine
        self.catalog = self.catalog_problem = None
        # another machine counts as ready until it says that it is not
        self.engine = Engine(State.OWN) if machine else engine_here()
        self.queue.factory.catalog = None
        self.forecaster.forget()
        self._update_queue()
        known = self._thread.use_machine(machine)
        self.machine_changed.emit()
        self.engine_changed.emit(self.engine)
        if known is not None:
            self.queue.factory.catalog = known
            self._on_catalog(known)

    def reconnect(self) -> None:
        """Reconnect to the current machine with its present settings."""
        self._thread.forget_launcher(self.machine)
        self.set_machine(self.machine)

    def start(self) -> None:
        """Start the engine's thread once, and never after `shut_down`."""
        if not self._has_started:
            self._has_started = True
            self._thread.start()
            self.runs.watch(True)

    def start_engine(self) -> None:
        """Use the PyTorch that is installed now. A current run keeps its own, and queued jobs wait."""
        if self.machine:
            self.reconnect()
            return
        self.catalog_problem = None
        self._on_engine_missing()
        self._thread.renew_engine()

    def reserve_machine(self, is_needed: bool) -> bool:
        """Start no job while an installation needs the machine. Return True if no job is running."""
        self._is_held = is_needed
        self._update_queue()
        return self._thread.set_blocked(is_needed)

    @property
    def can_leave_running(self) -> bool:
        """Return True if a run on a remote machine is in progress, which can continue without this window."""
        run = self.runs.record(self.running or "")
        return self.in_progress == "run" and run is not None and bool(run.machine)

    def shut_down(self, *, leaves: bool = False) -> None:
        """Stop the current run, or leave it training on a remote machine if `leaves`.

        Wait until the worker has exited. Waiting runs stay queued.
        """
        self._has_started = True
        self.runs.watch(False)
        self.forecaster.stop()
        self._thread.shut_down(leaves=leaves)
        self.sweeps.stop_reading()
        self.runs.purge()
        # the thread's last events are in the store; nothing here shows them any more
        for listener in (self, self.queue, *self.jobs.values(), self.forecaster):
            QCoreApplication.removePostedEvents(listener)

    @property
    def is_idle(self) -> bool:
        """Return True if no run or other job is in progress."""
        return self.in_progress is None

    @property
    def in_progress(self) -> str | None:
        """Return the kind of the current job, "run" or one of `jobs`. A sweep's run is part of the sweep."""
        alone = None if self.running is None else "run"
        return next((what for what, work in self.jobs.items() if work.running is not None), alone)

    @property
    def busy_words(self) -> str | None:
        """Return a sentence on the current job and how to queue more. None while idle."""
        return _BUSY.get(self.in_progress or ("installation" if self._is_held else ""))

    @property
    def live(self) -> LiveRun | None:
        """Return the run in progress, as it trains."""
        return self.runs.opened(self.running or "")

    def progress(self) -> float:
        """Return the progress of the current run, 0 to 1."""
        live = self.live
        return live.step / live.total_steps if live is not None and live.total_steps else 0.0

    @property
    def is_paused(self) -> bool:
        """Return True if the run in progress is paused."""
        return self.live is not None and self.live.is_paused

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the ids of this window's queued runs, next first."""
        return self._thread.waiting()

    def submit(
        self,
        title: str,
        experiments: Sequence[tuple[str, Experiment]],
        name: str | None = None,
        repeats: int = 1,
        *,
        goes_first: bool = False,
    ) -> tuple[str, ...]:
        """Queue experiments, each `repeats` times, alternating, and return the ids of their runs.

        Several runs are one comparison. Raises ProblemError if the store refuses, a seed would be too large,
        or code may not run.
        """
        self.trust.check(experiment for _, experiment in experiments)
        turns = alternating_turns(experiments, repeats)
        comparison = self._store.add_comparison(title) if len(turns) > 1 else None
        added = [
            self._store.add(
                turn.experiment,
                name=turn.name(name, is_alone=len(experiments) == 1),
                comparison=comparison,
                label=turn.label,
                machine=self.machine,
            )
            for turn in turns
        ]
        self.runs.reload()
        run_ids = tuple(record.id for record in added)
        self.queue.enqueue_runs(run_ids, goes_first=goes_first)
        return run_ids

    def submit_sweep(self, name: str | None, grid: Grid, plan: Plan) -> str:
        """Queue a sweep and return its id. Raises ProblemError if it cannot be trained or saved."""
        self.trust.check(cell.experiment for cell in grid.cells)
        sweep_id = Sweeper(self._store, self._launcher(), self.catalog).prepare(name or "", grid, plan)
        return self.sweeps.resume(sweep_id)

    def submit_tuning(self, experiment: Experiment, plan: TuningPlan, memory_cap_gib: float | None) -> str:
        """Queue a tuning of an experiment and return its id. Raises ProblemError."""
        wanted = Tuning(experiment=experiment, plan=plan, memory_cap_gib=memory_cap_gib)
        driver = TuneDriver(self._store, self._launcher(), self.catalog)
        return self.tunings.submit(driver.prepare(Study(answer=wanted)).answer)

    def resume_waiting(self, run_ids: Iterable[str]) -> None:
        """Queue runs that an earlier window left queued."""
        run_ids = tuple(run_ids)
        try:
            # one that is gone by now is told where it is taken up
            self.trust.check(run.experiment for run in self._store.runs() if run.id in run_ids)
        except ProblemError as error:
            self._report(error.problem)
            return
        left = {item.key: item for item in self.queue.left()}
        self.queue.enqueue_left(
            [left.get(run_id, WaitingItem(run_id, RUN, "")) for run_id in run_ids], is_held=False
        )

    def why_not_started(self, run: RunRecord) -> str | None:
        """Return why a queued run cannot be started here. None if an earlier window left it."""
        if self.queue.is_held(run.id):
            return "This run is paused in the queue. Resume it there."
        if run.id in self.waiting or run.id == self.running:
            return "This run is waiting in the queue." if self.queue.has_engine else WAITS_FOR_ENGINE
        is_left = any(item.key == run.id for item in self.queue.left())
        return None if is_left else "Another window or a command line will train this run."

    def stop(self) -> None:
        """Stop the comparison in progress: its run ends after the current step, the others do not start.

        A sweep continues with its next combination.
        """
        if not self._thread.skip_turn():
            # the store is slow, and what is next must not begin meanwhile, or it would be stopped
            taken = self._dequeue(self._mates_that_wait())
            self._thread.stop_run()
            self.runs.withdraw(*taken)

    def _mates_that_wait(self) -> tuple[str, ...]:
        # the engine's thread may be further than its signals
        current = self._thread.waiting_list.current
        run = self.runs.record(current if isinstance(current, str) else self.running or "")
        if run is None or run.comparison is None:
            return ()
        waiting = (self.runs.record(run_id) for run_id in self.waiting)
        return tuple(mate.id for mate in waiting if mate is not None and mate.comparison == run.comparison)

    def check_model(self, experiment: Experiment | None) -> None:
        """Request a check, answered by `checked`. None cancels it. Raises ProblemError for refused code."""
        self.trust.check([] if experiment is None else [experiment])
        self._thread.request_check(experiment)

    def toggle_pause(self) -> None:
        """Ask the current run to pause after the current step, or to resume."""
        if self.live is not None:
            pauses = not (self.live.is_paused if self._pause_request is None else self._pause_request)
            self._thread.pause_run(pauses)
            self._set_pause_request(pauses)

    def resume(self, run_id: str) -> None:
        """Queue a stopped run, to continue from its last checkpoint."""
        try:
            self.trust.check([self._store.run(run_id).experiment])
            self._store.requeue(run_id)
            self.queue.enqueue_runs([run_id])
        except ProblemError as error:
            self._report(error.problem)
            return
        if (live := self.runs.opened(run_id)) is not None:
            live.set_status(Status.QUEUED.value)
        self.runs.reload()

    def why_not_resumed(self, run: RunRecord) -> str | None:
        """Return why a run cannot continue where it ended. None if it can."""
        problem = obstacle(run, self._store.checkpoints_folder(run.id))
        return None if problem is None else problem.message

    def why_not_profiled(self, run_ids: Sequence[str]) -> str | None:
        """Return why these runs cannot be profiled. None if they are or can be."""
        runs = [run for run_id in run_ids if (run := self.runs.record(run_id)) is not None]
        unfinished = next((run.title for run in runs if not run.status.is_over), None)
        against = why_not_profiled(runs, self.catalog)
        if unfinished is not None:
            against = f"“{unfinished}” has not ended yet."
        elif against is not None and self.find_profile([run.id for run in runs]) is not None:
            return None
        return self.engine.problem.message if against and self.engine.problem is not None else against

    def find_profile(self, run_ids: Sequence[str]) -> str | None:
        """Return the key of the newest profile of exactly these runs, in this order, or None."""
        wanted = tuple(run_ids)
        unfinished = (view.key for view in self.profiles.unfinished() if view.answer.run_ids == wanted)
        return next(unfinished, None) or self._store.studies.newest_of_runs("profile", wanted)

    def dequeue(self, *run_ids: str) -> None:
        """Remove runs from the queue. New ones are deleted, resumed ones return to their earlier state."""
        self.runs.withdraw(*self._dequeue(run_ids))

    def _dequeue(self, run_ids: Iterable[str]) -> list[str]:
        return [run_id for run_id in run_ids if self._thread.dequeue(run_id)]

    def forecasts(self) -> Forecasts:
        """Return the forecasts of memory that are known."""
        return Forecasts(self._store.path.parent, self.machine)

    def delete(self, run_ids: Iterable[str]) -> tuple[str, ...]:
        """Delete all of these runs except the current one, and return the ids of the deleted ones."""
        deleted = tuple(
            run_id
            for run_id in run_ids
            if self.runs.contains(run_id) and run_id != self.running and self._thread.dequeue(run_id)
        )
        return deleted if deleted and self.runs.delete(deleted) else ()

    def _launcher(self) -> Launcher:
        """Return the launcher on the machine in use. Raises ProblemError if it is unknown."""
        return self._thread.launcher(self.machine)

    def _on_catalog_failed(self, machine: str, problem: Problem) -> None:
        if machine != self.machine:
            return
        self.catalog_problem = problem
        if problem.kind is Kind.NO_ENGINE:
            self.engine = Engine(State.ABSENT, problem=problem)
            self._update_queue()
            self.engine_changed.emit(self.engine)
        self.machine_failed.emit(problem)

    def _on_engine_missing(self) -> None:
        if self.machine:
            return
        engine = engine_here()
        if engine != self.engine:
            self.engine = engine
            self._update_queue()
            self.engine_changed.emit(engine)

    def _update_queue(self) -> None:
        has_engine = self.engine.is_usable and not self._is_held
        if has_engine != self.queue.has_engine:
            self.queue.has_engine = has_engine
            self.busy_changed.emit()

    def _on_catalog(self, catalog: Catalog) -> None:
        self.catalog, self.catalog_problem = catalog, None
        self.catalog_known.emit(catalog)

    def _on_catalog_problem(self, problem: Problem) -> None:
        self.catalog_problem = problem
        self._report(problem)

    def _on_job_run_began(self, run_id: str) -> None:
        # the engine's thread has added it, perhaps in place of one that did not come to its end
        self.runs.reload()
        self._on_began(run_id)

    def _on_began(self, run_id: str) -> None:
        # over so soon that it was deleted before this signal arrived
        if not self.runs.contains(run_id):
            return
        self.running = run_id
        self._set_pause_request(None)
        self.runs.watch(False)
        # whatever else is opened meanwhile, its events need a place
        self._in_progress = self.runs.live(run_id)
        self.runs.refresh(run_id)
        self.busy_changed.emit()
        self.began.emit(run_id)

    def _on_event(self, run_id: str, event: Event) -> None:
        live = self.runs.opened(run_id)
        if live is None:
            return
        live.add(event)
        for level, message in run_lines(event):
            self.logged.emit(level, message, self.runs.name(run_id))
        if isinstance(event, Started):
            self.runs.refresh(run_id)
        if isinstance(event, Log) and event.level == "problem":
            self.problem.emit(Problem(kind=Kind.STORE, message=event.message, remedy=""))
            self.runs.reload()
        if isinstance(event, Phase) and live.is_paused == self._pause_request:
            self._set_pause_request(None)
        self.event_received.emit(run_id, event)

    def _on_ended(self, run_id: str, last: Finished | Failed | None) -> None:
        if run_id != self.running:
            return
        self.running = self._in_progress = None
        self._set_pause_request(None)
        self.runs.watch(True)
        if isinstance(last, Failed):
            self._report(last.problem, self.runs.name(run_id))
        try:
            self.runs.refresh(run_id)
        except ProblemError as error:
            self._report(error.problem)
        self.busy_changed.emit()
        self.ended.emit(run_id)

    def _set_pause_request(self, asked: bool | None) -> None:
        """Remember a request to pause or resume until it has taken effect."""
        if asked != self._pause_request:
            self._pause_request = asked
            self.pause_request_changed.emit(asked)

    def _report(self, problem: Problem, run: str | None = None) -> None:
        self.logged.emit("problem", f"{problem.message} {problem.remedy}", run)
        self.problem.emit(problem)
