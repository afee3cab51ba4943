"""The search for the largest batch that fits: where the limit is believed to be, and what to try next.

It decides from the trials so far and knows no worker, so that it outlives the worker processes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import Bound, Trial

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
_UNINFORMED_SHARE = 0.1
"""Of the chances, once a batch has failed: so a line that misleads gives way to halving."""


@dataclass(frozen=True)
class LimitEstimate:
    """Chances around `centre`, half of them within `spread`: a Cauchy distribution, whose heavy tails leave a
    line that misled in growing strides. Both in whatever batches are counted in."""

    centre: float
    spread: float

    def quantile_above(self, low: int, share: float) -> int:
        """The batch that parts off the lower `share` of the chances over `low`, which passed; at least the
        next one."""
        passed = self._chance_below(low)
        chance = passed + (1 - passed) * share
        return max(low + 1, math.floor(self.centre + self.spread * math.tan(math.pi * (chance - 0.5))))

    def quantile_between(self, low: int, high: int, share: float) -> int:
        """The batch between `low`, which passed, and `high`, which failed, that parts off the lower `share`
        of the chances best. There must be one."""

        def chance(size: int) -> float:
            even = (size - low) / (high - low)
            return (1 - _UNINFORMED_SHARE) * self._chance_below(size) + _UNINFORMED_SHARE * even

        wanted = chance(low) + (chance(high) - chance(low)) * share
        sizes = range(low + 1, high)
        found = sizes[min(bisect_left(sizes, wanted, key=chance), len(sizes) - 1)]
        is_one_less_nearer = wanted - chance(found - 1) <= chance(found) - wanted
        return found - 1 if found - 1 > low and is_one_less_nearer else found

    def _chance_below(self, size: float) -> float:
        return 0.5 + math.atan((size - self.centre) / self.spread) / math.pi


def estimated_limit(
    trials: Sequence[Trial], line: MemoryLine | None, budget_mib: float | None
) -> LimitEstimate | None:
    """In samples. `line` is the one to follow where no two trials that passed speak for another.

    None without a budget or a line that rises.
    """
    if line is None or line.per_sample_mib <= 0 or budget_mib is None:
        return None
    passed = passed_trials(trials)
    meets = _meeting(passed, budget_mib) or line.batch_at(budget_mib)
    spread = _spread(passed, line, meets, budget_mib)
    held = _limit_by_reserved(trials, line, budget_mib)
    if held >= meets:
        return LimitEstimate(meets, spread)
    return LimitEstimate(meets - _HELD_WEIGHT * (meets - held), max(spread, _HELD_SPREAD * (meets - held)))


def passed_trials(trials: Sequence[Trial]) -> list[Trial]:
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


def _limit_by_reserved(trials: Sequence[Trial], line: MemoryLine, budget_mib: float) -> float:
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


SMALL_BATCH = 8
SMALL_RATIO = 4
"""The two small trials: far enough apart that the allocator's rounding is little of their difference."""

_MOST_GROWTH = 32
"""A line from small batches is not trusted beyond so many times the largest of them."""
_STRAIGHT_RATIO = 1.3
"""Of one stretch's slope to the one's before it; what grows faster than that is no line yet."""
_GROWTH = 4
"""From one batch to the next where what passed says nothing of how much more would."""
_PART_WAY = 3
"""One part of so many of the way to a limit that is farther than the line is trusted."""
_LEAST_SPREAD = 0.8
"""Of what the line says, in multiples of the granularity."""
_CAREFUL_SHARE, _EVEN_SHARE = 0.2, 0.43
"""The chance that the next batch fails: one that passes tells its memory, and that is worth the more, the
farther away it is."""


class Search:
    """Finds the largest multiple of `granularity` that fits, among those up to `limit`.

    It assumes that what is larger than a batch that failed fails too. `first_guess` is a line from a
    forecast; without one two small trials draw a line. `first_batch` is tried first where it is known that
    the answer is near. `budget_mib` is what a trial may take, as far as it is
    known beforehand; each trial tells it anew. `limit_reason` says what the limit is, as a clause. Raises
    ValueError where the granularity is larger than the limit.
    """

    def __init__(
        self,
        granularity: int = 1,
        first_guess: MemoryLine | None = None,
        limit: int = 1_000_000_000,
        limit_reason: str = "",
        budget_mib: float | None = None,
        first_batch: int | None = None,
    ) -> None:
        if not 1 <= granularity <= limit:
            raise ValueError("the granularity must be from 1 to the limit")
        self.granularity = granularity
        self.limit_reason = limit_reason
        self.budget_mib = budget_mib
        self.trials: list[Trial] = []
        self._first_guess = first_guess
        self._first_batch = first_batch
        self._top = limit // granularity
        self._widths: list[int] = []

    def begun_at_answer(self) -> Search:
        """Another search for the same, that begins with this one's answer and its memory."""
        first = max(self._passed, 1) * self.granularity
        return Search(
            self.granularity, self.line(), self.limit, self.limit_reason, self.budget_mib, first_batch=first
        )

    def limit_to(self, limit: int) -> None:
        """Lowers the limit, where only a trial could tell it; not below what has passed."""
        self._top = max(self._passed, min(self._top, limit // self.granularity))

    @property
    def limit(self) -> int:
        """The largest batch that the search may try."""
        return self._top * self.granularity

    def learn(self, trial: Trial, budget_mib: float | None = None) -> None:
        """Takes in how a trial of `next_batch` went."""
        self.trials.append(trial)
        if self._failed is not None:
            self._widths.append(self._failed - self._passed)
        if budget_mib is not None:
            self.budget_mib = budget_mib

    def next_batch(self) -> int | None:
        """The batch to try next; None once the answer is proven."""
        target = self._target()
        return None if target is None else target * self.granularity

    @property
    def largest_batch(self) -> int:
        """The largest batch that passed so far; 0 where none did."""
        return self._passed * self.granularity

    @property
    def first_failure(self) -> Trial | None:
        """The smallest batch within the limit that did not fit."""
        failed = (each for each in self.trials if not each.fits and each.batch_size <= self.limit)
        return min(failed, key=_size, default=None)

    @property
    def is_proven(self) -> bool:
        """Whether the next larger batch failed in a trial, or there is none."""
        return self._target() is None and bool(self.trials)

    @property
    def bound_by(self) -> Bound:
        """What keeps the batch from being larger."""
        failure = self.first_failure
        if not self.is_proven:
            return "stopped"
        if failure is None or failure.cause is None:
            return "data"
        return "memory" if failure.cause == "spill" else failure.cause

    def line(self) -> MemoryLine | None:
        """Through the largest batch that passed and one so much smaller that noise is not magnified; with a
        single one, the forecast's slope. None without figures."""
        known = passed_trials(self.trials)
        if not known:
            return self._first_guess
        top = known[-1]
        apart = [each for each in known if each.batch_size <= APART_FRACTION * top.batch_size]
        below = apart[-1] if apart else known[0]
        if below is not top:
            return line_through(below, top)
        if self._first_guess is None:
            return None
        slope = self._first_guess.per_sample_mib
        return MemoryLine(fixed_mib=(top.peak_mib or 0.0) - slope * top.batch_size, per_sample_mib=slope)

    def recommended_batch(self, margin_fraction: float) -> int:
        """The largest batch that leaves the margin free of what can really be had, by the line."""
        line, most = self.line(), self.largest_batch
        if line is None or line.per_sample_mib <= 0 or self.budget_mib is None:
            whole = math.floor(most * (1 - margin_fraction))
        else:
            # what fragmentation keeps from being had is seen where the next batch failed
            usable = self.budget_mib
            if self.first_failure is not None:
                usable = min(usable, line.at(most + self.granularity))
            whole = math.floor(min(most, line.batch_at(usable * (1 - margin_fraction))))
        return max(0, whole // self.granularity * self.granularity)

    # From here on batches are counted in multiples of the granularity.

    @property
    def _passed(self) -> int:
        return max((self._units(each) for each in self.trials if each.fits), default=0)

    @property
    def _failed(self) -> int | None:
        return None if self.first_failure is None else self._units(self.first_failure)

    def _units(self, trial: Trial) -> int:
        return trial.batch_size // self.granularity

    def _target(self) -> int | None:
        low, high = self._passed, self._failed
        ceiling = self._top + 1 if high is None else high
        if ceiling - low <= 1:
            return None
        target = self._proposed(low, high)
        if target is None:
            target = _GROWTH * low if high is None else (low + high) // 2
        return min(max(target, low + 1), ceiling - 1)

    def _proposed(self, low: int, high: int | None) -> int | None:
        """What the figures so far speak for; None where they say nothing."""
        if self._first_batch is not None and not self.trials:
            return self._first_batch // self.granularity
        if not low and (self._first_guess is None or len(self.trials) >= 2):
            # a forecast that was wrong twice, with nothing to correct it by, is not asked a third time
            first = max(1, SMALL_BATCH // self.granularity)
            return first if high is None or first < high else None
        if high is None and len(self.trials) == 1 and self._first_guess is None:
            return low * SMALL_RATIO
        estimate = self._belief()
        if estimate is None or self._stalls():
            return None
        reach = _MOST_GROWTH if self._is_straight() else SMALL_RATIO
        if high is None and low and estimate.centre > reach * low:
            return min(reach * low, max(int(estimate.centre) // _PART_WAY, SMALL_RATIO * low))
        is_far = high is None and estimate.centre > 2 * low
        share = _CAREFUL_SHARE if is_far else _EVEN_SHARE
        if high is None:
            return max(estimate.quantile_above(low, share), self._past_creeping(low))
        return estimate.quantile_between(low, high, share)

    def _belief(self) -> LimitEstimate | None:
        """Where the answer is expected, in multiples of the granularity."""
        found = estimated_limit(self.trials, self.line(), self.budget_mib)
        if found is None:
            return None
        centre = min(found.centre / self.granularity, 2.0 * self._top)
        return LimitEstimate(centre, max(_LEAST_SPREAD, found.spread / self.granularity))

    def _stalls(self) -> bool:
        """Whether the last two trials did not halve what is open between them: then it is halved instead."""
        return len(self._widths) > 2 and self._widths[-1] > self._widths[-3] / 2

    def _past_creeping(self, low: int) -> int:
        """Where batch after batch passes that should have been the last: on in growing strides."""
        passed = sorted(self._units(each) for each in self.trials if each.fits)[-3:]
        strides = [upper - lower for lower, upper in pairwise(passed)]
        creeps = len(strides) == 2 and strides[0] <= strides[1] <= low / 100
        return low + 2 * strides[1] if creeps else low

    def _is_straight(self) -> bool:
        """Whether memory grew alike over the last two stretches: what a step takes whatever the batch may
        hide the batch's own share while that is small."""
        figures = [(each.batch_size, each.peak_mib or 0.0) for each in passed_trials(self.trials)[-3:]]
        slopes = [(top - low) / (size - less) for (less, low), (size, top) in pairwise(figures)]
        return len(slopes) < 2 or slopes[1] <= _STRAIGHT_RATIO * slopes[0]


def _size(trial: Trial) -> int:
    return trial.batch_size
