"""A run's memory by batch size: straight lines, the highest of which holds at each batch. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

_MOST_SAMPLES = 1e15
"""The limit for samples that need next to no memory."""


class MemoryLine(BaseModel):
    """One moment of a step: `fixed_mib` whatever the batch, and `per_sample_mib` for each sample of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    fixed_mib: float
    per_sample_mib: float

    def at(self, batch_size: float) -> float:
        """The moment's memory in MiB."""
        return self.fixed_mib + self.per_sample_mib * batch_size

    def batch_at(self, mib: float) -> float:
        """The batch size, unrounded, at which it reaches `mib`; infinite where it never does."""
        return (mib - self.fixed_mib) / self.per_sample_mib if self.per_sample_mib > 0 else math.inf


def highest_line(lines: Sequence[MemoryLine], batch_size: int) -> MemoryLine:
    """The line that decides at that batch size. Raises ValueError where there is none."""
    return max(lines, key=lambda line: line.at(batch_size))


def needed_mib(lines: Sequence[MemoryLine], batch_size: int) -> float:
    """The memory in MiB that a batch needs: the peak over all moments of a step."""
    return highest_line(lines, batch_size).at(batch_size)


def largest_batch(lines: Sequence[MemoryLine], budget_mib: float) -> int | None:
    """The largest batch that fits into `budget_mib`; 0 where one sample is too much.

    None where memory does not grow with the batch.
    """
    if any(line.per_sample_mib <= 0 and line.fixed_mib > budget_mib for line in lines):
        return 0
    rooms = [(budget_mib - line.fixed_mib) / line.per_sample_mib for line in lines if line.per_sample_mib > 0]
    return max(0, math.floor(min(*rooms, _MOST_SAMPLES))) if rooms else None


def line_near(lines: Sequence[MemoryLine], budget_mib: float) -> MemoryLine:
    """The line that decides at the largest batch within the budget: where a search may begin."""
    return highest_line(lines, max(1, largest_batch(lines, budget_mib) or 1))


def upper_hull(lines: Iterable[MemoryLine]) -> tuple[MemoryLine, ...]:
    """The lines that are the highest at some batch size of 1 or more, by rising slope."""
    best: dict[float, MemoryLine] = {}
    for line in lines:
        known = best.get(line.per_sample_mib)
        if known is None or line.fixed_mib > known.fixed_mib:
            best[line.per_sample_mib] = line
    hull: list[MemoryLine] = []
    for line in sorted(best.values(), key=lambda line: line.per_sample_mib):
        while hull and (_crossing(hull[-1], line) <= 1 or _is_hidden(hull, line)):
            hull.pop()
        hull.append(line)
    return tuple(hull)


def _is_hidden(hull: Sequence[MemoryLine], steeper: MemoryLine) -> bool:
    """True if a steeper line leaves the hull's last line nowhere the highest."""
    return len(hull) > 1 and _crossing(hull[-1], steeper) <= _crossing(hull[-2], hull[-1])


def _crossing(flatter: MemoryLine, steeper: MemoryLine) -> float:
    """The batch size from which on the steeper line is the higher one."""
    return (flatter.fixed_mib - steeper.fixed_mib) / (steeper.per_sample_mib - flatter.per_sample_mib)
