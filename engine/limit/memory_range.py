"""The content of the memory limit's chart, and how far its axes reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.experiment.value import MIB_PER_GIB
from engine.protocol.trials import LimitSide, MemoryLine, needed_mib

_HEADROOM = 1.28
"""How far the axis reaches beyond the limit, for what does not fit."""
_FURTHEST = 1.45
"""A trial that failed beyond this multiple of the largest passed batch is pinned to the edge, so that it does
not squeeze the rest of the chart."""
_SOON = 4.0
"""The forecast's limit is in view, unless it is beyond this multiple of the largest passed batch."""
_LEAST_OVER = 0.045
_PIECES = 48


@dataclass(frozen=True)
class MemoryContent:
    """`capacity_gib` is the limit and `capacity_words` its label: a name, and what may follow it.

    `ratio` holds the two sides' batches and the text between them.
    """

    sides: tuple[LimitSide, ...] = ()
    capacity_gib: float | None = None
    capacity_words: tuple[str, str] = ("", "")
    ratio: tuple[int, int, str] | None = None
    shows_forecast: bool = True


@dataclass(frozen=True)
class MemoryRange:
    """The upper ends of the axes; both begin at zero."""

    batches: float
    gib: float


def memory_range(content: MemoryContent) -> MemoryRange:
    """The ranges that show everything relevant."""
    highest = max((gib for side in content.sides for _, gib in side.passed), default=0.0)
    reach = max((batch for side in content.sides for batch, _ in side.passed), default=0)
    failed = [batch for side in content.sides for batch in side.failed]
    # the current trial is always in view
    tried = max((side.trying for side in content.sides if side.trying is not None), default=0)
    if not reach:
        furthest = min(failed, default=0)
    else:
        near = _FURTHEST * max(reach, tried)
        furthest = max([reach, *(batch for batch in failed if batch <= near)])
    batches: float = max(furthest, tried)
    if content.shows_forecast and content.capacity_gib:
        limits = [_limit(side, content.capacity_gib) for side in content.sides]
        batches = max([batches, *(limit for limit in limits if not reach or limit <= _SOON * reach)])
    top = max(highest * 1.1, (content.capacity_gib or highest) * _HEADROOM)
    return MemoryRange(max(1.0, batches * 1.16), top or 1.0)


def forecast_points(side: LimitSide, reach: MemoryRange) -> list[tuple[float, float]]:
    """The forecast line as (batch, GiB) from zero until it leaves the chart."""
    if not side.lines:
        return []
    points: list[tuple[float, float]] = []
    for piece in range(_PIECES + 1):
        batch = reach.batches * piece / _PIECES
        gib = _gib_at(side.lines, batch)
        if gib > reach.gib:
            if points:
                points.append(_crossing(points[-1], (batch, gib), reach.gib))
            break
        points.append((batch, max(0.0, gib)))
    return points


def failed_place(batch: int, side: LimitSide, content: MemoryContent, reach: MemoryRange) -> float:
    """The place in GiB of a batch that did not fit: on its line, but always above the limit and in view."""
    least = (content.capacity_gib or 0.0) + _LEAST_OVER * reach.gib
    wanted = _gib_at(side.lines, batch) if side.lines else least
    return min(max(wanted, least), reach.gib * 0.97)


def _gib_at(lines: Sequence[MemoryLine], batch: float) -> float:
    """The lines' memory in GiB at any batch size, also a fractional one."""
    low = int(batch)
    less, more = needed_mib(lines, low), needed_mib(lines, low + 1)
    return (less + (more - less) * (batch - low)) / MIB_PER_GIB


def _limit(side: LimitSide, capacity_gib: float) -> float:
    rooms = (line.batch_at(capacity_gib * MIB_PER_GIB) for line in side.lines if line.per_sample_mib > 0)
    return max(0.0, min(rooms, default=0.0))


def _crossing(below: tuple[float, float], above: tuple[float, float], level: float) -> tuple[float, float]:
    share = (level - below[1]) / (above[1] - below[1])
    return below[0] + share * (above[0] - below[0]), level
