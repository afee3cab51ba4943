"""Two recorded runs replayed on one clock: who had trained how much by when, and what the comparison says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from engine.records.blocks import Columns
from engine.records.cells import Cell
from engine.records.comparison import MIB_PER_GIB, Comparison, Doubt, SideReport
from engine.records.figures import ACCURACY, PEAK_MEMORY, SPEED
from engine.records.lanes import Lane, ending, typical_part
from engine.records.likeness import is_alike
from engine.records.pairing import pair_of
from engine.records.record import RunRecord
from engine.records.sides import Side
from engine.records.stretch import LONGEST_SECONDS, MOST_BLOCKS, lapse_of, stretch_of
from engine.steadiness import Interval

__all__ = [
    "LANES",
    "LONGEST_SECONDS",
    "MOST_BLOCKS",
    "Lane",
    "LaneMoment",
    "Moment",
    "Race",
    "Which",
    "race_of",
]

Which = Literal["full", "mixed"]
LANES: tuple[Which, Which] = ("full", "mixed")
Unit = Literal["images", "sequences", "samples"]
LaneState = Literal["waiting", "running", "finished", "stopped"]


@dataclass(frozen=True)
class LaneMoment:
    """Where one lane is: whole blocks lit, and `fraction` (0 to 1) of what it has to train."""

    samples: float
    blocks: int
    fraction: float
    state: LaneState


@dataclass(frozen=True)
class Moment:
    """The race at `seconds` of its clock; `number` goes from 1 to the ratio, None without one."""

    seconds: float
    full: LaneMoment
    mixed: LaneMoment
    number: float | None
    is_decided: bool
    is_over: bool

    def lane(self, which: Which) -> LaneMoment:
        return self.full if which == "full" else self.mixed


@dataclass(frozen=True, eq=False)
class Race:
    """Two lanes over the same number of samples.

    `full` is the comparison's baseline, `mixed` the side that is measured against it. Each has `samples` to
    train, shown as `blocks` of `block_samples`. `seconds` is when the last lane finishes or ends, `decided`
    when the first one does, both on the runs' own clock, and `lapse` how many such seconds pass in one on
    screen. Ratios and their interval are the comparison's, and None where it has none; `peaks_mib` are the
    full and the mixed lane's, both None where they do not count the same memory. `accuracy` says how the
    accuracies relate ("same accuracy"), "" where nothing can be said. `pictured` are ids of runs, those first
    whose pictures are to be looked for first.
    """

    full: Lane
    mixed: Lane
    samples: int
    block_samples: int
    blocks: int
    seconds: float
    decided: float
    lapse: float
    ratio: float | None
    ratio_interval: Interval | None
    repeats: tuple[int, int]
    memory_ratio: float | None
    peaks_mib: tuple[float | None, float | None]
    accuracy: str
    doubts: tuple[Doubt, ...]
    report: SideReport
    reason: str | None
    unit: Unit
    is_cpu: bool
    device: str
    pictured: tuple[str, ...]

    def lane(self, which: Which) -> Lane:
        return self.full if which == "full" else self.mixed

    @property
    def is_typical(self) -> bool:
        """Whether this part of the runs, as it went, bears out the ratio more or less."""
        return self._off_by <= _TYPICAL

    @property
    def is_borne_out(self) -> bool:
        """Whether it does so as nearly as one can see: a ratio of medians passes over what held a run up."""
        return self._off_by <= _SEEN

    @property
    def seen_ratio(self) -> float | None:
        """How many times as much the mixed lane has trained when it is decided, if both have any."""
        full, mixed = (min(lane.samples_at(self.decided), self.samples) for lane in (self.full, self.mixed))
        return mixed / full if full and mixed else None

    @property
    def _off_by(self) -> float:
        """How far the replay is from the ratio, as a logarithm, beside the one step that may be under way."""
        seen = self.seen_ratio
        if self.ratio is None or seen is None:
            # too few steps to say: one that is very slow has not ended any
            return 0.0
        steps = min(lane.samples_at(self.decided) / lane.step_samples for lane in (self.full, self.mixed))
        return abs(math.log(seen / self.ratio)) - 1.0 / steps

    def at(self, seconds: float) -> Moment:
        """The race at that second of its clock, 0 to `seconds`."""
        now = min(max(0.0, seconds), self.seconds) if seconds == seconds else 0.0
        return Moment(
            seconds=now,
            full=self._lane_at(self.full, now),
            mixed=self._lane_at(self.mixed, now),
            number=self._number_at(now),
            is_decided=now >= self.decided,
            is_over=now >= self.seconds,
        )

    def decided_fraction(self, seconds: float) -> float:
        """How much of the time until it is decided has passed, 0 to 1: so far its memory is shown."""
        return min(max(seconds / self.decided, 0.0), 1.0) if self.decided > 0 else 1.0

    def _lane_at(self, lane: Lane, seconds: float) -> LaneMoment:
        samples = min(lane.samples_at(seconds), float(self.samples))
        state: LaneState = "waiting" if seconds <= 0 else "running"
        if samples >= self.samples:
            state = "finished"
        elif lane.stopped and seconds >= lane.seconds[-1]:
            state = "stopped"
        return LaneMoment(samples, int(samples // self.block_samples), samples / self.samples, state)

    def _number_at(self, seconds: float) -> float | None:
        if self.ratio is None or seconds >= self.decided:
            return self.ratio
        whole = self.mixed.samples_at(self.decided)
        # a lane that is very much slower has not ended a step by then
        part = self.mixed.samples_at(seconds) / whole if whole else seconds / self.decided
        # from an even start: half of the ratio halfway would look like a loss
        return 1.0 + (self.ratio - 1.0) * part


_TYPICAL, _SEEN = 0.1, 0.02
"""How far the replay may be from the ratio until that is a doubt, and until its counts belie it."""


def race_of(comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None) -> Race:
    """The race of a side against the comparison's baseline; `curves` are the samples of each run by its id.

    `side_id` is the id of any run of the side; without one it is the first side under autocast that is not
    the baseline and can be replayed, else the first of the others. Raises ProblemError where there is no such
    side, or a run has nothing to replay.
    """
    full, mixed = pair_of(comparison, curves, side_id)
    stretch = stretch_of(full, mixed)
    full, mixed = (_part(lane, stretch.samples) for lane in (full, mixed))
    ends = [_end(lane, stretch.samples) for lane in (full, mixed)]
    cells, base_cells = comparison.cells(mixed.side.id), comparison.cells(full.side.id)
    speed, report = cells[SPEED.name], comparison.report(mixed.side.id)
    ratio = _sound(speed.ratio)
    return Race(
        full=full,
        mixed=mixed,
        samples=stretch.samples,
        block_samples=stretch.block_samples,
        blocks=stretch.blocks,
        seconds=max(ends),
        decided=min(ends),
        lapse=lapse_of(max(ends)),
        ratio=ratio,
        ratio_interval=None if ratio is None else _sound_interval(speed.ratio_interval),
        repeats=(_known(base_cells[SPEED.name]), _known(speed)),
        memory_ratio=_sound(cells[PEAK_MEMORY.name].ratio),
        peaks_mib=_peaks_mib(comparison, full.side, mixed.side),
        accuracy=_accuracy(cells[ACCURACY.name], full.side, mixed.side),
        doubts=report.doubts,
        report=report,
        reason=report.verdict.reason,
        unit=_unit(full.run, mixed.run),
        is_cpu=all(_is_on_cpu(lane.run) for lane in (full, mixed)),
        device=" and ".join(dict.fromkeys(_device(lane.run) for lane in (full, mixed))),
        pictured=tuple(
            dict.fromkeys(run.id for run in (full.run, mixed.run, *full.side.runs, *mixed.side.runs))
        ),
    )


def _part(lane: Lane, samples: int) -> Lane:
    """What is replayed of a lane; one that is too short stops where its run did."""
    if lane.seconds_to(samples) is None:
        return replace(lane, stopped=ending(lane.run))
    return typical_part(lane, samples)


def _end(lane: Lane, samples: int) -> float:
    """When the lane finishes, or ends for good."""
    finish = lane.seconds_to(samples)
    return float(lane.seconds[-1]) if finish is None else finish


def _sound(ratio: float | None) -> float | None:
    """A ratio that can be shown: what diverged or was damaged cannot."""
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0 else None


def _sound_interval(interval: Interval | None) -> Interval | None:
    is_sound = interval is not None and all(_sound(end) is not None for end in interval)
    return interval if is_sound else None


def _known(cell: Cell) -> int:
    return sum(value is not None for value in cell.values)


def _peaks_mib(comparison: Comparison, full: Side, mixed: Side) -> tuple[float | None, float | None]:
    if not is_alike(PEAK_MEMORY, mixed, full):
        return None, None
    row = next(row for row in comparison.figures if row.figure.name == PEAK_MEMORY.name)
    scale = MIB_PER_GIB if row.figure.unit == "GiB" else 1.0
    values = [row.cells[comparison.sides.index(side)].value for side in (full, mixed)]
    peaks = [None if (sound := _sound(value)) is None else sound * scale for value in values]
    return peaks[0], peaks[1]


_CLOSE_POINTS = 1.0
"""Accuracies less apart than so many percentage points are about the same, even from one run each."""


def _accuracy(cell: Cell, full: Side, mixed: Side) -> str:
    if cell.difference is None or not math.isfinite(cell.difference) or not _learned_alike(full, mixed):
        return ""
    is_close = abs(cell.difference) < _CLOSE_POINTS
    if is_close:
        return "same accuracy" if cell.within_spread else "about the same accuracy"
    if cell.within_spread:
        return "accuracy no further apart than repeats are"
    if cell.within_spread is None:
        return ""
    return "higher accuracy" if cell.difference > 0 else "lower accuracy"


_AS_LONG = 0.9


def _learned_alike(full: Side, mixed: Side) -> bool:
    """Whether an accuracy is the precision's doing: all trained as long, and none went wrong on the way."""
    told = [(run, run.summary) for run in (*full.runs, *mixed.runs) if ACCURACY.value(run) is not None]
    if any(summary is not None and summary.first_nan_step is not None for _, summary in told):
        return False
    trained = [run.experiment.step_samples * summary.steps for run, summary in told if summary is not None]
    return min(trained, default=0) >= _AS_LONG * max(trained, default=0)


def _unit(*runs: RunRecord) -> Unit:
    units = {_unit_of(run) for run in runs}
    return units.pop() if len(units) == 1 else "samples"


def _unit_of(run: RunRecord) -> Unit:
    if run.experiment.model.startswith("causal-lm"):
        return "sequences"
    return "samples" if "regression" in run.experiment.dataset else "images"


def _is_on_cpu(run: RunRecord) -> bool:
    return run.experiment.device == "cpu"


def _device(run: RunRecord) -> str:
    return run.environment.device_name if run.environment is not None else "an unknown device"
