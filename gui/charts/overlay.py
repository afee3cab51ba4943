"""Curves of saved runs laid over one another, by step, time or samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize, QTimer
from PySide6.QtGui import QColor, QHideEvent, QPen
from PySide6.QtWidgets import QWidget

from engine.drawing.curve_chart import Values
from engine.drawing.shapes import DOT
from engine.words.numbers import decimals_for, linear_ticks, number
from gui.charts.canvas import PlotCanvas
from gui.charts.curves import PlotItems
from gui.charts.frame import Frame, Note
from gui.charts.header import OverlayHeader
from gui.charts.legend import LegendCurve, LegendRows
from gui.charts.lines import (
    Quantity,
    Range,
    RecordedCurve,
    SavedCurves,
    place_text,
    rows_a_point,
    smoothing_words,
    x_ticks,
    y_range,
)
from gui.charts.smoothing import smoothing
from gui.theme.theme import theme
from gui.widgets.boxes import Surface, in_column, in_row, wide
from gui.widgets.markers import precision_pen

MOST_WIDE = 4
"""With more lines than these a wide pen would cost more than a frame."""
_MARKER_SIZE, _LAST_MARKER_SIZE = 8.0, 10.0
_MARKERS = 5


class LineItems(PlotItems):
    """The pyqtgraph items of one saved run in a plot: a line with sparse markers."""

    def __init__(self, plot: pg.PlotItem, line: SavedCurves, stagger: float) -> None:
        """`stagger` shifts the markers by a part of their distance, so that those of two lines differ."""
        self._line, self._stagger = line, stagger
        self._curve = pg.PlotCurveItem(antialias=True, connect="finite")
        self._markers, self._dots = pg.ScatterPlotItem(), pg.ScatterPlotItem()
        marks = () if line.is_repeat else (self._markers,)
        dots = (self._dots,) if line.fill == "dotted" else ()
        super().__init__(plot, (self._curve, *marks, *dots), 0 if line.is_repeat else 1)

    def restyle(self, *, is_wide: bool) -> None:
        """Apply the colors of the theme."""
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
        """Draw these points, with NaN for gaps."""
        self._curve.setData(x, y)
        if self._line.is_repeat:
            return
        rows = np.flatnonzero(np.isfinite(y))
        if len(rows) > 1:
            # five of them, with the last
            fractions = np.append((np.arange(_MARKERS - 1) + self._stagger) / (_MARKERS - 1), 1.0)
            rows = rows[np.unique((fractions * (len(rows) - 1)).astype(int))]
        sizes = np.full(len(rows), _MARKER_SIZE)
        sizes[-1:] = _LAST_MARKER_SIZE
        self._markers.setData(x[rows], y[rows], size=sizes)
        if self._line.fill == "dotted":
            self._dots.setData(x[rows], y[rows], size=sizes * DOT)


_SMOOTHED: tuple[Quantity, ...] = ("loss", "throughput")
_MOST_NOTES = 6
_CLOSEST = 1e-6
_SETTLES_MS = 150
_X_TICK, _Y_TICK = 90, 36


class OverlayPlot(Surface):
    """A plot of several saved runs in one frame. The legend shows the values at the crosshair.

    Drag or scroll to zoom, and double-click to show everything.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.setMinimumWidth(320)
        self.lines: tuple[SavedCurves, ...] = ()
        self._items: list[LineItems] = []
        self._units: Mapping[Quantity, str] = {}
        self._chosen: Range | None = None
        self._rows = 1
        self._settling = QTimer(self, singleShot=True, interval=_SETTLES_MS)
        self._settling.timeout.connect(self._restyle)
        self.header, self.legend = OverlayHeader(), LegendRows()
        self.header.changed.connect(self._show_other)
        self.canvas = PlotCanvas("Curves of the compared runs")
        self.canvas.setToolTip(
            "Drag or turn the wheel (with Ctrl on a scrolling page) to zoom. Double-click to reset."
        )
        self.canvas.hovered.connect(self._read_at)
        self.canvas.resized.connect(self._draw)
        self.canvas.x_range_chosen.connect(self.set_x_range)
        self.canvas.whole_asked.connect(lambda: self.set_x_range(None))
        legend = in_row(self.legend, margins=(12, 0, 12, 0))
        in_column(self.header, legend, wide(self.canvas), parent=self, margins=(0, 0, 0, 4), spacing=0)
        theme().changed.connect(self._restyle)
        smoothing().changed.connect(self._draw)

    def set_lines(self, lines: Sequence[SavedCurves], units: Mapping[Quantity, str]) -> None:
        """Show these runs. `units` are the units of the y axis."""
        if [line.key for line in lines] != [line.key for line in self.lines]:
            self._chosen = None
        self.lines, self._units = tuple(lines), units
        for item in self._items:
            item.remove()
        names = list(dict.fromkeys(line.name for line in lines))
        places = [(names.index(line.name) + 1) / (len(names) + 1) for line in lines]
        plot = self.canvas.getPlotItem()
        self._items = [LineItems(plot, line, place) for line, place in zip(lines, places, strict=True)]
        traces = [trace for line in lines for trace in line.traces.items()]
        self.header.set_known(name for name, trace in traces if trace.has_values)
        self._restyle()

    def set_x_range(self, chosen: Range | None) -> None:
        """Show a part of x. None shows all."""
        whole = self._whole()
        if chosen is not None:
            width = chosen[1] - chosen[0]
            low = min(max(0.0, chosen[0]), whole - width)
            chosen = (low, low + width) if _CLOSEST * whole < width < whole else None
        self._chosen = chosen
        was_moving = self._settling.isActive()
        self._settling.start()
        if not was_moving:
            self._set_pens()
        self._draw()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._settling.stop()

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def _traces(self) -> list[RecordedCurve]:
        return [line.traces[self.header.quantity] for line in self.lines]

    def _whole(self) -> float:
        return max((trace.end(self.header.by) for trace in self._traces()), default=0.0) * 1.02 or 1.0

    def _show_other(self) -> None:
        self._chosen = None
        self.canvas.set_crosshair(None)
        self._draw()

    def _restyle(self) -> None:
        self._set_pens()
        self._draw()

    def _set_pens(self) -> None:
        # wide ones cost half a frame, so pens are thin while the curves move
        are_few = len(self._sides()) <= MOST_WIDE
        for items in self._items:
            items.restyle(is_wide=are_few and not self._settling.isActive())

    def _sides(self) -> list[SavedCurves]:
        return [line for line in self.lines if not line.is_repeat]

    def _draw(self) -> None:
        by, quantity, traces = self.header.by, self.header.quantity, self._traces()
        x_range = self._chosen or (0.0, self._whole())
        self._rows = rows_a_point(max((trace.rows_within(by, x_range) for trace in traces), default=0))
        drawn: list[tuple[np.ndarray, np.ndarray]] = []
        for trace, items in zip(traces, self._items, strict=True):
            level = trace.level(self._rows, smoothing().steps)
            # one point beyond each edge, so that the line goes on to it
            first, last = np.searchsorted(level.x[by], x_range)
            seen = slice(max(0, int(first) - 1), int(last) + 1)
            items.show(level.x[by][seen], level.y[seen])
            drawn.append((level.x[by][seen], level.y[seen]))
        steps = self._rows * max((trace.steps_per_row for trace in traces), default=1)
        smoothed = smoothing_words(steps, smoothing().steps) if quantity in _SMOOTHED else ""
        self.header.smooth.setEnabled(quantity in _SMOOTHED)
        self.header.set_unit(", ".join(filter(None, (self._units.get(quantity, ""), smoothed))))
        self.canvas.show_frame(self._frame(x_range, [y for _, y in drawn]), drawn)
        self._read_at(self.canvas.crosshair)

    def _frame(self, x_range: Range, pieces: list[np.ndarray]) -> Frame:
        bounds = y_range(pieces)
        if bounds is None:
            ended = "this run ended before its" if len(self.lines) == 1 else "these runs ended before their"
            return Frame(hint=f"No curve: {ended} first step.")
        area = self.canvas.area()
        return Frame(
            x_range,
            bounds,
            x_ticks(x_range, max(2, int(area.width() / _X_TICK)), self.header.by),
            linear_ticks(*bounds, max(2, int(area.height() / _Y_TICK))),
            notes=self._notes(),
        )

    def _notes(self) -> tuple[Note, ...]:
        full = self._sides()
        if self._chosen is not None or self.header.by != "seconds" or len(full) > _MOST_NOTES:
            return ()
        notes = []
        for line in full:
            level = line.traces[self.header.quantity].level(self._rows, smoothing().steps)
            known = np.flatnonzero(np.isfinite(level.y))
            if len(known):
                x, y = float(level.x["seconds"][known[-1]]), float(level.y[known[-1]])
                words = f"{x:,.1f} s" + (f", {line.note}" if line.note else "")
                notes.append(Note(x, y, words, theme().palette.look(line.precision).color))
        return tuple(notes)

    def _read_at(self, place: float | None) -> None:
        self.canvas.set_crosshair(place)
        by, quantity, full = self.header.by, self.header.quantity, self._sides()
        # many names have no room: the note is enough where the marker shows the precision
        are_many = len(full) > MOST_WIDE
        smooth = smoothing().steps
        values = [line.traces[quantity].value_at(by, place, self._rows, smooth) for line in full]
        decimals = 3 if quantity == "loss" else min(2, decimals_for(values))
        entries = [
            LegendCurve(
                line.precision,
                line.note if are_many and line.note else line.name,
                number(value, decimals),
                fill=line.fill,
            )
            for line, value in zip(full, values, strict=True)
        ]
        self.legend.show_values(entries, "at the end" if place is None else place_text(place, by))
