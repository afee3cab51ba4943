"""The sequence of the demo: two runs that suit this machine, measured one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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
    TITLE,
    TOO_SHORT,
    Showcase,
    adapted,
    busy,
    is_hopeless,
    lengthened,
    pace_of,
    showcase,
)
from engine.store.record import RunRecord, Status
from gui.demo.pages import Progress, measuring
from gui.demo.panel import DemoPanel
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.live_run import LiveRun

if TYPE_CHECKING:
    from engine.race.race import Which


class GuidedRuns:
    """The two runs that Demo queues and then replays, the full-precision run first.

    `running` is the id of the run in progress.
    """

    def __init__(self, experiments: Experiments) -> None:
        self._experiments, self._runs = experiments, experiments.runs
        self._submitted: set[str] = set()
        self.ids: tuple[str, ...] = ()
        self.running: str | None = None

    def submit(self, case: Showcase) -> None:
        """Queue both at the front. Raises ProblemError if the store refuses."""
        self.ids = self._experiments.submit(case.title, case.sides, TITLE, goes_first=True)
        self._submitted.update(self.ids)

    def forget(self) -> tuple[str, ...]:
        """Forget the runs, and return their ids."""
        run_ids, self.ids, self.running = self.ids, (), None
        return run_ids

    def owns(self, run_id: str | None) -> bool:
        """Return True if the demo has queued that run."""
        return run_id in self._submitted

    def live(self, place: int) -> LiveRun | None:
        """Return the curves of the first or the second run, once it has started."""
        return self._runs.opened(self.ids[place]) if place < len(self.ids) else None

    @property
    def is_on_second(self) -> bool:
        """True if the first run is over."""
        first = self.live(0)
        return first is not None and first.is_over

    @property
    def is_coming(self) -> bool:
        """True if a run has left the queue but not started."""
        runs = [run for run_id in self.ids if (run := self._runs.record(run_id)) is not None]
        return self.running is None and any(not run.status.is_over for run in runs)

    @property
    def can_restart(self) -> bool:
        """True if the run in progress can be replaced, which ends when the next run leaves the queue."""
        ids = self.ids
        if self.running is None or self.running not in ids:
            return False
        return self.running == ids[-1] or bool(set(ids[1:]) & set(self._experiments.waiting))

    def progress(self) -> tuple[float | None, int]:
        """Return the current run's steps per second, None while there are few, and its number of steps."""
        live = self.live(int(self.is_on_second))
        if live is None or live.experiment is None:
            return None, 0
        return pace_of(live.experiment, live.column("samples_per_second")), live.step

    def whole_pace(self, place: int) -> float | None:
        """Return the steps per second of the first or the second run over all counted steps, or None."""
        live = self.live(place)
        if live is None or live.experiment is None:
            return None
        return pace_of(live.experiment, live.column("samples_per_second"), 0.0)

    def remove_waiting(self) -> None:
        """Remove the runs that have not started from the queue."""
        waiting = [run_id for run_id in self.ids if run_id in self._experiments.waiting]
        self.ids = tuple(run_id for run_id in self.ids if run_id not in waiting)
        for run_id in waiting:
            self._experiments.dequeue(run_id)

    def discard(self, run_id: str, *, even_whole: bool = False) -> None:
        """Delete a run for good if it is over but unfinished, or `even_whole`."""
        run: RunRecord | None = self._runs.record(run_id)
        is_wanted = run is not None and run.status is Status.FINISHED and not even_whole
        if run is not None and run.status.is_over and not is_wanted and self._experiments.delete((run_id,)):
            self._runs.purge((run_id,))


_LOST = Problem(kind=Kind.INTERNAL, message="The run was lost.", remedy="See the log, and try again.")
_Ending = Literal["", "again", "given up"]


class GuidedMeasurement(QObject):
    """Measures the two runs that Demo replays, as ordinary runs in the queue.

    `at_work` carries whether the measurement is in progress, `measured` the ids of both runs, full precision
    first. `stopped` is emitted after a stop. `refused` carries a Problem if a run failed, or if the machine
    cannot be examined or is too slow. `busy` carries a sentence about another job that is running: the user
    decides whether to stop it.
    """

    at_work = Signal(bool)
    measured = Signal(object)
    stopped = Signal()
    refused = Signal(object)
    busy = Signal(str)

    def __init__(
        self,
        experiments: Experiments,
        panel: DemoPanel,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._experiments, self._panel, self._background = experiments, panel, background
        self.pair = GuidedRuns(experiments)
        self._case: Showcase | None = None
        self.is_at_work, self._attempts = False, 0
        self._ending: _Ending = ""
        self._lapses, self._is_held = 0, False
        self._span = FIRST
        self._problem: Problem | None = None
        self._refusal: Problem | None = None
        self._tiles: NDArray[np.uint8] | None = None
        self._patience = QTimer(self, interval=round(PATIENCE_SECONDS * 1e3))
        self._patience.timeout.connect(self._lose_patience)
        experiments.catalog_known.connect(lambda _catalog: self._on_catalog())
        experiments.began.connect(self._begin)
        experiments.event_received.connect(self._on_event)
        experiments.problem.connect(self._on_problem)
        experiments.ended.connect(self._end)
        experiments.runs.list_changed.connect(self._look_for_deleted)

    @property
    def case(self) -> Showcase | None:
        """The experiments for this machine. None until the machine has been examined."""
        catalog = self._experiments.catalog
        return self._case or (showcase(catalog) if catalog is not None else None)

    @property
    def is_measuring(self) -> bool:
        """True if the run in progress belongs to the demo."""
        return self.is_at_work and self.pair.running is not None

    def start(self) -> None:
        """Measure, or emit `busy` if something else is running. Do nothing if at work already."""
        experiments, limits = self._experiments, self._experiments.limits
        if self.is_at_work:
            return
        if experiments.running is not None:
            self.busy.emit("A run is training.")
        elif limits.running is not None:
            self.busy.emit("The largest batch is being searched.")
        elif experiments.waiting or limits.waiting:
            self.busy.emit("Runs are queued.")
        else:
            self.start_next()

    def start_next(self) -> None:
        """Measure once the current work has ended, before the rest of the queue."""
        if self.is_at_work:
            return
        self.pair.forget()
        self.is_at_work, self._span, self._attempts, self._ending = True, FIRST, 0, ""
        self._case = self._problem = self._refusal = self._tiles = None
        self.at_work.emit(True)
        self.show()
        if self._experiments.catalog_problem is not None:
            self._refuse(self._experiments.catalog_problem)
        else:
            self._on_catalog()

    def stop_and_start(self) -> None:
        """Stop the current work, which keeps its results so far, and measure."""
        if self.is_at_work:
            return
        # asked before `start_next`: if the work has ended by itself, only its own first run could be stopped
        is_busy = self._experiments.running is not None or self._experiments.limits.running is not None
        self.start_next()
        if is_busy:
            self._experiments.stop()

    def stop(self) -> None:
        """Stop the measurement, and delete an unfinished run."""
        if not self.is_at_work:
            return
        self.pair.remove_waiting()
        if self.pair.running is not None:
            self._end_run("given up")
        elif self.pair.is_coming:
            self._ending = "given up"
            self.show()
        else:
            self._give_up()

    def close(self) -> None:
        """Stop the run in progress because the window closes."""
        self._patience.stop()
        if self.is_at_work:
            self.is_at_work = False
            self.pair.remove_waiting()

    def show(self) -> None:
        """Show the progress in the panel, if at work."""
        if not self.is_at_work:
            return
        pair, others = self.pair, self._experiments.running or self._experiments.limits.running
        phase = "waiting in the queue" if pair.running is None and others is not None else ""
        if self._case is None:
            phase = "examining this machine"
        elif self._ending == "given up":
            phase = "stopping"
        running: Which = "mixed" if pair.is_on_second else "full"
        progress = Progress(self._case, running, pair.live(0), pair.live(1), phase, self._tiles)
        self._panel.show_measuring(measuring(progress))

    def refresh(self) -> None:
        """Show the progress if the panel is visible."""
        if self._panel.isVisible():
            self.show()

    def _on_catalog(self) -> None:
        if self.is_at_work and self._case is None and self._experiments.catalog is not None:
            self._submit(showcase(self._experiments.catalog))

    def _submit(self, case: Showcase) -> None:
        self._case, self._attempts = case, self._attempts + 1
        try:
            self.pair.submit(case)
        except ProblemError as error:
            self._refuse(error.problem)
        self.show()

    def _begin(self, run_id: str) -> None:
        if self.is_at_work and run_id in self.pair.ids:
            self.pair.running, self._lapses, self._is_held = run_id, 0, False
            if self._ending:
                self._end_run(self._ending)
            self.show()

    def _on_event(self, run_id: str, event: Event) -> None:
        if not self.is_at_work or run_id != self.pair.running:
            return
        if isinstance(event, Pictures):
            self._background.do(lambda: _tiles_of(event), self._on_tiles, lambda _problem: None)
        elif isinstance(event, Started):
            self._patience.start()
        elif isinstance(event, Phase):
            self._hold(self._experiments.is_paused)
        elif isinstance(event, Samples):
            pace, done = self.pair.progress()
            if pace is not None:
                self._adapt(pace, done)

    def _on_tiles(self, tiles: NDArray[np.uint8] | None) -> None:
        self._tiles = tiles

    def _hold(self, is_held: bool) -> None:
        if is_held:
            self._patience.stop()
        elif self._is_held:
            self._patience.start()
        self._is_held = is_held

    def _lose_patience(self) -> None:
        # by its overall pace; from the second time on, a hopeless one is given up
        self._lapses += 1
        pace, done = self.pair.progress()
        if pace is None and done:
            pace = done / (self._lapses * PATIENCE_SECONDS)
        if self._adapt(pace, done) or self._case is None or self._ending:
            return
        experiment = self._case.sides[0][1]
        if self._lapses > 1 and is_hopeless(experiment, pace, done):
            self._refuse(busy(experiment, done))

    def _adapt(self, pace: float | None, done: int) -> bool:
        pair, case = self.pair, self._case
        if case is None or self._ending or not pair.can_restart:
            return False
        is_second = pair.is_on_second
        span = SECOND if is_second and self._span is not LENGTHENED else self._span
        better = adapted(case, span, pace, done, pair.whole_pace(0) if is_second else None)
        if isinstance(better, Problem):
            self._refuse(better)
        elif better is not None and self._attempts < MOST_ATTEMPTS:
            self._case, self._span = better, SHORTENED if is_second else FIRST
            pair.remove_waiting()
            self._end_run("again")
        return bool(self._ending)

    def _end_run(self, ending: _Ending) -> None:
        if self.pair.running is not None:
            self._ending = ending
            self._experiments.stop()
            self.show()

    def _end(self, run_id: str) -> None:
        if not self.is_at_work or run_id != self.pair.running:
            return
        self._patience.stop()
        self.pair.running, ending, self._ending = None, self._ending, ""
        run = self._experiments.runs.record(run_id)
        if ending == "again" and self._case is not None:
            self._restart(self._case)
        elif ending == "given up" or (run is not None and run.status is Status.STOPPED):
            self._give_up()
        elif run is None or run.status is not Status.FINISHED:
            self.pair.ids = tuple(other for other in self.pair.ids if other != run_id)
            self._refuse((run.problem if run is not None else None) or self._problem or _LOST)
        elif run_id == self.pair.ids[-1]:
            self._end_pair()
        else:
            self.show()

    def _end_pair(self) -> None:
        full, mixed = self.pair.whole_pace(0), self.pair.whole_pace(1)
        paces = None if full is None or mixed is None else (full, mixed)
        longer = None if paces is None or self._case is None else lengthened(self._case, paces)
        if paces is None or longer is None:
            self._close_up()
            self.measured.emit(self.pair.ids)
        elif self._attempts < MOST_ATTEMPTS:
            self._case, self._span = longer, LENGTHENED
            self._restart(longer)
        else:
            self._refuse(TOO_SHORT)

    def _restart(self, case: Showcase) -> None:
        for old in self.pair.forget():
            self.pair.discard(old, even_whole=True)
        self._submit(case)

    def _look_for_deleted(self) -> None:
        # that the one in progress was deleted is known once it has ended
        others = (run_id for run_id in self.pair.ids if run_id != self.pair.running)
        if self.is_at_work and any(self._experiments.runs.record(run_id) is None for run_id in others):
            self.stop()

    def _on_problem(self, problem: Problem) -> None:
        self._problem = problem
        if self.is_at_work and self._experiments.catalog_problem is not None:
            self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        self._refusal = problem
        self.stop()

    def _give_up(self) -> None:
        run_ids, refusal = self.pair.forget(), self._refusal
        self._close_up()
        for run_id in run_ids:
            self.pair.discard(run_id)
        if refusal is None:
            self.stopped.emit()
        else:
            self.refused.emit(refusal)

    def _close_up(self) -> None:
        self._patience.stop()
        self.is_at_work, self.pair.running = False, None
        self.at_work.emit(False)


def _tiles_of(event: Pictures) -> NDArray[np.uint8] | None:
    try:
        return brightened(event.sheet.tiles())
    except ValueError:
        # without pictures patterns are shown
        return None
