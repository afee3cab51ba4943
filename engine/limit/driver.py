"""Finds the largest batch that fits, trial by trial, in one precision after the other."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from engine.driver import Driver
from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, dataset_of, problems, resolve
from engine.experiment.experiment import Experiment, setting_problem
from engine.experiment.own.code import DATASET, OWN
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.settings import joined
from engine.experiment.value import MIB_PER_GIB
from engine.limit.result import outcome, result_of
from engine.limit.search import Search
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName
from engine.protocol.trials import Cause, Limit, LimitSide, MemoryLine, Trial, Tried, line_near
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.words.names import dataset_words
from engine.worker.launcher import Launcher, iterate
from engine.worker.process import WorkerProcess
from engine.worker.supervision import Limits, ProcessSession

DEFAULT_MARGIN = 0.1
TOLERATED_LEAK_MIB = 1.0
_LOOK_SECONDS = 0.05
_UNKNOWN_LIMIT = 1_000_000_000
# A process that is refused memory outside of Python ends at once; its last output says why.
_DIED_OF_MEMORY = re.compile(
    r"bad_alloc|MemoryError|cannot allocate memory|can't allocate memory|Thread creation failed"
    r"|can't start new thread",
    re.IGNORECASE,
)

_Steps = Iterator[Study[Limit] | Event]


class LimitDriver(Driver[Limit]):
    """The other precisions are tried even if one fails."""

    def __init__(self, store: Store, launcher: Launcher, catalog: Catalog | None = None) -> None:
        super().__init__(store, launcher, catalog)
        self._forecasts = Forecasts(store.path.parent)
        self._trial_runner: TrialRunner | None = None

    def stop(self) -> None:
        super().stop()
        runner = self._trial_runner
        if runner is not None:
            runner.stop()

    def prepare(self, study: Study[Limit]) -> Study[Limit]:
        for experiment in study.experiments:
            self._launcher.trusted_code.check(experiment)
        first, *_ = study.experiments
        device = self._known_catalog().device(first.device)
        return study if device is None else replace(study, device_name=device.title)

    def steps(self, study: Study[Limit], is_to_end: Callable[[], bool]) -> _Steps:
        first: Problem | None = None
        for place in range(len(study.answer.sides)):
            if is_to_end():
                break
            study = replace(study, place=place)
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
        guess = self._known_line(experiment, device)
        search = _search(experiment, side.granularity, guess, device, catalog)
        state = _SideSearch(
            side.model_copy(update={"experiment": experiment, "budget_mib": search.budget_mib or None}),
            search,
            study.answer.margin_fraction,
        )

        def known() -> Study[Limit]:
            answer = study.answer.with_side(place, state.side)
            return replace(study, answer=answer, doing=state.doing)

        yield known()
        yield Log(message=f"Finding the largest batch of {experiment.model} in {side.label}.")
        runner = self._trial_runner = TrialRunner(self._launcher, experiment.device)
        try:
            for event in self._trials(runner, state):
                yield known() if event is None else event
        finally:
            self._trial_runner = None
            runner.close()
        state.close()
        yield known()
        if (result := state.side.result) is not None and state.side.problem is None:
            proof = "proven" if result.verified else "not proven"
            yield Log(message=f"The largest batch that passed is {result.largest_batch:,}, {proof}.")

    def _known_line(self, experiment: Experiment, device: DeviceEntry) -> MemoryLine | None:
        # on a CPU trials and forecasts count different quantities
        forecast = self._forecasts.find(experiment) if device.is_gpu else None
        if forecast is None or not forecast.lines:
            return None
        cap = experiment.memory_cap_gib
        return line_near(forecast.lines, device.memory_mib if cap is None else cap * MIB_PER_GIB)

    def _learn(self, experiment: Experiment, trial: Trial) -> None:
        if experiment.device != "cpu" and trial.fits and trial.peak_mib is not None:
            self._forecasts.learn(experiment, trial.batch_size, trial.peak_mib, "allocated")

    def _await_worker(self, runner: TrialRunner) -> None:
        # importing torch does not count in the time that the search takes
        runner.prepare()
        patience = time.monotonic() + self._launcher.limits.ready
        while not runner.is_ready and time.monotonic() < patience:
            if self._stop_asked.wait(_LOOK_SECONDS):
                return

    def _trials(self, runner: TrialRunner, state: _SideSearch) -> Iterator[Event | None]:
        self._await_worker(runner)
        state.begin()
        while not self._stop_asked.is_set() and (size := state.next_batch()) is not None:
            state.keep(trying=size)
            yield None
            experiment = state.experiment_of(size)
            last: Event | None = None
            for last in runner.run(experiment, is_last=state.ends_with_next):
                if isinstance(last, Phase | Log):
                    yield last
                if self._stop_asked.is_set():
                    # stop() may have come before there was a trial; asking twice does no harm
                    runner.stop()
            if isinstance(last, Finished):
                return
            assert isinstance(last, Tried | Failed)
            trial, why_replaced = state.take(size, last)
            if trial is None:
                return
            self._learn(experiment, trial)
            yield None
            text = f"Batch {trial.batch_size:,}: {outcome(trial)}."
            yield Log(message=f"{text} {trial.note}" if trial.note else text)
            if why_replaced is not None:
                runner.replace_worker()
                yield Log(level="warning", message=f"Its worker was replaced: {why_replaced}")


class _SideSearch:
    """The state of the search in one precision, and the `side` as far as it is known.

    Every batch compiles anew, so a recipe that compiles is first searched uncompiled. A compiled step needs
    different memory, mostly less: compiled trials then start at the uncompiled answer and prove their own.
    """

    def __init__(self, side: LimitSide, search: Search, margin_fraction: float) -> None:
        self.side, self.search = side, search
        self._margin_fraction = margin_fraction
        self._experiment = side.experiment
        self._compiles_later = "compile" in side.experiment.step.parts
        self._uncompiled: Search | None = None
        self._began: float | None = None
        self._tried: Tried | None = None
        self._failed: Failed | None = None

    def keep(self, **changes: Any) -> None:
        """Keeps what has become known of the side."""
        self.side = self.side.model_copy(update=changes)

    @property
    def doing(self) -> str:
        """What is tried now: "FP32: trial 3, 64 fits, trying 128"."""
        side = self.side
        if side.trying is None:
            return f"{side.label}: getting ready"
        fits = f", {side.largest_batch:,} fits" if side.largest_batch else ""
        return f"{side.label}: trial {len(side.trials) + 1}{fits}, trying {side.trying:,}"

    def begin(self) -> None:
        """Counts the time from here on."""
        self._began = time.monotonic()

    def next_batch(self) -> int | None:
        """The batch to try next; None once the answer is proven."""
        size = self.search.next_batch()
        if size is None and self._compiles_later and self.search.limit:
            self._compiles_later = False
            self._uncompiled, self.search = self.search, self.search.begun_at_answer()
            size = self.search.next_batch()
        return size

    @property
    def ends_with_next(self) -> bool:
        """Whether the next trial proves the answer, however it goes."""
        return self.search.ends_with_next and not self._compiles_later

    def experiment_of(self, batch_size: int) -> Experiment:
        """The experiment that tries a batch now."""
        step = self._experiment.step
        if self._compiles_later:
            parts = joined(part for part in step.parts if part != "compile")
            step = step.model_copy(update={"recipe": parts})
        return self._experiment.model_copy(update={"batch_size": batch_size, "step": step})

    def take(self, batch_size: int, last: Tried | Failed) -> tuple[Trial | None, str | None]:
        """Takes in a trial's end. Returns the trial, None if it shows that the search is pointless, and why
        the next one gets another process, if it does."""
        if isinstance(last, Tried):
            self._tried = last
            trial = last.trial
            # on a CPU the worker ends with its trial, and so does what its libraries took on first use
            why = None if self._experiment.device == "cpu" else _why_replaced(last)
            if last.train_samples is not None:
                self.search.limit_to(last.train_samples // self._experiment.step.gradient_accumulation)
        else:
            trial, why = self._failed_trial(batch_size, last), last.problem.message
            if self._is_pointless(trial, last.problem):
                self._failed = last
                return None, None
        trial = trial.model_copy(update={"uncompiled": self._compiles_later})
        budget_mib = self._budget_mib()
        self.search.learn(trial, budget_mib)
        self.keep(trials=(*self.side.trials, trial), budget_mib=budget_mib or None, trying=None)
        return trial, why

    def close(self) -> None:
        """Takes in the result, whether the search is complete or not."""
        search, before = self.search, self._uncompiled
        if before is not None and not search.trials:
            search, before = before, None
        result = result_of(
            search,
            self._experiment,
            margin_fraction=self._margin_fraction,
            tried=self._tried,
            seconds=0.0 if self._began is None else time.monotonic() - self._began,
            uncompiled=() if before is None else before.trials,
        )
        failed = self._failed
        if failed is not None:
            result = result.model_copy(update={"bound_by": "error", "note": failed.problem.message})
        self.keep(result=result, trying=None, problem=None if failed is None else failed.problem)

    def _budget_mib(self) -> float:
        return (self._tried.budget_mib if self._tried is not None else self.search.budget_mib) or 0.0

    def _failed_trial(self, batch_size: int, failed: Failed) -> Trial:
        cause = _cause(failed)
        refused = [trial.batch_size for trial in self.search.trials if trial.cause == "memory"]
        if cause == "death" and self._experiment.device == "cpu" and max(refused, default=0) > batch_size:
            # a larger batch reported a refusal; code that does not check whether it got its memory crashes
            cause = "memory"
        return Trial(batch_size=batch_size, fits=False, cause=cause, note=failed.problem.message)

    def _is_pointless(self, trial: Trial, problem: Problem) -> bool:
        # it is not the batch that fails if nothing has passed yet and nothing ran out of memory
        is_too_large = problem.kind is Kind.REQUEST and problem.key == "batch_size"
        return trial.cause not in ("memory", "spill") and not is_too_large and not self.search.trials


def _cause(failed: Failed) -> Cause:
    match failed.problem.kind:
        case Kind.OUT_OF_MEMORY:
            return "memory"
        case Kind.SPILLED:
            return "spill"
        case Kind.HANG:
            return "hang"
        case Kind.WORKER_DIED | Kind.PROTOCOL:
            return "memory" if _DIED_OF_MEMORY.search(failed.detail) else "death"
    return "error"


def _why_replaced(tried: Tried) -> str | None:
    if tried.leaked_mib <= TOLERATED_LEAK_MIB:
        return None
    return f"{tried.leaked_mib:,.0f} MiB were not freed after the trial."


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
        raise ProblemError(
            setting_problem(
                "memory_cap_gib",
                "is empty, but on a CPU there is no card whose memory could be the limit.",
                "Give a limit in GiB, such as 2 (--memory-gib 2); only Linux enforces it. Or use a GPU.",
            )
        )
    if device.name == "mps":
        raise ProblemError(
            setting_problem(
                "device",
                f"is '{device.name}', but {device.title} shares the machine's memory and cannot be "
                "capped, so there is no limit to find.",
                "Use an NVIDIA GPU, or on the CPU of a Linux machine with a limit.",
                value=device.name,
            )
        )
    return device


def _search(
    experiment: Experiment,
    granularity: int,
    first_guess: MemoryLine | None,
    device: DeviceEntry,
    catalog: Catalog,
) -> Search:
    dataset = dataset_of(experiment, catalog)
    assert dataset is not None  # the experiment is resolved
    limit, reason = _data_limit(experiment, dataset)
    if not 1 <= granularity <= limit:
        raise ProblemError(
            request_problem(
                f"granularity is {granularity:,}, but it must be from 1 to {limit:,}: {reason}.",
                f"Set granularity to at most {limit:,}; 1 finds the exact answer.",
                key="granularity",
                value=granularity,
                allowed=f"1 to {limit:,}",
            )
        )
    cap = experiment.memory_cap_gib
    budget_mib = device.memory_mib if cap is None else cap * MIB_PER_GIB
    return Search(granularity, first_guess, limit, reason, budget_mib)


def _data_limit(experiment: Experiment, dataset: DatasetEntry) -> tuple[int, str]:
    # for a folder or a dataset() of the user's own only a trial can tell
    accumulated = experiment.step.gradient_accumulation
    taken = f", and an optimizer step takes {accumulated:,} batches" if accumulated > 1 else ""
    words, code = dataset_words(dataset.name), experiment.own_code
    is_in_file = dataset.name == OWN and code is not None and DATASET in code.defines
    if is_in_file or (dataset.needs_path and dataset.train_samples is None):
        return _UNKNOWN_LIMIT, f"{words} has no more samples{taken}"
    samples = dataset.train_samples or experiment.samples
    return samples // accumulated, f"{words} has {samples:,} samples{taken}"


# nobody knows how long a download, decoding a folder or a compiler takes
_LONG_PHASES = (PhaseName.DOWNLOADING, PhaseName.BUILDING, PhaseName.COMPILING)
_STANDSTILL_SECONDS = 300.0
"""A trial is a handful of steps: one that stands still for this long will not go on."""

RETURNS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "2",
}
"""The environment of a process for trials on a CPU: otherwise glibc keeps freed memory, and a peak depends on
what ran before it. It costs half the speed."""


class TrialRunner:
    """Runs the trials of one search on one device, always in processes.

    On an accelerator a worker takes trials until it is replaced; on a CPU, where a cap holds for the process,
    it takes exactly one, and the next worker gets ready meanwhile. Must be closed.
    """

    def __init__(self, launcher: Launcher, device: str) -> None:
        self._launcher = launcher
        self._is_disposable = device == "cpu"
        self._limits = trial_limits(launcher.limits)
        self._worker: WorkerProcess | None = None
        self._session: ProcessSession | None = None

    def prepare(self) -> None:
        """Starts the first trial's worker. Raises ProblemError if it cannot be started."""
        self._worker = self._take()

    @property
    def is_ready(self) -> bool:
        """Whether the next trial's worker has imported torch and waits."""
        return self._worker is not None and self._worker.has_spoken

    def run(self, experiment: Experiment, *, is_last: bool = False) -> Iterator[Event]:
        """One trial's events; the last is Tried, Failed, or Finished if it was stopped.

        After the last trial no further worker is needed. Raises ProblemError if none can be started, or if
        code may not run.
        """
        worker = self._worker = self._take()
        job = jobs.TryBatch(experiment=experiment)
        session = self._session = self._launcher.start_on(worker, job, self._limits)
        self._worker = None if self._is_disposable else worker
        try:
            if self._is_disposable and not is_last:
                self._worker = self._new_worker()
            yield from (event for event in iterate(session) if event is not None)
        finally:
            self._session = None
            session.close()

    def stop(self) -> None:
        """Ends the current trial. Any thread may ask."""
        session = self._session
        if session is not None:
            session.stop()

    def replace_worker(self) -> None:
        """Gives the next trial a new process."""
        if self._worker is not None and not self._is_disposable:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """Ends the remaining worker."""
        if self._worker is not None:
            self._worker.discard()
            self._worker = None

    def _take(self) -> WorkerProcess:
        if self._worker is not None and not self._worker.is_alive:
            self.close()
        return self._worker or self._new_worker()

    def _new_worker(self) -> WorkerProcess:
        is_glibc = self._is_disposable and sys.platform == "linux"
        return self._launcher.fresh_worker(RETURNS_MEMORY if is_glibc else None)


def trial_limits(limits: Limits) -> Limits:
    """The launcher's limits with less patience, since nobody waits as long for a trial as for a run."""
    standstill = {
        phase: seconds if phase in _LONG_PHASES else min(seconds, _STANDSTILL_SECONDS)
        for phase, seconds in limits.standstill.items()
    }
    return replace(limits, standstill=standstill)
