"""A still plot of several runs' curves laid over one another, by step or by seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from gui.numbers import NONE, number
from gui.plots.canvas import PlotCanvas
from gui.plots.curves import Curve
from gui.plots.frame import Frame
from gui.plots.framing import with_unit
from gui.plots.legend import Entry, LegendRow
from gui.plots.scales import extent
from gui.plots.smoothing import Values, local_line
from gui.plots.ticks import Tick, linear_ticks
from gui.theme import theme
from gui.widgets import Button, ElidedLabel, label
from gui.widgets.markers import precision_pen

_MOST_POINTS = 500
"""A thick antialiased pen is slow: more points than this would be felt, and no more are seen."""
_SMOOTHING_STEPS = 15


class OverlayPlot(QFrame):
    """Smoothed curves with the legend as the readout; `by_time` says which way they are laid."""

    axis_changed = Signal(bool)

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._curves: tuple[Curve, ...] = ()
        self._smooth: tuple[Values, ...] = ()
        self._items: list[pg.PlotDataItem] = []
        self._title = label(title, "panelTitle")
        self._unit = ElidedLabel("", "unit")
        self._by_step = Button("Steps", "toggle", "Lay the curves by training step")
        self._by_time = Button("Time", "toggle", "Lay the curves by seconds since each run began")
        self._by_step.setChecked(True)
        self.setMinimumWidth(320)
        for button, by_time in ((self._by_step, False), (self._by_time, True)):
            button.clicked.connect(lambda _checked=False, by_time=by_time: self.set_by_time(by_time))
        self._legend = LegendRow()
        self.canvas = PlotCanvas(title)
        self.canvas.hovered.connect(self._read_at)
        self.canvas.resized.connect(self._show_frame)
        self._lay_out()
        theme().changed.connect(self._draw)

    def set_curves(self, curves: Sequence[Curve], title: str, unit: str) -> None:
        """Shows these curves; their `x` must fit what `by_time` says."""
        self._curves = tuple(curves)
        self._smooth = tuple(local_line(curve.y, _SMOOTHING_STEPS) for curve in curves)
        self._title.setText(title)
        self._unit.set_whole_text(unit)
        self._draw()

    def curves(self) -> tuple[Curve, ...]:
        return self._curves

    @property
    def by_time(self) -> bool:
        return self._by_time.isChecked()

    def set_by_time(self, by_time: bool) -> None:
        """Chooses the x axis and asks, by `axis_changed`, for curves that fit it."""
        self._by_time.setChecked(by_time)
        self._by_step.setChecked(not by_time)
        self.axis_changed.emit(by_time)

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def entries(self) -> tuple[Entry, ...]:
        """What the legend shows now."""
        return self._legend.entries()

    def _lay_out(self) -> None:
        header = QHBoxLayout()
        header.setContentsMargins(12, 10, 12, 6)
        header.setSpacing(8)
        header.addWidget(self._title)
        header.addWidget(self._unit, 1)
        header.addWidget(self._by_step)
        header.addWidget(self._by_time)
        legend = QHBoxLayout()
        legend.setContentsMargins(12, 0, 12, 4)
        legend.addWidget(self._legend)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 4)
        column.setSpacing(0)
        column.addLayout(header)
        column.addLayout(legend)
        column.addWidget(self.canvas, 1)

    def _draw(self) -> None:
        plot = self.canvas.getPlotItem()
        for item in self._items:
            plot.removeItem(item)
        self._items = []
        palette = theme().palette
        for curve, smooth in zip(self._curves, self._smooth, strict=True):
            x, y = thinned(curve.x, smooth)
            marks = _marked_rows(y)
            line = pg.PlotDataItem(
                x, y, pen=precision_pen(curve.precision, 2.0), antialias=True, connect="finite"
            )
            look = palette.look(curve.precision)
            points = pg.ScatterPlotItem(
                x[marks],
                y[marks],
                symbol=look.symbol,
                size=9,
                brush=QColor(look.color),
                pen=pg.mkPen(palette.bg1, width=1),
            )
            for item in (line, points):
                plot.addItem(item, ignoreBounds=True)
                self._items.append(item)
        self._show_frame()
        self._read_at(self.canvas.crosshair())

    def _show_frame(self) -> None:
        pairs = zip(self._curves, self._smooth, strict=True)
        bounds = extent(thinned(curve.x, smooth)[1] for curve, smooth in pairs)
        if bounds is None:
            self.canvas.show_frame(Frame(hint="Nothing was recorded."))
            return
        low, high = bounds
        margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        bottom = 0.0 if 0 <= low < 0.35 * high else low - margin
        right = max(float(curve.x[-1]) for curve in self._curves if len(curve.x)) * 1.02 or 1.0
        area = self.canvas.area()
        self.canvas.show_frame(
            Frame(
                x_range=(0.0, right),
                y_range=(bottom, high + margin),
                x_ticks=self._x_ticks(right, max(2, int(area.width() / 90))),
                y_ticks=linear_ticks(bottom, high + margin, max(2, int(area.height() / 45))),
            )
        )

    def _x_ticks(self, right: float, most: int) -> tuple[Tick, ...]:
        ticks = linear_ticks(0.0, right, most, whole=not self.by_time)
        return with_unit(ticks, "seconds" if self.by_time else "steps")

    def _read_at(self, place: float | None) -> None:
        self.canvas.set_crosshair(place)
        entries = [
            Entry(curve.precision, curve.name, _value_at(curve, smooth, place))
            for curve, smooth in zip(self._curves, self._smooth, strict=True)
        ]
        where = "at the end" if place is None else f"{place:,.1f} s" if self.by_time else f"step {place:,.0f}"
        self._legend.show_values(entries, where, None)


def _value_at(curve: Curve, smooth: Values, place: float | None) -> str:
    row = curve.index_at(place) if place is not None else len(smooth) - 1
    return number(float(smooth[row]), 3) if row is not None and row >= 0 else NONE


def _marked_rows(values: Values) -> NDArray[np.intp]:
    """Five rows that can be drawn, the last one among them, or the only one."""
    rows: NDArray[np.intp] = np.flatnonzero(np.isfinite(values))
    chosen = np.unique(np.linspace(0, max(0, len(rows) - 1), 6).astype(int))
    return rows if len(rows) < 2 else rows.take(chosen[1:])


def thinned(x: Values, y: Values) -> tuple[Values, Values]:
    """At most some 500 points of a smooth curve, its last one among them."""
    stride = max(1, -(-len(x) // _MOST_POINTS))
    keep = np.arange(len(x) - 1, -1, -stride)[::-1]
    return x[keep], y[keep]
