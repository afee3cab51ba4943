"""The scale of a plot's y axis: linear from zero, logarithmic, or powers of two."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import numpy as np

from gui.plots.smoothing import Values
from gui.plots.ticks import Tick, linear_ticks, log2_ticks, log10_ticks


class Scale(StrEnum):
    LINEAR = "linear"
    LOG10 = "log10"
    LOG2 = "log2"

    def to_view(self, values: Values) -> Values:
        """Values in the view's coordinates; NaN where there is no place for them (infinity, log of 0)."""
        if self is Scale.LINEAR:
            return np.where(np.isfinite(values), values, np.nan)
        usable = np.isfinite(values) & (values > 0)
        logarithm = np.log10 if self is Scale.LOG10 else np.log2
        result = np.full(len(values), np.nan)
        logarithm(values, out=result, where=usable)
        return result

    def range_of(self, low: float, high: float) -> tuple[float, float]:
        """The range of the view that shows values from `low` to `high` (in view coordinates) with room."""
        if self is Scale.LINEAR:
            bottom = low * 1.08 if low < 0 else 0.0
            return bottom, high * 1.08 if high > 0 else max(0.0, bottom) + 1.0
        if self is Scale.LOG2:
            return float(np.floor(low)) - 1.2, float(np.ceil(high)) + 1.2
        room = max(0.06 * (high - low), 0.05)
        return low - room, high + room

    def ticks(self, low: float, high: float, most: int) -> tuple[Tick, ...]:
        if self is Scale.LINEAR:
            return linear_ticks(low, high, most)
        return log10_ticks(low, high, most) if self is Scale.LOG10 else log2_ticks(low, high, most)


def extent(pieces: Iterable[Values]) -> tuple[float, float] | None:
    """The least and the largest finite value of all pieces, or None where there is none."""
    bounds: list[float] = []
    for piece in pieces:
        finite = piece[np.isfinite(piece)]
        if len(finite):
            bounds += (float(finite.min()), float(finite.max()))
    return (min(bounds), max(bounds)) if bounds else None
