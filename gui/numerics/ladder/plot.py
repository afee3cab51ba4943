"""The losses of the ladder's rungs by step, with FP32's band, and the steps at which rungs part from it."""

from __future__ import annotations

import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import QColor, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QFrame, QGraphicsPolygonItem, QWidget

from engine.drawing.curve_chart import Values
from engine.experiment.catalog import Precision
from engine.protocol.numerics.ladder import Ladder, Rung
from engine.words.numbers import number
from gui.charts.canvas import PlotCanvas
from gui.charts.curves import PlotItems
from gui.charts.frame import Frame, Mark
from gui.charts.header import PlotHeader
from gui.charts.legend import Entry, LegendRows
from gui.charts.lines import Line, y_range
from gui.charts.overlay import MOST_WIDE, LineItems
from gui.charts.scales import Scale, extent, nearest_row, place_text, x_ticks
from gui.theme.theme import theme
from gui.widgets import Button
from gui.widgets.boxes import in_column, wide

_X_TICK, _Y_TICK = 90, 30
_LOW = 220
_MOST_WIDE_STEPS = 1_000
"""With more points than these a wide pen would cost more than a frame."""
_FP32 = "FP32"
_BANDS = 8.0
"""The factor of FP32's band in view where differences are shown."""


class _Band(PlotItems):
    """The area between FP32's lowest and highest loss."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._area = QGraphicsPolygonItem()
        super().__init__(plot, (self._area,), -1)

    def show(self, x: Values, low: Values, high: Values) -> None:
        """Draws the band where both of its edges are known."""
        known = np.isfinite(low) & np.isfinite(high)
        edges = [
            *zip(x[known], low[known], strict=True),
            *zip(x[known][::-1], high[known][::-1], strict=True),
        ]
        self._area.setPolygon(QPolygonF([QPointF(place, value) for place, value in edges]))

    def restyle(self) -> None:
        """Takes the colours of the theme."""
        look = theme().palette.look(Precision.FP32)
        pen = QPen(QColor(look.dim), 1)
        pen.setCosmetic(True)
        self._area.setPen(pen)
        self._area.setBrush(QColor(look.tint))


class LadderPlot(QFrame):
    """Drag or scroll to look closer, double-click to see all again. The legend is the readout."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setMinimumSize(300, 150)
        self._ladder, self._unit = Ladder(steps=0), ""
        self._edges: tuple[Values, ...] = (np.empty(0), np.empty(0))
        self._lines: list[tuple[Line, Values]] = []
        self._items: list[LineItems] = []
        self._chosen: tuple[float, float] | None = None
        self.header = PlotHeader("Training loss", "", smooths=False, can_log=True)
        self.header.changed.connect(self._draw)
        self.difference = Button("Difference", "toggle", "Show how far each loss is from FP32's")
        self.header.add_toggle(self.difference)
        self.difference.toggled.connect(self._show_difference)
        self.header.follow_switched.connect(self._follow)
        self._legend = LegendRows()
        self.canvas = PlotCanvas("Losses of the rungs by step, with FP32's band")
        self.canvas.hovered.connect(self._read_at)
        self.canvas.resized.connect(self._draw)
        self.canvas.x_range_chosen.connect(self._look_at)
        self.canvas.whole_asked.connect(lambda: self._look_at(None))
        self._band = _Band(self.canvas.getPlotItem())
        in_column(self.header, self._legend, wide(self.canvas), parent=self, margins=(1, 1, 1, 4), spacing=0)
        theme().changed.connect(self._restyle)

    def show_ladder(self, ladder: Ladder) -> None:
        """Shows FP32's first repeat, its band and all rungs."""
        self._ladder, self._chosen = ladder, None
        self.header.set_follow(True)
        reference = ladder.repeats[:1]
        self._lines = [
            (Line(_FP32, Precision.FP32, _FP32, {}), np.array(losses, dtype=float)) for losses in reference
        ]
        self._lines += [
            (Line(rung.label, rung.precision, rung.label, {}), np.array(rung.losses, dtype=float))
            for rung in ladder.rungs
        ]
        for items in self._items:
            items.remove()
        plot = self.canvas.getPlotItem()
        self._items = [LineItems(plot, line) for line, _ in self._lines]
        self._restyle()
        self.show_band(None)

    def show_band(self, rung: Rung | None) -> None:
        """Shades what rounding explains of a rung, or FP32's own band."""
        if rung is not None and rung.band_low:
            low, high, words = rung.band_low, rung.band_high, f"what rounding explains of {rung.label}"
        else:
            low, high = self._ladder.band_low, self._ladder.band_high
            words = f"FP32's {len(self._ladder.repeats)} repeats"
        shared = min(len(low), len(high))
        self._edges = tuple(np.array(edge[:shared], dtype=float) for edge in (low, high))
        self._unit = f"shaded: {words}"
        self._show_difference(self.difference.isChecked())

    def entries(self) -> tuple[Entry, ...]:
        """The legend's entries now."""
        return self._legend.entries()

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.header.set_compact(event.size().height() < _LOW)

    def _follow(self, follow: bool) -> None:
        self._look_at(None if follow else self.canvas.frame.x_range)

    def _look_at(self, chosen: tuple[float, float] | None) -> None:
        self._chosen = chosen
        self.header.set_follow(chosen is None)
        self._draw()

    def _restyle(self) -> None:
        is_wide = len(self._items) <= MOST_WIDE + 1 and self._ladder.steps <= _MOST_WIDE_STEPS
        for items in self._items:
            items.restyle(is_wide=is_wide)
        self._band.restyle()
        self._draw()

    def _show_difference(self, is_wanted: bool) -> None:
        self.header.log.setEnabled(not is_wanted)
        self.header.set_title("Loss above FP32's" if is_wanted else "Training loss", self._unit)
        self._draw()

    def _draw(self) -> None:
        is_log = self.header.log.isChecked() and not self.difference.isChecked()
        scale = Scale.LOG10 if is_log else Scale.LINEAR
        band = [scale.to_view(self._shown(edge)) for edge in self._edges]
        self._band.show(_steps(band[0]), band[0], band[1])
        drawn = []
        for (_, losses), items in zip(self._lines, self._items, strict=True):
            shown = scale.to_view(self._shown(losses))
            items.show(_steps(shown), shown)
            drawn.append((_steps(shown), shown))
        self.canvas.show_frame(self._frame(scale, [y for _, y in drawn], band), drawn)
        self._read_at(self.canvas.crosshair())

    def _shown(self, losses: Values) -> Values:
        """The losses, or how far they are above those of FP32's first repeat."""
        if not self.difference.isChecked() or not self._ladder.repeats:
            return losses
        reference = np.array(self._ladder.repeats[0], dtype=float)
        shared = min(len(losses), len(reference))
        with np.errstate(invalid="ignore"):
            above: Values = losses[:shared] - reference[:shared]
        return above

    def _frame(self, scale: Scale, pieces: list[Values], band: list[Values]) -> Frame:
        x_range = self._chosen or (0.0, 1.02 * max(1, self._ladder.steps))
        bounds = extent(pieces)
        if bounds is None:
            return Frame(hint="No rung has a finite loss.")
        if self.difference.isChecked():
            y_bounds = _around(extent(band), bounds)
        else:
            y_bounds = y_range(pieces) or bounds if scale is Scale.LINEAR else scale.range_of(*bounds)
        area, palette = self.canvas.area(), theme().palette
        return Frame(
            x_range=x_range,
            y_range=y_bounds,
            x_ticks=x_ticks(x_range, max(2, int(area.width() / _X_TICK)), "step"),
            y_ticks=scale.ticks(*y_bounds, max(2, int(area.height() / _Y_TICK))),
            marks=tuple(
                Mark(rung.parts_at, f"{rung.label} parts", palette.look(rung.precision).color)
                for rung in self._ladder.rungs
                if rung.parts_at is not None
            ),
        )

    def _read_at(self, place: float | None) -> None:
        self.canvas.set_crosshair(place)
        entries = []
        for line, losses in self._lines:
            shown = self._shown(losses)
            row = nearest_row(_steps(shown), place)
            value = None if row is None else float(shown[row])
            entries.append(Entry(line.precision, line.name, number(value)))
        self._legend.show_values(entries, "at the end" if place is None else place_text(place, "step"))


def _around(band: tuple[float, float] | None, bounds: tuple[float, float]) -> tuple[float, float]:
    """The range of differences that shows the band well: what parts far leaves it."""
    if band is None:
        low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    else:
        reach = _BANDS * max(map(abs, band)) or math.inf
        low, high = min(max(bounds[0], -reach), band[0]), max(min(bounds[1], reach), band[1])
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


def _steps(values: Values) -> Values:
    """The steps that these values belong to, from 1 on."""
    return np.arange(1.0, len(values) + 1)
