"""The window's side of the engine: the runs in the store, the one that trains, and those that wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from engine.catalog import Catalog
from engine.events import Event, Failed, Finished, Log, Phase, PhaseName, Started
from engine.experiment import Experiment
from engine.launcher import Launcher
from engine.problem import Problem, ProblemError
from engine.records.forecasts import Forecasts
from engine.records.record import RunRecord, Status
from engine.records.resume import obstacle
from engine.records.store import Store
from gui.engine_thread import EngineThread
from gui.forecaster import Forecaster
from gui.oom_retries import Retry, retries
from gui.panels.live_run import LiveRun
from gui.searches import Searches

_WATCH_MS = 2_000


class Experiments(QObject):
    """Keeps what the panels show true to the store and to the worker's events.

    Signals: `catalog_known` (Catalog); `list_changed`, when runs came or went; `run_changed` (run id), when
    one run's figures or status did; `began` and `ended` (run id); `logged` (level, message, run name or
    None); `problem` (Problem), for what the user must be told; `event_taken` (run id, engine event), after
    the run's curves have it; `pause_asked` (True to pause, False to go on, None for neither); `idle`, when
    nothing runs.
    """

    catalog_known = Signal(object)
    list_changed = Signal()
    run_changed = Signal(str)
    began = Signal(str)
    ended = Signal(str)
    logged = Signal(str, str, object)
    problem = Signal(object)
    event_taken = Signal(str, object)
    pause_asked = Signal(object)
    idle = Signal()

    def __init__(self, store: Store, launcher: Launcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._records: dict[str, RunRecord] = {}
        self._live: dict[str, LiveRun] = {}
        self._running: str | None = None
        self._wants_pause: bool | None = None
        self._has_started = False
        self.catalog: Catalog | None = None
        self._thread = EngineThread(store.path, launcher, self)
        self._thread.catalog_read.connect(self._take_catalog)
        self._thread.run_began.connect(self._begin)
        self._thread.told.connect(self._take)
        self._thread.run_ended.connect(self._end)
        self._thread.problem.connect(self._tell)
        self._thread.idle.connect(self.idle)
        self.searches = Searches(store, self._thread, self)
        self.searches.problem.connect(self._tell)
        self.forecaster = Forecaster(self._thread, self)
        self._version = store.data_version()
        self._watch = QTimer(self, interval=_WATCH_MS)
        self._watch.timeout.connect(self._look_for_others)

    def load(self) -> None:
        """Reads the saved runs; those that a killed program left running are marked as interrupted."""
        for run_id in self._store.recover():
            name = self._store.run(run_id).name
            self.logged.emit("warning", "It was interrupted; what it recorded is kept.", name)
        self._reload()

    def start(self) -> None:
        """Starts the engine's thread, which reads the catalog and then trains what is queued.

        Once it has started, or was shut down, nothing happens.
        """
        if self._has_started:
            return
        self._has_started = True
        self._thread.start()
        self._watch.start()

    def shut_down(self) -> None:
        """Stops the run in progress and waits for the worker to be gone; waiting runs stay queued."""
        self._has_started = True
        self._watch.stop()
        self.forecaster.stop()
        self._thread.shut_down()
        # what the thread said last is in the store; nobody looks at it here any more
        QCoreApplication.removePostedEvents(self)

    @property
    def running(self) -> str | None:
        """The id of the run that trains now."""
        return self._running

    def progress(self) -> float:
        """How far the run that trains is, 0 to 1."""
        live = self._live.get(self._running or "")
        return live.step / live.total_steps if live is not None and live.total_steps else 0.0

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of this window's queued runs, next first."""
        return self._thread.waiting()

    def records(self) -> tuple[RunRecord, ...]:
        """All runs, newest first."""
        return tuple(self._records.values())

    def record(self, run_id: str) -> RunRecord | None:
        return self._records.get(run_id)

    def group(self, run_id: str) -> tuple[str, ...]:
        """The run and those that were started with it to be compared, in the order they train."""
        comparison = self._records[run_id].comparison
        if comparison is None:
            return (run_id,)
        return tuple(
            key for key, record in reversed(self._records.items()) if record.comparison == comparison
        )

    def live(self, run_id: str) -> LiveRun:
        """The run's curves: as they grow, or as they were stored."""
        if run_id not in self._live:
            self._live[run_id] = self._replayed(run_id)
        return self._live[run_id]

    def submit(
        self, title: str, experiments: Sequence[tuple[str, Experiment]], name: str | None = None
    ) -> tuple[str, ...]:
        """Queues experiments, several as one comparison, and returns the ids of their runs.

        Several of one `name` are told apart by their labels.
        """
        several = len(experiments) > 1
        comparison = self._store.add_comparison(title) if several else None
        added = [
            self._store.add(
                experiment,
                name=f"{name}, {label}" if name and several else name,
                comparison=comparison,
                label=label,
            )
            for label, experiment in experiments
        ]
        self._reload()
        run_ids = tuple(record.id for record in added)
        self._thread.enqueue(run_ids)
        return run_ids

    def resume_waiting(self, run_ids: Iterable[str]) -> None:
        """Queues runs that an earlier window left queued."""
        claimed = []
        for run_id in run_ids:
            try:
                claimed.append(self._store.claim(run_id).id)
            except ProblemError as error:
                # another window was quicker, or it was deleted meanwhile
                self._tell(error.problem)
        self._thread.enqueue(tuple(claimed))
        self._reload()

    def left_waiting(self) -> tuple[str, ...]:
        """Queued runs that an earlier window left, oldest first."""
        line = self.waiting
        return tuple(record.id for record in self._store.claimable() if record.id not in line)

    def why_not_begun(self, run: RunRecord) -> str | None:
        """Why a queued run cannot be begun here, in a sentence; None for one that an earlier window left."""
        if run.id in self.waiting or run.id == self._running:
            return "It waits for its turn."
        return None if run.id in self.left_waiting() else "Another window or a command line will train it."

    def stop(self) -> None:
        """Asks the run in progress to end after the step in flight."""
        self._thread.stop_run()

    def toggle_pause(self) -> None:
        """Asks the run in progress to wait after the step in flight, or the one that waits to go on."""
        live = self._live.get(self._running or "")
        if live is None:
            return
        is_held = live.is_paused if self._wants_pause is None else self._wants_pause
        if is_held:
            self._thread.continue_run()
        else:
            self._thread.pause_run()
        self._wish_pause(not is_held)

    def resume(self, run_id: str) -> None:
        """Queues a run that was stopped, to go on from its last checkpoint."""
        try:
            self._store.requeue(run_id)
        except ProblemError as error:
            self._tell(error.problem)
            return
        if run_id in self._live:
            self._live[run_id].set_status(Status.QUEUED.value)
        self._reload()
        self._thread.enqueue((run_id,))

    def why_not_resumed(self, run: RunRecord) -> str | None:
        """Why a run cannot go on where it ended, in a sentence; None if it can."""
        problem = obstacle(run, self._store.checkpoints_folder(run.id))
        return None if problem is None else problem.message

    def take_out(self, run_id: str) -> None:
        """Takes a queued run out of the line: a new one is forgotten, a resumed one is as it was before."""
        self._thread.take_out(run_id)
        try:
            self._store.withdraw(run_id)
        except ProblemError as error:
            self.problem.emit(error.problem)
        self._reload()
        record, live = self._records.get(run_id), self._live.get(run_id)
        if record is None:
            self._live.pop(run_id, None)
        elif live is not None:
            live.set_status(record.status.value, record.summary, record.problem)

    def retries(self, run_id: str) -> tuple[Retry, ...]:
        """How a run that ran out of memory can be tried again, by the forecast that is known for it."""
        device = self.catalog.device(self._records[run_id].experiment.device) if self.catalog else None
        device_mib = None if device is None else device.memory_mib
        return retries(self._records[run_id], Forecasts(self._store.path.parent), device_mib)

    def delete(self, run_ids: Iterable[str]) -> None:
        """Deletes runs, except the one that trains."""
        wanted = [run_id for run_id in run_ids if run_id in self._records and run_id != self._running]
        for run_id in wanted:
            self._thread.take_out(run_id)
            self._live.pop(run_id, None)
        self._guarded_delete(wanted)
        self._reload()

    def rename(self, run_id: str, name: str) -> None:
        try:
            self._store.rename(run_id, name)
        except ProblemError as error:
            self.problem.emit(error.problem)
        self._refresh(run_id)

    def _guarded_delete(self, run_ids: list[str]) -> None:
        try:
            self._store.delete(run_ids)
        except ProblemError as error:
            self.problem.emit(error.problem)

    def _replayed(self, run_id: str) -> LiveRun:
        record = self._records[run_id]
        live = LiveRun.of(run_id, record.experiment, record.label)
        live.take_all(self._store.events(run_id))
        live.load(self._store.samples(run_id))
        live.set_status(record.status.value, record.summary, record.problem)
        return live

    def _take_catalog(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.catalog_known.emit(catalog)

    def _begin(self, run_id: str) -> None:
        self._running = run_id
        self._wish_pause(None)
        self.live(run_id)
        self._refresh(run_id)
        self.began.emit(run_id)

    def _take(self, run_id: str, event: Event) -> None:
        live = self._live.get(run_id)
        if live is None:
            return
        live.take(event)
        self._write_log(run_id, event)
        if isinstance(event, Started):
            self._refresh(run_id)
        if isinstance(event, Phase) and live.is_paused == self._wants_pause:
            self._wish_pause(None)
        self.event_taken.emit(run_id, event)

    def _end(self, run_id: str, last: Finished | Failed | None) -> None:
        self._running = None
        self._wish_pause(None)
        name = self._records[run_id].name
        if isinstance(last, Failed):
            self.logged.emit("problem", f"{last.problem.message} {last.problem.remedy}", name)
            self.problem.emit(last.problem)
        self._refresh(run_id)
        self.ended.emit(run_id)

    def _write_log(self, run_id: str, event: Event) -> None:
        name = self._records[run_id].name
        match event:
            case Log(level=level, message=message):
                self.logged.emit(level, message, name)
            case Started(notes=notes, environment=machine):
                self.logged.emit("info", f"Started on {machine.device_name}, torch {machine.torch}.", name)
                for note in notes:
                    self.logged.emit("info", note, name)
            case Phase(name=PhaseName.DOWNLOADING, detail=detail, fraction=None):
                self.logged.emit("info", detail, name)
            case Finished(stopped=stopped):
                self.logged.emit("info", "Stopped." if stopped else "Finished.", name)

    def _wish_pause(self, wish: bool | None) -> None:
        """Remembers what was asked of the run in progress until it has come about."""
        if wish != self._wants_pause:
            self._wants_pause = wish
            self.pause_asked.emit(wish)

    def _refresh(self, run_id: str) -> None:
        try:
            self._records[run_id] = self._store.run(run_id)
        except ProblemError:
            # refused before it began: the runner has deleted it
            self._reload()
            return
        self.run_changed.emit(run_id)

    def _reload(self) -> None:
        self._records = {record.id: record for record in self._store.runs()}
        self.list_changed.emit()

    def _look_for_others(self) -> None:
        """Shows what another window or a command line did to the store meanwhile."""
        version = self._store.data_version()
        if version != self._version and self._running is None:
            self._version = version
            self._reload()

    def _tell(self, problem: Problem) -> None:
        self.logged.emit("problem", f"{problem.message} {problem.remedy}", None)
        self.problem.emit(problem)
