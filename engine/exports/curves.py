"""A run's curve as so many points as a page can show, with nothing hidden: a line, lowest and highest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.exports.chart_names import By
from engine.exports.smoothing import Values, local_line
from engine.records.record import RunRecord
from engine.records.sides import Side

_LINE_POINTS = 160
_COLUMNS = 300
_WINDOWS_A_RUN, _LEAST_WINDOW = 40, 15
_MOST_BLOCKS = 1_600


@dataclass(frozen=True)
class Points:
    """Values over the training steps; NaN where there is nothing to draw."""

    steps: Values
    seconds: Values
    samples: Values
    values: Values

    def x(self, by: By) -> Values:
        return {"step": self.steps, "seconds": self.seconds, "samples": self.samples}[by]


@dataclass(frozen=True)
class Curve:
    """One run's curve, the `repeat`-th (from 0) of a side.

    `line` is smoothed where there is much to smooth; `low` and `high` bound what was recorded.
    """

    run: RunRecord
    side: Side
    repeat: int
    line: Points
    low: Points
    high: Points








def smoothed(points: Points) -> Points:
    """The points smoothed by lines fitted to some of them about each, and so many of these as are seen.

    A long run is taken in short blocks of steps by their means first.
    """
    blocks = _in_blocks(points, _MOST_BLOCKS)
    count = len(blocks.values)
    fitted = local_line(blocks.values, max(min(_LEAST_WINDOW, count // 4), count // _WINDOWS_A_RUN))
    rows = np.unique(np.linspace(0, len(fitted) - 1, _LINE_POINTS).astype(int))
    return Points(*(column[rows] for column in (blocks.steps, blocks.seconds, blocks.samples, fitted)))


def _in_blocks(points: Points, most: int) -> Points:
    """Means over blocks of steps, of what is finite; the last block may be shorter. NaN where nothing is."""
    length = -(-len(points.values) // most)
    if length <= 1:
        return points
    first = np.arange(0, len(points.values), length)
    finite = np.isfinite(points.values)
    counts = np.add.reduceat(finite.astype(np.float64), first)
    sums = np.add.reduceat(np.where(finite, points.values, 0.0), first)
    means = np.divide(sums, counts, out=np.full(len(first), np.nan), where=counts > 0)
    lengths = np.diff(np.append(first, len(points.values)))
    steps, seconds, samples = (
        np.add.reduceat(column, first) / lengths for column in (points.steps, points.seconds, points.samples)
    )
    return Points(steps, seconds, samples, means)




def _bounds(whole: Points) -> tuple[Points, Points]:
    """The lowest and highest finite value in each of so many columns of the page."""
    count = max(1, min(_COLUMNS, len(whole.values) // 3))
    first = np.linspace(0, len(whole.values), count, endpoint=False).astype(int)
    finite = np.isfinite(whole.values)
    lowest = np.minimum.reduceat(np.where(finite, whole.values, np.inf), first)
    highest = np.maximum.reduceat(np.where(finite, whole.values, -np.inf), first)
    places = (whole.steps[first], whole.seconds[first], whole.samples[first])
    low, high = (np.where(np.isfinite(edge), edge, np.nan) for edge in (lowest, highest))
    return Points(*places, low), Points(*places, high)


