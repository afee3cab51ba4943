"""The loss curves of all precisions with FP32's band, and the steps at which they diverge from it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import QColor, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsPolygonItem

from engine.drawing.curve_chart import Values
from engine.experiment.catalog import Precision
from engine.protocol.numerics import DivergenceTest, Losses, PrecisionRun
from engine.words.numbers import number
from gui.charts.curves import Curve, PlotItems
from gui.charts.frame import Frame, Mark
from gui.charts.legend import LegendRows
from gui.charts.lines import Range, Scale, extent, y_range
from gui.charts.live_plot import LivePlot, PlotSpec
from gui.charts.overlay import MOST_WIDE
from gui.theme.theme import theme
from gui.widgets import Button

_SPEC = PlotSpec("Training loss", "", "Losses by step in each precision, with FP32's band")
_MOST_WIDE_STEPS = 1_000
"""With more points than these a wide pen would cost more than a frame."""
_BANDS = 8.0
"""The factor of FP32's band in view where differences are shown."""


class _Band(PlotItems):
    """The area between FP32's lowest and highest loss."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._area = QGraphicsPolygonItem()
        super().__init__(plot, (self._area,), -1)

    def show(self, low: Values, high: Values) -> None:
        """Draw the band where both of its edges are known."""
        x, known = np.arange(1.0, len(low) + 1), np.isfinite(low) & np.isfinite(high)
        places = np.concatenate((x[known], x[known][::-1])).tolist()
        levels = np.concatenate((low[known], high[known][::-1])).tolist()
        self._area.setPolygon(QPolygonF(list(map(QPointF, places, levels))))
        look = theme().palette.look(Precision.FP32)
        pen = QPen(QColor(look.dim), 1)
        pen.setCosmetic(True)
        self._area.setPen(pen)
        self._area.setBrush(QColor(look.tint))


class DivergencePlot(LivePlot):
    """A plot of the losses of several precisions over the same steps. The legend shows the values.

    Drag or scroll to zoom, and double-click to show everything.
    """

    legend_class = LegendRows

    def __init__(self) -> None:
        super().__init__(_SPEC)
        self.setMinimumWidth(300)
        self._divergence, self._shaded = DivergenceTest(steps=0), ""
        self._edges: tuple[Losses, Losses] = ((), ())
        self._band = _Band(self.canvas.getPlotItem())
        self.difference = Button("Difference", "toggle", "Show how far each loss is from FP32's")
        self.header.add_toggle(self.difference)
        self.difference.toggled.connect(self._fill)
        self.hovered.connect(self.set_crosshair)
        self.x_range_chosen.connect(self._look_at)
        self.canvas.resized.connect(self.refresh)
        self.hint = "No precision has a finite loss."

    def show_divergence(self, divergence: DivergenceTest) -> None:
        """Show FP32's first repeat, its band and all precisions."""
        self._divergence = divergence
        self.total = max(1, divergence.steps)
        self.set_final(divergence.steps <= _MOST_WIDE_STEPS and len(divergence.runs) <= MOST_WIDE)
        self.set_x_range(None)
        self.show_band(None)

    def show_band(self, run: PrecisionRun | None) -> None:
        """Shade the range that rounding explains in a precision. For None, shade FP32's own band."""
        if run is not None and run.band_low:
            self._edges, words = (run.band_low, run.band_high), f"expected from rounding in {run.label}"
        else:
            self._edges = self._divergence.band_low, self._divergence.band_high
            words = f"FP32's {len(self._divergence.repeats)} repeats"
        self._shaded = f"shaded: {words}"
        self._fill()

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def _fill(self) -> None:
        is_difference = self.difference.isChecked()
        self.header.log.setEnabled(not is_difference)
        self.header.set_title("Loss minus FP32's" if is_difference else "Training loss", self._shaded)
        fp32 = [("FP32", Precision.FP32, losses) for losses in self._divergence.repeats[:1]]
        runs = [(run.label, run.precision, run.losses) for run in self._divergence.runs]
        curves = []
        for label, precision, losses in (*fp32, *runs):
            y = self._above(losses)
            curves.append(Curve(label, precision, label, np.arange(1.0, len(y) + 1), y))
        self.set_curves(curves)
        self._redraw()

    def _scale(self) -> Scale:
        return Scale.LINEAR if self.difference.isChecked() else super()._scale()

    def _text(self, value: float | None, decimals: int) -> str:
        return number(value)

    def _above(self, losses: Losses) -> Values:
        values = np.array(losses, dtype=float)
        if not self.difference.isChecked() or not self._divergence.repeats:
            return values
        reference = np.array(self._divergence.repeats[0], dtype=float)
        shared = min(len(values), len(reference))
        with np.errstate(invalid="ignore"):
            above: Values = values[:shared] - reference[:shared]
        return above

    def _look_at(self, chosen: Range | None) -> None:
        self.set_x_range(chosen)
        self.refresh()

    def _frame(self, x_range: Range) -> Frame:
        scale, pieces = self._scale(), [shown.line for shown in self._shown.values()]
        shared = min(map(len, self._edges))
        band = [scale.to_view(self._above(edge[:shared])) for edge in self._edges]
        self._band.show(*band)
        frame, bounds = super()._frame(x_range), extent(pieces)
        if bounds is None:
            return frame
        if self.difference.isChecked():
            shown = _around(extent(band), bounds)
        else:
            shown = (y_range(pieces) if scale is Scale.LINEAR else None) or scale.range_of(*bounds)
        palette = theme().palette
        return replace(
            frame,
            y_range=shown,
            y_ticks=scale.ticks(*shown, max(2, int(self.canvas.area().height() / 30))),
            marks=tuple(
                Mark(run.diverges_at, f"{run.label} diverges", palette.look(run.precision).color)
                for run in self._divergence.runs
                if run.diverges_at is not None
            ),
        )


def _around(band: Range | None, bounds: Range) -> Range:
    if band is None:
        low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    else:
        reach = _BANDS * max(map(abs, band)) or math.inf
        low, high = min(max(bounds[0], -reach), band[0]), max(min(bounds[1], reach), band[1])
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room
