"""The sequence of "Show me": two runs that suit this machine, measured one after the other."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Event, Phase, Pictures, Samples, Started
from engine.protocol.pictures import brightened
from engine.race.showcase import (
    FIRST,
    LENGTHENED,
    MOST_ATTEMPTS,
    PATIENCE_SECONDS,
    SECOND,
    SHORTENED,
    TOO_SHORT,
    Showcase,
    adapted,
    busy,
    is_hopeless,
    lengthened,
    showcase,
)
from engine.store.record import Status
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.show.guided.pages import Progress, measuring
from gui.show.guided.runs import GuidedRuns
from gui.show.panel import ShowPanel

_RUN, _SEARCH, _QUEUE = ("A run is training.", "A limit is being measured.", "Runs are waiting.")
_LOST = Problem(kind=Kind.INTERNAL, message="The run was lost.", remedy="See the log, and try again.")
_LOOKING, _WAITING, _STOPPING = "looking at this machine", "waiting for its turn", "stopping"
_Ending = Literal["", "again", "given up"]


class GuidedMeasurement(QObject):
    """Measures through the ordinary queue, so that its runs are like any others.

    `at_work` (bool) when it begins and ends; `measured` carries the ids of both runs, full precision first;
    `given_up` when it was stopped; `refused` (Problem) if a run failed, or the machine cannot be examined or
    is too slow; `busy` carries a sentence on what is running, which the user must decide about first.
    """

    at_work = Signal(bool)
    measured = Signal(object)
    given_up = Signal()
    refused = Signal(object)
    busy = Signal(str)

    def __init__(
        self,
        experiments: Experiments,
        panel: ShowPanel,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._experiments, self._panel, self._background = experiments, panel, background
        self._pair = GuidedRuns(experiments)
        self._case: Showcase | None = None
        self._is_at_work, self._attempts = False, 0
        self._ending: _Ending = ""
        self._lapses, self._is_held = 0, False
        self._span = FIRST
        self._problem: Problem | None = None
        self._refusal: Problem | None = None
        self._tiles: NDArray[np.uint8] | None = None
        self._patience = QTimer(self)
        self._patience.setInterval(round(PATIENCE_SECONDS * 1e3))
        self._patience.timeout.connect(self._lose_patience)
        self._connect()

    @property
    def is_at_work(self) -> bool:
        return self._is_at_work

    @property
    def case(self) -> Showcase | None:
        """Its experiments on this machine; None until the machine has been examined."""
        catalog = self._experiments.catalog
        return self._case or (showcase(catalog) if catalog is not None else None)

    @property
    def is_measuring(self) -> bool:
        """True if the run in progress is one of its own."""
        return self._is_at_work and self._pair.running is not None

    def owns(self, run_id: str | None) -> bool:
        """True if it has queued this run since the window was opened."""
        return self._pair.owns(run_id)

    def begin(self) -> None:
        """Measures, or emits `busy` if something else is running; does nothing if at work already."""
        experiments, limits = self._experiments, self._experiments.limits
        if self._is_at_work:
            return
        if experiments.running is not None:
            self.busy.emit(_RUN)
        elif limits.running is not None:
            self.busy.emit(_SEARCH)
        elif experiments.waiting or limits.waiting:
            self.busy.emit(_QUEUE)
        else:
            self.begin_next()

    def begin_next(self) -> None:
        """Measures once the current work has ended, before the rest of the queue."""
        if self._is_at_work:
            return
        self._pair.forget()
        self._is_at_work, self._span, self._attempts, self._ending = True, FIRST, 0, ""
        self._case = self._problem = self._refusal = self._tiles = None
        self.at_work.emit(True)
        self.show()
        if self._experiments.catalog_problem is not None:
            self._refuse(self._experiments.catalog_problem)
        else:
            self._take_catalog()

    def stop_and_begin(self) -> None:
        """Stops the current work, which keeps what it has, and measures."""
        if self._is_at_work:
            return
        # asked before `begin_next`: if the work has ended by itself, only its own first run could be stopped
        is_busy = self._experiments.running is not None or self._experiments.limits.running is not None
        self.begin_next()
        if is_busy:
            self._experiments.stop()

    def stop(self) -> None:
        """Gives up; an unfinished run is deleted."""
        if not self._is_at_work:
            return
        self._pair.take_out_waiting()
        if self._pair.running is not None:
            self._end_run("given up")
        elif self._pair.is_coming:
            self._ending = "given up"
            self.show()
        else:
            self._give_up()

    def close(self) -> None:
        """Gives up because the window closes, which stops the run in progress."""
        self._patience.stop()
        if self._is_at_work:
            self._is_at_work = False
            self._pair.take_out_waiting()

    def show(self) -> None:
        """Shows its progress in the panel, if it is at work."""
        if self._is_at_work:
            self._panel.show_measuring(measuring(self._progress()))

    def refresh(self) -> None:
        """Shows its progress if the panel is visible."""
        if self._panel.isVisible():
            self.show()

    def _connect(self) -> None:
        experiments = self._experiments
        experiments.catalog_known.connect(lambda _catalog: self._take_catalog())
        experiments.began.connect(self._begin)
        experiments.event_taken.connect(self._take)
        experiments.problem.connect(self._take_problem)
        experiments.ended.connect(self._end)
        experiments.runs.list_changed.connect(self._look_for_deleted)

    def _take_catalog(self) -> None:
        if self._is_at_work and self._case is None and self._experiments.catalog is not None:
            self._submit(showcase(self._experiments.catalog))

    def _submit(self, case: Showcase) -> None:
        self._case, self._attempts = case, self._attempts + 1
        try:
            self._pair.submit(case)
        except ProblemError as error:
            self._refuse(error.problem)
        self.show()

    def _begin(self, run_id: str) -> None:
        if self._is_at_work and run_id in self._pair.ids:
            self._pair.running, self._lapses, self._is_held = run_id, 0, False
            if self._ending:
                self._end_run(self._ending)
            self.show()

    def _take(self, run_id: str, event: Event) -> None:
        if not self._is_at_work or run_id != self._pair.running:
            return
        if isinstance(event, Pictures):
            self._background.do(lambda: _tiles_of(event), self._take_tiles, lambda _problem: None)
        elif isinstance(event, Started):
            self._patience.start()
        elif isinstance(event, Phase):
            self._hold(self._experiments.is_paused)
        elif isinstance(event, Samples):
            pace, done = self._pair.progress()
            if pace is not None:
                self._adapt(pace, done)

    def _take_tiles(self, tiles: NDArray[np.uint8] | None) -> None:
        self._tiles = tiles

    def _hold(self, is_held: bool) -> None:
        """Suspends the patience timer during a pause, and restarts it with the run."""
        if is_held:
            self._patience.stop()
        elif self._is_held:
            self._patience.start()
        self._is_held = is_held

    def _lose_patience(self) -> None:
        """Adapts to a run that takes long by its overall pace; from the second time on, gives up a hopeless
        one."""
        self._lapses += 1
        pace, done = self._pair.progress()
        if pace is None and done:
            pace = done / (self._lapses * PATIENCE_SECONDS)
        if self._adapt(pace, done) or self._case is None or self._ending:
            return
        experiment = self._case.sides[0][1]
        if self._lapses > 1 and is_hopeless(experiment, pace, done):
            self._refuse(busy(experiment, done))

    def _adapt(self, pace: float | None, done: int) -> bool:
        """Starts again with what suits this pace, or refuses a busy machine; whether the run is ended."""
        pair, case = self._pair, self._case
        if case is None or self._ending or not pair.can_begin_anew:
            return False
        is_second = pair.is_on_second
        span = SECOND if is_second and self._span is not LENGTHENED else self._span
        better = adapted(case, span, pace, done, pair.whole_pace(0) if is_second else None)
        if isinstance(better, Problem):
            self._refuse(better)
        elif better is not None and self._attempts < MOST_ATTEMPTS:
            self._case, self._span = better, SHORTENED if is_second else FIRST
            pair.take_out_waiting()
            self._end_run("again")
        return bool(self._ending)

    def _end_run(self, ending: _Ending) -> None:
        """Asks the run in progress to end, and remembers why."""
        if self._pair.running is not None:
            self._ending = ending
            self._experiments.stop()
            self.show()

    def _end(self, run_id: str) -> None:
        if not self._is_at_work or run_id != self._pair.running:
            return
        self._patience.stop()
        self._pair.running, ending, self._ending = None, self._ending, ""
        run = self._experiments.runs.record(run_id)
        if ending == "again" and self._case is not None:
            self._begin_anew(self._case)
        elif ending == "given up" or (run is not None and run.status is Status.STOPPED):
            self._give_up()
        elif run is None or run.status is not Status.FINISHED:
            self._pair.leave(run_id)
            self._refuse((run.problem if run is not None else None) or self._problem or _LOST)
        elif run_id == self._pair.ids[-1]:
            self._end_pair()
        else:
            self.show()

    def _end_pair(self) -> None:
        """Tells that both runs are measured, or measures them longer."""
        full, mixed = self._pair.whole_pace(0), self._pair.whole_pace(1)
        paces = None if full is None or mixed is None else (full, mixed)
        longer = None if paces is None or self._case is None else lengthened(self._case, paces)
        if paces is None or longer is None:
            self._close_up()
            self.measured.emit(self._pair.ids)
        elif self._attempts < MOST_ATTEMPTS:
            self._case, self._span = longer, LENGTHENED
            self._begin_anew(longer)
        else:
            self._refuse(TOO_SHORT)

    def _begin_anew(self, case: Showcase) -> None:
        for old in self._pair.forget():
            self._pair.discard(old, even_whole=True)
        self._submit(case)

    def _look_for_deleted(self) -> None:
        if self._is_at_work and self._pair.is_one_gone:
            self.stop()

    def _take_problem(self, problem: Problem) -> None:
        self._problem = problem
        if self._is_at_work and self._experiments.catalog_problem is not None:
            self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        self._refusal = problem
        self.stop()

    def _give_up(self) -> None:
        run_ids, refusal = self._pair.forget(), self._refusal
        self._close_up()
        for run_id in run_ids:
            self._pair.discard(run_id)
        if refusal is None:
            self.given_up.emit()
        else:
            self.refused.emit(refusal)

    def _close_up(self) -> None:
        self._patience.stop()
        self._is_at_work, self._pair.running = False, None
        self.at_work.emit(False)

    def _progress(self) -> Progress:
        return Progress(
            showcase=self._case,
            running="mixed" if self._pair.is_on_second else "full",
            full=self._pair.live(0),
            mixed=self._pair.live(1),
            phase=self._phase(),
            tiles=self._tiles,
        )

    def _phase(self) -> str:
        if self._case is None:
            return _LOOKING
        if self._ending == "given up":
            return _STOPPING
        others = self._experiments.running or self._experiments.limits.running
        return _WAITING if self._pair.running is None and others is not None else ""


def _tiles_of(event: Pictures) -> NDArray[np.uint8] | None:
    try:
        return brightened(event.sheet.tiles())
    except ValueError:
        # without pictures patterns are shown
        return None
