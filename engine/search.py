"""Decides which batch to try next, from the trials so far. It knows no worker, so that it outlives them."""

from __future__ import annotations

import math
from itertools import pairwise

from engine.memory_lines import MemoryLine
from engine.probe_events import Bound, Trial

SMALL_BATCH = 8
SMALL_RATIO = 4
"""The two small trials: far enough apart that the allocator's rounding is little of their difference."""

_MOST_GROWTH = 24
"""A line from small batches is not trusted beyond so many times the largest of them."""
_STRAIGHT_RATIO = 1.3
"""Of one stretch's slope to the one's before it; what grows faster than that is no line yet."""
_GROWTH = 4
"""From one batch to the next where what passed says nothing of how much more would."""
_NEAR_WIDTHS = 3
"""A bracket of so many times the line's own uncertainty is halved: the line knows no better."""
_APART_FRACTION = 0.9
_UNCERTAIN_FRACTION = 0.03
"""Of the stretch from the largest batch that passed to where the line meets the budget."""


class Search:
    """Finds the largest multiple of `granularity` that fits, among those up to `limit`.

    It assumes that what is larger than a batch that failed fails too. `first_guess` is a line from a
    forecast; without one two small trials draw a line. `budget_mib` is what a trial may take, as far as it is
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
    ) -> None:
        if not 1 <= granularity <= limit:
            raise ValueError("the granularity must be from 1 to the limit")
        self.granularity = granularity
        self.limit_reason = limit_reason
        self.budget_mib = budget_mib
        self.trials: list[Trial] = []
        self._first_guess = first_guess
        self._top = limit // granularity
        self._widths: list[int] = []

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
        if self._passed and self._failed is not None:
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
        known = self._weighed()
        if not known:
            return self._first_guess
        top = known[-1]
        apart = [each for each in known if each.batch_size <= _APART_FRACTION * top.batch_size]
        below = apart[-1] if apart else known[0]
        if below is not top:
            return _line_through(below, top)
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
        if not low and (self._first_guess is None or len(self.trials) >= 2):
            # a forecast that was wrong twice, with nothing to correct it by, is not asked a third time
            first = max(1, SMALL_BATCH // self.granularity)
            return first if high is None or first < high else None
        if high is None and len(self.trials) == 1 and self._first_guess is None:
            return low * SMALL_RATIO
        window = self._window(low)
        return None if window is None else self._by_line(low, high, *window)

    def _by_line(self, low: int, high: int | None, least: int, most: int) -> int | None:
        reach = _MOST_GROWTH if self._is_straight() else SMALL_RATIO
        if high is None and low and most > reach * low:
            return min(reach * low, max(most // 4, SMALL_RATIO * low))
        if most <= low:
            return self._beyond(low) if high is None else None
        if high is not None and low and (high - low <= _NEAR_WIDTHS * (most - least) or self._stalls()):
            return None
        failures = self._failures_in_a_row
        if high is not None and (least >= high or failures > 2):
            # less fits than the line allows for: back in growing strides, but never by less than halving
            stride: int = (most - least) * SMALL_RATIO ** max(0, failures - 2)
            return max((low + high) // 2, high - stride)
        if least > low and failures >= (2 if low else 1):
            return least
        most = most if high is None else min(most, high)
        least = max(least, low)
        if most - least > 1:
            return (least + most) // 2
        # one step wide: whichever end of it no trial has proven
        return least if least > low else most

    def _is_straight(self) -> bool:
        """Whether memory grew alike over the last two stretches: what a step takes whatever the batch may
        hide the batch's own share while that is small."""
        figures = [(each.batch_size, each.peak_mib or 0.0) for each in self._weighed()[-3:]]
        slopes = [(top - low) / (size - less) for (less, low), (size, top) in pairwise(figures)]
        return len(slopes) < 2 or slopes[1] <= _STRAIGHT_RATIO * slopes[0]

    def _weighed(self) -> list[Trial]:
        return sorted((each for each in self.trials if each.fits and each.peak_mib is not None), key=_size)

    @property
    def _failures_in_a_row(self) -> int:
        last_pass = max((index for index, each in enumerate(self.trials) if each.fits), default=-1)
        return len(self.trials) - 1 - last_pass

    def _stalls(self) -> bool:
        """Whether batches that passed brought next to nothing: then the bracket is halved instead."""
        creeps = len(self._widths) > 2 and self._widths[-1] > self._widths[-3] / 2
        return creeps and self._failures_in_a_row == 0

    def _window(self, low: int) -> tuple[int, int] | None:
        """Where the answer is expected: from what surely fits to what surely does not, by the line."""
        line, budget = self.line(), self.budget_mib
        if line is None or budget is None or line.per_sample_mib <= 0:
            return None
        meets = min(line.batch_at(budget) / self.granularity, 2.0 * self._top)
        spread = max(1.0, _UNCERTAIN_FRACTION * (meets - low))
        least = min(meets - spread, self._held_meets(line, budget))
        return max(1, math.floor(least)), max(1, math.ceil(meets + spread / 2))

    def _held_meets(self, line: MemoryLine, budget_mib: float) -> float:
        """Where what the allocator holds comes to the budget: of that some can still be given out."""
        held = [each for each in self.trials if each.fits and each.reserved_mib is not None]
        top = max(held, key=_size, default=None)
        if top is None or top.reserved_mib is None or top.peak_mib is None or not top.peak_mib:
            return math.inf
        per_sample = line.per_sample_mib * top.reserved_mib / top.peak_mib
        return (top.batch_size + (budget_mib - top.reserved_mib) / per_sample) / self.granularity

    def _beyond(self, low: int) -> int:
        """More passed than the line allows for: on in growing strides."""
        sizes = sorted(self._units(each) for each in self.trials if each.fits)
        stride = low - sizes[-2] if len(sizes) > 1 else 1
        return low + min(low, 2 * stride)


def _line_through(below: Trial, top: Trial) -> MemoryLine:
    assert below.peak_mib is not None and top.peak_mib is not None
    slope = (top.peak_mib - below.peak_mib) / (top.batch_size - below.batch_size)
    return MemoryLine(fixed_mib=top.peak_mib - slope * top.batch_size, per_sample_mib=slope)


def _size(trial: Trial) -> int:
    return trial.batch_size
