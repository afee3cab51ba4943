"""A replay of two recorded runs: the replayed stretch, and its result from the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import Doubt
from engine.compare.metrics import ACCURACY, PEAK_MEMORY, SPEED, Cell, is_comparable
from engine.compare.sides import Side, training_differences
from engine.curves import Columns
from engine.drawing.looks import SideLook, precision_look, side_fills
from engine.experiment.catalog import Task
from engine.experiment.value import MIB_PER_GIB
from engine.race.lanes import (
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

Which = Literal["full", "mixed"]
LANES: tuple[Which, Which] = ("full", "mixed")
Unit = Literal["images", "sequences", "samples"]
LaneState = Literal["waiting", "running", "over", "stopped"]


@dataclass(frozen=True)
class LaneMoment:
    """The progress of one run of a replay at a moment: samples, blocks, and `fraction` of all samples."""

    samples: int
    blocks: int
    fraction: float
    state: LaneState


@dataclass(frozen=True)
class Moment:
    """The state of a replay at `seconds` of its clock. `number` is the ratio of samples trained, or None."""

    seconds: float
    full: LaneMoment
    mixed: LaneMoment
    number: float | None
    is_over: bool

    def lane(self, which: Which) -> LaneMoment:
        return self.full if which == "full" else self.mixed


@dataclass(frozen=True, eq=False)
class Race:
    """A replay of two runs, which ends when one of them has trained `samples` or stops.

    `full` is the comparison's baseline, `mixed` the side measured against it. `seconds` is the length on the
    runs' own clock, of which `playback_rate` seconds pass per second on screen. Ratios, interval and peaks
    are the comparison's, or None. `pictured` are the ids of the runs with images, in this order.
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
    tensor_percent: tuple[float, float] | None = None

    def lane(self, which: Which) -> Lane:
        return self.full if which == "full" else self.mixed

    @cached_property
    def looks(self) -> dict[str, SideLook]:
        """The looks of the two sides by their ids, in the precisions' colors."""
        sides = (self.full.side, self.mixed.side)
        fills = side_fills(sides)
        return {side.id: precision_look(side.precision, fills[side.id]) for side in sides}

    @cached_property
    def claim(self) -> float | None:
        """The ratio of the two speeds, or None if it may not be claimed.

        It needs the same training, no disturbance, a clear winner, and counts on screen that agree with it.
        """
        return self._claimed if self.matches_ratio else None

    @property
    def _claimed(self) -> float | None:
        return claim_of(self.full, self.mixed, self.ratio, self.ratio_interval, self.report)

    @cached_property
    def is_unlike(self) -> bool:
        """True if the two trainings differ, so that their ratio says nothing about the precision."""
        return _is_unlike(self.full, self.mixed)

    @cached_property
    def ahead(self) -> Which:
        """The faster lane, by the comparison's ratio."""
        return "full" if self.claim is not None and self.claim < 1 else "mixed"

    @cached_property
    def matches_ratio(self) -> bool:
        """True if the counts on screen agree with the comparison's ratio. Otherwise no number is shown."""
        return counts_match(self.full, self.mixed, self.seconds, self._claimed)

    @property
    def final_number(self) -> float | None:
        """Return the final number: the comparison's ratio, or its inverse if mixed precision is slower."""
        return None if self.claim is None else max(self.claim, 1.0 / self.claim)

    def at(self, seconds: float) -> Moment:
        """Return the replay at that second of its clock, limited to 0 to `seconds`."""
        now = min(max(0.0, seconds), self.seconds) if seconds == seconds else 0.0
        full, mixed = self._lane_at(self.full, now), self._lane_at(self.mixed, now)
        return Moment(now, full, mixed, self._number_of(full, mixed, now), now >= self.seconds)

    def passed(self, seconds: float) -> float:
        """Return the fraction of the replay that has passed, 0 to 1, up to which its memory is shown."""
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
        if self.claim is None or self.passed(seconds) < _ENOUGH:
            return None
        if seconds >= self.seconds:
            return self.final_number
        if not min(full.samples, mixed.samples):
            return None
        by = mixed.samples / full.samples
        return by if self.ahead == "mixed" else 1.0 / by


_VISIBLE = 0.01  # how far, as a logarithm, the counts may be from the ratio before it shows
_ENOUGH = 0.1  # the fraction of the race after which the ratio of the counts tells more than a step or two
_HAIR = 1e-9


def counts_match(full: Lane, mixed: Lane, seconds: float, ratio: float | None) -> bool:
    """Return True if the counts of both lanes after `seconds` agree with the ratio, as far as can be seen."""
    if ratio is None:
        return True
    trained = mixed.samples_at(seconds), full.samples_at(seconds)
    if not min(trained):
        return True
    off = math.log(trained[0]) - math.log(trained[1]) - math.log(ratio)
    # counts are whole numbers: a small one is off by up to half a sample
    return abs(off) <= _VISIBLE + 0.5 / min(trained)


def claim_of(
    full: Lane, mixed: Lane, ratio: float | None, interval: Interval | None, report: SideReport
) -> float | None:
    """Return the ratio, if it may be claimed apart from the replay. See `Race.claim`."""
    is_open = interval is not None and interval[0] <= 1.0 <= interval[1]
    return None if is_open or report.disqualifiers or _is_unlike(full, mixed) else ratio


def _is_unlike(full: Lane, mixed: Lane) -> bool:
    return bool(training_differences(full.run.experiment, mixed.run.experiment))


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
    full, mixed = pair_of(comparison, curves, side_id)
    cells, base_cells = comparison.cells(mixed.side.id), comparison.cells(full.side.id)
    speed, report = cells[SPEED.name], comparison.report(mixed.side.id)
    ratio = _sound(speed.ratio)
    interval = speed.ratio_interval
    if ratio is None or interval is None or None in map(_sound, interval):
        interval = None
    stretch, full, mixed, seconds = _replayed(full, mixed, claim_of(full, mixed, ratio, interval, report))
    runs = (full.run, mixed.run)
    units = {_UNITS[run.experiment.dataset.task] for run in runs}
    machines = [run.environment for run in runs]
    devices = (machine.device_name if machine else "an unknown device" for machine in machines)
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
        repeats=(len(base_cells[SPEED.name].known), len(speed.known)),
        memory_ratio=_sound(cells[PEAK_MEMORY.name].ratio),
        peaks_mib=_peaks_mib(comparison, full.side, mixed.side),
        accuracy=_accuracy(cells[ACCURACY.name], full.side, mixed.side),
        doubts=report.doubts,
        report=report,
        reason=report.verdict.reason,
        unit=units.pop() if len(units) == 1 else "samples",
        is_cpu=all(run.experiment.device == "cpu" for run in runs),
        device=" and ".join(dict.fromkeys(devices)),
        pictured=tuple(dict.fromkeys(run.id for run in (*runs, *full.side.runs, *mixed.side.runs))),
        tensor_percent=_tensor_percent(full.side, mixed.side),
    )


def _replayed(full: Lane, mixed: Lane, ratio: float | None) -> tuple[Stretch, Lane, Lane, float]:
    for stretch in stretches_of(full, mixed):
        parts = _parts(full, mixed, stretch.samples, ratio)
        seconds = _end(*parts, stretch.samples)
        if counts_match(*parts, seconds, ratio):
            break
    else:
        stretch, parts = whole_of(full, mixed), (full, mixed)
        seconds = _end(*parts, stretch.samples)
    stopped = [
        lane.seconds_to(stretch.samples) is None and float(lane.seconds[-1]) <= seconds
        for lane in (full, mixed)
    ]
    full, mixed = (
        replace(part, stopped=ending(part.run)) if has_stopped else part
        for part, has_stopped in zip(parts, stopped, strict=True)
    )
    return stretch, full, mixed, seconds


def _parts(full: Lane, mixed: Lane, samples: int, ratio: float | None) -> tuple[Lane, Lane]:
    is_mixed_ahead = mixed.speed >= full.speed if ratio is None else ratio >= 1
    ahead, behind = (mixed, full) if is_mixed_ahead else (full, mixed)
    ahead = part_of(ahead, samples, samples / ahead.speed)
    seconds = _end(ahead, behind, samples)
    by = behind.speed / ahead.speed if ratio is None else min(ratio, 1.0 / ratio)
    behind = part_of(behind, by * ahead.samples_at(seconds), seconds)
    return (behind, ahead) if is_mixed_ahead else (ahead, behind)


def _end(full: Lane, mixed: Lane, samples: int) -> float:
    ends = [(lane.seconds_to(samples), float(lane.seconds[-1])) for lane in (full, mixed)]
    return min(last if finish is None else finish for finish, last in ends)


def _sound(ratio: float | None) -> float | None:
    # what diverged or was damaged cannot be shown
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0 else None


def _peaks_mib(comparison: Comparison, full: Side, mixed: Side) -> tuple[float | None, float | None]:
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


_CLOSE_POINTS = 1.0  # accuracies closer than this are about the same, even from one run each


def _accuracy(cell: Cell, full: Side, mixed: Side) -> str:
    if cell.difference is None or not math.isfinite(cell.difference) or not _learned_alike(full, mixed):
        return ""
    if abs(cell.difference) < _CLOSE_POINTS:
        return "same accuracy" if cell.within_spread else "about the same accuracy"
    if cell.within_spread:
        return "accuracy within the variation between runs"
    if cell.within_spread is None:
        return ""
    return "higher accuracy" if cell.difference > 0 else "lower accuracy"


_AS_LONG = 0.9


def _learned_alike(full: Side, mixed: Side) -> bool:
    known = [(run, run.summary) for run in (*full.runs, *mixed.runs) if ACCURACY.value(run) is not None]
    if any(summary is not None and summary.first_nan_step is not None for _, summary in known):
        return False
    trained = [run.experiment.step_samples * summary.steps for run, summary in known if summary is not None]
    return min(trained, default=0) >= _AS_LONG * max(trained, default=0)
