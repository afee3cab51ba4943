"""Two recorded runs replayed on one clock: who had trained how much by when, and what the comparison says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from engine.compare.comparison import Comparison, Doubt, SideReport
from engine.compare.figures import ACCURACY, PEAK_MEMORY, SPEED, Cell, is_comparable
from engine.compare.sides import Side, differing_work
from engine.drawing.looks import SideLook, side_looks
from engine.experiment.catalog import Task, task_of
from engine.experiment.value import MIB_PER_GIB
from engine.race.lanes import (
    LONGEST_SECONDS,
    MOST_BLOCKS,
    Lane,
    Stretch,
    ending,
    pair_of,
    part_of,
    playback_rate_of,
    stretches_of,
    whole_of,
)
from engine.statistics import Interval
from engine.store.journal import Columns
from engine.store.record import RunRecord

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
_UNITS: dict[Task, Unit] = {"classification": "images", "language": "sequences", "regression": "samples"}
LaneState = Literal["waiting", "running", "over", "stopped"]


@dataclass(frozen=True)
class LaneMoment:
    """A lane's count of samples as it is shown, its whole blocks lit, and its `fraction` of all, 0 to 1."""

    samples: int
    blocks: int
    fraction: float
    state: LaneState


@dataclass(frozen=True)
class Moment:
    """The race at `seconds` of its clock.

    `number` is how many times as many samples as the other the lane that is ahead has (`Race.ahead`): the
    ratio of the two counts. None while they are too few to tell, and where there is no `Race.claim`.
    """

    seconds: float
    full: LaneMoment
    mixed: LaneMoment
    number: float | None
    is_over: bool

    def lane(self, which: Which) -> LaneMoment:
        return self.full if which == "full" else self.mixed


@dataclass(frozen=True, eq=False)
class Race:
    """Two lanes, of which the first one to have trained `samples` ends the race, or to go no further.

    `full` is the comparison's baseline, `mixed` the side that is measured against it; `samples` are shown as
    `blocks` of `block_samples`. `seconds` is when the race ends, on the runs' own clock, and `playback_rate`
    how many such seconds pass in a second on screen. Ratios and their interval are the comparison's, and None
    where it has none; `peaks_mib` are the full and the mixed lane's, both None where they do not count the
    same memory. `accuracy` says how the accuracies relate ("same accuracy"), "" where nothing can be said.
    `pictured` are ids of runs, those first whose pictures are to be looked for first.
    """

    full: Lane
    mixed: Lane
    samples: int
    block_samples: int
    blocks: int
    seconds: float
    playback_rate: float
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

    @cached_property
    def looks(self) -> dict[str, SideLook]:
        """The looks of the two sides by their ids."""
        return side_looks((self.full.side, self.mixed.side))

    @cached_property
    def telling_moments(self) -> tuple[Moment, ...]:
        """Moments that hold the longest of all words and numbers."""
        return tuple(self.at(self.seconds * part / 20) for part in range(21))

    @property
    def claim(self) -> float | None:
        """The ratio where it may be claimed: of one training that nothing disturbed, and that tells which of
        the two is the faster one."""
        return _claim(self.full, self.mixed, self.ratio, self.ratio_interval, self.report)

    @property
    def is_unlike(self) -> bool:
        """Whether the two are different trainings, so that no ratio of theirs is the precision's doing."""
        return _is_unlike(self.full, self.mixed)

    @property
    def ahead(self) -> Which:
        """The faster lane: by the comparison's ratio, or by the counts where these belie it."""
        ratio = self.claim
        if not self.matches_ratio:
            ratio = self.mixed.samples_at(self.seconds) / self.full.samples_at(self.seconds)
        return "full" if ratio is not None and ratio < 1 else "mixed"

    @property
    def matches_ratio(self) -> bool:
        """Whether the counts come to the comparison's ratio, as nearly as one can see."""
        return _matches_ratio(self.full, self.mixed, self.seconds, self.claim)

    @property
    def figure(self) -> float | None:
        """What the number ends at: the comparison's ratio, or that of the counts where these belie it."""
        return self.at(self.seconds).number

    def at(self, seconds: float) -> Moment:
        """The race at that second of its clock, 0 to `seconds`."""
        now = min(max(0.0, seconds), self.seconds) if seconds == seconds else 0.0
        full, mixed = self._lane_at(self.full, now), self._lane_at(self.mixed, now)
        return Moment(now, full, mixed, self._number_of(full, mixed, now), now >= self.seconds)

    def passed(self, seconds: float) -> float:
        """How much of the race has passed, 0 to 1: so far its memory is shown."""
        return min(max(seconds / self.seconds, 0.0), 1.0) if self.seconds > 0 else 1.0

    def _lane_at(self, lane: Lane, seconds: float) -> LaneMoment:
        samples = min(lane.samples_at(seconds), float(self.samples))
        state: LaneState = "waiting" if seconds <= 0 else "running"
        if lane.stopped and seconds >= lane.seconds[-1]:
            state = "stopped"
        elif seconds >= self.seconds:
            state = "over"
        fraction = samples / self.samples
        return LaneMoment(round(samples), int(fraction * self.blocks + _HAIR), fraction, state)

    def _number_of(self, full: LaneMoment, mixed: LaneMoment, seconds: float) -> float | None:
        claim = self.claim
        if claim is None or self.passed(seconds) < _ENOUGH:
            return None
        if seconds >= self.seconds and self.matches_ratio:
            return max(claim, 1.0 / claim)
        if not min(full.samples, mixed.samples):
            return None
        by = mixed.samples / full.samples
        return by if self.ahead == "mixed" else 1.0 / by


_SEEN = 0.01
"""How far the ratio of the counts may be from the comparison's until one sees that they are not the same."""

_ENOUGH = 0.1
"""How much of the race has passed before the ratio of the counts tells more than a step or two."""

_HAIR = 1e-9


def _matches_ratio(full: Lane, mixed: Lane, seconds: float, ratio: float | None) -> bool:
    if ratio is None:
        return True
    trained = mixed.samples_at(seconds), full.samples_at(seconds)
    # of few samples a count, which is whole, says little
    if not min(trained):
        return True
    off = math.log(trained[0]) - math.log(trained[1]) - math.log(ratio)
    return abs(off) <= _SEEN + 0.5 / min(trained)


def race_of(comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None) -> Race:
    """The race of a side against the comparison's baseline; `curves` are the samples of each run by its id.

    `side_id` is the id of any run of the side; without one it is the first side under autocast that is not
    the baseline and can be replayed, else the first of the others. Raises ProblemError where there is no such
    side, or a run has nothing to replay.
    """
    full, mixed = pair_of(comparison, curves, side_id)
    cells, base_cells = comparison.cells(mixed.side.id), comparison.cells(full.side.id)
    speed, report = cells[SPEED.name], comparison.report(mixed.side.id)
    ratio = _sound(speed.ratio)
    interval = None if ratio is None else _sound_interval(speed.ratio_interval)
    stretch, full, mixed, seconds = _replayed(full, mixed, _claim(full, mixed, ratio, interval, report))
    return Race(
        full=full,
        mixed=mixed,
        samples=stretch.samples,
        block_samples=stretch.block_samples,
        blocks=stretch.blocks,
        seconds=seconds,
        playback_rate=playback_rate_of(seconds),
        ratio=ratio,
        ratio_interval=interval,
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


def _replayed(full: Lane, mixed: Lane, ratio: float | None) -> tuple[Stretch, Lane, Lane, float]:
    """What is replayed of each, and when that is over: a part that bears the ratio out, else all there is."""
    for stretch in stretches_of(full, mixed):
        parts = _parts(full, mixed, stretch.samples, ratio)
        seconds = _end(*parts, stretch.samples)
        if _matches_ratio(*parts, seconds, ratio):
            break
    else:
        stretch, parts = whole_of(full, mixed), (full, mixed)
        seconds = _end(*parts, stretch.samples)
    full, mixed = (
        replace(part, stopped=ending(part.run)) if _goes_no_further(lane, stretch.samples, seconds) else part
        for lane, part in zip((full, mixed), parts, strict=True)
    )
    return stretch, full, mixed, seconds


def _parts(full: Lane, mixed: Lane, samples: int, ratio: float | None) -> tuple[Lane, Lane]:
    """The faster lane where its pace is its own speed, and the other one where it trains as much less."""
    is_mixed_ahead = mixed.speed >= full.speed if ratio is None else ratio >= 1
    ahead, behind = (mixed, full) if is_mixed_ahead else (full, mixed)
    ahead = part_of(ahead, samples, samples / ahead.speed)
    seconds = _end(ahead, behind, samples)
    by = behind.speed / ahead.speed if ratio is None else min(ratio, 1.0 / ratio)
    behind = part_of(behind, by * ahead.samples_at(seconds), seconds)
    return (behind, ahead) if is_mixed_ahead else (ahead, behind)


def _end(one: Lane, other: Lane, samples: int) -> float:
    """When the first of the two has trained so many, or goes no further."""
    ends = [(lane.seconds_to(samples), float(lane.seconds[-1])) for lane in (one, other)]
    return min(last if finish is None else finish for finish, last in ends)


def _goes_no_further(lane: Lane, samples: int, seconds: float) -> bool:
    return lane.seconds_to(samples) is None and float(lane.seconds[-1]) <= seconds


def _claim(
    full: Lane, mixed: Lane, ratio: float | None, interval: Interval | None, report: SideReport
) -> float | None:
    is_open = interval is not None and interval[0] <= 1.0 <= interval[1]
    return None if is_open or report.spoilers or _is_unlike(full, mixed) else ratio


def _is_unlike(full: Lane, mixed: Lane) -> bool:
    return bool(differing_work(full.run.experiment, mixed.run.experiment))


def _sound(ratio: float | None) -> float | None:
    """A ratio that can be shown: what diverged or was damaged cannot."""
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0 else None


def _sound_interval(interval: Interval | None) -> Interval | None:
    is_sound = interval is not None and all(_sound(end) is not None for end in interval)
    return interval if is_sound else None


def _known(cell: Cell) -> int:
    return sum(value is not None for value in cell.values)


def _peaks_mib(comparison: Comparison, full: Side, mixed: Side) -> tuple[float | None, float | None]:
    if not is_comparable(PEAK_MEMORY, mixed, full):
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
    return _UNITS[task_of(run.experiment.dataset)]


def _is_on_cpu(run: RunRecord) -> bool:
    return run.experiment.device == "cpu"


def _device(run: RunRecord) -> str:
    return run.environment.device_name if run.environment is not None else "an unknown device"
