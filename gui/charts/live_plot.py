"""A live plot: header, legend with readout, ranges and ticks, and curves that grow while a run trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from engine.drawing.curve_chart import Values
from engine.drawing.looks import By
from engine.words.numbers import decimals_for, number
from gui.charts.canvas import PlotCanvas
from gui.charts.curves import Curve, CurveItems, DrawnCurve, marker_rows, prepared
from gui.charts.frame import Capacity, Frame
from gui.charts.header import PlotHeader
from gui.charts.legend import LegendCurve, LegendRows
from gui.charts.lines import Range, Scale, extent, nearest_row, place_text, x_ticks
from gui.charts.smoothing import smoothing
from gui.theme.theme import theme
from gui.widgets.boxes import Surface, in_column, in_row, wide

_ROOM_RIGHT = 1.065
_CAPACITY_IN_SCALE = 1.6
_CAPACITY_HEADROOM = 0.18
LEAST_HEIGHT, MOST_HEIGHT = 150, 480
"""The limits of a plot's height, between unreadable and too steep curves."""
_COMPACT_BELOW = 170


@dataclass(frozen=True)
class PlotSpec:
    """The title, unit and look of a live plot.

    If `smooths`, the quantity is noisy and smoothed as the user chose. `powers_of_two` makes the y axis log2
    and draws a staircase. `shows_warmup` shades the warm-up.
    """

    title: str
    unit: str
    about: str
    smooths: bool = False
    can_log: bool = True
    powers_of_two: bool = False
    shows_warmup: bool = False


class LivePlot(Surface):
    """A plot of runs while they train. Its setters only store data. A timer calls `refresh()` to draw it.

    `hovered` carries the pointer's x or None. `x_range_chosen` carries the range (low, high) that the user
    dragged or scrolled to, or None when Follow is switched on again.
    """

    hovered = Signal(object)
    x_range_chosen = Signal(object)

    def __init__(self, spec: PlotSpec, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.spec = spec
        self.setMinimumHeight(LEAST_HEIGHT)
        self.setMaximumHeight(MOST_HEIGHT)
        self.header = PlotHeader(spec.title, spec.unit, spec.can_log and not spec.powers_of_two)
        self.header.setToolTip(spec.about)
        self.legend = LegendRows()
        self.canvas = PlotCanvas(f"Plot: {spec.title}")
        self._items: dict[str, CurveItems] = {}
        self._shown: dict[str, DrawnCurve] = {}
        self._curves: tuple[Curve, ...] = ()
        self._by: By = "step"
        self._capacity: tuple[float, str] | None = None
        self._stale, self._is_final = True, False
        self.chosen: Range | None = None
        """The visible part of x. None follows the whole run."""
        self.total: float | None = None
        """How far x will reach at the end of the runs, if that is known; taken over with the next curves, as
        are the end of the warm-up and the words in the middle of an empty plot."""
        self.warmup: float | None = None
        self.hint = ""
        legend = in_row(self.legend, margins=(11, 0, 11, 0))
        in_column(self.header, legend, wide(self.canvas), parent=self, margins=(1, 1, 1, 4), spacing=0)
        self.header.changed.connect(self._redraw)
        self.header.follow_switched.connect(
            lambda follow: self.x_range_chosen.emit(None if follow else self._x_range())
        )
        self.canvas.hovered.connect(self.hovered)
        self.canvas.x_range_chosen.connect(self.x_range_chosen)
        self.canvas.whole_asked.connect(lambda: self.x_range_chosen.emit(None))
        self.canvas.resized.connect(self._mark)
        theme().changed.connect(self._restyle)
        if spec.smooths:
            smoothing().changed.connect(self._redraw)

    def set_curves(self, curves: Sequence[Curve]) -> None:
        """Set the data to draw. A curve that keeps its key has only grown."""
        self._curves = tuple(curves)
        self._mark()

    def set_final(self, is_final: bool) -> None:
        """Draw curves that no longer grow: wide, without the single steps, read at their end."""
        if is_final != self._is_final:
            self._is_final = is_final
            for items in self._items.values():
                items.set_final(is_final)
            self._show_follow()
            self._redraw()

    def set_capacity(self, value: float | None, text: str = "") -> None:
        """Set a limit in the plot's unit. Far off scale it is pinned to the top edge."""
        self._capacity = None if value is None else (value, text)
        # on the plot the words are omitted where the curves leave no room
        self.header.setToolTip(self.spec.about + (f". The dashed line: {text}" if text else ""))
        self._mark()

    def set_by(self, by: By) -> None:
        """Set the meaning of the curves' x, for the unit at the axis and in the readout."""
        if by != self._by:
            self._by = by
            self._redraw()
            self._show_values()

    def set_x_range(self, chosen: Range | None) -> None:
        """Show a part of x. None follows the whole run."""
        self.header.set_follow(chosen is None)
        if chosen != self.chosen:
            self.chosen = chosen
            self._show_follow()
            self._mark()

    def set_crosshair(self, place: float | None) -> None:
        """Show the values at `place`. None shows the latest."""
        self.canvas.set_crosshair(place)
        self._show_values()

    def refresh(self) -> None:
        """Draw the changes since the last call."""
        if not self._stale:
            return
        self._stale = False
        keys = {curve.key for curve in self._curves}
        for key in self._items.keys() - keys:
            self._items.pop(key).remove()
            self._shown.pop(key, None)
        x_range = self._x_range()
        scale, smooth = self._scale(), smoothing().steps if self.spec.smooths else 0
        for curve in self._curves:
            before = self._shown.get(curve.key)
            shown = prepared(curve, scale, smooth, before, has_trace=not self._is_final)
            if shown is not before or x_range != self.canvas.frame.x_range:
                self._shown[curve.key] = shown
                self._draw(shown, x_range)
        self.canvas.show_frame(self._frame(x_range), self._drawn_lines())
        self._show_values()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def sizeHint(self) -> QSize:
        # the canvas would like 480 px, and a page that scrolls gives what is liked and not what there is
        return QSize(super().sizeHint().width(), LEAST_HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.header.set_compact(event.size().height() < _COMPACT_BELOW)

    def _mark(self) -> None:
        self._stale = True

    def _redraw(self) -> None:
        self._shown.clear()
        self._mark()
        # no timer paints a run that is over
        if self.isVisible():
            self.refresh()

    def _restyle(self) -> None:
        for items in self._items.values():
            items.restyle()
        self.canvas.show_frame(self._frame(self.canvas.frame.x_range), self._drawn_lines())
        self.legend.update()

    def _show_follow(self) -> None:
        # there is nothing to follow at the end, but the whole run to come back to
        self.header.show_follow(not self._is_final or self.chosen is not None)

    def _scale(self) -> Scale:
        if self.spec.powers_of_two:
            return Scale.LOG2
        return Scale.LOG10 if self.header.log.isChecked() else Scale.LINEAR

    def _draw(self, shown: DrawnCurve, x_range: Range) -> None:
        curve = shown.curve
        if curve.key not in self._items:
            self._items[curve.key] = CurveItems(self.canvas.getPlotItem(), curve)
            self._items[curve.key].set_final(self._is_final)
        rows = np.searchsorted(curve.x, x_range)
        markers = marker_rows(len(curve.x), float(rows[1] - rows[0]), curve.precision)
        self._items[curve.key].show(curve.x, shown.line, shown.dim, markers, self.spec.powers_of_two)

    def _x_range(self) -> Range:
        if self.chosen is not None:
            return self.chosen
        ends = [float(curve.x[-1]) for curve in self._curves if len(curve.x) and not curve.is_background]
        reach = max([*ends, self.total or 0.0])
        return (0.0, reach * _ROOM_RIGHT) if reach > 0 else (0.0, 1.0)

    def _drawn_lines(self) -> list[tuple[Values, Values]]:
        return [
            (shown.curve.x, values)
            for shown in self._shown.values()
            for values in (shown.line, shown.dim)
            if values is not None
        ]

    def _frame(self, x_range: Range) -> Frame:
        scale, area = self._scale(), self.canvas.area()
        bounds = extent(piece for curve in self._shown.values() for piece in curve.visible(x_range))
        x_axis = x_ticks(x_range, max(2, int(area.width() // 85)), self._by)
        skips = self._skips(x_range)
        if bounds is None:
            return Frame(x_range, scale.range_of(0.0, 1.0), x_axis, skips=skips, hint=self.hint)
        y_range, capacity = self._with_capacity(scale.range_of(*bounds), scale)
        shade = self.warmup if self.spec.shows_warmup else None
        return Frame(
            x_range,
            y_range,
            x_axis,
            scale.ticks(*y_range, max(2, int(area.height() // 26))),
            shade_until=shade,
            shade_text="warm-up, not counted" if shade else "",
            skips=skips,
            capacity=capacity,
        )

    def _with_capacity(self, y_range: Range, scale: Scale) -> tuple[Range, Capacity | None]:
        if self._capacity is None:
            return y_range, None
        (value, text), (low, high) = self._capacity, y_range
        place = float(scale.to_view(np.array([value]))[0])
        if place <= high * (_CAPACITY_IN_SCALE if scale is Scale.LINEAR else 1.0):
            return (low, max(high, place + (place - low) * 0.08)), Capacity(text, place)
        return (low, high + (high - low) * _CAPACITY_HEADROOM), Capacity(text)

    def _skips(self, x_range: Range) -> tuple[tuple[float, str], ...]:
        # thousands of skips in one pixel are one tick
        palette, columns = theme().palette, int(self.canvas.area().width())
        return tuple(
            (place, palette.look(curve.precision).color)
            for curve in self._curves
            for place in curve.skips_in(x_range, columns)
        )

    def _show_values(self) -> None:
        place = self.canvas.crosshair
        drawn = [(curve, self._shown[curve.key]) for curve in self._curves if curve.key in self._shown]
        rows = [
            (curve, shown, nearest_row(shown.curve.x[: len(shown.values)], place)) for curve, shown in drawn
        ]
        decimals = decimals_for(self._value(*row) for row in rows)
        entries = [
            LegendCurve(
                curve.precision,
                curve.name,
                self._text(self._value(curve, shown, row), decimals),
                _shadow_text(shown.curve, row, decimals),
                is_background=curve.is_background,
            )
            for curve, shown, row in rows
        ]
        skipping = next((curve for curve in self._curves if len(curve.skips)), None)
        ink = theme().palette.look(skipping.precision).color if skipping else None
        latest = ("at the end" if self._is_final else "latest") if self._curves else ""
        at = place_text(place, self._by) if self._curves and place is not None else latest
        self.legend.show_values(entries, at, ink)

    def value_at(self, name: str, place: float) -> float | None:
        """Return the legend's value of the curve `name` at the x coordinate `place`. None without a value."""
        for curve in self._curves:
            shown = self._shown.get(curve.key)
            if curve.name == name and shown is not None:
                row = nearest_row(shown.curve.x[: len(shown.values)], place)
                return None if row is None else float(shown.values[row])
        return None

    def _value(self, curve: Curve, shown: DrawnCurve, row: int | None) -> float | None:
        if curve.latest is not None and self.canvas.crosshair is None:
            return curve.latest
        return None if row is None else float(shown.values[row])

    def _text(self, value: float | None, decimals: int) -> str:
        if self.spec.powers_of_two and value is not None and np.isfinite(value):
            return f"{value:,.0f}" if value >= 1 else f"{value:g}"
        return number(value, decimals)


def _shadow_text(curve: Curve, row: int | None, decimals: int) -> str:
    if curve.shadow is None or row is None or not curve.shadow_name:
        return ""
    return f"({number(float(curve.shadow[row]), decimals)} {curve.shadow_name})"
