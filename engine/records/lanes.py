"""One run's pace as a lane of a race: how many samples it had trained by when, on a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.problem import Kind
from engine.records.evidence import warm_steps
from engine.records.figures import SPEED
from engine.records.record import RunRecord, Status
from engine.records.sides import Side


@dataclass(frozen=True, eq=False)
class Lane:
    """The counted steps of one run: `seconds[i]` is when the i-th ended, `samples[i]` what was trained then.

    The clock counts training after warm-up only: no validation and no pause. An epoch's last batch, which may
    be smaller, stands there as a whole one that took as much longer. A lane may begin later in its run, and
    within a step (`part_of`). `stopped` is "", or why it ends before the race does, as the end of a sentence
    on the run: "ran out of memory".
    """

    side: Side
    run: RunRecord
    seconds: NDArray[np.float64]
    samples: NDArray[np.float64]
    stopped: str = ""

    @property
    def step_samples(self) -> int:
        """Samples of one of its steps."""
        return self.run.experiment.step_samples

    @property
    def is_cut_short(self) -> bool:
        """Whether its run ended before it was to."""
        return self.run.status in (Status.STOPPED, Status.FAILED, Status.INTERRUPTED)

    @property
    def speed(self) -> float:
        """Samples per second of the whole run: its own figure, or without one the mean over the lane."""
        known = SPEED.value(self.run)
        if known is not None and 0 < known < math.inf:
            return known
        return float(self.samples[-1] / self.seconds[-1])

    def samples_at(self, seconds: float) -> float:
        """What was trained by then, with the part of the step that is under way; held at the end."""
        return _evenly(seconds, self.seconds, self.samples)

    def seconds_to(self, samples: float) -> float | None:
        """When that many samples had been trained; None where the lane does not get there."""
        if samples > self.samples[-1] * (1.0 + _ROUNDING):
            return None
        return _evenly(samples, self.samples, self.seconds)


def lane_of(side: Side, run: RunRecord, columns: Mapping[str, NDArray[Any]]) -> Lane | None:
    """The lane of a run from its samples by column; None where no step after warm-up has a speed.

    A step whose own speed is none takes the lane's median.
    """
    speeds = columns.get("samples_per_second")
    if speeds is None:
        return None
    counted = np.asarray(speeds, dtype=np.float64)[warm_steps(run, columns) :]
    step_samples = float(run.experiment.step_samples)
    is_usable = np.isfinite(counted) & (counted > step_samples / _LONGEST_STEP_SECONDS)
    if not is_usable.any():
        return None
    counted = np.where(is_usable, counted, np.median(counted[is_usable]))
    samples = step_samples * np.arange(1, len(counted) + 1, dtype=np.float64)
    return Lane(side, run, np.cumsum(step_samples / counted), samples)


def part_of(lane: Lane, samples: float, within: float) -> Lane:
    """The lane from where on it trains `samples` in the next `within` seconds.

    That is the first such place, or the one that comes nearest; a lane that is too short begins as it did.
    """
    latest = float(lane.seconds[-1]) - within
    if not latest > 0:
        return lane
    times, counts = (np.concatenate(([0.0], values)) for values in (lane.seconds, lane.samples))
    # between these what is trained from there on grows or falls evenly
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
    """The value at `x`, from 0 at 0 evenly from one end to the next, and held after the last."""
    step = int(np.searchsorted(ends, x, "right"))
    if step == len(ends):
        return float(values[-1])
    begin, value = (float(ends[step - 1]), float(values[step - 1])) if step else (0.0, 0.0)
    return value + (x - begin) / (float(ends[step]) - begin) * (float(values[step]) - value)


def ending(run: RunRecord) -> str:
    """Why a run trained no further, as the end of a sentence on it."""
    if run.status is Status.FAILED and run.problem is not None:
        return _FAILURES.get(run.problem.kind, "failed")
    return _ENDINGS[run.status]


_ROUNDING = 1e-9

# what a damaged file may hold would carry the sum of all steps beyond what a float holds
_LONGEST_STEP_SECONDS = 1e9

_ENDINGS = {
    Status.QUEUED: "has not been trained yet",
    Status.RUNNING: "is still training",
    Status.FINISHED: "was over",
    Status.STOPPED: "was stopped",
    Status.FAILED: "failed",
    Status.INTERRUPTED: "was interrupted",
}
_FAILURES = {
    Kind.OUT_OF_MEMORY: "ran out of memory",
    Kind.NOT_A_NUMBER: "went wrong in its numbers",
    Kind.DISK_FULL: "found the disk full",
    Kind.WORKER_DIED: "crashed",
    Kind.HANG: "stood still and was ended",
}
