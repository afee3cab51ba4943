"""Runs a job at a target, records it in the store, and passes its events on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from engine import jobs
from engine.catalog import Catalog
from engine.events import (
    CatalogRead,
    Diagnosis,
    Event,
    Failed,
    Finished,
    ForecastMade,
    Heartbeat,
    Phase,
    PhaseName,
    Ready,
    Samples,
    Started,
)
from engine.experiment import Experiment
from engine.launcher import Launcher, Session, iterate
from engine.memory_advice import MemoryAdvice
from engine.problem import Kind, Problem, ProblemError, request_problem
from engine.records.forecasts import Forecasts
from engine.records.record import RunRecord
from engine.records.store import Store

COMMIT_SECONDS = 0.2
"""How much of a run may be lost when this process is killed, at most."""


class Runner:
    """Trains the store's queued runs, one after another, in the thread that iterates.

    `keeps_refused`: a run that is refused before it began stays as failed, with the reason, and is not
    withdrawn.
    """

    def __init__(self, store: Store, launcher: Launcher, *, keeps_refused: bool = False) -> None:
        self._store, self._keeps_refused = store, keeps_refused
        self._launcher = launcher
        self._forecasts = Forecasts(store.path.parent)
        self._session: Session | None = None

    def stop(self) -> None:
        """Asks the job that runs to end after the step in flight. Any thread may ask."""
        session = self._session
        if session is not None:
            session.stop()

    def pause(self) -> None:
        """Asks the job that runs to wait after the step in flight. Any thread may ask."""
        session = self._session
        if session is not None:
            session.pause()

    def go_on(self) -> None:
        """Asks the job that waits to go on. Any thread may ask."""
        session = self._session
        if session is not None:
            session.go_on()

    def run(self, run_id: str) -> Iterator[Event]:
        """Trains a queued run; each event is recorded, then yielded; Finished or Failed is the last.

        A run that was queued again goes on from its last checkpoint. A request that is refused before
        training began leaves no run behind, unless they are kept, and one that was to go on as it was. Raises
        ProblemError when the store fails; the job is ended then.
        """
        record = self._store.run(run_id)
        job = self._job(record)
        self._store.begin(run_id)
        recorder = _Recorder(self._store, run_id, resumes=job.resume, keeps_refused=self._keeps_refused)
        advice = MemoryAdvice(record.experiment, self._forecasts)
        try:
            session = self._session = self._launcher.start(job)
        except ProblemError as error:
            failed = Failed(problem=error.problem)
            recorder.take(failed)
            yield failed
            return
        try:
            for told in iterate(session, COMMIT_SECONDS):
                event = None if told is None else advice.given(told)
                recorder.take(event)
                if event is not None:
                    yield event
        finally:
            self._session = None
            session.close()
            recorder.close()

    def catalog(self) -> Catalog:
        """What can be chosen on this machine. Raises ProblemError."""
        answer = self._answer(jobs.ReadCatalog())
        assert isinstance(answer, CatalogRead)
        return answer.catalog

    def diagnose(self) -> Diagnosis:
        """Whether this machine is ready. Raises ProblemError."""
        answer = self._answer(jobs.Examine())
        assert isinstance(answer, Diagnosis)
        return answer

    def forecast(
        self, experiment: Experiment, is_unwanted: Callable[[], bool] = lambda: False
    ) -> ForecastMade:
        """What the experiment will need, corrected by what was measured here before.

        It is there at once where a forecast is known for these settings, whatever the batch. While one is
        made, it is given up as soon as `is_unwanted` says so, which is asked several times a second. Raises
        ProblemError where nobody can tell, where it was given up, and while a job runs, which it would
        disturb.
        """
        known = self._forecasts.find(experiment)
        if known is not None:
            return known
        if self._session is not None:
            message = "A forecast is not made while a run is being measured: it would slow it down."
            raise ProblemError(request_problem(message, "Ask again when the run is over."))
        made = self._answer(jobs.Forecast(experiment=experiment), is_unwanted)
        assert isinstance(made, ForecastMade)
        self._forecasts.keep(experiment, made)
        return self._forecasts.find(experiment) or made

    def _job(self, record: RunRecord) -> jobs.Train:
        wanted = record.experiment.checkpoint
        folder = self._store.checkpoints_folder(record.id)
        return jobs.Train(
            experiment=record.experiment,
            checkpoints=str(folder) if wanted.best or wanted.last else None,
            resume=record.started is not None,
        )

    def _answer(self, job: jobs.Job, is_unwanted: Callable[[], bool] = lambda: False) -> Event:
        session = self._session = self._launcher.start(job)
        try:
            answer: Event | None = None
            for event in iterate(session):
                answer = event
                if not session.is_over and is_unwanted():
                    # a wish that came while the worker was being started found no session to tell
                    session.stop()
            assert answer is not None  # the last event is never left out
        finally:
            self._session = None
            session.close()
        if isinstance(answer, Failed):
            raise ProblemError(answer.problem)
        if isinstance(answer, Finished):
            raise ProblemError(
                Problem(
                    kind=Kind.INTERNAL, message="It was stopped before it could answer.", remedy="Ask again."
                )
            )
        return answer


class _Recorder:
    """Gathers a run's events and commits them a few times a second; the end of the run at once."""

    def __init__(self, store: Store, run_id: str, *, resumes: bool, keeps_refused: bool) -> None:
        self._store = store
        self._run_id = run_id
        self._resumes, self._keeps_refused = resumes, keeps_refused
        self._waiting: list[Event] = []
        self._committed = time.monotonic()
        self._began = False
        self._ended = False

    def take(self, event: Event | None) -> None:
        if event is not None and not isinstance(event, Heartbeat | Ready):
            self._waiting.append(event)
        self._began |= isinstance(event, Started)
        if isinstance(event, Finished | Failed):
            self._ended = True
            if self._came_to_nothing(event):
                self._store.withdraw(self._run_id)
            else:
                self._commit()
        elif _is_saving(event) or time.monotonic() - self._committed >= COMMIT_SECONDS:
            # steps before a checkpoint are never told again, so they are not to be lost after it
            self._commit()

    def close(self) -> None:
        """Ends a run that its reader left before its last event: as stopped, with what there is."""
        if self._ended:
            return
        self._ended = True
        if self._came_to_nothing(None):
            self._store.withdraw(self._run_id)
        else:
            self._commit()
            summary = self._store.summary_so_far(self._run_id)
            self._waiting.append(Finished(summary=summary, stopped=True))
            self._commit()

    def _came_to_nothing(self, last: Finished | Failed | None) -> bool:
        """Whether there is nothing to record: a refusal, or a resumed run that did not start again."""
        is_refused = isinstance(last, Failed) and last.problem.kind is Kind.REQUEST
        return not self._began and (self._resumes or (is_refused and not self._keeps_refused))

    def _commit(self) -> None:
        self._committed = time.monotonic()
        if self._waiting:
            events, self._waiting = _merged(self._waiting), []
            try:
                self._store.record(self._run_id, events)
            except ProblemError:
                # what the store refuses once it is not asked again: the run is lost, and the reader is told
                self._ended = True
                raise


def _is_saving(event: Event | None) -> bool:
    return isinstance(event, Phase) and event.name is PhaseName.SAVING


def _merged(events: list[Event]) -> list[Event]:
    """Neighbouring sample batches as one block each."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Samples) and isinstance(last, Samples):
            merged[-1] = last.followed_by(event)
        else:
            merged.append(event)
    return merged
