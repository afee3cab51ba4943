"""The largest batch that fits: memory by batch size, the trials of a search, its result, and their study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem
from engine.experiment.value import (
    MIB_PER_GIB,
    MOST_ENTRIES,
    Fraction,
    Line,
    Message,
    Mib,
    Positive,
    Seconds,
    Text,
    Whole,
)
from engine.protocol.answer import Answer
from engine.words.numbers import times

_MOST_SAMPLES = 1e15


class MemoryLine(Message):
    """The memory at one moment of a step, as a linear function of the batch size."""

    fixed_mib: float
    per_sample_mib: float

    def at(self, batch_size: float) -> float:
        """Return the memory in MiB at a batch size."""
        return self.fixed_mib + self.per_sample_mib * batch_size

    def batch_at(self, mib: float) -> float:
        """Return the unrounded batch size that reaches `mib`, infinite if none does."""
        return (mib - self.fixed_mib) / self.per_sample_mib if self.per_sample_mib > 0 else math.inf


def highest_line(lines: Sequence[MemoryLine], batch_size: int) -> MemoryLine:
    """Return the line with the most memory at that batch size. Raises ValueError without lines."""
    return max(lines, key=lambda line: line.at(batch_size))


def needed_mib(lines: Sequence[MemoryLine], batch_size: int) -> float:
    """Return the memory in MiB that a batch needs: the peak over all moments of a step."""
    return highest_line(lines, batch_size).at(batch_size)


def largest_batch(lines: Sequence[MemoryLine], budget_mib: float) -> int | None:
    """Return the largest batch that fits: 0 if one sample is too much, None if memory does not grow."""
    if any(line.per_sample_mib <= 0 and line.fixed_mib > budget_mib for line in lines):
        return 0
    rooms = [(budget_mib - line.fixed_mib) / line.per_sample_mib for line in lines if line.per_sample_mib > 0]
    return max(0, math.floor(min(*rooms, _MOST_SAMPLES))) if rooms else None


def line_near(lines: Sequence[MemoryLine], budget_mib: float) -> MemoryLine:
    """Return the line that needs the most memory at the largest batch within a budget, to start a search."""
    return highest_line(lines, max(1, largest_batch(lines, budget_mib) or 1))


def upper_hull(lines: Iterable[MemoryLine]) -> tuple[MemoryLine, ...]:
    """Return the lines that are the highest at some batch size of 1 or more, in the order of their slopes."""
    steeper = list(lines)
    if not steeper:
        return ()
    hull = [max(steeper, key=lambda line: (line.at(1), line.per_sample_mib))]
    while steeper := [line for line in steeper if line.per_sample_mib > hull[-1].per_sample_mib]:
        hull.append(min(steeper, key=lambda line: (_crossing(hull[-1], line), -line.per_sample_mib)))
    return tuple(hull)


def _crossing(flatter: MemoryLine, steeper: MemoryLine) -> float:
    return (flatter.fixed_mib - steeper.fixed_mib) / (steeper.per_sample_mib - flatter.per_sample_mib)


Cause = Literal["memory", "spill", "error", "death", "hang"]
"""Why a batch did not fit: an allocation failed, memory spilled to system memory, another error occurred, or
the worker died or hung."""

OUT_OF_MEMORY = "The device ran out of memory."
SPILLED = (
    "It needed more than the free GPU memory. The driver moved the rest to system memory, which is slow. "
    "The NVIDIA Control Panel can switch off this system memory fallback."
)

Bound = Literal["memory", "data", "error", "death", "hang", "stopped"]
"""What limits the largest batch. `stopped`: the search was stopped before that was known."""


class Trial(Message):
    """A trial whether a batch size fits into memory, by training `steps` full optimizer steps.

    `cause` says why it does not fit, and is None if it does. `peak_mib` is the peak of the memory that the
    budget limits, if it fits: on an accelerator the allocated memory, on a CPU the data segment in addition
    to the idle worker's. `one_step_samples_per_second` is the throughput of one step after warm-up, on all
    devices: a rough value without an interval, and None where it is unknown. Quick trials skip optimizations
    and have none: an `uncompiled` one skips a requested `compile`, and an `unsearched` one cuDNN's search for
    its fastest algorithms.
    """

    batch_size: Positive
    fits: bool
    peak_mib: Mib | None = None
    reserved_mib: Mib | None = None
    one_step_samples_per_second: Annotated[float | None, Field(ge=1e-9, le=1e15)] = None
    seconds: Seconds = 0.0
    steps: Whole = 0
    cause: Cause | None = None
    note: Text | None = None
    uncompiled: bool = False
    unsearched: bool = False

    @property
    def is_quick(self) -> bool:
        """Return whether the trial skipped an optimization, so it verifies nothing."""
        return self.uncompiled or self.unsearched


class Tried(Message):
    """The result of the job `try`: the trial of a batch size, and the memory around it.

    `budget_mib` is the cap, or the memory left free by other programs. `leaked_mib` is the memory still
    allocated at the end in addition to `baseline_mib`, that at the start. `model_mib` is the memory of
    parameters, gradients and optimizer state. `train_samples` is the number of samples that a device trains
    on in an epoch. If batches differ in size, the trial used the largest of the first `looked_through` ones,
    else it is None.
    """

    event: Literal["tried"] = "tried"
    trial: Trial
    budget_mib: Mib
    baseline_mib: Mib = 0.0
    leaked_mib: Mib = 0.0
    other_programs_mib: Mib | None = None
    model_mib: Mib | None = None
    train_samples: Whole | None = None
    looked_through: Whole | None = None


class LimitResult(Message):
    """The result of a search for the largest batch that fits, in one precision.

    `largest_batch` is the largest that passed a trial, 0 if none did. It is `verified` if the next larger one
    by the granularity failed with all optimizations, or if the dataset has no more samples (`bound_by`
    "data"). `recommended_batch` leaves the requested margin of memory free.
    """

    precision: Precision
    largest_batch: Whole
    verified: bool
    first_failure: Whole | None = None
    recommended_batch: Whole | None = None
    peak_mib: Mib | None = None
    budget_mib: Mib | None = None
    bound_by: Bound
    trials: Annotated[tuple[Trial, ...], Field(max_length=MOST_ENTRIES)] = ()
    seconds: Seconds = 0.0
    note: Text | None = None


class LimitSide(Message):
    """The search for the largest batch in one precision: its trials so far, and its result.

    `trying` is the batch size of the current trial, and `budget_mib` the memory that the last one could use.
    `forecast` has the estimated memory by batch size. `problem` is the reason why training fails at any batch
    size.
    """

    label: Line
    experiment: Experiment
    granularity: Positive = 1
    trials: Annotated[tuple[Trial, ...], Field(max_length=MOST_ENTRIES)] = ()
    budget_mib: Mib | None = None
    result: LimitResult | None = None
    problem: Problem | None = None
    forecast: tuple[MemoryLine, ...] = ()
    trying: Annotated[Positive | None, Field(exclude=True)] = None

    @property
    def precision(self) -> Precision:
        return self.experiment.precision

    @property
    def largest_batch(self) -> int:
        """The largest batch that passed so far, 0 if none did."""
        return max((trial.batch_size for trial in self.decisive_trials if trial.fits), default=0)

    @property
    def decisive_trials(self) -> tuple[Trial, ...]:
        """The trials that decide the answer: only trials with all optimizations, if there are any."""
        return tuple(trial for trial in self.trials if not trial.is_quick) or self.trials

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.problem is not None

    @property
    def is_verified(self) -> bool:
        """True if the largest batch is verified, and not just reached by a stopped search."""
        return self.result is not None and self.result.verified

    @property
    def seconds(self) -> float:
        """Duration of the search, or of its trials so far."""
        return self.result.seconds if self.result else sum(trial.seconds for trial in self.trials)

    @property
    def passed(self) -> tuple[tuple[int, float], ...]:
        """The passed trials with a known peak, as (batch, GiB), the smallest first."""
        peaks = ((trial.batch_size, trial.peak_mib) for trial in self.decisive_trials if trial.fits)
        return tuple(sorted((batch, mib / MIB_PER_GIB) for batch, mib in peaks if mib is not None))

    @property
    def throughputs(self) -> tuple[tuple[int, float], ...]:
        """The known throughputs as (batch, samples/s of one step), the smallest batch first.

        A batch that was tried several times has the throughput of its last trial.
        """
        known = ((trial.batch_size, trial.one_step_samples_per_second) for trial in self.decisive_trials)
        return tuple(sorted({batch: speed for batch, speed in known if speed is not None}.items()))

    @property
    def failed(self) -> tuple[int, ...]:
        """The batches that did not fit."""
        return tuple(trial.batch_size for trial in self.decisive_trials if not trial.fits)

    @property
    def answer(self) -> int | None:
        """The largest batch, once it is verified."""
        return self.largest_batch if self.is_verified else None

    @property
    def lines(self) -> tuple[MemoryLine, ...]:
        """Memory by batch size in MiB: the line through the smallest and the largest passed trial, else the
        forecast. Empty if neither is known."""
        known = [point for point in self.passed if point[1]]
        if len(known) < 2 or known[0][0] == known[-1][0]:
            return self.forecast
        (low, less), (high, more) = known[0], known[-1]
        slope = (more - less) * MIB_PER_GIB / (high - low)
        return (MemoryLine(fixed_mib=less * MIB_PER_GIB - slope * low, per_sample_mib=slope),)

    @property
    def at_least(self) -> str:
        """ "at least " unless the next larger batch is verified to be too large."""
        return "" if self.result and self.is_verified and self.result.bound_by != "data" else "at least "

    @property
    def words(self) -> str:
        """The largest batch so far: "FP32 fits 289", or "FP32 fits 289 per device (578 on 2 devices)"."""
        return f"{self.label} {''.join(self.claim)}"

    @property
    def claim(self) -> tuple[str, str, str]:
        """The largest batch so far in words: the text before the number, the number, and the text
        after it.
        """
        if self.largest_batch:
            return f"fits {self.at_least}", f"{self.largest_batch:,}", self._per_device
        is_answer = self.result is not None and self.result.bound_by == "memory"
        return "fits no batch" if is_answer else "fits no batch tried so far", "", ""

    @property
    def _per_device(self) -> str:
        devices = self.experiment.devices
        # not yet resolved it may be 0, for all that there are
        known = f" ({devices * self.largest_batch:,} on {devices:,} devices)" if devices else ""
        return "" if devices == 1 else f" per device{known}"


class Limit(Answer):
    """A study of the largest batch that fits into memory, with one search (side) for each precision."""

    kind = "limit"
    sides: Annotated[tuple[LimitSide, ...], Field(min_length=1, max_length=100)]
    margin_fraction: Fraction = 0.1

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return tuple(side.experiment for side in self.sides)

    @property
    def is_known(self) -> bool:
        return self.trial_count > 0

    @property
    def digest(self) -> str:
        """The batches so far: "FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch."."""
        known = [side for side in self.sides if side.trials]
        words = ", ".join(side.words for side in known)
        # the other is compared with strict FP32, wherever it stands, or else with the first
        ordered = sorted(known, key=lambda side: side.precision is not Precision.FP32)
        ratio = times_the_batch(*ordered) if len(ordered) == 2 else None
        return words and (f"{words}." if ratio is None else f"{words}: {times(ratio)} times the batch.")

    def afresh(self) -> Self:
        unknown = {"trials": (), "budget_mib": None, "result": None, "problem": None}
        sides = tuple(side.model_copy(update=unknown) for side in self.sides)
        return self.model_copy(update={"sides": sides})

    def with_side(self, place: int, side: LimitSide) -> Limit:
        return self.model_copy(update={"sides": (*self.sides[:place], side, *self.sides[place + 1 :])})

    @property
    def trial_count(self) -> int:
        return sum(len(side.trials) for side in self.sides)

    @property
    def seconds(self) -> float:
        return sum(side.seconds for side in self.sides)

    @property
    def cap_gib(self) -> float | None:
        """The size of the simulated GPU. None for the device's own memory."""
        return self.sides[0].experiment.memory_cap_gib

    @property
    def budget_mib(self) -> float | None:
        """The memory that a trial may use, the least if the sides differ."""
        return min((side.budget_mib for side in self.sides if side.budget_mib), default=None)

    @property
    def baseline(self) -> LimitSide:
        """The side that the others are compared with: strict FP32 if it was searched, else the first."""
        return next((side for side in self.sides if side.precision is Precision.FP32), self.sides[0])

    @property
    def best(self) -> LimitSide | None:
        """The side with the largest batch, without the baseline. None if there is no other."""
        others = [side for side in self.sides if side is not self.baseline]
        return max(others, key=lambda side: side.largest_batch, default=None)

    @property
    def ratio(self) -> float | None:
        """The best side's batch over the baseline's, if both are verified and limited by memory."""
        best = self.best
        return None if best is None else times_the_batch(self.baseline, best)


def times_the_batch(base: LimitSide, other: LimitSide) -> float | None:
    """Return the other's batch over the base's. None unless both are verified and limited by memory."""
    bounds = {side.result.bound_by if side.result and side.is_verified else None for side in (base, other)}
    return other.largest_batch / base.largest_batch if bounds == {"memory"} else None
