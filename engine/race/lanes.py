"""The lanes of a race: the choice of two runs, their playback rate, and the replayed stretch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compare.comparison import Comparison
from engine.compare.evidence import count_warmup_rows, steps_per_row
from engine.compare.metrics import SPEED
from engine.compare.sides import Side
from engine.curves import Columns
from engine.experiment.problem import Kind, ProblemError, request_error
from engine.store.record import RunRecord, Status


@dataclass(frozen=True, eq=False)
class Lane:
    """The progress of one run in a replay: step i ended at `seconds[i]`, with `samples[i]` trained by then.

    The clock counts only training after warm-up: no validation and no pause. An epoch's last batch, which may
    be smaller, counts as a full one that took longer in proportion. A lane may start later in its run, even
    within a step (`part_of`). `stopped` is why it ends early ("ran out of memory"), or "".
    """

    side: Side
    run: RunRecord
    seconds: NDArray[np.float64]
    samples: NDArray[np.float64]
    stopped: str = ""

    @property
    def step_samples(self) -> int:
        return self.run.experiment.step_samples

    @property
    def is_cut_short(self) -> bool:
        """True if the run ended early."""
        return self.run.status in (Status.STOPPED, Status.FAILED, Status.INTERRUPTED)

    @property
    def speed(self) -> float:
        """Return the samples per second of the whole run, from its result, else the mean over the lane."""
        known = SPEED.value(self.run)
        if known is not None and 0 < known < math.inf:
            return known
        return float(self.samples[-1] / self.seconds[-1])

    def samples_at(self, seconds: float) -> float:
        """Return the samples trained by then, including part of the current step. Constant after the end."""
        return _evenly(seconds, self.seconds, self.samples)

    def seconds_to(self, samples: float) -> float | None:
        """Return the time at which that many samples were trained. None if the lane never reaches them."""
        if samples > self.samples[-1] * (1.0 + _ROUNDING):
            return None
        return _evenly(samples, self.samples, self.seconds)


def lane_of(side: Side, run: RunRecord, columns: Mapping[str, NDArray[Any]]) -> Lane | None:
    """Return the lane of a run from its samples by column. None if no step after warm-up has a speed.

    A step without a usable speed gets the lane's median. Steps merged into a bin count as one.
    """
    speeds = columns.get("samples_per_second")
    if speeds is None:
        return None
    counted = np.asarray(speeds, dtype=np.float64)[count_warmup_rows(run, columns) :]
    step_samples = float(run.experiment.step_samples)
    is_usable = np.isfinite(counted) & (counted > step_samples / _LONGEST_STEP_SECONDS)
    if not is_usable.any():
        return None
    counted = np.where(is_usable, counted, np.median(counted[is_usable]))
    row_samples = step_samples * steps_per_row(columns)
    samples = row_samples * np.arange(1, len(counted) + 1, dtype=np.float64)
    return Lane(side, run, np.cumsum(row_samples / counted), samples)


def part_of(lane: Lane, samples: float, within: float) -> Lane:
    """Return the lane from where it first trains `samples` within about the next `within` seconds."""
    latest = float(lane.seconds[-1]) - within
    if not latest > 0:
        return lane
    times, counts = (np.concatenate(([0.0], values)) for values in (lane.seconds, lane.samples))
    # between these places the samples trained within the window grow or fall linearly
    bends = np.concatenate((times, times - within))
    begins = np.unique(np.append(bends[(bends >= 0) & (bends <= latest)], latest))
    off = np.interp(begins + within, times, counts) - np.interp(begins, times, counts) - samples
    off[np.abs(off) <= _ROUNDING * samples] = 0.0
    crossed = np.flatnonzero(off[:-1] * off[1:] <= 0)
    if len(crossed):
        before, after = off[crossed[0]], off[crossed[0] + 1]
        part = before / (before - after) if before else 0.0
        begin = begins[crossed[0]] + part * (begins[crossed[0] + 1] - begins[crossed[0]])
    else:
        begin = begins[np.argmin(np.abs(off))]
    first = int(np.searchsorted(lane.seconds, begin, "right"))
    return replace(
        lane, seconds=lane.seconds[first:] - begin, samples=lane.samples[first:] - lane.samples_at(begin)
    )


def _evenly(x: float, ends: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    step = int(np.searchsorted(ends, x, "right"))
    if step == len(ends):
        return float(values[-1])
    begin, value = (float(ends[step - 1]), float(values[step - 1])) if step else (0.0, 0.0)
    return value + (x - begin) / (float(ends[step]) - begin) * (float(values[step]) - value)


def ending(run: RunRecord) -> str:
    """Return why a run stopped training, as the end of a sentence about it."""
    if run.status is Status.FAILED and run.problem is not None:
        return _FAILURES.get(run.problem.kind, "failed")
    return _ENDINGS[run.status]


_ROUNDING = 1e-9

# a damaged file may hold steps whose sum exceeds any float
_LONGEST_STEP_SECONDS = 1e9

_ENDINGS = {
    Status.QUEUED: "has not started",
    Status.RUNNING: "is still training",
    Status.FINISHED: "ended",
    Status.STOPPED: "was stopped",
    Status.FAILED: "failed",
    Status.INTERRUPTED: "was interrupted",
}
_FAILURES = {
    Kind.OUT_OF_MEMORY: "ran out of memory",
    Kind.NOT_A_NUMBER: "had NaN or Inf in its loss",
    Kind.DISK_FULL: "ran out of disk space",
    Kind.WORKER_DIED: "crashed",
    Kind.HANG: "hung and was stopped",
}


def pair_of(
    comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None
) -> tuple[Lane, Lane]:
    """Return a lane of the baseline and one of a side: the repeats with the ratio nearest the comparison's.

    Raises ProblemError if there is no such side, or one of the two has nothing to replay.
    """
    sides = _candidates(comparison, side_id)
    base_lanes = _lanes(comparison.baseline, curves)
    if not base_lanes:
        raise _nothing_to_replay(comparison.baseline)
    for side in sides:
        if lanes := _lanes(side, curves):
            return _nearest(base_lanes, lanes, comparison.cells(side.id)[SPEED.name].ratio)
    raise _nothing_to_replay(sides[0])


def _candidates(comparison: Comparison, side_id: str | None) -> list[Side]:
    others = [report.side for report in comparison.ranked]
    if not others:
        message = "There is only one configuration here, so there is nothing to compare it with."
        remedy = "Select runs of the same training in full and in mixed precision."
        raise request_error(message, remedy)
    if side_id is None:
        return sorted(others, key=lambda side: not side.precision.is_autocast)
    chosen = [side for side in others if side.contains(side_id)]
    if not chosen:
        is_baseline = comparison.baseline.contains(side_id)
        message = (
            f"{comparison.baseline.title} is the baseline, which cannot be replayed against itself."
            if is_baseline
            else f"The run {side_id} is not part of this comparison."
        )
        remedy = f"Choose one of: {', '.join(side.title for side in others)}."
        raise request_error(message, remedy, key="side", value=side_id)
    return chosen


def _lanes(side: Side, curves: Mapping[str, Columns]) -> list[Lane]:
    lanes = (lane_of(side, run, curves.get(run.id, {})) for run in side.runs)
    return [lane for lane in lanes if lane is not None]


def _nearest(full: Sequence[Lane], mixed: Sequence[Lane], ratio: float | None) -> tuple[Lane, Lane]:
    # complete runs first, then pairs of one seed
    def unfitness(pair: tuple[Lane, Lane]) -> tuple[int, bool, float]:
        origins = {(lane.run.comparison, lane.run.experiment.seed) for lane in pair}
        return sum(lane.is_cut_short for lane in pair), len(origins) > 1, _distance(*pair, ratio)

    return min(product(full, mixed), key=unfitness)


def _distance(full: Lane, mixed: Lane, ratio: float | None) -> float:
    # how far the pair's own ratio is from the comparison's, as a logarithm; 0 without a ratio
    speeds = [SPEED.value(lane.run) for lane in (mixed, full)]
    known = [speed for speed in (*speeds, ratio) if speed is not None and speed > 0 and math.isfinite(speed)]
    if len(known) < 3:
        return 0.0 if ratio is None else math.inf
    return abs(math.log(known[0]) - math.log(known[1]) - math.log(known[2]))


def _nothing_to_replay(side: Side) -> ProblemError:
    run = max(side.runs, key=lambda run: run.status is not Status.QUEUED)
    event, remedy = f"{ending(run)} before its first counted step", "Train it again to the end."
    if run.status is Status.QUEUED:
        event, remedy = ending(run), "Train it first."
    elif run.status is Status.RUNNING:
        event, remedy = "is still warming up", "Wait until its warm-up ends."
    elif run.status is Status.FINISHED:
        event = "ended before its first counted step"
        remedy = f"Train it for at least {run.experiment.least_steps:,} steps."
    elif run.status is Status.FAILED and run.problem is not None:
        remedy = run.problem.remedy
    message = f"{side.name_of(run)} {event}, so there is nothing to replay."
    return request_error(message, remedy, key="run", value=run.id)


MOST_BLOCKS = 200  # the most blocks a lane is shown as
LONGEST_SECONDS = 12.0  # the longest replay on screen, except for `_LITTLE_LONGER`
_LITTLE_LONGER = 1.5  # a race up to this many times `LONGEST_SECONDS` long is still shown at its true pace
_FEWEST_BLOCKS = 40  # the fewest worth watching: if they take too long at the true pace, the replay is faster
_MANY_BLOCKS = 100  # from here on some are left out to fill every column of five rows, on low screens four
_TOO_QUICK_SECONDS, _SLOWED_SECONDS = 2.0, 4.0  # a race shorter than the first is slowed to the second


@dataclass(frozen=True)
class Stretch:
    """The length of a replay: `samples` trained by each run, drawn as `blocks` of `block_samples` each."""

    samples: int
    block_samples: int
    blocks: int


def stretches_of(full: Lane, mixed: Lane) -> Iterator[Stretch]:
    """Yield the stretch that both lanes measured, within `LONGEST_SECONDS` of the faster, then shorter ones.

    If a lane was cut short, the other's steps count, and the short lane stops early.
    """
    faster = max((full, mixed), key=lambda lane: lane.speed)
    is_long = faster.seconds[-1] > LONGEST_SECONDS * _LITTLE_LONGER
    most = min(_measured(full, mixed), faster.speed * LONGEST_SECONDS if is_long else math.inf)
    stretches = (_stretch(full, mixed, most * part) for part in _PARTS)
    # a few steps have no shorter part
    return iter(dict.fromkeys(stretches))


def whole_of(full: Lane, mixed: Lane) -> Stretch:
    """Return the stretch of everything that both lanes measured."""
    return _stretch(full, mixed, math.inf)


_PARTS = (1.0, 0.5, 0.25)


def _stretch(full: Lane, mixed: Lane, most: float) -> Stretch:
    steps = [lane.step_samples for lane in (full, mixed)]
    measured = _measured(full, mixed)
    batch = max(steps) if max(steps) <= measured else min(steps)
    batches = int(min(measured, max(most, _FEWEST_BLOCKS * batch)) // batch)
    block_batches = -(-batches // MOST_BLOCKS)
    blocks = batches // block_batches
    if blocks >= _FEWEST_BLOCKS:
        blocks -= blocks % (20 if blocks >= _MANY_BLOCKS else 5)
    return Stretch(blocks * block_batches * batch, block_batches * batch, blocks)


def playback_rate_of(seconds: float) -> float:
    """Return the seconds of the runs per second on screen: 1, unless that is hard to watch."""
    if seconds > LONGEST_SECONDS * _LITTLE_LONGER:
        return seconds / LONGEST_SECONDS
    return seconds / _SLOWED_SECONDS if seconds < _TOO_QUICK_SECONDS else 1.0


def _measured(full: Lane, mixed: Lane) -> float:
    totals = [float(lane.samples[-1]) for lane in (full, mixed)]
    if full.is_cut_short == mixed.is_cut_short:
        return max(totals) if full.is_cut_short else min(totals)
    return totals[1] if full.is_cut_short else totals[0]
