"""The curves of a live plot: the data, smoothed and in the view's coordinates, and pyqtgraph's items."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QPen

from engine.drawing.curve_chart import Values, extend_smoothed, local_line
from engine.experiment.experiment import Precision
from engine.words.numbers import nice_step
from gui.charts.lines import Scale
from gui.theme.theme import theme
from gui.widgets.markers import precision_pen

_LEAST_MARKER_STEPS = 40
_MARKER_SIZE, _LAST_MARKER_SIZE = 7.5, 10.0
_STAGGER = {
    Precision.FP32: 0.75,
    Precision.TF32: 0.55,
    Precision.FP16: 0.375,
    Precision.BF16: 0.175,
    Precision.DEFAULT: 0.9,
    Precision.FP16_UNSCALED: 0.275,
    Precision.BF16_PURE: 0.65,
    Precision.FP8: 0.075,
}


@dataclass(frozen=True, eq=False)
class Curve:
    """The data of one run in one plot. `x` and `y` have the same length, and `x` rises.

    `shadow` is a second, dim curve for context (such as reserved beside allocated memory), named
    `shadow_name` in the legend. `skips` are the x of skipped optimizer steps, in rising order. A curve that
    `is_background` is drawn faintly below the others and does not extend the x axis.

    If `is_rate`, `y` is a rate such as samples per second. Its reciprocal is averaged, because a mean of
    rates would be too high. In a long run, steps are merged: `y` has their lowest and highest values, and
    `means` is smoothed instead. `changes` counts the merges. Between two merges, rows are only appended.

    Without a crosshair, the legend shows `latest` instead of the last value.
    """

    key: str
    precision: Precision
    name: str
    x: Values
    y: Values
    shadow: Values | None = None
    shadow_name: str = ""
    skips: Values = field(default_factory=lambda: np.empty(0))
    is_background: bool = False
    means: Values | None = None
    changes: int = 0
    is_rate: bool = False
    latest: float | None = None

    def averaged(self, values: Values) -> Values:
        """Convert to the averaged quantity, or back. For a rate that is the time per sample."""
        if not self.is_rate:
            return values
        with np.errstate(divide="ignore"):
            return np.reciprocal(values)

    def skips_in(self, x_range: tuple[float, float], columns: int) -> tuple[float, ...]:
        """Return the `skips` in view, at most one in each of `columns` pixels."""
        low, high = x_range
        first, last = np.searchsorted(self.skips, x_range)
        seen = self.skips[first : last + 1]
        seen = seen[(seen >= low) & (seen <= high)]
        pixels = ((seen - low) / (high - low) * max(columns, 1)).astype(np.int64)
        kept = np.flatnonzero(np.diff(pixels, prepend=-1))
        return tuple(seen[kept].tolist())


def marker_rows(count: int, visible: float, precision: Precision) -> NDArray[np.intp]:
    """Return the rows with a marker: about five in view, at least 40 rows apart, staggered by precision."""
    spacing = max(_LEAST_MARKER_STEPS, int(nice_step(max(visible, 1.0), 5)))
    # none right before the last point, which has a marker of its own
    end = count - spacing // 6
    return np.arange(int(spacing * _STAGGER[precision]), max(0, end), spacing, dtype=np.intp)


def staircase(x: Values, y: Values) -> tuple[Values, Values]:
    """Reduce a step-like curve to its corners."""
    if len(x) < 2:
        return x, y
    changes = np.flatnonzero(y[1:] != y[:-1]) + 1
    corners_x = np.concatenate(([x[0]], np.repeat(x[changes], 2), [x[-1]]))
    corners_y = np.concatenate(([y[0]], np.column_stack((y[changes - 1], y[changes])).ravel(), [y[-1]]))
    return corners_x, corners_y


def _live_line() -> pg.PlotDataItem:
    # one pixel wide, opaque, not antialiased, two extremes per pixel: anything else costs frames
    return pg.PlotDataItem(antialias=False, connect="finite", autoDownsampleFactor=1.0)


class PlotItems:
    """The pyqtgraph items that draw one curve in a plot, back to front, from the z value `lowest` upwards."""

    def __init__(self, plot: pg.PlotItem, items: tuple[pg.GraphicsObject, ...], lowest: int) -> None:
        self._plot, self._items = plot, items
        for height, item in enumerate(items, lowest):
            item.setZValue(height)
            plot.addItem(item, ignoreBounds=True)

    def remove(self) -> None:
        """Remove the items from the plot."""
        for item in self._items:
            self._plot.removeItem(item)


class CurveItems(PlotItems):
    """The pyqtgraph items of a live curve: dim unsmoothed line, smoothed line, sparse markers, last point."""

    def __init__(self, plot: pg.PlotItem, curve: Curve) -> None:
        self._precision, self._is_background = curve.precision, curve.is_background
        self._dim, self._line = _live_line(), _live_line()
        self._markers = pg.ScatterPlotItem()
        self._width = 1.0
        super().__init__(plot, (self._dim, self._line, self._markers), -3 if curve.is_background else 0)
        self.restyle()

    def show(
        self, x: Values, line: Values, dim: Values | None, markers: NDArray[np.intp], steps: bool
    ) -> None:
        """Draw `line` over `dim`, both in the view's coordinates, with NaN for missing values."""
        has_dim = dim is not None and not self._is_background and bool(np.isfinite(dim).any())
        self._dim.setData(*((x, dim) if has_dim else ([], [])))
        known = np.flatnonzero(np.isfinite(line))
        if not len(known):
            self._line.setData([], [])
            self._markers.setData([], [])
            return
        self._line.setData(*(staircase(x, line) if steps else (x, line)))
        if self._is_background:
            return
        shown = markers[np.isfinite(line[markers])]
        rows = np.append(shown, known[-1])
        sizes = np.append(np.full(len(shown), _MARKER_SIZE), _LAST_MARKER_SIZE)
        self._markers.setData(x[rows], line[rows], size=sizes)

    def set_final(self, is_final: bool) -> None:
        """Draw a curve that no longer grows: twice as wide, and antialiased."""
        self._width = 2.0 if is_final else 1.0
        self._line.opts["antialias"] = is_final
        self.restyle()

    def restyle(self) -> None:
        """Apply the colors of the theme."""
        palette = theme().palette
        look = palette.look(self._precision)
        dim = QPen(QColor(look.dim), 1)
        dim.setCosmetic(True)
        self._dim.setPen(dim)
        line = precision_pen(self._precision, self._width)
        if self._is_background:
            # a lighter ink and not a translucent one, which would cost frames
            line.setColor(QColor(look.dim))
        self._line.setPen(line)
        self._markers.setSymbol(look.symbol)
        self._markers.setBrush(QColor(look.color))
        self._markers.setPen(pg.mkPen(palette.bg1, width=1))


_ENOUGH_FOR_PERCENTILES, _MOST_SPIKE = 100, 1.5


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """A curve prepared for drawing: smoothed, on the scale of the y axis.

    The legend reads `values`. `line` (smoothed) and `dim` (single steps, or the curve's `shadow`) are in view
    coordinates, with NaN for gaps.
    """

    curve: Curve
    scale: Scale
    smooth: int
    values: Values
    line: Values
    dim: Values | None

    def visible(self, x_range: tuple[float, float]) -> list[Values]:
        """Return the values that decide the y range while `x_range` is in view."""
        low, high = np.searchsorted(self.curve.x, x_range)
        window = slice(max(0, int(low) - 1), int(high) + 1)
        if self.dim is None:
            return [self.line[window]]
        dim = self.dim[window]
        finite = dim[np.isfinite(dim)]
        line = self.line[window]
        if self.curve.is_rate and np.isfinite(line).any():
            # of few steps, a single lucky one would flatten all curves
            finite = dim = np.minimum(finite, _MOST_SPIKE * np.nanmax(line))
        if self.curve.shadow is None and len(finite) > _ENOUGH_FOR_PERCENTILES:
            # a single slow or lucky step must not flatten the smoothed curve
            return [self.line[window], np.percentile(finite, (1, 99))]
        return [self.line[window], dim]


def prepared(
    curve: Curve, scale: Scale, smooth: int, before: DrawnCurve | None, *, has_trace: bool = True
) -> DrawnCurve:
    """Return the curve smoothed over `smooth` steps, 0 for none. Return `before` if no row was added.

    With `has_trace` single steps are drawn dim below the smoothed line.
    """
    same = before is not None and (
        (before.scale, before.smooth, before.curve.changes) == (scale, smooth, curve.changes)
    )
    if before is not None and same and len(before.values) == len(curve.y):
        return before
    noisy = curve.averaged(curve.y if curve.means is None else curve.means)
    if not smooth:
        values = curve.y
    elif before is not None and same and len(before.values) < len(curve.y):
        values = curve.averaged(extend_smoothed(curve.averaged(before.values), noisy, smooth))
    else:
        values = curve.averaged(local_line(noisy, smooth))
    raw = curve.y if smooth and has_trace else None
    dim = curve.shadow if curve.shadow is not None else raw
    return DrawnCurve(
        curve, scale, smooth, values, scale.to_view(values), scale.to_view(dim) if dim is not None else None
    )
