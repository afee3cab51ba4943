"""A replay of two recorded runs: the runs, the progress of each at a time, and the result of their
comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import count_warmup_rows, steps_per_row
from engine.compare.metrics import PEAK_MEMORY, SPEED, is_comparable
from engine.compare.sides import Side
from engine.compare.verdict import Verdict
from engine.curves import Columns
from engine.drawing.looks import SideLook, side_looks
from engine.experiment.catalog import Task
from engine.experiment.problem import Kind, ProblemError, request_error
from engine.experiment.value import MIB_PER_GIB
from engine.race.card import BLOCKS, Pair
from engine.store.record import RunRecord, Status

Unit = Literal["images", "sequences", "samples"]

LONGEST_SECONDS = 12.0  # of a replay on screen, except for `_LITTLE_LONGER`
_LITTLE_LONGER = 1.5  # a replay up to this many times `LONGEST_SECONDS` long is still shown at its true pace
_TOO_QUICK_SECONDS, _SLOWED_SECONDS = 2.0, 4.0  # a replay shorter than the first is slowed to the second
_ENOUGH = 0.1  # the fraction of the replay after which the counts' ratio tells more than a step or two
_HAIR = 1e-9


@dataclass(frozen=True, eq=False)
class Lane:
    """The progress of one run in a replay: after `seconds[i]` it had trained `samples[i]`, both from 0 on.

    The clock counts only training after warm-up: no validation and no pause. An epoch's last batch, which may
    be smaller, counts as a full one that took longer in proportion.
    """

    side: Side
    run: RunRecord
    seconds: NDArray[np.float64]
    samples: NDArray[np.float64]

    @property
    def is_cut_short(self) -> bool:
        """True if the run ended early."""
        return self.run.status in (Status.STOPPED, Status.FAILED, Status.INTERRUPTED)

    def samples_at(self, seconds: float) -> float:
        """Return the samples trained by then, including part of the current step. Constant after the end."""
        return float(np.interp(seconds, self.seconds, self.samples))


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
    seconds = np.concatenate(([0.0], np.cumsum(row_samples / counted)))
    return Lane(side, run, seconds, row_samples * np.arange(len(seconds), dtype=np.float64))


def ending(run: RunRecord) -> str:
    """Return why a run stopped training, as the end of a sentence about it."""
    if run.status is Status.FAILED and run.problem is not None:
        return _FAILURES.get(run.problem.kind, "failed")
    return run.status.clause


# a damaged file may hold steps whose sum exceeds any float
_LONGEST_STEP_SECONDS = 1e9

_FAILURES = {
    Kind.OUT_OF_MEMORY: "ran out of memory",
    Kind.NOT_A_NUMBER: "had NaN or Inf in its loss",
    Kind.DISK_FULL: "ran out of disk space",
    Kind.WORKER_DIED: "crashed",
    Kind.HANG: "hung and was stopped",
}


@dataclass(frozen=True)
class Moment:
    """The state of a replay at `seconds` of its clock, each pair with the full-precision lane first.

    `number` is the ratio of the samples trained so far, at the end the comparison's. It is None at first, and
    if there is no reliable ratio.
    """

    seconds: float
    samples: tuple[int, int]
    blocks: tuple[int, int]
    number: float | None
    is_over: bool


@dataclass(frozen=True, eq=False)
class Race:
    """A replay of two runs, from the end of their warm-ups until the first of them ends.

    The first of `lanes` is the comparison's baseline, the second the side measured against it, on which
    `report` is. `seconds` is the length on the runs' own clock. `pictured` are the ids of the runs with
    images, in this order. `tensor_percent` is how busy the Tensor Cores were, if both lanes recorded it.
    """

    lanes: tuple[Lane, Lane]
    report: SideReport
    peaks_mib: Pair
    has_comparable_memory: bool
    unit: Unit
    pictured: tuple[str, ...]
    tensor_percent: tuple[float, float] | None = None

    @property
    def verdict(self) -> Verdict:
        return self.report.verdict

    @cached_property
    def seconds(self) -> float:
        return float(min(lane.seconds[-1] for lane in self.lanes))

    @cached_property
    def playback_rate(self) -> float:
        """The seconds of the runs per second on screen: 1, unless that is hard to watch."""
        if self.seconds > LONGEST_SECONDS * _LITTLE_LONGER:
            return self.seconds / LONGEST_SECONDS
        return self.seconds / _SLOWED_SECONDS if self.seconds < _TOO_QUICK_SECONDS else 1.0

    @cached_property
    def looks(self) -> tuple[SideLook, SideLook]:
        """The looks of the two lanes, in the precisions' colors."""
        full, mixed = (lane.side for lane in self.lanes)
        looks = side_looks((full, mixed))
        return looks[full.id], looks[mixed.id]

    @property
    def ratio(self) -> float | None:
        """The comparison's ratio of the two speeds, or None if the verdict is another."""
        return _sound(self.verdict.speedup) if self.verdict.kind == "ratio" else None

    @property
    def memory_ratio(self) -> float | None:
        return _sound(self.verdict.memory_ratio)

    def at(self, seconds: float) -> Moment:
        """Return the replay at that second of its clock, limited to 0 to `seconds`."""
        now = min(max(0.0, seconds), self.seconds) if seconds == seconds else 0.0
        full, mixed = (lane.samples_at(now) for lane in self.lanes)
        blocks = [int(BLOCKS * samples / self._most_samples + _HAIR) for samples in (full, mixed)]
        return Moment(
            now,
            (round(full), round(mixed)),
            (blocks[0], blocks[1]),
            self._number(full, mixed, now),
            now >= self.seconds,
        )

    def passed(self, seconds: float) -> float:
        """Return the fraction of the replay that has passed, 0 to 1."""
        return min(max(seconds / self.seconds, 0.0), 1.0)

    def stopped(self, which: int) -> str:
        """Return why a lane's run ended early, if that ends the replay, else ""."""
        lane = self.lanes[which]
        return ending(lane.run) if lane.is_cut_short and lane.seconds[-1] <= self.seconds else ""

    @cached_property
    def _most_samples(self) -> float:
        return max(lane.samples_at(self.seconds) for lane in self.lanes)

    def _number(self, full: float, mixed: float, seconds: float) -> float | None:
        if self.ratio is None or seconds >= self.seconds:
            return self.ratio
        return mixed / full if self.passed(seconds) >= _ENOUGH else None


_UNITS: dict[Task, Unit] = {
    "classification": "images",
    "language": "sequences",
    "regression": "samples",
    "own": "samples",
}


def race_of(comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None) -> Race:
    """Return the replay of a side next to the comparison's baseline. `curves` are by the id of the run.

    `side_id` is the id of any run of the side. By default it is the best side under autocast that can be
    replayed, else the best other one. Raises ProblemError if there is no such side, or nothing to replay.
    """
    full, mixed = lanes = pair_of(comparison, curves, side_id)
    runs = (full.run, mixed.run)
    units = {_UNITS["own" if run.experiment.is_script else run.experiment.dataset.task] for run in runs}
    return Race(
        lanes=lanes,
        report=comparison.report(mixed.side.id),
        peaks_mib=_peaks_mib(comparison, full.side, mixed.side),
        has_comparable_memory=is_comparable(PEAK_MEMORY, mixed.side, full.side),
        unit=units.pop() if len(units) == 1 else "samples",
        pictured=tuple(dict.fromkeys(run.id for run in (*runs, *full.side.runs, *mixed.side.runs))),
        tensor_percent=_tensor_percent(full.side, mixed.side),
    )


def _sound(ratio: float | None) -> float | None:
    # what diverged or was damaged cannot be shown
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0 else None


def _peaks_mib(comparison: Comparison, full: Side, mixed: Side) -> Pair:
    if not is_comparable(PEAK_MEMORY, mixed, full):
        return None, None
    row = next(row for row in comparison.metrics if row.metric.name == PEAK_MEMORY.name)
    scale = MIB_PER_GIB if row.metric.unit == "GiB" else 1.0
    one, other = (_sound(row.cells[comparison.sides.index(side)].value) for side in (full, mixed))
    return one and one * scale, other and other * scale


def _tensor_percent(*sides: Side) -> tuple[float, float] | None:
    means = []
    for side in sides:
        known = (run.summary.tensor_activity_percent for run in side.runs if run.summary is not None)
        shares = [share for share in known if share is not None and 0 <= share <= 100]
        if not shares:
            return None
        means.append(sum(shares) / len(shares))
    return means[0], means[1]


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
