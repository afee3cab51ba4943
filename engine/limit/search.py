"""The search for the largest batch that fits: an estimate of it, and the next batch to try.

It depends only on the trials so far and not on workers, so it continues when a worker process ends.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.protocol.trials import Bound, MemoryLine, Trial

APART_FRACTION = 0.9
"""Above this fraction of a batch, another batch is so near that noise hides the slope between the two."""

_NOISE = 0.02
"""The fraction by which a larger batch's peak may lie below a smaller one's, though memory grows."""
_FARTHEST = 2.0
"""A line through two batches is trusted up to this many times their distance beyond the larger one."""
_MOVE_FRACTION = 0.06
"""The expected limit may move again by this fraction of its last move."""
_UNCERTAIN_FRACTION = 0.025
"""The uncertain fraction of the distance from the largest passed batch to the line's limit."""
_UNUSABLE_MIB, _UNUSABLE_FRACTION = 40.0, 0.005
"""What gaps between blocks make unusable: searches on an H100 lost some 60 to 85 MiB of 1 GiB, and 75 to 220
of 24 GiB."""
_UNUSABLE_SPREAD = 0.7
_FULL_FRACTION = 0.95
"""An allocator that has reserved this fraction of its budget has started to free its unused memory."""
_UNINFORMED_SHARE = 0.1
"""The share of the chances that is spread evenly once a batch has failed, so that a line that misleads gives
way to halving."""


@dataclass(frozen=True)
class LimitEstimate:
    """An estimate of the largest batch, as a Cauchy distribution around `center`.

    Half of the probability is within `spread` samples of `center`. Because of the heavy tails, the search
    moves away from a wrong estimate in growing steps.
    """

    center: float
    spread: float

    def quantile_above(self, low: int, share: float) -> int:
        """Return the batch below which the fraction `share` of the probability above `low` lies.

        The batch `low` has passed a trial.
        """
        passed = self._chance_below(low)
        chance = passed + (1 - passed) * share
        return max(low + 1, math.floor(self.center + self.spread * math.tan(math.pi * (chance - 0.5))))

    def quantile_between(self, low: int, high: int, share: float) -> int:
        """Return the batch nearest to this `share` between `low`, which passed, and `high`, which failed.

        There must be a batch between them.
        """

        def chance(size: int) -> float:
            even = (size - low) / (high - low)
            return (1 - _UNINFORMED_SHARE) * self._chance_below(size) + _UNINFORMED_SHARE * even

        target = chance(low) + (chance(high) - chance(low)) * share
        sizes = range(low + 1, high)
        size = sizes[min(bisect_left(sizes, target, key=chance), len(sizes) - 1)]
        is_one_less_nearer = target - chance(size - 1) <= chance(size) - target
        return size - 1 if size - 1 > low and is_one_less_nearer else size

    def _chance_below(self, size: float) -> float:
        return 0.5 + math.atan((size - self.center) / self.spread) / math.pi


def estimated_limit(
    trials: Sequence[Trial], line: MemoryLine | None, budget_mib: float | None
) -> LimitEstimate | None:
    """Estimate the limit in samples from `line`, until two trials that passed suggest another line.

    None without a budget or a rising line.
    """
    if line is None or line.per_sample_mib <= 0 or budget_mib is None:
        return None
    passed = passed_trials(trials)
    meets = _batch_at_budget(passed, budget_mib) or line.batch_at(budget_mib)
    spread = _spread(passed, line, meets, budget_mib)
    unusable = _unusable_mib(passed, budget_mib) / line.per_sample_mib
    return LimitEstimate(meets - unusable, max(spread, _UNUSABLE_SPREAD * unusable))


def passed_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that passed and reported a peak, the smallest batch first."""
    passed = (trial for trial in trials if trial.fits and trial.peak_mib is not None)
    return sorted(passed, key=_batch_size)


def line_through(below: Trial, top: Trial) -> MemoryLine:
    """Return the line through the peaks of two trials that passed with different batches."""
    assert below.peak_mib is not None and top.peak_mib is not None
    slope = (top.peak_mib - below.peak_mib) / (top.batch_size - below.batch_size)
    return MemoryLine(fixed_mib=top.peak_mib - slope * top.batch_size, per_sample_mib=slope)


def _batch_at_budget(passed: Sequence[Trial], budget_mib: float) -> float | None:
    """Return the batch size at which memory reaches `budget_mib`, by a line through the largest passed batch
    and a much smaller one. Near the limit the slope may differ. None if the line does not rise.
    """
    if len(passed) < 2:
        return None
    *others, top = passed
    for below in reversed(others):
        line, distance = line_through(below, top), top.batch_size - below.batch_size
        meets = line.batch_at(budget_mib)
        if line.per_sample_mib > 0 and meets - top.batch_size <= _FARTHEST * distance:
            return meets
    apart = [trial for trial in others if trial.batch_size <= APART_FRACTION * top.batch_size]
    line = line_through(apart[-1] if apart else others[0], top)
    return line.batch_at(budget_mib) if line.per_sample_mib > 0 else None


def _spread(passed: Sequence[Trial], line: MemoryLine, meets: float, budget_mib: float) -> float:
    stretch = max(0.0, meets - (passed[-1].batch_size if passed else 0))
    if len(passed) < 3:
        return _UNCERTAIN_FRACTION * stretch
    before = _batch_at_budget(passed[:-1], budget_mib) or line.batch_at(budget_mib)
    return max(_UNCERTAIN_FRACTION * stretch, _MOVE_FRACTION * abs(meets - before))


def _unusable_mib(passed: Sequence[Trial], budget_mib: float) -> float:
    """Return the memory (MiB) of the budget that stays unallocated. 0 without a caching allocator.

    The allocator reserves more than it needs, and less once a request is refused, so its reserve is a measure
    only while there is room.
    """
    if not passed or (reserved := passed[-1].reserved_mib) is None or not (peak := passed[-1].peak_mib):
        return 0.0
    usual = _UNUSABLE_MIB + _UNUSABLE_FRACTION * budget_mib
    is_full = reserved > _FULL_FRACTION * budget_mib
    return usual if is_full else min(usual, budget_mib * (1 - peak / reserved))


SMALL_BATCH = 8
SMALL_RATIO = 4
"""The ratio of the two small trials' batches, so large that the allocator's rounding matters little."""

_MOST_GROWTH = 32
"""A line from small batches is not trusted beyond this many times the largest of them."""
_STRAIGHT_RATIO = 1.3
"""The largest ratio of two neighboring slopes that still count as one line."""
_EVEN_BATCH = 8
"""Kernels differ by the batch: on an H100 the small CNN took more memory at odd sizes than at larger even
ones."""
_GROWTH = 4
"""The growth from one batch to the next as long as the passed trials suggest no limit."""
_PART_WAY = 3
"""To a limit beyond the trusted part of the line, the search goes one in this many parts of the way."""
_LEAST_SPREAD = 0.8
"""The smallest uncertainty of the line's limit, in multiples of the granularity."""
_CAREFUL_SHARE, _EVEN_SHARE = 0.2, 0.43
"""The chance that the next batch fails. A batch that passes shows its memory, which is worth more the farther
away it is."""


class Search:
    """The search for the largest batch that fits: a multiple of `granularity` up to `limit`.

    The caller runs the trial of each `next_batch`. Every batch larger than a failed one is assumed to fail.
    `first_guess` is the memory by batch size according to a forecast. For None, two small trials determine
    it. `first_batch` is tried first, if the answer is roughly known. `budget_mib` is the memory for a trial,
    if known beforehand, and each trial may update it. `limit_reason` is a clause on the limit. Raises
    ValueError if the granularity exceeds the limit.
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

    def restarted_at_answer(self) -> Search:
        """Return a new search for the same limit, which starts with this search's answer and memory line."""
        first = max(self._largest_passed, 1) * self.granularity
        return Search(
            self.granularity, self.line(), self.limit, self.limit_reason, self.budget_mib, first_batch=first
        )

    def limit_to(self, limit: int) -> None:
        """Lower the limit to the result of a trial, but not below a batch that passed."""
        self._top = max(self._largest_passed, min(self._top, limit // self.granularity))

    @property
    def limit(self) -> int:
        """The largest batch that the search may try."""
        return self._top * self.granularity

    def learn(self, trial: Trial, budget_mib: float | None = None) -> None:
        """Record the trial of `next_batch`."""
        self.trials.append(trial)
        if self._smallest_failed is not None:
            self._widths.append(self._smallest_failed - self._largest_passed)
        if budget_mib is not None:
            self.budget_mib = budget_mib

    def next_batch(self) -> int | None:
        """Return the batch to try next. None once the answer is verified."""
        target = self._next_target()
        return None if target is None else target * self.granularity

    @property
    def ends_with_next(self) -> bool:
        """True if the next trial verifies the answer, whatever its result."""
        first_unfit = self._top + 1 if self._smallest_failed is None else self._smallest_failed
        return first_unfit - self._largest_passed == 2

    @property
    def largest_batch(self) -> int:
        """Return the largest batch that passed so far, or 0."""
        return self._largest_passed * self.granularity

    @property
    def first_failure(self) -> Trial | None:
        """Return the smallest batch within the limit that did not fit."""
        failed = (trial for trial in self.trials if not trial.fits and trial.batch_size <= self.limit)
        return min(failed, key=_batch_size, default=None)

    @property
    def is_verified(self) -> bool:
        """True if the next larger batch failed in a trial or does not exist."""
        return self._next_target() is None and bool(self.trials)

    @property
    def bound_by(self) -> Bound:
        """Return the reason why the batch is not larger."""
        failure = self.first_failure
        if not self.is_verified:
            return "stopped"
        if failure is None or failure.cause is None:
            return "data"
        return "memory" if failure.cause == "spill" else failure.cause

    def line(self) -> MemoryLine | None:
        """Return the line through the largest batch that passed and one far enough below it.

        Without one that far below, it has the forecast's slope. None without figures.
        """
        known = passed_trials(self.trials)
        if not known:
            return self._first_guess
        top = known[-1]
        apart = [trial for trial in known if trial.batch_size <= APART_FRACTION * top.batch_size]
        if not apart and self._first_guess is not None:
            # between near batches other kernels hide the slope, which may even seem to fall
            slope = self._first_guess.per_sample_mib
            return MemoryLine(fixed_mib=(top.peak_mib or 0.0) - slope * top.batch_size, per_sample_mib=slope)
        below = apart[-1] if apart else known[0]
        return None if below is top else line_through(below, top)

    def recommended_batch(self, margin_fraction: float) -> int:
        """Return the largest batch that, by the line, leaves the margin of the usable memory free."""
        line, most = self.line(), self.largest_batch
        peaks = [trial.peak_mib or 0.0 for trial in passed_trials(self.trials)]
        # batches of samples of other lengths may take more or less than their number says
        is_steady = all(more > (1 - _NOISE) * less for less, more in pairwise(peaks))
        if line is None or line.per_sample_mib <= 0 or self.budget_mib is None or not is_steady:
            size = math.floor(most * (1 - margin_fraction))
        else:
            # where the next batch failed shows how much fragmentation makes unusable
            usable = self.budget_mib
            if self.first_failure is not None:
                usable = min(usable, line.at(most + self.granularity))
            size = math.floor(min(most, line.batch_at(usable * (1 - margin_fraction))))
        return max(0, size // self.granularity * self.granularity)

    # From here on batches are counted in multiples of the granularity.

    @property
    def _largest_passed(self) -> int:
        return max((self._units(trial) for trial in self.trials if trial.fits), default=0)

    @property
    def _smallest_failed(self) -> int | None:
        return None if self.first_failure is None else self._units(self.first_failure)

    def _units(self, trial: Trial) -> int:
        return trial.batch_size // self.granularity

    def _next_target(self) -> int | None:
        low, high = self._largest_passed, self._smallest_failed
        ceiling = self._top + 1 if high is None else high
        if ceiling - low <= 1:
            return None
        target = self._proposed(low, high)
        if target is None:
            target = _GROWTH * low if high is None else (low + high) // 2
        return self._even(min(max(target, low + 1), ceiling - 1), low, ceiling)

    def _even(self, target: int, low: int, ceiling: int) -> int:
        """Return, on a GPU, the multiple of `_EVEN_BATCH` nearest to the target, if one is in range."""
        has_forecast = self._first_guess is not None and self._first_batch is None
        reserves = has_forecast or any(trial.reserved_mib for trial in self.trials)
        unit = _EVEN_BATCH // self.granularity
        if not reserves or _EVEN_BATCH % self.granularity or ceiling - low <= 2 * unit:
            return target
        even = round(target / unit) * unit
        return even if low < even < ceiling else target

    def _proposed(self, low: int, high: int | None) -> int | None:
        if self._first_batch is not None and not self.trials:
            return self._first_batch // self.granularity
        if not low and (self._first_guess is None or len(self.trials) >= 2):
            # a forecast that was wrong twice, with nothing to correct it by, is not followed a third time
            first = max(1, SMALL_BATCH // self.granularity)
            return first if high is None or first < high else None
        if high is None and len(self.trials) == 1 and self._first_guess is None:
            return low * SMALL_RATIO
        estimate = self._estimate_limit()
        if estimate is None or self._stalls():
            return None
        reach = _MOST_GROWTH if self._is_straight() else SMALL_RATIO
        if high is None and low and estimate.center > reach * low:
            return min(reach * low, max(int(estimate.center) // _PART_WAY, SMALL_RATIO * low))
        is_far = high is None and estimate.center > 2 * low
        share = _CAREFUL_SHARE if is_far else _EVEN_SHARE
        if high is None:
            return max(estimate.quantile_above(low, share), self._past_creeping(low))
        return estimate.quantile_between(low, high, share)

    def _estimate_limit(self) -> LimitEstimate | None:
        samples = estimated_limit(self.trials, self.line(), self.budget_mib)
        if samples is None:
            return None
        center = min(samples.center / self.granularity, 2.0 * self._top)
        return LimitEstimate(center, max(_LEAST_SPREAD, samples.spread / self.granularity))

    def _stalls(self) -> bool:
        # the last two trials together did not halve what is open
        return len(self._widths) > 2 and self._widths[-1] > self._widths[-3] / 2

    def _past_creeping(self, low: int) -> int:
        passed = sorted(self._units(trial) for trial in self.trials if trial.fits)[-3:]
        strides = [upper - lower for lower, upper in pairwise(passed)]
        creeps = len(strides) == 2 and strides[0] <= strides[1] <= low / 100
        return low + 2 * strides[1] if creeps else low

    def _is_straight(self) -> bool:
        # what a step takes whatever its batch may hide the batch's own share while that is small
        figures = [(trial.batch_size, trial.peak_mib or 0.0) for trial in passed_trials(self.trials)[-3:]]
        slopes = [(top - low) / (size - less) for (less, low), (size, top) in pairwise(figures)]
        return len(slopes) < 2 or slopes[1] <= _STRAIGHT_RATIO * slopes[0]


def _batch_size(trial: Trial) -> int:
    return trial.batch_size
