"""The live race of a comparison: the ratio of the samples that two runs train in the same time.

Samples count after each run's own warm-up, over the time of their steps. Validation, checkpoints and pauses
are excluded, as from the measured throughput, so the live ratio approaches the final ratio. Each side is
represented by a single run: the run of the current repeat or, until it has started, the latest finished run.
Runs are never pooled, so the interval shows only how steady both runs have been.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from engine.compare.evidence import Measured, machine_disturbances
from engine.compare.sides import training_differences
from engine.experiment.experiment import Experiment
from engine.lazy_imports import np
from engine.statistics import median, steadiness

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_BLOCKS, _MOST_POINTS, _FORECAST_POINTS = 256, 40, 8
_LEAST_BLOCKS = 2
_SLOW_START = 0.2
"""The speed, relative to the median, below which steps right after the warm-up still belong to it."""


@dataclass(frozen=True, eq=False)
class TrainedSamples:
    """The progress of a run after its warm-up: row `i` ended at `seconds[i]`, with `samples[i]` trained.

    `speeds` are the samples per second of whole blocks, which ended at `block_ends`. The run starts counting
    after step `first_step`, and is to train `total` samples from there on. None if that is unknown.
    """

    seconds: NDArray[np.float64]
    samples: NDArray[np.float64]
    block_ends: NDArray[np.float64]
    speeds: NDArray[np.float64]
    first_step: int
    step_samples: int
    total: float | None
    is_over: bool = False

    @property
    def now(self) -> float:
        """Return the time of the last step, in seconds of training."""
        return float(self.seconds[-1])

    @cached_property
    def pace(self) -> float:
        """Return the samples per second: the median over the blocks, as in a run's result."""
        return median(self.speeds) if len(self.speeds) else float(self.samples[-1]) / self.now

    @property
    def end(self) -> float:
        """Return when all is trained, in seconds. Until the run is over, this is a forecast."""
        if self.is_over or self.total is None:
            return self.now
        return self.now + max(0.0, self.total - float(self.samples[-1])) / self.pace

    def samples_at(self, seconds: float) -> float:
        """Return the samples trained by then, after the last step at the run's `pace` up to its total."""
        if seconds <= self.now:
            return float(np.interp(seconds, self.seconds, self.samples, left=0.0))
        trained = float(self.samples[-1])
        if self.is_over:
            return trained
        most = math.inf if self.total is None else max(self.total, trained)
        return min(most, trained + (seconds - self.now) * self.pace)

    def step_at(self, seconds: float) -> int:
        """Return the number of the last whole step by then."""
        return self.first_step + int(self.samples_at(seconds) / self.step_samples + 1e-6)

    def spread_at(self, seconds: float) -> tuple[float, float]:
        """Return how far the speed's 95% interval reaches down and up from its median, as logarithms."""
        known = self.speeds[: int(np.searchsorted(self.block_ends, seconds * (1 + 1e-9), "right"))]
        interval = steadiness(known)
        if interval is None:
            return math.inf, math.inf
        middle = math.log(median(known))
        return middle - math.log(interval[0]), math.log(interval[1]) - middle


def progress_of(
    experiment: Experiment,
    speeds: NDArray[np.float64],
    row_steps: NDArray[np.float64],
    warmup_rows: int,
    total_steps: int | None,
    *,
    is_over: bool = False,
) -> TrainedSamples | None:
    """Return a run's progress from the samples per second of its rows, which represent `row_steps` steps.

    Steps without a usable speed get the median. Returns None until a step after the warm-up has a speed.
    """
    counted = speeds[warmup_rows:]
    is_usable = np.isfinite(counted) & (counted > 0)
    if not is_usable.any():
        return None
    middle = median(counted[is_usable])
    counted = np.where(is_usable, counted, middle)
    # compiling and capturing may take longer than the warm-up
    slow = int(np.argmax(counted >= _SLOW_START * middle))
    first, counted = warmup_rows + slow, counted[slow:]
    steps = np.cumsum(row_steps[first:])
    samples = experiment.step_samples * steps
    seconds = np.cumsum(experiment.step_samples * row_steps[first:] / counted)
    first_step = round(float(row_steps[:first].sum()))
    ends = _block_ends(steps, experiment.measure.block_steps)
    times, counts = (np.concatenate(([0.0], values[ends])) for values in (seconds, samples))
    return TrainedSamples(
        seconds,
        samples,
        times[1:],
        np.diff(counts) / np.diff(times),
        first_step,
        experiment.step_samples,
        None if total_steps is None else float((total_steps - first_step) * experiment.step_samples),
        is_over,
    )


def _block_ends(steps: NDArray[np.float64], block_steps: int) -> NDArray[np.intp]:
    size = block_steps
    while steps[-1] > size * _MOST_BLOCKS:
        size *= 2
    ends = np.unique(np.searchsorted(steps, np.arange(size, steps[-1] + 0.5, size)))
    return ends[ends < len(steps)]


class Point(NamedTuple):
    """The ratio of two sides at `seconds` of the clock, with its 95% interval from `low` to `high`."""

    seconds: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Standing:
    """The ratio of a side's samples to the baseline's so far: its growth up to now, and a forecast.

    The last of `points` is now. `forecast` has seconds and ratios from now to the end of the race. `seconds`
    is where the race ends: when either run ends.
    """

    points: tuple[Point, ...]
    forecast: tuple[tuple[float, float], ...]
    seconds: float

    @property
    def now(self) -> Point:
        return self.points[-1]


def clock_of(live: TrainedSamples, *recorded: TrainedSamples) -> float:
    """Return the time up to which runs can be compared: the live run's, or the end of a shorter one."""
    return min([live.now, *(one.end for one in recorded if one.is_over)])


def standing_of(
    side: TrainedSamples,
    base: TrainedSamples,
    live: TrainedSamples,
    known: Mapping[float, Point] | None = None,
) -> Standing | None:
    """Return how `side` does against `base`, at the clock of `live`, which is one of the two.

    `known` are points of an earlier standing by their seconds, which are not computed again. None before
    each has trained two blocks.
    """
    clock = clock_of(live, side, base)
    if min(len(side.speeds), len(base.speeds)) < _LEAST_BLOCKS:
        return None
    first = float(max(side.block_ends[_LEAST_BLOCKS - 1], base.block_ends[_LEAST_BLOCKS - 1]))
    if clock < first:
        return None
    ends = live.block_ends[(live.block_ends >= first) & (live.block_ends <= clock)]
    stride = 1
    while len(ends) > stride * _MOST_POINTS:
        stride *= 2
    known = known or {}
    times = ends[stride - 1 :: stride].tolist()
    points = [known.get(time) or _point(side, base, time) for time in times if time < clock]
    points.append(_point(side, base, clock))
    end = min(side.end, base.end)
    ahead = np.linspace(clock, end, _FORECAST_POINTS).tolist() if end > clock else []
    forecast = tuple((time, side.samples_at(time) / base.samples_at(time)) for time in ahead)
    return Standing(tuple(points), forecast, max(end, clock))


def _point(side: TrainedSamples, base: TrainedSamples, seconds: float) -> Point:
    ratio = side.samples_at(seconds) / base.samples_at(seconds)
    (down, up), (base_down, base_up) = side.spread_at(seconds), base.spread_at(seconds)
    low, high = math.hypot(down, base_up), math.hypot(up, base_down)
    return Point(seconds, ratio, ratio * math.exp(-low), ratio * math.exp(min(high, 700.0)))


def why_no_ratio(name: str, status: str, summary: Measured | None, *experiments: Experiment) -> str:
    """Return a sentence on why the recorded run `name` cannot be compared, or "" if it can.

    `experiments` are the experiments of the two sides.
    """
    if status == "failed":
        return f"{name} failed."
    for _, clause in machine_disturbances(summary):
        return f"{name} {clause.rstrip('.')}."
    for difference in training_differences(*experiments):
        return f"The sides have different {difference.what}."
    same = len({experiment.sequence_length for experiment in experiments}) == 1
    return "" if same else "The sides have different sequence lengths."
