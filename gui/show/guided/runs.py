"""The two runs of "Show me": queued, taken out of the queue, watched, and discarded."""

from __future__ import annotations

from engine.race.showcase import TITLE, Showcase, pace_of
from engine.store.record import RunRecord, Status
from gui.session.experiments import Experiments
from gui.session.live_run import LiveRun


class GuidedRuns:
    """At most two runs, full precision first; `running` is the id of the one in progress."""

    def __init__(self, experiments: Experiments) -> None:
        self._experiments, self._runs = experiments, experiments.runs
        self._submitted: set[str] = set()
        self.ids: tuple[str, ...] = ()
        self.running: str | None = None

    def submit(self, case: Showcase) -> None:
        """Queues both at the front. Raises ProblemError if the store refuses."""
        self.ids = self._experiments.submit(case.title, case.sides, TITLE, goes_first=True)
        self._submitted.update(self.ids)

    def forget(self) -> tuple[str, ...]:
        """Forgets its runs; their ids."""
        run_ids, self.ids, self.running = self.ids, (), None
        return run_ids

    def leave(self, run_id: str) -> None:
        """Forgets a run, which stays in the store."""
        self.ids = tuple(other for other in self.ids if other != run_id)

    def owns(self, run_id: str | None) -> bool:
        """True if it has ever queued that run."""
        return run_id in self._submitted

    def live(self, place: int) -> LiveRun | None:
        """The curves of the first or the second run, once it has begun."""
        return self._runs.opened(self.ids[place]) if place < len(self.ids) else None

    @property
    def is_on_second(self) -> bool:
        """True if the first run is over."""
        first = self.live(0)
        return first is not None and first.is_over

    @property
    def is_coming(self) -> bool:
        """True if a run has left the queue but not begun."""
        runs = [run for run_id in self.ids if (run := self._runs.record(run_id)) is not None]
        return self.running is None and any(not run.status.is_over for run in runs)

    @property
    def is_one_gone(self) -> bool:
        """True if a run was deleted; for the one in progress that is known once it has ended."""
        return any(self._runs.record(run_id) is None for run_id in self.ids if run_id != self.running)

    @property
    def can_begin_anew(self) -> bool:
        """True if the run in progress can be replaced: not if the next one has left the queue."""
        ids = self.ids
        if self.running is None or self.running not in ids:
            return False
        return self.running == ids[-1] or bool(set(ids[1:]) & set(self._experiments.waiting))

    def progress(self) -> tuple[float | None, int]:
        """Steps per second of the current run, None while there are too few, and its number of steps."""
        live = self.live(int(self.is_on_second))
        if live is None or live.experiment is None:
            return None, 0
        return pace_of(live.experiment, live.column("samples_per_second")), live.step

    def whole_pace(self, place: int) -> float | None:
        """Steps per second of the first or the second run over all that counted; None without any."""
        live = self.live(place)
        if live is None or live.experiment is None:
            return None
        return pace_of(live.experiment, live.column("samples_per_second"), 0.0)

    def take_out_waiting(self) -> None:
        """Takes the runs that have not begun out of the queue."""
        waiting = [run_id for run_id in self.ids if run_id in self._experiments.waiting]
        self.ids = tuple(run_id for run_id in self.ids if run_id not in waiting)
        for run_id in waiting:
            self._experiments.take_out(run_id)

    def discard(self, run_id: str, *, even_whole: bool = False) -> None:
        """Deletes a run for good if it is over but unfinished, or `even_whole`."""
        run: RunRecord | None = self._runs.record(run_id)
        is_wanted = run is not None and run.status is Status.FINISHED and not even_whole
        if run is not None and run.status.is_over and not is_wanted and self._experiments.delete((run_id,)):
            self._runs.purge((run_id,))
