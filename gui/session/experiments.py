"""The window's side of the engine: running and waiting experiments, other jobs, and forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QCoreApplication, QObject, Signal

from engine.experiment.checks import Catalog
from engine.experiment.command import refuse
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Grid, Plan, alternating_turns
from engine.installation.installed import Engine, State, engine_here
from engine.protocol.answer import Answer
from engine.protocol.tune import Tuning, TuningPlan
from engine.store.checkpoints import obstacle
from engine.store.record import RUN, RunRecord, Work
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.sweep.sweeper import Sweeper
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Launcher
from gui.session.engine_thread import EngineThread
from gui.session.forecaster import Forecaster
from gui.session.kinds import why_not_profiled
from gui.session.live_run import LiveRun
from gui.session.queue import SWEEP, Queue
from gui.session.request import CodeTrust, Request
from gui.session.saved_runs import SavedRuns
from gui.session.views import StudyView
from gui.session.works import Works

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
    """The window's session: the machine and its catalog, the trust in code, and what is submitted.

    `works` are all runs and other work, and `runs` the saved runs, updated from the store and from the
    worker's events.
    """

    catalog_known = Signal(object)  # Catalog
    submitted = Signal(str, str)  # kind and key of the first work of a request
    logged = Signal(str, str, object)  # level, message, the run's name or None
    problem = Signal(object)  # Problem, for the user
    busy_changed = Signal()  # `busy_words` are others
    engine_changed = Signal(object)  # Engine: set up, updated, removed or found broken, or of another machine
    machine_changed = Signal()
    machine_failed = Signal(object)  # Problem: the other machine does not answer, or not as it should

    def __init__(self, store: Store, launcher: Launcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store, self.store_path = store, store.path
        self.machine = ""
        """The name of the machine that new work is for; "" for this one."""
        self._has_started = self._is_held = False
        self.engine: Engine = engine_here()
        self.catalog: Catalog | None = None
        self.catalog_problem: Problem | None = None
        """Why the devices of this machine could not be read, so there is no catalog."""
        self.runs = SavedRuns(store, self)
        self.runs.problem.connect(self.problem)
        self.queue = Queue(store, self)
        # without a parent, as in `Background`
        self._thread = EngineThread(store.path, launcher, self.queue)
        self._thread.catalog_read.connect(self._on_catalog)
        self._thread.problem.connect(self._on_catalog_problem)
        self._thread.catalog_failed.connect(self._on_catalog_failed)
        self._thread.engine_missing.connect(self._on_engine_missing)
        self.checked, self.idle = self._thread.check_ended, self._thread.idle
        self.machine_waits = self._thread.machine_waits
        self.works = works = Works(store, self.queue, self._thread, self.runs, self)
        works.problem.connect(self.problem)
        works.logged.connect(self.logged)
        works.busy_changed.connect(self.busy_changed)
        self.began, self.ended, self.event_received = works.run_began, works.run_ended, works.run_event
        self.pause_request_changed, self._report = works.pause_request_changed, works.report
        self.stop, self.toggle_pause, self.dequeue = works.stop_comparison, works.toggle_pause, works.dequeue
        self.delete = works.delete_runs
        self._update_queue()
        self.forecaster = Forecaster(self._thread, self)
        self.trust = CodeTrust(launcher.trusted_code)

    def load(self) -> None:
        """Read the saved runs, and mark those that a killed program left running as interrupted."""
        for name in self.runs.recover():
            self.logged.emit("warning", "Interrupted. Its results so far are kept.", name)
        for run in self.runs.unreadable():
            self.logged.emit("warning", f"Skipped. {run.why}", run.name)
        try:
            if paused := [work for work in self.queue.load() if work.is_paused]:
                self.works.claim(paused)
            # those that were left training elsewhere are read on at once
            known = map(self.runs.record, self._store.disconnected_runs())
            if left := [record.work for record in known if record is not None]:
                self.works.submit(*left, goes_first=True)
        except ProblemError as error:
            self._report(error.problem)
        self.queue.changed.emit()

    def set_machine(self, machine: str) -> None:
        """Use another machine for new work, "" for this one. Waiting jobs keep their machines."""
        self.machine = machine
        self.catalog = self.catalog_problem = None
        # another machine counts as ready until it says that it is not
        self.engine = Engine(State.OWN) if machine else engine_here()
        self.works.factory.catalog = None
        self.forecaster.forget()
        self._update_queue()
        known = self._thread.use_machine(machine)
        self.machine_changed.emit()
        self.engine_changed.emit(self.engine)
        if known is not None:
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
        self.works.stop_reading()
        self.runs.purge()
        # the thread's last events are in the store; nothing here shows them any more
        for listener in (self, self.queue, self.works, self.forecaster):
            QCoreApplication.removePostedEvents(listener)

    @property
    def is_idle(self) -> bool:
        """Return True if no run or other job is in progress."""
        return self.in_progress is None

    @property
    def in_progress(self) -> str | None:
        """Return the kind of the work in progress. A sweep's run is part of the sweep."""
        return self.works.in_progress

    @property
    def running(self) -> str | None:
        """Return the id of the run in training."""
        return self.works.training

    @property
    def busy_words(self) -> str | None:
        """Return a sentence on the current job and how to queue more. None while idle."""
        return _BUSY.get(self.in_progress or ("installation" if self._is_held else ""))

    @property
    def live(self) -> LiveRun | None:
        """Return the run in progress, as it trains."""
        return self.works.live

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the ids of this window's queued runs, next first."""
        return tuple(work.key for work in self.queue.waiting() if work.kind == RUN)

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
        return self.works.submit(*(record.work for record in added), goes_first=goes_first)

    def submit_request(self, request: Request) -> None:
        """Queue what the form requests, report what prevents it, and emit `submitted`."""
        try:
            if request.grid is not None and request.plan is not None:
                key = self.submit_sweep(request.title, request.grid, request.plan)
            else:
                key, *_ = self.submit(request.title, request.experiments, request.name, request.repeats)
        except ProblemError as error:
            self.problem.emit(error.problem)
        else:
            self.submitted.emit(SWEEP if request.grid is not None else RUN, key)

    def submit_sweep(self, name: str | None, grid: Grid, plan: Plan) -> str:
        """Queue a sweep and return its id. Raises ProblemError if it cannot be trained or saved."""
        refuse("sweep", (cell.experiment.command for cell in grid.cells))
        self.trust.check(cell.experiment for cell in grid.cells)
        sweep_id = Sweeper(self._store, self._launcher(), self.catalog).prepare(name or "", grid, plan)
        return self.works.resume(sweep_id)

    def submit_study(self, answer: Answer) -> str:
        """Queue a study with its question in `answer`, and return its id. Raises ProblemError."""
        refuse(answer.kind, (experiment.command for experiment in answer.experiments))
        return self.works.submit(Study(answer=answer, machine=self.machine).work)[0]

    def submit_tuning(self, experiment: Experiment, plan: TuningPlan, memory_cap_gib: float | None) -> str:
        """Queue a tuning of an experiment and return its id. Raises ProblemError."""
        refuse("tune", [experiment.command])
        wanted = Tuning(experiment=experiment, plan=plan, memory_cap_gib=memory_cap_gib)
        driver = TuneDriver(self._store, self._launcher(), self.catalog)
        return self.submit_study(driver.prepare(Study(answer=wanted)).answer)

    def resume_waiting(self, run_ids: Iterable[str]) -> None:
        """Queue runs that an earlier window left queued."""
        run_ids = tuple(run_ids)
        try:
            # one that is gone by now is told where it is taken up
            self.trust.check(run.experiment for run in self._store.runs() if run.id in run_ids)
        except ProblemError as error:
            self._report(error.problem)
            return
        left = {work.key: work for work in self.works.left()}
        self.works.claim([left.get(run_id, Work(run_id, RUN, "")) for run_id in run_ids], is_paused=False)

    def why_not_started(self, run: RunRecord) -> str | None:
        """Return why a queued run cannot be started here. None if an earlier window left it."""
        if any(work.is_paused for work in self.queue.waiting() if work.key == run.id):
            return "This run is paused in the queue. Resume it there."
        if run.id in self.waiting or run.id == self.running:
            return "This run is waiting in the queue." if self.queue.has_engine else WAITS_FOR_ENGINE
        is_left = any(work.key == run.id for work in self.works.left())
        return None if is_left else "Another window or a command line will train this run."

    def check_model(self, experiment: Experiment | None) -> None:
        """Request a check, answered by `checked`. None cancels it. Raises ProblemError if it is refused."""
        if experiment is not None:
            refuse("check", [experiment.command])
            self.trust.check([experiment])
        self._thread.request_check(experiment)

    def resume(self, run_id: str) -> None:
        """Queue a stopped run, to continue from its last checkpoint."""
        try:
            self.trust.check([self._store.run(run_id).experiment])
            self.works.resume(run_id)
        except ProblemError as error:
            self._report(error.problem)

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
        profiles = (view for view in self.works.of("profile") if isinstance(view, StudyView))
        unfinished = (view.key for view in profiles if view.answer.run_ids == wanted)
        return next(unfinished, None) or self._store.studies.newest_of_runs("profile", wanted)

    def forecasts(self) -> Forecasts:
        """Return the forecasts of memory that are known."""
        return Forecasts(self._store.path.parent, self.machine)

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
            self.queue.changed.emit()
            self.busy_changed.emit()

    def _on_catalog(self, catalog: Catalog) -> None:
        self.catalog, self.catalog_problem = catalog, None
        self.works.factory.catalog = catalog
        self.queue.changed.emit()
        self.catalog_known.emit(catalog)

    def _on_catalog_problem(self, problem: Problem) -> None:
        self.catalog_problem = problem
        self._report(problem)
