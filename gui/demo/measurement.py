"""The measurement of the demo: a pilot that fixes the length, then two runs one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Event, Pictures
from engine.protocol.pictures import brightened
from engine.race.showcase import TITLE, Showcase, pace_of, showcase
from engine.store.record import Status
from gui.demo.pages import DemoProgress
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.live_run import LiveRun

_LOST = Problem(kind=Kind.INTERNAL, message="The run was lost.", remedy="See the log, and try again.")


class GuidedMeasurement(QObject):
    """Measures the two runs that Demo replays, as ordinary runs in the queue.

    A pilot of a few steps in each precision fixes how many steps the pair is trained for. `progressed`
    carries a Progress, `at_work` whether the measurement is in progress, `measured` the ids of both runs,
    full precision first. `stopped` is emitted after a stop. `refused` carries a Problem if a run failed, or
    if the machine cannot be examined. `busy` carries a sentence about another job that is running: the user
    decides whether to stop it.
    """

    progressed = Signal(object)
    at_work = Signal(bool)
    measured = Signal(object)
    stopped = Signal()
    refused = Signal(object)
    busy = Signal(str)

    def __init__(
        self, experiments: Experiments, background: Background, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._experiments, self._runs, self._background = experiments, experiments.runs, background
        self._case: Showcase | None = None
        self._ids: tuple[str, ...] = ()
        self._submitted: set[str] = set()
        self._running: str | None = None
        self.is_at_work = self._is_pilot = self._is_stopping = False
        self._problem: Problem | None = None
        self._refusal: Problem | None = None
        self._images: NDArray[np.uint8] | None = None
        experiments.catalog_known.connect(lambda _catalog: self._on_catalog())
        experiments.began.connect(self._on_began)
        experiments.event_received.connect(self._on_event)
        experiments.problem.connect(self._on_problem)
        experiments.ended.connect(self._on_ended)
        experiments.runs.list_changed.connect(self._look_for_deleted)

    @property
    def case(self) -> Showcase | None:
        """The experiments for this machine. None until the machine has been examined."""
        catalog = self._experiments.catalog
        return self._case or (showcase(catalog) if catalog is not None else None)

    @property
    def is_measuring(self) -> bool:
        """True if the run in progress belongs to the demo."""
        return self.is_at_work and self._running is not None

    def owns(self, run_id: str | None) -> bool:
        """Return True if the demo has queued that run."""
        return run_id in self._submitted

    def start(self) -> None:
        """Measure, or emit `busy` if something else is running. Do nothing if at work already."""
        experiments = self._experiments
        if self.is_at_work:
            return
        if experiments.running is not None:
            self.busy.emit("A run is training.")
        elif experiments.in_progress == "limit":
            self.busy.emit("The largest batch is being searched.")
        elif experiments.waiting or experiments.works.of("limit"):
            self.busy.emit("Runs are queued.")
        else:
            self.start_next()

    def start_next(self) -> None:
        """Measure once the current work has ended, before the rest of the queue."""
        if self.is_at_work:
            return
        self.is_at_work = self._is_pilot = True
        self._is_stopping, self._ids, self._running = False, (), None
        self._case = self._problem = self._refusal = self._images = None
        self.at_work.emit(True)
        self.report_progress()
        if self._experiments.catalog_problem is not None:
            self._refuse(self._experiments.catalog_problem)
        else:
            self._on_catalog()

    def stop_and_start(self) -> None:
        """Stop the current work, which keeps its results so far, and measure."""
        if self.is_at_work:
            return
        # asked before `start_next`: if the work has ended by itself, only its own first run could be stopped
        is_busy = self._experiments.running is not None or self._experiments.in_progress == "limit"
        self.start_next()
        if is_busy:
            self._experiments.stop()

    def stop(self) -> None:
        """Stop the measurement, and delete an unfinished run."""
        if not self.is_at_work or self._is_stopping:
            return
        self._remove_waiting()
        left = [run for run_id in self._ids if (run := self._runs.record(run_id)) and not run.status.is_over]
        if not left:
            self._give_up()
            return
        # one that has left the queue but not begun is stopped as it begins
        self._is_stopping = True
        if self._running is not None:
            self._experiments.stop()
        self.report_progress()

    def close(self) -> None:
        """Take what has not begun out of the queue, because the window closes."""
        if self.is_at_work:
            self.is_at_work = False
            self._remove_waiting()

    def report_progress(self) -> None:
        """Emit `progressed`, if at work."""
        if not self.is_at_work:
            return
        is_busy = self._experiments.running is not None or self._experiments.in_progress == "limit"
        phase = "waiting in the queue" if self._running is None and is_busy else ""
        if self._case is None:
            phase = "examining this machine"
        elif self._is_stopping:
            phase = "stopping"
        runs = self._live(0), self._live(1)
        self.progressed.emit(DemoProgress(self._case, runs, self._is_pilot, phase, self._images))

    def _live(self, place: int) -> LiveRun | None:
        return self._runs.opened(self._ids[place]) if place < len(self._ids) else None

    def _on_catalog(self) -> None:
        if self.is_at_work and self._case is None and self._experiments.catalog is not None:
            self._case = showcase(self._experiments.catalog)
            self._submit(self._case.pilot(), is_pilot=True)

    def _submit(self, case: Showcase, *, is_pilot: bool) -> None:
        self._is_pilot = is_pilot
        name = f"{TITLE}, pilot" if is_pilot else TITLE
        try:
            self._ids = self._experiments.submit(case.title, case.sides, name, goes_first=True)
        except ProblemError as error:
            self._refuse(error.problem)
        self._submitted.update(self._ids)
        self.report_progress()

    def _on_began(self, run_id: str) -> None:
        if self.is_at_work and run_id in self._ids:
            self._running = run_id
            if self._is_stopping:
                self._experiments.stop()
            self.report_progress()

    def _on_event(self, run_id: str, event: Event) -> None:
        if self.is_at_work and run_id == self._running and isinstance(event, Pictures):
            self._background.do(lambda: _images_of(event), self._on_images, lambda _problem: None)

    def _on_images(self, images: NDArray[np.uint8] | None) -> None:
        self._images = images

    def _on_ended(self, run_id: str) -> None:
        if not self.is_at_work or run_id != self._running:
            return
        self._running = None
        run = self._runs.record(run_id)
        if self._is_stopping or (run is not None and run.status is Status.STOPPED):
            self._is_stopping = False
            self._give_up()
        elif run is None or run.status is not Status.FINISHED:
            # the failed run is kept with its reason
            self._ids = tuple(other for other in self._ids if other != run_id)
            self._refuse((run.problem if run is not None else None) or self._problem or _LOST)
        elif run_id != self._ids[-1]:
            self.report_progress()
        elif self._is_pilot:
            self._on_pilot_ended()
        else:
            self._close_up()
            self.measured.emit(self._ids)

    def _on_pilot_ended(self) -> None:
        runs = (self._live(0), self._live(1))
        known = [run for run in runs if run is not None]
        paces = [pace_of(run.experiment, run.column("samples_per_second")) for run in known]
        pace = min((pace for pace in paces if pace is not None), default=None)
        self._discard(self._ids)
        if self._case is None or pace is None:
            self._refuse(_LOST)
            return
        self._case = self._case.of_pace(pace)
        self._submit(self._case, is_pilot=False)

    def _look_for_deleted(self) -> None:
        # that the one in progress was deleted is known once it has ended
        others = (run_id for run_id in self._ids if run_id != self._running)
        if self.is_at_work and any(self._runs.record(run_id) is None for run_id in others):
            self.stop()

    def _on_problem(self, problem: Problem) -> None:
        self._problem = problem
        if self.is_at_work and self._experiments.catalog_problem is not None:
            self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        self._refusal = problem
        self.stop()

    def _give_up(self) -> None:
        run_ids, refusal = self._ids, self._refusal
        self._close_up()
        self._discard(run_ids)
        if refusal is None:
            self.stopped.emit()
        else:
            self.refused.emit(refusal)

    def _close_up(self) -> None:
        self.is_at_work, self._running = False, None
        self.at_work.emit(False)

    def _remove_waiting(self) -> None:
        waiting = [run_id for run_id in self._ids if run_id in self._experiments.waiting]
        self._ids = tuple(run_id for run_id in self._ids if run_id not in waiting)
        for run_id in waiting:
            self._experiments.dequeue(run_id)

    def _discard(self, run_ids: tuple[str, ...]) -> None:
        """Delete runs for good, except the whole ones of the pair."""
        self._ids = ()
        for run_id in run_ids:
            run = self._runs.record(run_id)
            is_whole = run is not None and run.status is Status.FINISHED and not self._is_pilot
            if (
                run is not None
                and run.status.is_over
                and not is_whole
                and self._experiments.delete((run_id,))
            ):
                self._runs.purge((run_id,))


def _images_of(event: Pictures) -> NDArray[np.uint8] | None:
    try:
        return brightened(event.sheet.tiles())
    except ValueError:
        # without images patterns are shown
        return None
