"""The order of a sweep's turns: pilots, then alternating full runs, then repeats of the least certain.

Every cell gets its first run before any cell gets its second. Cells that are compared with each other are
trained right after each other, in reversed order each time, like the repeats of a comparison.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.compare.metrics import SPEED, metric_row
from engine.compare.sides import Side
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.settings import Checkpoint, Measure
from engine.experiment.sweep import MOST_EXTRA_REPEATS, Pilot
from engine.protocol.events import Epoch, Event, Finished, Phase, PhaseName, Samples, Started, Summary
from engine.statistics import student_t
from engine.store.record import RunRecord, Status
from engine.store.saved.sweeps import CellRecord, SweepRecord

_LIKELY_REPEATS = 3  # how many repeats a ratio is expected to need of which no interval is known yet
_DONE = (Status.FINISHED, Status.FAILED)


def is_trained(cell: CellRecord) -> bool:
    """Return True if a cell is to be trained: it is not excluded or paused, and nothing in it has failed."""
    has_failed = cell.problem is not None or any(run.status is Status.FAILED for run in cell.runs)
    return not (cell.left_out or cell.is_paused or has_failed)


def turns(record: SweepRecord) -> Iterator[Turn]:
    """Yield the turns that are left if none fails, the next one first.

    The number of repeats for a wanted precision is an estimate. The caller applies the time limit.
    """
    groups = groups_of(record)
    for cell in _cells(groups):
        is_known = cell.pilot is not None or finished_runs(cell)
        if not is_known and pilot_experiment(record.grid.cells[cell.index].experiment) is not None:
            yield Turn(cell.index, "pilot")
    for repeat in range(1, record.plan.repeats + 1):
        for group in groups:
            yield from group.round(repeat)
    if record.plan.precision_percent is not None:
        yield from _extra_turns(record, groups, record.plan.precision_percent / 100)


def finished_runs(cell: CellRecord) -> tuple[RunRecord, ...]:
    """Return the finished runs of a cell."""
    return tuple(run for run in cell.runs if run.status is Status.FINISHED)


@dataclass(frozen=True)
class CellGroup:
    """The cells of a sweep (combinations of its values) that are compared with one baseline.

    `baseline` is the index of the first of them, unless that cell is no longer trained.
    """

    baseline: int
    cells: tuple[CellRecord, ...]

    def round(self, repeat: int) -> Iterator[Turn]:
        """Return the missing runs of that repeat, in training order."""
        for cell in self.cells if repeat % 2 else reversed(self.cells):
            if not any(run.repeat == repeat and run.status in _DONE for run in cell.runs):
                yield Turn(cell.index, "run", repeat)

    @property
    def begun(self) -> int:
        """Return the last repeat that has started."""
        return max((run.repeat or 0 for cell in self.cells for run in finished_runs(cell)), default=0)

    @property
    def reach(self) -> float:
        """Return the distance of the widest interval from its ratio, as a fraction of the ratio.

        Infinite if a ratio has no interval yet, 0 if it cannot have one.
        """
        first, *others = self.cells
        if first.index != self.baseline or any(
            SPEED.value(run) is None for cell in self.cells for run in finished_runs(cell)
        ):
            return 0.0
        return max((_reach(cell, first) for cell in others), default=0.0)


def groups_of(record: SweepRecord) -> tuple[CellGroup, ...]:
    """Return the cells to train, grouped by their baseline."""
    groups: dict[int, list[CellRecord]] = defaultdict(list)
    for cell in record.cells:
        if is_trained(cell):
            groups[record.grid.baseline(record.grid.cells[cell.index]).index].append(cell)
    return tuple(CellGroup(baseline, tuple(cells)) for baseline, cells in groups.items())


def _cells(groups: Iterable[CellGroup]) -> Iterator[CellRecord]:
    return (cell for group in groups for cell in group.cells)


def _extra_turns(record: SweepRecord, groups: Sequence[CellGroup], wanted: float) -> Iterator[Turn]:
    # whoever was repeated less often than its partners catches up first
    for group in groups:
        for repeat in range(record.plan.repeats + 1, group.begun + 1):
            yield from group.round(repeat)
    reaches = sorted(((group.reach, group) for group in groups), key=lambda pair: -pair[0])
    for reach, group in reaches:
        if reach > wanted:
            begun = max(group.begun, record.plan.repeats)
            for repeat in range(begun + 1, _likely_repeats(begun, reach, wanted) + 1):
                yield from group.round(repeat)


def _likely_repeats(begun: int, reach: float, wanted: float) -> int:
    if not math.isfinite(reach) or begun < 2:
        return min(max(begun + 1, _LIKELY_REPEATS), MOST_EXTRA_REPEATS)
    spread = reach * math.sqrt(begun) / student_t(begun - 1)
    likely = (
        repeats
        for repeats in range(begun + 1, MOST_EXTRA_REPEATS)
        if student_t(repeats - 1) * spread / math.sqrt(repeats) <= wanted
    )
    return next(likely, MOST_EXTRA_REPEATS)


def _reach(cell: CellRecord, baseline: CellRecord) -> float:
    runs, base_runs = finished_runs(cell), finished_runs(baseline)
    if not runs or not base_runs:
        return math.inf
    side, base = Side(runs, label=""), Side(base_runs, label="")
    known = metric_row(SPEED, (side,), base, {}).cells[0]
    if known.ratio is None or known.ratio_interval is None:
        return math.inf
    low, high = known.ratio_interval
    return max(high / known.ratio, 2 - low / known.ratio) - 1


@dataclass(frozen=True)
class Turn:
    """The next run of a sweep: a cell's pilot (a short trial run), or its full run number `repeat`, from 1.

    A pilot has no `run_id`.
    """

    cell: int
    kind: Literal["pilot", "run"]
    repeat: int = 1
    run_id: str | None = None


@dataclass(frozen=True)
class Estimate:
    """The estimated time left of a sweep. It `is_rough` as long as some cells have had no short trial run."""

    seconds_left: float
    is_rough: bool


@dataclass(frozen=True)
class SweepStarted:
    """Event: a sweep was started or resumed. `sweep_id` is its id in the store."""

    sweep_id: str
    estimate: Estimate | None


@dataclass(frozen=True)
class TurnStarted:
    """Event: a run or trial run of a cell was started. The worker's events that follow belong to it."""

    turn: Turn


@dataclass(frozen=True)
class TurnEnded:
    """Event: a run or trial run of a cell has ended and is saved. `problem` is its failure, if any.

    A failure does not stop the other cells.
    """

    turn: Turn
    problem: Problem | None
    estimate: Estimate | None


SweepEvent = SweepStarted | TurnStarted | TurnEnded | Event
"""An event of a sweep. The last is `Failed`, or `Finished`, with `stopped` if turns are left."""


_MEASURE = Measure(warmup_steps=5, block_steps=2)

MOST_SECONDS = 60.0  # a pilot is ended once its steps took so long and `_LEAST_STEPS` of them are known
_LEAST_STEPS = 3


def pilot_experiment(experiment: Experiment) -> Experiment | None:
    """Return the experiment that pilots another. None if the full run is not longer."""
    pilot = experiment.model_copy(update={"epochs": None, "measure": _MEASURE, "checkpoint": Checkpoint()})
    if experiment.steps is not None and experiment.steps <= pilot.least_steps:
        return None
    return pilot.model_copy(update={"steps": pilot.least_steps})


def run_seconds(experiment: Experiment, pilot: Pilot) -> float | None:
    """Estimate the time of a full run from its pilot, with its worker's start. None if unknown."""
    per_epoch, every = pilot.steps_per_epoch, experiment.validation.every
    steps = experiment.steps
    if steps is None and per_epoch is not None:
        steps = (experiment.epochs or 1) * per_epoch
    if steps is None or pilot.step_ms is None:
        return None
    validations = 0
    if every:
        # a run that ends by steps validates after its last
        validations = (
            (experiment.epochs or 1) // every
            if experiment.steps is None
            else 1 + (steps - 1) // (per_epoch or steps) // every
        )
    return pilot.start_seconds + steps * pilot.step_ms / 1e3 + validations * (pilot.validation_seconds or 0.0)


class PilotWatch:
    """Measures the speed and times of a pilot, a short trial run, from its events as they arrive.

    Create it before the pilot's worker is started.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._first_step: float | None = None
        self._phase: PhaseName | None = None
        self._validating: float | None = None
        self._validations: list[float] = []
        self._steps_per_epoch: int | None = None
        self._step_times: list[tuple[int, float]] = []
        self._loss: float | None = None
        self._summary = Summary()

    def take(self, event: Event) -> None:
        match event:
            case Started(steps_per_epoch=steps):
                self._steps_per_epoch = steps
            case Samples():
                self._first_step = self._first_step or self._clock()
                times = [*zip(event.step, event.seconds, strict=True)]
                # these end with the capture, which is in no span that a speed is taken from
                is_capturing = self._phase is PhaseName.CAPTURING
                self._step_times = times[-1:] if is_capturing else [*self._step_times, *times]
                self._loss = event.loss[-1] if event.loss else self._loss
            case Phase():
                self._phase = event.name
                if event.name is PhaseName.VALIDATING:
                    self._validating = self._clock()
            case Epoch() if self._validating is not None:
                self._validations.append(self._clock() - self._validating)
                self._validating = None
            case Finished(summary=summary):
                self._summary = summary

    @property
    def is_enough(self) -> bool:
        """True once the pilot has run long enough for a useful estimate."""
        if self._first_step is None or len(self._step_times) < _LEAST_STEPS:
            return False
        return self._clock() - self._first_step > MOST_SECONDS

    def pilot(self) -> Pilot | None:
        """Return the measurements, once the worker has ended. None without a step."""
        summary, step_ms = self._summary, self._step_ms()
        seconds = max(0.0, self._clock() - self._began - (summary.paused_seconds or 0.0))
        steps = summary.steps or max((step for step, _ in self._step_times), default=0)
        if not steps:
            return None
        # compiling and slow first steps count as its start, which a whole run has once too
        rest = seconds - steps * (step_ms or 0.0) / 1e3 - sum(self._validations)
        allocated = summary.peak_allocated_mib
        return Pilot(
            steps=steps,
            seconds=seconds,
            start_seconds=max(0.0, rest),
            step_ms=step_ms,
            samples_per_second=summary.samples_per_second,
            peak_mib=summary.peak_resident_mib if allocated is None else allocated,
            validation_seconds=self._validations[-1] if self._validations else None,
            final_loss=summary.final_train_loss if summary.final_train_loss is not None else self._loss,
            steps_per_epoch=self._steps_per_epoch,
        )

    def _step_ms(self) -> float | None:
        if self._summary.step_ms is not None or len(self._step_times) < 2:
            return self._summary.step_ms
        (first, since), (last, until) = self._step_times[0], self._step_times[-1]
        return 1e3 * (until - since) / (last - first) if last > first and until > since else None
