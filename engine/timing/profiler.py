"""Profiles experiments one after another, each in a fresh worker, and saves each profile as it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.inspector import Inspector
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, Phase, Summary
from engine.protocol.timing.profile import Profiled, StepProfile
from engine.protocol.timing.timing import (
    MOST_SIDES,
    SideFailed,
    SideStarted,
    Timing,
    TimingSide,
    TimingStarted,
)
from engine.store.saved.timings import Timings

TimingEvent = TimingStarted | SideStarted | Phase | Log | Profiled | SideFailed | Finished | Failed


class Profiler(Inspector):
    """Profiles in the thread that iterates, with the sides known by then where it is stopped."""

    def profile(
        self,
        experiments: Sequence[Experiment],
        run_ids: Sequence[str | None] = (),
        *,
        timing_id: str | None = None,
    ) -> Iterator[TimingEvent]:
        """TimingStarted, the events of the sides, and Finished; Failed where no side has a profile.

        A side begins with SideStarted and ends with Profiled or SideFailed. With `run_ids`, as many as
        experiments, a side that names a run has that run's own experiment, whatever is given. `timing_id` is
        the timing's id in the store, a new one by default. Where nothing became known nothing is left behind.
        Raises ProblemError before any event if there is no such run, if an experiment cannot be trained on
        this machine, or if its code is not trusted.
        """
        if not 1 <= len(experiments) <= MOST_SIDES:
            message = f"{len(experiments):,} experiments cannot be profiled side by side."
            remedy = f"Choose from 1 to {MOST_SIDES}."
            raise ProblemError(request_problem(message, remedy, key="precision", value=len(experiments)))
        runs = run_ids or [None] * len(experiments)
        saved = [None if run_id is None else self._store.run(run_id) for run_id in runs]
        prepared = self._prepared(
            given if run is None else run.experiment for given, run in zip(experiments, saved, strict=True)
        )
        timing = Timing(
            sides=tuple(
                TimingSide(experiment=experiment, run_id=None if run is None else run.id)
                for (experiment, _), run in zip(prepared, saved, strict=True)
            )
        )
        record = _Record(self._store.timings, timing, prepared[0][1], timing_id)
        yield from self._recorded(record, timing)

    def _recorded(self, record: _Record, timing: Timing) -> Iterator[TimingEvent]:
        try:
            yield TimingStarted(timing_id=record.timing_id, timing=timing)
            for place in range(len(timing.sides)):
                if self._stop_asked.is_set():
                    break
                yield SideStarted(side=place)
                for event in self._events(record.job(place)):
                    if (told := record.take(place, event)) is not None:
                        yield told
        finally:
            record.close()
        yield record.last(was_stopped=self._stop_asked.is_set())


class _Record:
    """A timing as far as it is known, in memory and in the store."""

    def __init__(self, timings: Timings, timing: Timing, device: DeviceEntry, timing_id: str | None) -> None:
        self.timing_id = timings.add(timing, device_name=device.title, timing_id=timing_id)
        self._timings = timings
        self._timing = timing
        self._failed: Failed | None = None

    def job(self, place: int) -> jobs.Profile:
        """The job that profiles a side, with what is known of its device's limits."""
        experiment = self._timing.sides[place].experiment
        known = (
            side.profile.limits
            for side in self._timing.sides
            if side.profile is not None and side.experiment.device == experiment.device
        )
        return jobs.Profile(experiment=experiment, trace=str(self._trace(place)), limits=next(known, None))

    def take(self, place: int, event: Event) -> TimingEvent | None:
        """Saves what an event of a side's job tells; what to tell the caller of it, if anything."""
        match event:
            case Phase() | Log():
                return event
            case Profiled(profile=profile):
                trace = self._trace(place)
                profile = profile.model_copy(update={"trace": trace.name if trace.is_file() else None})
                self._save(place, profile=profile)
                return Profiled(profile=profile)
            case Failed(problem=problem) if self._timing.sides[place].profile is None:
                self._failed = self._failed or event
                self._save(place, problem=problem)
                return SideFailed(side=place, problem=problem)
        return None

    def close(self) -> None:
        """Ends the saved timing, or deletes it where nothing is known."""
        sides = self._timing.sides
        problems = [side.problem for side in sides if side.problem is not None]
        if not self._timing.profiles() and all(problem.kind is Kind.REQUEST for problem in problems):
            self._timings.delete(self.timing_id)
            return
        for place, side in enumerate(sides):
            if side.profile is None:
                self._timings.delete_trace(self.timing_id, place)
        self._timings.end(self.timing_id)

    def last(self, *, was_stopped: bool) -> Finished | Failed:
        """The last event."""
        if self._failed is not None and not self._timing.profiles():
            return self._failed
        return Finished(summary=Summary(), stopped=was_stopped)

    def _trace(self, place: int) -> Path:
        return self._timings.trace_path(self.timing_id, place)

    def _save(self, place: int, **known: StepProfile | Problem) -> None:
        self._timing = self._timing.with_side(place, **known)
        self._timings.record(self.timing_id, place, self._timing.sides[place])
