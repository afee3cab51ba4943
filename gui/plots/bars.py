"""Horizontal bars, one a run: name, bar with the whisker of its interval, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment import Precision
from gui.fonts import font
from gui.plots.ticks import linear_ticks
from gui.theme import theme
from gui.widgets import draw_marker

_NAMES, _AXIS, _BAR, _PITCH, _LEAST_PITCH = 116.0, 24.0, 32.0, 64.0, 34.0


@dataclass(frozen=True)
class Bar:
    """One run: `value` in the chart's unit, None where it has none; `interval` is drawn as a whisker."""

    precision: Precision
    name: str
    note: str
    value: float | None
    interval: tuple[float, float] | None = None


class BarChart(QWidget):
    """Painted whole; the axis starts at zero, since a bar's length is its figure."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: tuple[Bar, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 100)
        theme().changed.connect(self.update)

    def set_bars(self, bars: Sequence[Bar]) -> None:
        self._bars = tuple(bars)
        self.setMinimumHeight(int(_AXIS + _LEAST_PITCH * max(2, len(bars))))
        self.setAccessibleName(", ".join(f"{bar.name} {bar.note} {_text(bar.value)}" for bar in bars))
        self.update()

    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    def sizeHint(self) -> QSize:
        return QSize(420, self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        highest = max((_end(bar) for bar in self._bars), default=0.0)
        if highest > 0:
            self._paint(painter, highest)
        painter.end()

    def _paint(self, painter: QPainter, highest: float) -> None:
        palette = theme().palette
        room = QFontMetricsF(font(13, 600)).horizontalAdvance(_text(highest)) + 14
        area = QRectF(_NAMES, 0, self.width() - _NAMES - room, self.height() - _AXIS)
        self._paint_axis(painter, area, highest)
        pitch = min(_PITCH, area.height() / len(self._bars))
        top = area.top() + (area.height() - pitch * len(self._bars)) / 2
        for number, bar in enumerate(self._bars):
            middle = top + pitch * (number + 0.5)
            self._paint_name(painter, bar, middle)
            if bar.value is None:
                painter.setFont(font(12))
                painter.setPen(QColor(palette.text3))
                painter.drawText(QPointF(area.left() + 4, middle + 4), "no speed")
                continue
            self._paint_bar(painter, bar, area, middle, min(_BAR, pitch - 8), highest)

    def _paint_axis(self, painter: QPainter, area: QRectF, highest: float) -> None:
        palette = theme().palette
        painter.setFont(font(11))
        metrics = QFontMetricsF(painter.font())
        widest = metrics.horizontalAdvance(_text(highest)) + 24
        for tick in linear_ticks(0.0, highest, max(1, int(area.width() / widest))):
            place = round(area.left() + tick.position / highest * area.width()) + 0.5
            painter.setPen(QPen(QColor(palette.grid), 1))
            painter.drawLine(QPointF(place, area.top()), QPointF(place, area.bottom()))
            painter.setPen(QColor(palette.text3))
            half = metrics.horizontalAdvance(tick.text) / 2
            painter.drawText(QPointF(place - half, area.bottom() + 16), tick.text)
        painter.setPen(QPen(QColor(palette.line2), 1))
        bottom = round(area.bottom()) + 0.5
        painter.drawLine(QPointF(area.left(), bottom), QPointF(self.width(), bottom))

    def _paint_name(self, painter: QPainter, bar: Bar, middle: float) -> None:
        palette = theme().palette
        draw_marker(painter, QPointF(6, middle - 8 if bar.note else middle), bar.precision, 8)
        painter.setFont(font(12, 600))
        painter.setPen(QColor(palette.text))
        room = int(_NAMES - 24)
        name = QFontMetricsF(painter.font()).elidedText(bar.name, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(18, middle - 4 if bar.note else middle + 4), name)
        painter.setFont(font(12))
        painter.setPen(QColor(palette.text2))
        note = QFontMetricsF(painter.font()).elidedText(bar.note, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(18, middle + 12), note)

    def _paint_bar(
        self, painter: QPainter, bar: Bar, area: QRectF, middle: float, height: float, highest: float
    ) -> None:
        palette = theme().palette
        assert bar.value is not None
        scale = area.width() / highest
        body = QRectF(area.left(), middle - height / 2, bar.value * scale, height)
        painter.fillRect(body, QColor(palette.look(bar.precision).color))
        end = body.right()
        if bar.interval is not None:
            low, high = (area.left() + edge * scale for edge in bar.interval)
            painter.setPen(QPen(QColor(palette.text), 2, c=Qt.PenCapStyle.FlatCap))
            painter.drawLine(QPointF(low, middle), QPointF(high, middle))
            for edge in (low, high):
                painter.drawLine(QPointF(edge, middle - height * 0.35), QPointF(edge, middle + height * 0.35))
            end = max(end, high)
        painter.setFont(font(13, 600))
        painter.setPen(QColor(palette.text))
        painter.drawText(QPointF(end + 7, middle + 5), _text(bar.value))


def _end(bar: Bar) -> float:
    return max(bar.value or 0.0, bar.interval[1] if bar.interval else 0.0)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
