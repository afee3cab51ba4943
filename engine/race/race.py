"""Two recorded runs replayed on one clock: what each had trained by when, and what the comparison says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from engine.compare.comparison import Doubt, SideReport
from engine.compare.sides import differing_work
from engine.drawing.looks import SideLook, precision_look, side_fills
from engine.race.lanes import Lane
from engine.statistics import Interval

Which = Literal["full", "mixed"]
LANES: tuple[Which, Which] = ("full", "mixed")
Unit = Literal["images", "sequences", "samples"]
LaneState = Literal["waiting", "running", "over", "stopped"]


@dataclass(frozen=True)
class LaneMoment:
    """A lane's count of samples, its lit blocks, and its `fraction` of all samples, 0 to 1."""

    samples: int
    blocks: int
    fraction: float
    state: LaneState


@dataclass(frozen=True)
class Moment:
    """The race at `seconds` of its clock.

    `number` is the leading lane's count of samples over the other's (`Race.ahead`); None while the counts are
    too small to tell, or without a `Race.claim`.
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
    """Two lanes; the first to have trained `samples`, or to go no further, ends the race.

    `full` is the comparison's baseline, `mixed` the side measured against it; `samples` are shown as `blocks`
    of `block_samples`. `seconds` is when the race ends, on the runs' own clock, and `playback_rate` how many
    of these pass per second on screen. Ratios and interval are the comparison's, or None; `peaks_mib` are the
    full and the mixed lane's, both None unless they count the same memory. `accuracy` says how the accuracies
    relate ("same accuracy"), or is "". `tensor_percent` says how busy the Tensor Cores were on average, None
    unless both lanes know it. `pictured` are the runs to ask for pictures, in this order, by id.
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
        """The looks of the two sides by their ids, in the precisions' colours: these are its subject."""
        sides = (self.full.side, self.mixed.side)
        fills = side_fills(sides)
        return {side.id: precision_look(side.precision, fills[side.id]) for side in sides}

    @cached_property
    def claim(self) -> float | None:
        """The ratio, if it may be claimed: the same training, undisturbed, a clear winner, and shown so."""
        return self._claimed if self.matches_ratio else None

    @property
    def _claimed(self) -> float | None:
        return claim_of(self.full, self.mixed, self.ratio, self.ratio_interval, self.report)

    @cached_property
    def is_unlike(self) -> bool:
        """Whether the two are different trainings, whose ratio says nothing about the precision."""
        return _is_unlike(self.full, self.mixed)

    @cached_property
    def ahead(self) -> Which:
        """The faster lane, by the comparison's ratio."""
        return "full" if self.claim is not None and self.claim < 1 else "mixed"

    @cached_property
    def matches_ratio(self) -> bool:
        """Whether the counts visibly come to the comparison's ratio; if not, there is no number."""
        return counts_match(self.full, self.mixed, self.seconds, self._claimed)

    @property
    def figure(self) -> float | None:
        """What the number ends at: the comparison's ratio, or its inverse where mixed precision is slower."""
        return None if self.claim is None else max(self.claim, 1.0 / self.claim)

    def at(self, seconds: float) -> Moment:
        """The race at that second of its clock, limited to 0 to `seconds`."""
        now = min(max(0.0, seconds), self.seconds) if seconds == seconds else 0.0
        full, mixed = self._lane_at(self.full, now), self._lane_at(self.mixed, now)
        return Moment(now, full, mixed, self._number_of(full, mixed, now), now >= self.seconds)

    def passed(self, seconds: float) -> float:
        """The fraction of the race that has passed, 0 to 1, to which its memory is shown."""
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
            return self.figure
        if not min(full.samples, mixed.samples):
            return None
        by = mixed.samples / full.samples
        return by if self.ahead == "mixed" else 1.0 / by


_VISIBLE = 0.01
"""How far, as a logarithm, the counts' ratio may be from the comparison's before the difference shows."""

_ENOUGH = 0.1
"""The fraction of the race after which the ratio of the counts tells more than a step or two."""

_HAIR = 1e-9


def counts_match(full: Lane, mixed: Lane, seconds: float, ratio: float | None) -> bool:
    """Whether the lanes' counts after so many seconds come to the ratio, as far as can be seen."""
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
    """The ratio, if it may be claimed but for the replay; see `Race.claim`."""
    is_open = interval is not None and interval[0] <= 1.0 <= interval[1]
    return None if is_open or report.spoilers or _is_unlike(full, mixed) else ratio


def _is_unlike(full: Lane, mixed: Lane) -> bool:
    return bool(differing_work(full.run.experiment, mixed.run.experiment))
