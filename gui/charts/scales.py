"""The axes of a plot: x by step, time or samples; y linear, logarithmic or in powers of two; their ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

import numpy as np

from engine.drawing.chart_parts import log10_ticks
from engine.drawing.curve_chart import Values
from engine.drawing.looks import By
from engine.words.numbers import Tick, linear_ticks

_UNITS: dict[By, str] = {"step": "steps", "seconds": "s", "samples": "samples"}


def x_ticks(x_range: tuple[float, float], most: int, by: By) -> tuple[Tick, ...]:
    """Ticks of which the last carries the unit."""
    ticks = linear_ticks(*x_range, most, whole=by != "seconds")
    if not ticks:
        return ()
    last = ticks[-1]
    unit = "step" if by == "step" and last.text == "1" else _UNITS[by]
    return (*ticks[:-1], replace(last, text=f"{last.text} {unit}"))


def place_text(place: float, by: By) -> str:
    """A place on the x axis, as the legend writes it."""
    if by == "seconds":
        return f"{place:,.1f} s"
    return f"step {max(1, round(place)):,}" if by == "step" else f"{place:,.0f} samples"


def nearest_row(x: Values, place: float | None) -> int | None:
    """The row of rising `x` nearest to `place`, or the last for None; None where the curve does not reach."""
    last = len(x) - 1
    if place is None or last < 0:
        return last if last >= 0 else None
    right = int(np.searchsorted(x, place))
    if right > last:
        gap = float(x[-1] - x[-2]) if last else 0.5
        return last if place - float(x[-1]) <= gap else None
    return right - 1 if right and place - x[right - 1] < x[right] - place else right


def log2_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """Ticks for a view whose coordinates are powers of two, labelled with the true numbers."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    stride = max(1, -(-(last - first) // max(1, most)))
    return tuple(Tick(float(k), _power_of_two(k)) for k in range(first, last + 1, stride))


def _power_of_two(exponent: int) -> str:
    if 0 <= exponent <= 26:
        return f"{2**exponent:,}"
    if -4 <= exponent < 0:
        return f"{2.0**exponent:g}"
    return f"2^{exponent}"


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
