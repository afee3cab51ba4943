"""The lines of an overlay: what each shows, and the pyqtgraph items that draw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QPen

from engine.experiment import Precision
from gui.plots.smoothing import Values
from gui.plots.trace import Trace
from gui.theme import theme
from gui.widgets.markers import DOT, precision_pen
from resources.looks import MarkFill

Quantity = Literal["loss", "accuracy"]

MOST_WIDE = 4
"""With more lines than these a wide pen would cost more than a frame."""
_MARKER_SIZE, _LAST_MARKER_SIZE = 8.0, 10.0
_MARKERS = 5


@dataclass(frozen=True, eq=False)
class Line:
    """One run. A further repeat of a side `is_repeat`: it is drawn dim, without markers or legend.

    `note` tells sides of one precision apart where a word stands at the line's end; their markers differ
    in their `fill`.
    """

    key: str
    precision: Precision
    name: str
    traces: Mapping[Quantity, Trace]
    note: str = ""
    is_repeat: bool = False
    fill: MarkFill = "full"


class LineItems:
    """The items of one line in one plot: the line itself and its sparse markers."""

    def __init__(self, plot: pg.PlotItem, line: Line) -> None:
        self._plot, self._line = plot, line
        self._curve = pg.PlotCurveItem(antialias=True, connect="finite")
        self._markers, self._dots = pg.ScatterPlotItem(), pg.ScatterPlotItem()
        marks = () if line.is_repeat else (self._markers,)
        self._items = (self._curve, *marks, *((self._dots,) if line.fill == "dotted" else ()))
        for height, item in enumerate(self._items):
            item.setZValue(height + (0 if line.is_repeat else 1))
            plot.addItem(item, ignoreBounds=True)

    def restyle(self, *, is_wide: bool) -> None:
        """Takes the colours of the theme."""
        palette, precision = theme().palette, self._line.precision
        look = palette.look(precision)
        if self._line.is_repeat:
            self._curve.setPen(QPen(QColor(look.dim), 0))
            return
        self._curve.setPen(precision_pen(precision, 2.0 if is_wide else 1.0))
        self._markers.setSymbol(look.symbol)
        is_full = self._line.fill == "full"
        self._markers.setBrush(QColor(look.color if is_full else palette.bg1))
        self._markers.setPen(pg.mkPen(palette.bg1 if is_full else look.color, width=1 if is_full else 1.3))
        self._dots.setSymbol(look.symbol)
        self._dots.setBrush(QColor(look.color))
        self._dots.setPen(pg.mkPen(None))

    def show(self, x: Values, y: Values) -> None:
        """Draws these points, NaN where there is nothing."""
        self._curve.setData(x, y)
        if self._line.is_repeat:
            return
        rows = _marked_rows(y)
        sizes = np.full(len(rows), _MARKER_SIZE)
        sizes[-1:] = _LAST_MARKER_SIZE
        self._markers.setData(x[rows], y[rows], size=sizes)
        if self._line.fill == "dotted":
            self._dots.setData(x[rows], y[rows], size=sizes * DOT)

    def remove(self) -> None:
        """Takes the items out of the plot."""
        for item in self._items:
            self._plot.removeItem(item)


def _marked_rows(values: Values) -> NDArray[np.intp]:
    """Five rows that can be drawn, the last one among them, or the only one."""
    rows: NDArray[np.intp] = np.flatnonzero(np.isfinite(values))
    chosen = np.unique(np.linspace(0, max(0, len(rows) - 1), _MARKERS + 1).astype(int))
    return rows if len(rows) < 2 else rows.take(chosen[1:])
