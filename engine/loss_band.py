"""The band in which the losses of FP32's repeats lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 3.0
"""The band reaches beyond the repeats by this many times their range: of normally distributed losses, one in
700 lies further from the range of 5 others than that; without the factor it would be one in 34."""

_NEIGHBOURS = 3
"""Steps on either side whose ranges count too: runs that happen to cross are not closer together."""

_LEAST_WIDTH = 2.0**-20
"""Relative to the loss, a few of FP32's own rounding errors."""

_STAYS, _LEAST_STAY = 0.9, 3


@dataclass(frozen=True)
class Band:
    """Between which losses FP32 lies at each step; NaN at a step where FP32 itself is not finite."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def parts_at(self, losses: Sequence[float]) -> int | None:
        """The first step, from 1, whose loss is outside and stays there; None where there is none.

        A loss stays outside if nine of ten of those from there to the end are outside, and at least 3 of them
        or all: a single blip is none, nor is a curve that crosses the band on its way back a return.
        """
        outside = [
            math.isfinite(low) and not low <= loss <= high
            for loss, low, high in zip(losses, self.low, self.high, strict=False)
        ]
        for first in range(len(outside)):
            rest = outside[first:]
            stays = sum(rest) >= max(_STAYS * len(rest), min(_LEAST_STAY, len(outside)))
            if outside[first] and stays:
                return first + 1
        return None


def band_of(runs: Sequence[Sequence[float]]) -> Band:
    """The band around the losses of FP32's runs, all equally long: their range at each step, and a margin."""
    steps = list(zip(*runs, strict=True))
    ranges = [max(losses) - min(losses) if all(map(math.isfinite, losses)) else math.nan for losses in steps]
    low, high = [], []
    for index, losses in enumerate(steps):
        near = [
            width
            for width in ranges[max(0, index - _NEIGHBOURS) : index + _NEIGHBOURS + 1]
            if math.isfinite(width)
        ]
        if math.isfinite(ranges[index]):
            margin = max(MARGIN * max(near), _LEAST_WIDTH * abs(losses[0]))
            low.append(min(losses) - margin)
            high.append(max(losses) + margin)
        else:
            low.append(math.nan)
            high.append(math.nan)
    return Band(tuple(low), tuple(high))
