"""Find the largest batch that fits, trial by trial, in one precision after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.driver import Driver
from engine.experiment.checks import Catalog, DeviceEntry, dataset_of, problems, resolve
from engine.experiment.experiment import Experiment, Precision, setting_error
from engine.experiment.own.code import DATASET, OWN_DATA
from engine.experiment.problem import Problem, ProblemError, request_error
from engine.experiment.value import MIB_PER_GIB
from engine.limit.result import SideSearch, result_words
from engine.limit.search import Search
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName
from engine.protocol.trials import Limit, MemoryLine, Tried, line_near
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.words.names import dataset_words
from engine.worker.launcher import Launcher, iterate
from engine.worker.site import Worker
from engine.worker.supervision import ProcessSession, Timeouts

DEFAULT_MARGIN = 0.1
_LOOK_SECONDS = 0.05
_UNKNOWN_LIMIT = 1_000_000_000
# nobody knows how long a download, decoding a folder or a compiler takes
_LONG_PHASES = (PhaseName.DOWNLOADING, PhaseName.BUILDING, PhaseName.COMPILING)
_STANDSTILL_SECONDS = 300.0
"""The seconds after which a trial without progress is given up. A trial has only a few steps."""

_Steps = Iterator[Study[Limit] | Event]


class LimitDriver(Driver[Limit]):
    """Finds the largest batch of each side of a study, even if one fails.

    No trial starts after `time_limit_seconds`.
    """

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        catalog: Catalog | None = None,
        time_limit_seconds: float | None = None,
    ) -> None:
        super().__init__(store, launcher, catalog)
        self._time_limit_seconds = math.inf if time_limit_seconds is None else time_limit_seconds
        self._ends = math.inf
        self._forecasts = Forecasts(store.path.parent, launcher.site.name)
        self._trial_runner: TrialRunner | None = None

    def stop(self) -> None:
        super().stop()
        if (runner := self._trial_runner) is not None:
            runner.stop()

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._ends

    def prepare(self, study: Study[Limit]) -> Study[Limit]:
        for experiment in study.experiments:
            self._launcher.trusted_code.check(experiment)
        device = self._known_catalog().device(study.experiments[0].device)
        return study if device is None else replace(study, device_name=device.title)

    def steps(self, study: Study[Limit], is_to_end: Callable[[], bool]) -> _Steps:
        first: Problem | None = None
        self._ends = time.monotonic() + self._time_limit_seconds
        for place in range(len(study.answer.sides)):
            if is_to_end():
                break
            study = replace(study, place=place)
            if self._is_late:
                # its answer says that nothing was tried, instead of leaving the side out
                unknown = SideSearch(study.answer.sides[place], Search(), study.answer.margin_fraction)
                unknown.close()
                study = replace(study, answer=study.answer.with_side(place, unknown.side))
                yield study
                continue
            try:
                for known in self._side(study, place):
                    study = known if isinstance(known, Study) else study
                    yield known
            except ProblemError as error:
                side = study.answer.sides[place].model_copy(update={"problem": error.problem, "trying": None})
                study = replace(study, answer=study.answer.with_side(place, side))
                yield study
            first = first or study.answer.sides[place].problem
        yield self._end(first)

    def _side(self, study: Study[Limit], place: int) -> _Steps:
        side, catalog = study.answer.sides[place], self._known_catalog()
        experiment = _resolved(side.experiment, side.granularity, catalog)
        device = _searchable(experiment, catalog)
        search = self._search(experiment, side.granularity, device, catalog)
        side = side.model_copy(update={"experiment": experiment, "budget_mib": search.budget_mib or None})
        searches = _searches_algorithms(experiment, catalog)
        state = SideSearch(side, search, study.answer.margin_fraction, searches_algorithms=searches)

        def known() -> Study[Limit]:
            answer = study.answer.with_side(place, state.side)
            return replace(study, answer=answer, doing=state.doing)

        yield known()
        yield Log(message=f"Finding the largest batch of {experiment.model} in {side.label}.")
        runner = self._trial_runner = TrialRunner(self._launcher, experiment.device)
        try:
            for event in self._run_trials(runner, state):
                yield known() if event is None else event
        finally:
            self._trial_runner = None
            runner.close()
        state.close()
        yield known()
        if (result := state.side.result) is not None and state.side.problem is None:
            proof = "verified" if result.verified else "not verified"
            yield Log(message=f"The largest batch that passed is {result.largest_batch:,}, {proof}.")

    def _search(
        self, experiment: Experiment, granularity: int, device: DeviceEntry, catalog: Catalog
    ) -> Search:
        limit, reason = _data_limit(experiment, catalog)
        if not 1 <= granularity <= limit:
            raise request_error(
                f"granularity is {granularity:,}, but it must be from 1 to {limit:,}: {reason}.",
                f"Set granularity to at most {limit:,}. 1 finds the exact answer.",
                key="granularity",
                value=granularity,
                allowed=f"1 to {limit:,}",
            )
        cap = experiment.memory_cap_gib
        budget_mib = device.memory_mib if cap is None else cap * MIB_PER_GIB
        # on a CPU trials and forecasts count different quantities
        forecast = self._forecasts.find(experiment) if device.is_gpu else None
        guess: MemoryLine | None = None
        if forecast is not None and forecast.lines:
            guess = line_near(forecast.lines, budget_mib)
        return Search(granularity, guess, limit, reason, budget_mib)

    def _await_worker(self, runner: TrialRunner) -> None:
        # importing torch does not count in the time that the search takes
        runner.prepare()
        patience = time.monotonic() + self._launcher.limits.ready
        while not runner.is_ready and time.monotonic() < patience:
            if self._stop_asked.wait(_LOOK_SECONDS):
                return

    def _run_trials(self, runner: TrialRunner, state: SideSearch) -> Iterator[Event | None]:
        # None where more is known
        self._await_worker(runner)
        state.began = time.monotonic()
        while not self._stop_asked.is_set() and not self._is_late:
            if (size := state.next_batch()) is None:
                return
            yield None
            experiment = state.experiment_of(size)
            last: Event | None = None
            for last in runner.run(experiment, is_last=state.ends_with_next, is_quick=state.is_quick):
                if isinstance(last, Phase | Log):
                    yield last
                if self._stop_asked.is_set():
                    # stop() may have come before there was a trial; asking twice does no harm
                    runner.stop()
            if isinstance(last, Finished):
                return
            assert isinstance(last, Tried | Failed)
            trial, why_replaced = state.record(size, last)
            if trial is None:
                return
            if experiment.device != "cpu" and trial.fits and trial.peak_mib is not None:
                self._forecasts.learn(experiment, trial.batch_size, trial.peak_mib, "allocated")
            yield None
            text = f"Batch {trial.batch_size:,}: {result_words(trial)}."
            yield Log(message=f"{text} {trial.note}" if trial.note else text)
            if why_replaced is not None:
                runner.replace_worker()
                yield Log(level="warning", message=f"Its worker was replaced: {why_replaced}")


def _searches_algorithms(experiment: Experiment, catalog: Catalog) -> bool:
    # every recipe but plain has cuDNN search, which does so for convolutions; of models that are not in the
    # catalog nobody knows whether they have any
    model = catalog.model(experiment.model)
    has_convolutions = model is None or model.is_convolutional or experiment.model.library is not None
    is_own = experiment.own_code is not None
    return (
        experiment.device.startswith("cuda") and bool(experiment.step.parts) and (has_convolutions or is_own)
    )


def _resolved(experiment: Experiment, granularity: int, catalog: Catalog) -> Experiment:
    # its own batch size does not matter here
    smallest = experiment.model_copy(update={"batch_size": 1})
    if wrong := problems(smallest, catalog):
        raise ProblemError(*wrong)
    return resolve(smallest, catalog).model_copy(update={"batch_size": granularity})


def _searchable(experiment: Experiment, catalog: Catalog) -> DeviceEntry:
    device = catalog.device(experiment.device)
    assert device is not None  # the experiment is resolved
    if device.name == "cpu" and experiment.memory_cap_gib is None:
        raise setting_error(
            "memory_cap_gib",
            "is empty, but a CPU has no GPU memory that limits the batch.",
            "Set a limit in GiB, such as 2 (--memory-gib 2, only on Linux), or use a GPU.",
        )
    if device.name == "cpu" and experiment.precision is Precision.FP8:
        raise setting_error(
            "precision",
            "is FP8, which a CPU only emulates, so the largest batch says nothing about a GPU.",
            "Search in BF16 AMP, or on a GPU that has FP8.",
            value=Precision.FP8,
        )
    if device.name == "mps":
        raise setting_error(
            "device",
            f"is '{device.name}', but {device.title} shares the machine's memory and cannot be "
            "capped, so there is no limit to find.",
            "Use an NVIDIA GPU, or a memory limit on the CPU of a Linux machine.",
            value=device.name,
        )
    return device


def _data_limit(experiment: Experiment, catalog: Catalog) -> tuple[int, str]:
    dataset = dataset_of(experiment, catalog)
    assert dataset is not None  # the experiment is resolved
    # for a folder or a dataset() of the user's own only a trial can tell
    accumulated = experiment.step.gradient_accumulation
    taken = f", and an optimizer step takes {accumulated:,} batches" if accumulated > 1 else ""
    if experiment.devices > 1:
        taken = f", which {experiment.devices:,} devices share{taken}"
    words, code = dataset_words(dataset.name), experiment.own_code
    is_in_file = dataset.name == OWN_DATA and code is not None and DATASET in code.defines
    if is_in_file or (dataset.needs_path and dataset.train_samples is None):
        return _UNKNOWN_LIMIT, f"{words} has no more samples{taken}"
    samples = dataset.train_samples or experiment.samples
    return samples // experiment.devices // accumulated, f"{words} has {samples:,} samples{taken}"


RETURNS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "2",
}
"""The environment of a process for trials on a CPU: otherwise glibc keeps freed memory, and a peak depends on
what ran before it. It costs half the speed."""


class TrialRunner:
    """Runs the trials of a batch-size search on one device, in worker processes. Must be closed.

    On an accelerator, one worker runs trials until `replace_worker`. On a CPU, where a memory cap applies to
    the process, each trial gets a new worker, which starts during the previous trial.
    """

    def __init__(self, launcher: Launcher, device: str) -> None:
        self._launcher = launcher
        self._is_disposable = device == "cpu"
        self._limits = trial_limits(launcher.limits)
        self._worker: Worker | None = None
        self._session: ProcessSession | None = None

    def prepare(self) -> None:
        """Start the first trial's worker. Raises ProblemError if it cannot be started."""
        self._worker = self._take()

    @property
    def is_ready(self) -> bool:
        """True once the next trial's worker has imported torch and waits."""
        return self._worker is not None and self._worker.has_spoken

    def run(
        self, experiment: Experiment, *, is_last: bool = False, is_quick: bool = False
    ) -> Iterator[Event]:
        """Yield a trial's events. The last is Tried, Failed, or Finished if it was stopped.

        After the last trial no further worker is needed. Raises ProblemError if none can be started, or if
        code may not run.
        """
        worker = self._worker = self._take()
        job = jobs.TryBatch(experiment=experiment, searches_algorithms=not is_quick)
        session = self._session = self._launcher.start_on(worker, job, self._limits)
        self._worker = None if self._is_disposable else worker
        try:
            if self._is_disposable and not is_last:
                self._worker = self._new_worker()
            yield from filter(None, iterate(session))
        finally:
            self._session = None
            session.close()

    def stop(self) -> None:
        """End the current trial. Any thread may call this."""
        if (session := self._session) is not None:
            session.stop()

    def replace_worker(self) -> None:
        """Give the next trial a new process."""
        if self._worker is not None and not self._is_disposable:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.discard()
            self._worker = None

    def _take(self) -> Worker:
        if self._worker is not None and not self._worker.is_alive:
            self.close()
        return self._worker or self._new_worker()

    def _new_worker(self) -> Worker:
        is_glibc = self._is_disposable and self._launcher.site.is_glibc
        return self._launcher.fresh_worker(RETURNS_MEMORY if is_glibc else None)


def trial_limits(limits: Timeouts) -> Timeouts:
    """Return the launcher's limits with shorter timeouts than for a run."""
    standstill = {
        phase: seconds if phase in _LONG_PHASES else min(seconds, _STANDSTILL_SECONDS)
        for phase, seconds in limits.standstill.items()
    }
    return replace(limits, standstill=standstill)
