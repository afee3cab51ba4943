"""Runs a job in a worker and records it in the store. No torch."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial

from engine.compare.failure import fitting_batch, with_accumulation
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, named
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.experiment.value import MIB_PER_GIB
from engine.machines.machine import keep_catalog, kept_catalog
from engine.protocol import jobs
from engine.protocol.advice import Checked, Finding, FindingKind
from engine.protocol.events import (
    CatalogRead,
    Event,
    Failed,
    Finished,
    ForecastMade,
    Log,
    Phase,
    PhaseName,
    Started,
    Summary,
)
from engine.store.record import RunRecord, Work
from engine.store.recorder import COMMIT_SECONDS, Recorder
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.worker.launcher import Launcher, Session, iterate
from engine.worker.supervision import ProcessSession

_MOST_AT_ONCE = 500
_CRASHES = (Kind.WORKER_DIED, Kind.HANG, Kind.PROTOCOL)
_CHECKED = ("model", "overrides", "dataset", "path", "image_size", "num_classes", "sequence_length")
_CHECKED_ALSO = ("precision", "scaler", "device", "batch_size", "devices", "ranks")


def with_remedy(problem: Problem, experiment: Experiment, batch_size: int) -> Problem:
    """Return the out-of-memory problem with a remedy that names a batch estimated to fit."""
    accumulated = with_accumulation(experiment, batch_size)
    remedy = f"A batch of {batch_size:,} is estimated to fit. Set {named('batch_size')} to it"
    if accumulated is not None:
        times = accumulated.step.gradient_accumulation
        remedy += (
            f", or to {accumulated.batch_size:,} with {named('step.gradient_accumulation')} {times:,}, "
            f"which keeps {experiment.step_samples:,} samples per step"
        )
    said = {"key": "batch_size", "value": str(experiment.batch_size), "allowed": f"at most {batch_size:,}"}
    return problem.model_copy(update={"remedy": f"{remedy}.", **said})


class MemoryAdvice:
    """Adds a batch size that fits to the out-of-memory error of a run, without using the run's worker."""

    def __init__(self, experiment: Experiment, forecasts: Forecasts) -> None:
        self._experiment = experiment
        self._forecasts = forecasts
        self._device_mib: float | None = None

    def with_remedy(self, event: Event) -> Event:
        """Return the event. For an out-of-memory, the remedy names a batch that fits, if one is known."""
        if isinstance(event, Started):
            self._experiment = event.experiment
            self._device_mib = event.environment.device_memory_mib
        elif isinstance(event, Finished) and not self._experiment.is_script:
            self._forecasts.learn_run(self._experiment, event.summary)
        elif isinstance(event, Failed) and event.problem.kind is Kind.OUT_OF_MEMORY:
            forecast, cap = self._forecasts.find(self._experiment), self._experiment.memory_cap_gib
            budget_mib = self._device_mib if cap is None else cap * MIB_PER_GIB
            if forecast is not None and budget_mib is not None:
                fits = fitting_batch(forecast.lines, budget_mib, self._experiment.batch_size)
                if fits is not None:
                    problem = with_remedy(event.problem, self._experiment, fits)
                    return event.model_copy(update={"problem": problem})
        return event


class Precheck:
    """Checks the user's own and library models for mistakes before their first run in this process.

    They are checked once for each code, model, data and precision. Models of the catalog need no check.
    """

    def __init__(self, check: Callable[[Experiment], Checked]) -> None:
        self._check = check
        self._known: dict[str, Checked] = {}

    @staticmethod
    def applies_to(experiment: Experiment) -> bool:
        """Return True if the experiment's model needs a check before training."""
        is_given = experiment.model.file is not None or experiment.model.library is not None
        return is_given and not experiment.is_script

    def remarks(self, experiment: Experiment) -> tuple[Log, ...] | Failed:
        """Check the model. Return its warnings as log lines, or Failed if it cannot be trained."""
        code = experiment.own_code
        # the same text in another folder may read other files
        key = "" if code is None else code.sha256 + code.folder
        key += " " + experiment.model_dump_json(include={*_CHECKED, *_CHECKED_ALSO})
        checked = self._known.get(key)
        if checked is None:
            try:
                checked = self._check(experiment)
            except ProblemError as error:
                if error.problem.kind is Kind.REQUEST:
                    return Failed(problem=error.problem)
                message = f"{experiment.model} was not checked: {error.problem.message}"
                return (Log(level="warning", message=message),)
        if checked.errors:
            first, *others = checked.errors
            remedy = f"{first.remedy} Check shows {len(others):,} more." if others else first.remedy
            problem = request_problem(first.sentence, remedy, key="model", value=first.place or None)
            return Failed(problem=problem, detail=first.detail)
        self._known[key] = checked
        return tuple(
            Log(level="warning", message=f"{finding.sentence} {finding.remedy}")
            for finding in checked.warnings
            # what a device only emulates, the run's own notes say
            if finding.kind is not FindingKind.EMULATED
        )


def crashed(experiment: Experiment, failed: Failed) -> Checked | None:
    """Return the finding of a check that ended its worker. None if the user's code is not to blame."""
    code = experiment.own_code
    if code is None or failed.problem.kind not in _CRASHES:
        return None
    finding = Finding(
        kind=FindingKind.RAISES,
        severity="error",
        message=f"The check crashed. {failed.problem.message}",
        remedy="Fix this line, then check again." if failed.line else "Look for calls that end the process.",
        file=failed.file or code.file,
        line=failed.line,
        detail=failed.detail,
    )
    return Checked(findings=(finding,))


class Runner:
    """Trains queued runs of the store, one after another, in the thread that iterates over `run`.

    Any thread may stop, pause and resume the running job, which reacts after the current step. With
    `keeps_refused`, a run that is refused before it starts is kept as failed, with the reason, not withdrawn.
    With `keeps`, a run on a remote machine continues when this program ends.
    """

    def __init__(
        self, store: Store, launcher: Launcher, *, keeps_refused: bool = False, keeps: bool = True
    ) -> None:
        self._store, self._keeps_refused, self._keeps = store, keeps_refused, keeps
        self._precheck = Precheck(lambda experiment: self.check(experiment, lambda: self._is_stopped))
        self._is_stopped = False
        self._launcher = launcher
        self._forecasts = Forecasts(store.path.parent, launcher.site.name)
        self._session: Session | None = None
        self._is_left = threading.Event()
        self.on_wait: Callable[[str], None] = lambda words: None
        """Called with the reason while a job waits for a cluster."""

    def stop(self) -> None:
        """Request the running job to end."""
        self._is_stopped = True
        if (session := self._session) is not None:
            session.stop()

    def pause(self) -> None:
        """Ask the running job to pause."""
        if (session := self._session) is not None:
            session.pause()

    def resume(self) -> None:
        """Ask the paused job to resume."""
        if (session := self._session) is not None:
            session.resume()

    def leave(self) -> None:
        """Leave the run in training. On a remote machine it continues, and `run` reads its events later. On
        this machine it is stopped."""
        self._is_left.set()

    def execute(self, work: Work, _should_yield: Callable[[], bool]) -> Iterator[Event]:
        """Train the run of queued work, as `run` does."""
        return self.run(work.key)

    def run(self, run_id: str) -> Generator[Event, None, None]:
        """Train a queued run. Record each event, then yield it. The last is Finished or Failed.

        A run that was queued again resumes from its last checkpoint. For a run still training on a remote
        machine, reconnect to it. A user's own model is checked first. A new run that is refused before
        training leaves nothing behind unless `keeps_refused`, and a resumed one stays as it was. Closing the
        generator leaves the run, as `leave` does.

        Raises ProblemError if the run belongs to another machine than the launcher's, if its machine cannot
        be reached, and when the store fails. A job of this machine is then stopped.
        """
        record = self._store.run(run_id)
        if record.machine != self._launcher.site.name:
            raise ProblemError(_elsewhere(record))
        place = self._store.take_over(run_id)
        experiment, wanted = record.experiment, record.experiment.checkpoint
        # once a run that is queued again has started, its earlier end is forgotten
        resumes = record.started is not None if place is None else record.ended is not None
        folder = self._store.checkpoints_folder(run_id)
        saves = (wanted.best or wanted.last or wanted.rewind_every) and not experiment.is_script
        job = jobs.Train(
            experiment=experiment,
            checkpoints=self._launcher.site.checkpoints(folder) if saves else None,
            resume=resumes,
        )
        self._is_stopped = False
        self._is_left.clear()
        make = partial(Recorder, run_id=run_id, resumes=resumes, keeps_refused=self._keeps_refused)
        advice = MemoryAdvice(experiment, self._forecasts)
        if place is not None:
            has_begun = record.environment is not None and not resumes
            session: Session = self._launcher.reconnect(place, job)
            yield from self._recorded(session, partial(make, has_begun=has_begun), advice, ())
            return
        self._store.begin(run_id)
        remarks: tuple[Log, ...] | Failed | Finished = ()
        if not resumes and Precheck.applies_to(experiment):
            yield Phase(name=PhaseName.CHECKING, detail=experiment.model)
            remarks = self._precheck.remarks(experiment)
            if self._is_stopped:
                remarks = Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
        if not isinstance(remarks, Failed | Finished):
            try:
                session = self._launcher.start(
                    job, partial(self._store.set_remote_place, run_id) if self._keeps else None
                )
            except ProblemError as error:
                remarks = Failed(problem=error.problem)
        if isinstance(remarks, Failed | Finished):
            # it ended before its job was given to a worker
            with closing(make(self._store)) as recorder:
                recorder.add([remarks])
            yield remarks
            return
        yield from self._recorded(session, make, advice, remarks)

    def _recorded(
        self,
        session: Session,
        make: Callable[[Store], Recorder],
        advice: MemoryAdvice,
        remarks: tuple[Log, ...],
    ) -> Iterator[Event]:
        # recorded in a thread of its own, so that a stalled reader costs no sample
        outbox: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        kept = session if self._keeps and isinstance(session, ProcessSession) and session.place else None

        def record() -> None:
            try:
                with (
                    closing(session),
                    Store(self._store.path) as store,
                    closing(make(store)) as recorder,
                    closing(session),  # before its recorder
                ):
                    try:
                        recorder.add(remarks)
                        for remark in remarks:
                            outbox.put(remark)
                        while not session.is_over and not self._is_left.is_set():
                            events = [
                                advice.with_remedy(event) for event in _waiting_events(session, recorder)
                            ]
                            place, lost = (kept.place, kept.is_lost) if kept else (None, False)
                            recorder.add(events, place, is_lost=lost)
                            for event in events:
                                outbox.put(event)
                    except ProblemError:
                        # there it continues, and is later read on from the store's last event
                        if kept is not None:
                            kept.leave()
                        raise
                    if kept is not None and not session.is_over:
                        recorder.leave()
                        kept.leave()
            except BaseException as error:  # noqa: BLE001 - the reader deals with it
                outbox.put(error)
            finally:
                outbox.put(None)

        self._session = session
        thread = threading.Thread(target=record, name="recorder", daemon=True)
        thread.start()
        item: Event | BaseException | None
        try:
            while True:
                try:
                    # with a timeout: on Windows nothing else lets Ctrl+C through
                    item = outbox.get(timeout=COMMIT_SECONDS)
                except queue.Empty:
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._is_left.set()
            thread.join()
            self._session = None

    def catalog(self, *, refresh: bool = False) -> Catalog:
        """Return the models, datasets and devices of the launcher's machine.

        The catalog of a cluster is saved, because reading it takes a node, and is read again only with
        `refresh`. Raises ProblemError.
        """
        machine = self._launcher.site.name
        kept = kept_catalog(machine) if self._launcher.site.has_nodes and not refresh else None
        if kept is not None:
            return kept[0]
        answer = _answered(self._last_event(jobs.ReadCatalog()))
        assert isinstance(answer, CatalogRead)
        if not machine:
            return answer.catalog
        catalog = answer.catalog.model_copy(update={"machine": machine})
        keep_catalog(catalog)
        return catalog

    def forecast(
        self, experiment: Experiment, is_unwanted: Callable[[], bool] = lambda: False
    ) -> ForecastMade:
        """Return the experiment's memory forecast, corrected by earlier measurements on this machine.

        A forecast known for these settings, at any batch, is returned at once. Otherwise making it is
        canceled once `is_unwanted`, polled several times a second, returns True. Raises ProblemError if no
        forecast can be made, if it is canceled, and while a job runs, which it would disturb.
        """
        known = self._forecasts.find(experiment)
        if known is not None:
            return known
        self._require_idle("Memory cannot be estimated")
        forecast = _answered(self._last_event(jobs.Forecast(experiment=experiment), is_unwanted))
        assert isinstance(forecast, ForecastMade)
        self._forecasts.keep(experiment, forecast)
        return self._forecasts.find(experiment) or forecast

    def check(self, experiment: Experiment, is_unwanted: Callable[[], bool] = lambda: False) -> Checked:
        """Check the experiment's model and loss for mistakes, until `is_unwanted` returns True.

        Raises ProblemError if the experiment cannot run here, if the check is canceled, and while a job runs,
        which it would disturb.
        """
        self._require_idle("A model cannot be checked")
        last = self._last_event(jobs.CheckModel(experiment=experiment), is_unwanted)
        if isinstance(last, Failed) and (crash := crashed(experiment, last)) is not None:
            return crash
        answer = _answered(last)
        assert isinstance(answer, Checked)
        return answer

    def _require_idle(self, what: str) -> None:
        if self._session is not None:
            message = f"{what} during a measurement, because that would slow it down."
            raise request_error(message, "Try again when the run has finished.")

    def _last_event(self, job: jobs.Job, is_unwanted: Callable[[], bool] = lambda: False) -> Event:
        session = self._session = self._launcher.start(job)
        try:
            answer: Event | None = None
            for event in iterate(session):
                answer = event
                if isinstance(event, Phase) and event.name is PhaseName.WAITING:
                    self.on_wait(event.detail)
                if not session.is_over and is_unwanted():
                    # a stop() while the worker was being started found no session to stop
                    session.stop()
            assert answer is not None  # a session never ends without its last event
        finally:
            self._session = None
            session.close()
        return answer


def _elsewhere(run: RunRecord) -> Problem:
    message = f"{run.title} belongs to {run.machine or 'this machine'}."
    return request_problem(message, "Train it there, or start a new run.", key="run", value=run.id)


def _answered(last: Event) -> Event:
    if isinstance(last, Failed):
        raise ProblemError(last.problem)
    if isinstance(last, Finished):
        message = "Stopped before it could answer."
        raise ProblemError(Problem(kind=Kind.INTERNAL, message=message, remedy="Try again."))
    return last


def _waiting_events(session: Session, recorder: Recorder) -> Iterator[Event]:
    # the next event and all that wait behind it: what a busy machine has held up is committed together
    event = session.next_event(recorder.seconds_left)
    for _ in range(_MOST_AT_ONCE):
        if event is None:
            return
        yield event
        event = session.next_event(0.0)
    if event is not None:
        yield event
