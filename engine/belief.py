"""Where the largest batch that fits is thought to be, from what the trials so far took."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from engine.memory_lines import MemoryLine
from engine.probe_events import Trial

APART_FRACTION = 0.9
"""Of a batch: one that is not below it by at least the rest tells little of the slope that noise is not."""

_FARTHEST = 2.0
"""A line through two batches is drawn on by so many times their distance, where another one must not be."""
_MOVE_FRACTION = 0.06
"""Of what the last batch that passed moved the expected limit by: so far it may move again."""
_UNCERTAIN_FRACTION = 0.025
"""Of the stretch from the largest batch that passed to where the line meets the budget."""
_HELD_WEIGHT = 0.8
"""How near the limit is to where held memory meets the budget, rather than to where allocated memory does."""
_HELD_SPREAD = 0.25
_EVEN_SHARE = 0.1
"""Of the chances, once a batch has failed: so a line that misleads gives way to halving."""


@dataclass(frozen=True)
class Belief:
    """Chances around `centre`, half of them within `spread`: a Cauchy distribution, whose heavy tails leave a
    line that misled in growing strides. Both in whatever batches are counted in."""

    centre: float
    spread: float

    def beyond(self, low: int, share: float) -> int:
        """The batch that parts off the lower `share` of the chances over `low`, which passed; at least the
        next one."""
        passed = self._chance_below(low)
        chance = passed + (1 - passed) * share
        return max(low + 1, math.floor(self.centre + self.spread * math.tan(math.pi * (chance - 0.5))))

    def between(self, low: int, high: int, share: float) -> int:
        """The batch between `low`, which passed, and `high`, which failed, that parts off the lower `share`
        of the chances best. There must be one."""

        def chance(size: int) -> float:
            even = (size - low) / (high - low)
            return (1 - _EVEN_SHARE) * self._chance_below(size) + _EVEN_SHARE * even

        wanted = chance(low) + (chance(high) - chance(low)) * share
        sizes = range(low + 1, high)
        found = sizes[min(bisect_left(sizes, wanted, key=chance), len(sizes) - 1)]
        is_one_less_nearer = wanted - chance(found - 1) <= chance(found) - wanted
        return found - 1 if found - 1 > low and is_one_less_nearer else found

    def _chance_below(self, size: float) -> float:
        return 0.5 + math.atan((size - self.centre) / self.spread) / math.pi


def believed_limit(
    trials: Sequence[Trial], line: MemoryLine | None, budget_mib: float | None
) -> Belief | None:
    """In samples. `line` is the one to follow where no two trials that passed speak for another.

    None without a budget or a line that rises.
    """
    if line is None or line.per_sample_mib <= 0 or budget_mib is None:
        return None
    passed = weighed(trials)
    meets = _meeting(passed, budget_mib) or line.batch_at(budget_mib)
    spread = _spread(passed, line, meets, budget_mib)
    held = _held_meeting(trials, line, budget_mib)
    if held >= meets:
        return Belief(meets, spread)
    return Belief(meets - _HELD_WEIGHT * (meets - held), max(spread, _HELD_SPREAD * (meets - held)))


def weighed(trials: Sequence[Trial]) -> list[Trial]:
    """Those that passed and told a peak, the smallest batch first."""
    told = (each for each in trials if each.fits and each.peak_mib is not None)
    return sorted(told, key=lambda each: each.batch_size)


def line_through(below: Trial, top: Trial) -> MemoryLine:
    """The line through the peaks of two trials that passed, of different batches."""
    assert below.peak_mib is not None and top.peak_mib is not None
    slope = (top.peak_mib - below.peak_mib) / (top.batch_size - below.batch_size)
    return MemoryLine(fixed_mib=top.peak_mib - slope * top.batch_size, per_sample_mib=slope)


def _meeting(passed: Sequence[Trial], budget_mib: float) -> float | None:
    """Where memory comes to the budget, by the largest batch and the nearest one that is far enough below:
    near the limit the slope may be another than far from it. None where all that is far enough is none."""
    if len(passed) < 2:
        return None
    *others, top = passed
    for below in reversed(others):
        line, distance = line_through(below, top), top.batch_size - below.batch_size
        meets = line.batch_at(budget_mib)
        if line.per_sample_mib > 0 and meets - top.batch_size <= _FARTHEST * distance:
            return meets
    apart = [each for each in others if each.batch_size <= APART_FRACTION * top.batch_size]
    line = line_through(apart[-1] if apart else others[0], top)
    return line.batch_at(budget_mib) if line.per_sample_mib > 0 else None


def _spread(passed: Sequence[Trial], line: MemoryLine, meets: float, budget_mib: float) -> float:
    stretch = max(0.0, meets - (passed[-1].batch_size if passed else 0))
    if len(passed) < 3:
        return _UNCERTAIN_FRACTION * stretch
    before = _meeting(passed[:-1], budget_mib) or line.batch_at(budget_mib)
    return max(_UNCERTAIN_FRACTION * stretch, _MOVE_FRACTION * abs(meets - before))


def _held_meeting(trials: Sequence[Trial], line: MemoryLine, budget_mib: float) -> float:
    """Where what the allocator holds comes to the budget: of that some can still be given out."""
    top = max(
        (each for each in trials if each.fits and each.reserved_mib is not None),
        key=lambda each: each.batch_size,
        default=None,
    )
    if top is None or top.reserved_mib is None or not top.peak_mib:
        return math.inf
    per_sample = line.per_sample_mib * top.reserved_mib / top.peak_mib
    return top.batch_size + (budget_mib - top.reserved_mib) / per_sample
