"""A histogram of exponents, held against the ranges of the number formats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.catalog import Precision
from engine.protocol.numerics.formats import SMALL_FORMATS, Exponents, NumberFormat
from engine.words.numbers import linear_ticks
from gui.theme.fonts import font
from gui.theme.stylesheet import Palette
from gui.theme.theme import theme

_LEAST, _MOST = -64, 40
"""Exponents beyond these are gathered in the bars at the edges: they would squeeze all the rest."""
_LOW, _HIGH = -27, 19
"""Always in view: the range of FP16 with room on both sides."""
_TICK_STEPS = (2, 4, 8, 16, 32)
_TICK_PITCH = 40.0


@dataclass(frozen=True)
class Axis:
    """The exponents in view, from `low` up to but without `end`."""

    low: int = _LOW
    end: int = _HIGH

    @classmethod
    def of(cls, histograms: Iterable[Exponents]) -> Axis:
        """The axis that shows all of these, as far as that is reasonable."""
        filled = [histogram for histogram in histograms if histogram.finite]
        low = min((h.first for h in filled), default=_LOW) - 1
        end = max((h.first + len(h.counts) for h in filled), default=_HIGH) + 1
        return cls(max(_LEAST, min(_LOW, low)), min(_MOST, max(_HIGH, end)))

    def x(self, exponent: int, area: QRectF) -> float:
        """The left edge of an exponent's bar, on a whole pixel within the area."""
        return self.edges(area)[min(max(exponent, self.low), self.end) - self.low]

    def edges(self, area: QRectF) -> tuple[float, ...]:
        """The left edges of all bars, and the right edge of the last."""
        return _edges(area.left(), area.width(), self.end - self.low)

    def exponent_at(self, x: float, area: QRectF) -> int | None:
        """The exponent under a place; None outside of the area."""
        if not area.left() <= x < area.right():
            return None
        return self.low + int((x - area.left()) / area.width() * (self.end - self.low))

    def shares(self, exponents: Exponents) -> tuple[float, ...]:
        """A share of the finite numbers for each exponent in view; the outermost gather all beyond."""
        counts = [0] * (self.end - self.low)
        for exponent, count in enumerate(exponents.counts, exponents.first):
            counts[min(max(exponent - self.low, 0), len(counts) - 1)] += count
        return tuple(count / (exponents.finite or 1) for count in counts)

    def edge(self, exponent: int) -> str:
        """Whether an exponent's bar gathers all that is "less" or "more"; else empty."""
        return "less" if exponent == self.low else "more" if exponent == self.end - 1 else ""

    def ticks(self, width: float) -> range:
        """Exponents to write under an area of this width."""
        pitch = width / (self.end - self.low)
        step = next((step for step in _TICK_STEPS if step * pitch >= _TICK_PITCH), _TICK_STEPS[-1])
        return range(math.ceil(self.low / step) * step, self.end, step)


@lru_cache(maxsize=16)
def _edges(left: float, width: float, bars: int) -> tuple[float, ...]:
    return tuple(left + round(place / bars * width) for place in range(bars + 1))


@dataclass(frozen=True)
class FormatInk:
    """A format's colours: `full` where it holds numbers in full, `dim` where with fewer digits."""

    full: str
    dim: str


def format_ink(form: NumberFormat, palette: Palette) -> FormatInk:
    """A precision's colours for the formats that have one."""
    precision = {"float16": Precision.FP16, "bfloat16": Precision.BF16}.get(form.name)
    if precision is None:
        return FormatInk(palette.text3, palette.off)
    look = palette.look(precision)
    return FormatInk(look.color, look.dim)


def format_edges(form: NumberFormat, axis: Axis, area: QRectF) -> tuple[float, float, float]:
    """Where a format's subnormal, normal and too large numbers begin, in pixels."""
    # what is at least half of the smallest number is rounded up to it
    bounds = (form.subnormal_exponent - 1, form.normal_exponent, form.top_exponent + 1)
    least, normal, end = (axis.x(bound, area) for bound in bounds)
    return least, normal, end


def paint_lost(painter: QPainter, area: QRectF, axis: Axis, form: NumberFormat) -> None:
    """Hatches what lies beyond a format's range, and marks where its subnormal numbers end."""
    palette = theme().palette
    least, normal, end = format_edges(form, axis, area)
    hatch = QBrush(QColor(palette.hatch), Qt.BrushStyle.BDiagPattern)
    for left, right in ((area.left(), least), (end, area.right())):
        painter.fillRect(QRectF(left, area.top(), right - left, area.height()), hatch)
    if least < normal:
        painter.setPen(QPen(QColor(palette.text3), 1, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(normal, area.top()), QPointF(normal, area.bottom()))


def paint_bars(
    painter: QPainter, area: QRectF, axis: Axis, shares: Sequence[float], highest: float, form: NumberFormat
) -> None:
    """The histogram, `highest` as high as the area: in the format's colours, black or white where lost.

    What is there at all is at least a pixel high.
    """
    palette = theme().palette
    ink = format_ink(form, palette)
    least, normal, end = format_edges(form, axis, area)
    edges, bottom, whole = axis.edges(area), area.bottom(), area.height()
    gap = 1.0 if edges[1] - edges[0] > 3 else 0.0
    bars: dict[str, list[QRectF]] = {palette.text: [], ink.dim: [], ink.full: []}
    for left, right, share in zip(edges, edges[1:], shares, strict=False):
        if share:
            height = min(whole, max(1.0, round(share / highest * whole)))
            is_lost = left < least or left >= end
            color = palette.text if is_lost else ink.dim if left < normal else ink.full
            bars[color].append(QRectF(left, bottom - height, right - left - gap, height))
    painter.setPen(Qt.PenStyle.NoPen)
    for color, alike in bars.items():
        painter.setBrush(QColor(color))
        painter.drawRects(alike)


def paint_bracket(
    painter: QPainter, area: QRectF, axis: Axis, form: NumberFormat, level: float, thickness: float = 4.0
) -> None:
    """A bar at the height `level` over the numbers that a format holds, lighter where they lose digits."""
    ink = format_ink(form, theme().palette)
    least, normal, end = format_edges(form, axis, area)
    painter.fillRect(QRectF(least, level, normal - least, thickness), QColor(ink.dim))
    painter.fillRect(QRectF(normal, level, end - normal, thickness), QColor(ink.full))


def paint_exponent_ticks(painter: QPainter, area: QRectF, axis: Axis, baseline: float) -> None:
    """The exponents along the axis, in the small grey of all axes."""
    painter.setFont(font(11))
    painter.setPen(QColor(theme().palette.text3))
    metrics = QFontMetricsF(painter.font())
    for exponent in axis.ticks(area.width()):
        text = "1" if exponent == 0 else f"2^{exponent}"
        width = metrics.horizontalAdvance(text)
        left = axis.x(exponent, area) - width / 2
        if left >= area.left() - 8 and left + width <= area.right() + 4:
            painter.drawText(QPointF(left, baseline), text)


_LEFT, _RIGHT, _BOTTOM, _BRACKET_PITCH = 60.0, 8.0, 20.0, 14.0
_TOP = _BRACKET_PITCH * len(SMALL_FORMATS) + 6.0


class Histogram(QWidget):
    """The exponents of one module, with a bracket for each format's range. `hovered`: exponent or None."""

    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._axis, self._form = Axis(), SMALL_FORMATS[0]
        self._shares: tuple[float, ...] = ()
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(200, 128)
        theme().changed.connect(self.update)

    def show_exponents(self, exponents: Exponents, axis: Axis, form: NumberFormat, words: str) -> None:
        """Shows a histogram, what `form` would lose emphasised; `words` say the same."""
        self._axis, self._form, self._shares = axis, form, axis.shares(exponents)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(320, 128)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette, area = QPainter(self), theme().palette, self._area()
        paint_lost(painter, area, self._axis, self._form)
        highest = max(self._shares, default=0.0) or 1.0
        self._paint_grid(painter, area, highest)
        paint_bars(painter, area, self._axis, self._shares, highest * 1.05, self._form)
        painter.setPen(QPen(QColor(palette.line2), 1))
        bottom = area.bottom() + 0.5
        painter.drawLine(QPointF(area.left(), bottom), QPointF(area.right(), bottom))
        paint_exponent_ticks(painter, area, self._axis, area.bottom() + 15)
        for row, form in enumerate(SMALL_FORMATS):
            is_chosen = form == self._form
            level = row * _BRACKET_PITCH + 5
            paint_bracket(painter, area, self._axis, form, level, 5.0 if is_chosen else 3.0)
            painter.setFont(font(11, 600 if is_chosen else 400))
            painter.setPen(QColor(palette.text if is_chosen else palette.text3))
            painter.drawText(QPointF(0, level + 6), form.label)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        exponent = self._axis.exponent_at(event.position().x(), self._area())
        self.hovered.emit(exponent)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _area(self) -> QRectF:
        return QRectF(_LEFT, _TOP, self.width() - _LEFT - _RIGHT, self.height() - _TOP - _BOTTOM)

    def _paint_grid(self, painter: QPainter, area: QRectF, highest: float) -> None:
        palette = theme().palette
        painter.setFont(font(11))
        metrics = QFontMetricsF(painter.font())
        for tick in linear_ticks(0.0, 100 * highest, max(2, int(area.height() / 36))):
            level = round(area.bottom() - tick.position / (105 * highest) * area.height()) + 0.5
            if tick.position:
                painter.setPen(QPen(QColor(palette.grid), 1))
                painter.drawLine(QPointF(area.left(), level), QPointF(area.right(), level))
            painter.setPen(QColor(palette.text3))
            text = f"{tick.text} %"
            place = QPointF(area.left() - 8 - metrics.horizontalAdvance(text), level + 4)
            painter.drawText(place, text)
