"""The lines and axes of an overlay: recorded quantities of runs, in as few points as a plot can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.drawing.curve_chart import Values, local_line, thinned
from engine.drawing.looks import By
from engine.experiment.experiment import Precision
from gui.charts.scales import nearest_row
from resources.looks import MarkFill

_MOST_POINTS = 256
"""A thick antialiased pen is slow: more points than this would be felt, and no more are seen."""
_SMOOTHING_POINTS = 5


@dataclass(frozen=True, eq=False)
class Level:
    """The curve at one resolution: `x` by step, time and samples; `y` is NaN where there is no value."""

    x: Mapping[By, Values]
    y: Values


class Trace:
    """A recorded quantity: `x` are the places of `values`, rising. `smooths` says that they are noisy.

    `steps_a_row` is how many steps a value stands for. A long curve is taken in blocks of rows by their
    means. They begin at row 0 and are of a power of two, so that a curve does not change while it is moved,
    and every resolution is computed once.
    """

    def __init__(
        self, x: Mapping[By, Values], values: Values, *, smooths: bool = True, steps_a_row: int = 1
    ) -> None:
        self._x, self._values, self._smooths = x, values, smooths
        self.steps_a_row = steps_a_row
        self._levels: dict[int, Level] = {}
        self._smoothed: dict[int, tuple[int, Level]] = {}

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_values(self) -> bool:
        """True if there is anything that can be drawn."""
        return bool(np.isfinite(self._values).any())

    def end(self, by: By) -> float:
        """Where it ends; 0 without a row."""
        return float(self._x[by][-1]) if len(self) else 0.0

    def rows_within(self, by: By, x_range: tuple[float, float]) -> int:
        """The number of rows in a part of x."""
        first, last = np.searchsorted(self._x[by], x_range)
        return int(last - first)

    def blocks(self, rows: int) -> Level:
        """The means of blocks of `rows`."""
        if rows not in self._levels:
            self._levels[rows] = self._made(rows)
        return self._levels[rows]

    def level(self, rows: int, smooth: int) -> Level:
        """The curve in blocks of `rows`; if noisy, smoothed over `smooth` steps, 0 for not at all."""
        if not smooth or not self._smooths:
            return self.blocks(rows)
        # only what was chosen last is kept: a slider goes through many
        known = self._smoothed.get(rows)
        if known is None or known[0] != smooth:
            blocks = self.blocks(rows)
            known = (smooth, Level(blocks.x, local_line(blocks.y, _window(rows * self.steps_a_row, smooth))))
            self._smoothed[rows] = known
        return known[1]

    def value_at(self, by: By, place: float | None, rows: int, smooth: int) -> float | None:
        """The value of the curve at `place`, or at its end for None; None where it does not reach."""
        level = self.level(rows, smooth)
        row = nearest_row(level.x[by], place)
        return None if row is None else float(level.y[row])

    def _made(self, rows: int) -> Level:
        places, means = thinned(tuple(self._x.values()), self._values, rows)
        return Level(dict(zip(self._x, places, strict=True)), means)


def rows_a_point(most_rows: int) -> int:
    """The number of rows in a point where the longest curve has so many rows in view."""
    return 1 << max(0, -(-most_rows // _MOST_POINTS) - 1).bit_length()


def smoothing_words(steps: int, smooth: int) -> str:
    """The averaging of a noisy curve that is drawn in blocks of `steps`; empty where it is raw."""
    if smooth:
        return f"smoothed over {max(smooth, _SMOOTHING_POINTS * steps):,} steps"
    return f"means of {steps:,} steps" if steps > 1 else ""


def _window(steps: int, smooth: int) -> int:
    return max(_SMOOTHING_POINTS, -(-smooth // steps))


Quantity = Literal["loss", "accuracy"]


@dataclass(frozen=True, eq=False)
class Line:
    """One run. A further repeat of a side `is_repeat`: it is drawn dim, without markers or legend.

    `note` tells sides of one precision apart where a word stands at the line's end; their markers differ
    in their `fill`. `colour` is the side's own, None for the precision's.
    """

    key: str
    precision: Precision
    name: str
    traces: Mapping[Quantity, Trace]
    note: str = ""
    is_repeat: bool = False
    fill: MarkFill = "full"
    colour: str | None = None


_FAR_OFF = 2.0
"""The rise of a loss above its start, in its own fall, from which the rest counts for more."""


def y_range(pieces: Iterable[Values]) -> tuple[float, float] | None:
    """The range that shows these, from zero where that is near; None where there is nothing.

    A curve that shot up out of all proportion leaves through the top, or it would flatten all the rest.
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
