"""How much of two runs is replayed: a stretch both can be seen to train, in whole blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.records.lanes import Lane

MOST_BLOCKS = 200
"""How many blocks a lane is shown as, at most."""

LONGEST_SECONDS = 12.0
"""How long a replay lasts on screen, at most, but for `_LITTLE_LONGER`."""

_LITTLE_LONGER = 1.5
"""So many times as long is shown at its true pace all the same."""

_FEWEST_BLOCKS = 40
"""So many are worth watching: where they take longer at true pace, the replay goes faster than it."""

_MANY_BLOCKS = 100
"""Lanes have five rows, or four on low screens: of so many blocks some are left out to fill every column."""

_TOO_QUICK_SECONDS, _SLOWED_SECONDS = 2.0, 4.0
"""What is over sooner than one can see it is shown slowed, to last so long."""


@dataclass(frozen=True)
class Stretch:
    """`samples` to train in each lane, which are `blocks` of `block_samples`."""

    samples: int
    block_samples: int
    blocks: int


def stretches_of(full: Lane, mixed: Lane) -> Iterator[Stretch]:
    """As much as both lanes measured, but no more than the faster trains in `LONGEST_SECONDS`; then less.

    Where that is less than `_FEWEST_BLOCKS` batches, it is as many of these. Of two lanes one of which was
    cut short, what the other one measured counts: the short lane stops where it did.
    """
    faster = max((full, mixed), key=lambda lane: lane.speed)
    is_long = faster.seconds[-1] > LONGEST_SECONDS * _LITTLE_LONGER
    most = min(_measured(full, mixed), faster.speed * LONGEST_SECONDS if is_long else math.inf)
    found = (_stretch(full, mixed, most * part) for part in _PARTS)
    # few steps have no shorter part
    return iter(dict.fromkeys(found))


def whole_of(full: Lane, mixed: Lane) -> Stretch:
    """As much as both lanes measured, however long it took."""
    return _stretch(full, mixed, math.inf)


_PARTS = (1.0, 0.5, 0.25)


def _stretch(full: Lane, mixed: Lane, most: float) -> Stretch:
    steps = [lane.step_samples for lane in (full, mixed)]
    measured = _measured(full, mixed)
    batch = max(steps) if max(steps) <= measured else min(steps)
    batches = int(min(measured, max(most, _FEWEST_BLOCKS * batch)) // batch)
    a_block = -(-batches // MOST_BLOCKS)
    blocks = batches // a_block
    if blocks >= _FEWEST_BLOCKS:
        blocks -= blocks % (20 if blocks >= _MANY_BLOCKS else 5)
    return Stretch(blocks * a_block * batch, a_block * batch, blocks)


def lapse_of(seconds: float) -> float:
    """How many seconds of the runs pass in one on screen: 1, or as many as make it bearable to watch."""
    if seconds > LONGEST_SECONDS * _LITTLE_LONGER:
        return seconds / LONGEST_SECONDS
    return seconds / _SLOWED_SECONDS if seconds < _TOO_QUICK_SECONDS else 1.0


def _measured(full: Lane, mixed: Lane) -> float:
    totals = [float(lane.samples[-1]) for lane in (full, mixed)]
    if full.is_cut_short == mixed.is_cut_short:
        return max(totals) if full.is_cut_short else min(totals)
    return totals[1] if full.is_cut_short else totals[0]
