"""The axes of a plot and their ticks, and the lines of an overlay in as few points as a plot can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

import numpy as np

from engine.drawing.chart_parts import log10_ticks
from engine.drawing.curve_chart import Values, block_means, local_line
from engine.drawing.looks import By
from engine.experiment.experiment import Precision
from engine.words.numbers import Tick, linear_ticks, power_of_two
from resources.looks import MarkFill

Range = tuple[float, float]
_UNITS: dict[By, str] = {"step": "steps", "seconds": "s", "samples": "samples"}


def x_ticks(x_range: Range, most: int, by: By) -> tuple[Tick, ...]:
    """Return the ticks of an x axis in steps, seconds or samples. The last tick's text has the unit."""
    ticks = linear_ticks(*x_range, most, whole=by != "seconds")
    if not ticks:
        return ()
    last = ticks[-1]
    unit = "step" if by == "step" and last.text == "1" else _UNITS[by]
    return (*ticks[:-1], replace(last, text=f"{last.text} {unit}"))


def place_text(place: float, by: By) -> str:
    """Format a position on the x axis for the legend: "step 96", "12.5 s"."""
    if by == "seconds":
        return f"{place:,.1f} s"
    return f"step {max(1, round(place)):,}" if by == "step" else f"{place:,.0f} samples"


def nearest_row(x: Values, place: float | None) -> int | None:
    """Return the index of the value in rising `x` that is nearest to `place`.

    For None, return the last index. Return None if `x` is empty, or if `place` is beyond the end of the
    curve.
    """
    last = len(x) - 1
    if place is None or last < 0:
        return last if last >= 0 else None
    right = int(np.searchsorted(x, place))
    if right > last:
        gap = float(x[-1] - x[-2]) if last else 0.5
        return last if place - float(x[-1]) <= gap else None
    return right - 1 if right and place - x[right - 1] < x[right] - place else right


def log2_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """Return the ticks of a log2 axis from exponent `low` to `high`, labeled with the powers of two."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    stride = max(1, -(-(last - first) // max(1, most)))

    def text(power: int) -> str:
        if not -4 <= power <= 26:
            return power_of_two(power)
        return f"{2**power:,}" if power >= 0 else f"{2.0**power:g}"

    return tuple(Tick(float(power), text(power)) for power in range(first, last + 1, stride))


class Scale(StrEnum):
    """The scale of a y axis: linear, or logarithmic with base 10 or 2."""

    LINEAR = "linear"
    LOG10 = "log10"
    LOG2 = "log2"

    def to_view(self, values: Values) -> Values:
        """Return values in view coordinates, with NaN for those that cannot be drawn (infinity, log of 0)."""
        if self is Scale.LINEAR:
            return np.where(np.isfinite(values), values, np.nan)
        usable = np.isfinite(values) & (values > 0)
        logarithm = np.log10 if self is Scale.LOG10 else np.log2
        result = np.full(len(values), np.nan)
        logarithm(values, out=result, where=usable)
        return result

    def range_of(self, low: float, high: float) -> Range:
        """Return the view range for values from `low` to `high` (in view coordinates), with a margin."""
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


def extent(pieces: Iterable[Values]) -> Range | None:
    """Return the smallest and the largest finite value in all arrays, or None if they have none."""
    bounds: list[float] = []
    for piece in pieces:
        finite = piece[np.isfinite(piece)]
        if len(finite):
            bounds += (float(finite.min()), float(finite.max()))
    return (min(bounds), max(bounds)) if bounds else None


_MOST_POINTS = 256
"""A thick antialiased pen is slow: more points than this would be felt, and no more are seen."""
_SMOOTHING_POINTS = 5


@dataclass(frozen=True, eq=False)
class Level:
    """A curve reduced to one resolution: `y`, and its `x` in steps, time and samples. Gaps in `y` are NaN."""

    x: Mapping[By, Values]
    y: Values


class RecordedCurve:
    """A recorded quantity of a saved run, which can be drawn at several resolutions.

    `x` has the position of each value in steps, time and samples, rising. `smooths` is True for noisy values,
    which are smoothed. `steps_per_row` is the number of steps per value. To draw a long curve, the means of
    blocks of values are used. Blocks start at row 0 and their size is a power of two, so a curve keeps its
    shape while it is moved. Each resolution is computed once.
    """

    def __init__(
        self,
        x: Mapping[By, Values],
        values: Values,
        *,
        smooths: bool = True,
        steps_per_row: int = 1,
        is_rate: bool = False,
    ) -> None:
        """Of a rate, such as samples per second, the reciprocal is averaged: a mean of rates is too high."""
        self._x, self._smooths, self._is_rate = x, smooths, is_rate
        self._values = self._averaged(values)
        self.steps_per_row = steps_per_row
        self._levels: dict[int, Level] = {}
        self._smoothed: dict[int, tuple[int, Level]] = {}

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_values(self) -> bool:
        """True if there are values to draw."""
        return bool(np.isfinite(self._values).any())

    def end(self, by: By) -> float:
        """Return the end in x, or 0 without a row."""
        return float(self._x[by][-1]) if len(self) else 0.0

    def rows_within(self, by: By, x_range: Range) -> int:
        """Return the number of rows in a part of x."""
        first, last = np.searchsorted(self._x[by], x_range)
        return int(last - first)

    def blocks(self, rows: int) -> Level:
        """Return the means of blocks of `rows`."""
        if rows not in self._levels:
            places, means = block_means(tuple(self._x.values()), self._values, rows)
            self._levels[rows] = Level(dict(zip(self._x, places, strict=True)), self._averaged(means))
        return self._levels[rows]

    def _averaged(self, values: Values) -> Values:
        """Return the values as they are averaged, or back: of a rate the reciprocals, NaN for none."""
        return np.reciprocal(np.where(values > 0, values, np.nan)) if self._is_rate else values

    def level(self, rows: int, smooth: int) -> Level:
        """Return the curve in blocks of `rows`. A noisy one is smoothed over `smooth` steps, 0 for none."""
        if not smooth or not self._smooths:
            return self.blocks(rows)
        # only what was chosen last is kept: a slider goes through many
        known = self._smoothed.get(rows)
        if known is None or known[0] != smooth:
            blocks = self.blocks(rows)
            window = max(_SMOOTHING_POINTS, -(-smooth // (rows * self.steps_per_row)))
            smoothed = self._averaged(local_line(self._averaged(blocks.y), window))
            known = (smooth, Level(blocks.x, smoothed))
            self._smoothed[rows] = known
        return known[1]

    def value_at(self, by: By, place: float | None, rows: int, smooth: int) -> float | None:
        """Return the value at `place`, or at the end for None. None beyond the curve's ends."""
        level = self.level(rows, smooth)
        row = nearest_row(level.x[by], place)
        return None if row is None else float(level.y[row])


def rows_a_point(most_rows: int) -> int:
    """Return how many values to merge into one drawn point, a power of two.

    `most_rows` is the number of values in view of the longest curve.
    """
    return 1 << max(0, -(-most_rows // _MOST_POINTS) - 1).bit_length()


def smoothing_words(steps: int, smooth: int) -> str:
    """Describe the smoothing of a noisy curve: "smoothed over 50 steps", "means of 4 steps", or "" for none.

    `steps` is the number of steps per drawn point.
    """
    if smooth:
        return f"smoothed over {max(smooth, _SMOOTHING_POINTS * steps):,} steps"
    return f"means of {steps:,} steps" if steps > 1 else ""


Quantity = Literal["loss", "accuracy", "throughput", "memory"]


@dataclass(frozen=True, eq=False)
class SavedCurves:
    """The curves of one saved run in the plots of a comparison.

    A further repeat (`is_repeat`) is drawn dim, without markers or legend. If several sides have the same
    precision, `note` names the side at the line's end, and `fill` is the style of its markers.
    """

    key: str
    precision: Precision
    name: str
    traces: Mapping[Quantity, RecordedCurve]
    note: str = ""
    is_repeat: bool = False
    fill: MarkFill = "full"


_FAR_OFF = 2.0
"""The rise of a loss above its start, in its own fall, from which the rest counts for more."""


def y_range(pieces: Iterable[Values]) -> Range | None:
    """Return the y range for these values, from zero if that is near. None without values.

    A curve that diverges far above the others is cut off at the top, so it does not flatten them.
    """
    finite = [known for piece in pieces if len(known := piece[np.isfinite(piece)])]
    if not finite:
        return None
    values = np.concatenate(finite)
    low, high = float(values.min()), float(values.max())
    usual = max(float(np.quantile(values, 0.9)), *(float(known[0]) for known in finite))
    if high - low > _FAR_OFF * (usual - low) > 0:
        high = low + _FAR_OFF * (usual - low)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (0.0 if 0 <= low < 0.35 * high else low - margin), high + margin
