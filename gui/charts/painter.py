"""Horizontal bars, one a run: name, bar with the whisker of its interval, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from engine.words.numbers import number
from gui.charts.scales import linear_ticks
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets.markers import draw_marker
from resources.looks import MarkFill

_NAMES, _MOST_NAMES, _NAME_EDGES, _BOLT = 116.0, 0.36, 26.0, 18.0
"""Pixels for the names at the least and, as a part of the whole, at the most; beside a name; for a bolt."""
_AXIS, _BAR, _PITCH, _LEAST_PITCH = 24.0, 32.0, 64.0, 34.0
_LONGEST_WHISKER = 1.5
"""Times the longest bar: what reaches further is cut, since bars beside it would not be seen."""


@dataclass(frozen=True)
class Bar:
    """One run: `value` in the chart's unit, None where it has none; `interval` is drawn as a whisker.

    `fill` is the marker's; one that `is_fast` has a bolt behind its `note`.
    """

    precision: Precision
    name: str
    note: str
    value: float | None
    interval: tuple[float, float] | None = None
    fill: MarkFill = "full"
    is_fast: bool = False


class BarChart(QWidget):
    """Painted whole; the axis starts at zero, since a bar's length is its figure.

    A whisker that is longer than the bars by far is cut, and ends in an arrow. Where no bar has a length
    the chart says so.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: tuple[Bar, ...] = ()
        self._hint = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 100)
        theme().changed.connect(self.update)

    def set_bars(self, bars: Sequence[Bar], hint: str = "") -> None:
        """Shows these; `hint` is said instead where none of them has a length."""
        self._bars, self._hint = tuple(bars), hint
        self.setMinimumHeight(int(_AXIS + _LEAST_PITCH * max(2, len(bars))))
        told = ", ".join(f"{bar.name} {bar.note} {_text(bar.value)}" for bar in bars)
        self.setAccessibleName(told if axis_end(bars) > 0 else hint)
        self.update()

    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    def sizeHint(self) -> QSize:
        return QSize(420, self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        highest = axis_end(self._bars)
        if highest > 0:
            self._paint(painter, highest)
        elif self._hint:
            painter.setFont(font(13))
            painter.setPen(QColor(theme().palette.text2))
            words = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(QRectF(self.rect()).adjusted(12, 0, -12, 0), words, self._hint)
        painter.end()

    def _paint(self, painter: QPainter, highest: float) -> None:
        palette = theme().palette
        metrics = QFontMetricsF(font(13, 600))
        room = max(metrics.horizontalAdvance(_text(bar.value)) for bar in self._bars) + 14
        names = self._names_width()
        area = QRectF(names, 0, self.width() - names - room, self.height() - _AXIS)
        self._paint_axis(painter, area, highest)
        pitch = min(_PITCH, area.height() / len(self._bars))
        top = area.top() + (area.height() - pitch * len(self._bars)) / 2
        for place, bar in enumerate(self._bars):
            middle = top + pitch * (place + 0.5)
            self._paint_name(painter, bar, middle, names - _NAME_EDGES)
            if bar.value is None:
                painter.setFont(font(12))
                painter.setPen(QColor(palette.text3))
                painter.drawText(QPointF(area.left() + 4, middle + 4), "no speed")
                continue
            self._paint_bar(painter, bar, area, middle, min(_BAR, pitch - 8), highest)

    def _names_width(self) -> float:
        name, note = QFontMetricsF(font(12, 600)), QFontMetricsF(font(12))
        widths = [name.horizontalAdvance(bar.name) for bar in self._bars]
        widths += [note.horizontalAdvance(bar.note) + _BOLT * bar.is_fast for bar in self._bars]
        return max(_NAMES, min(max(widths) + _NAME_EDGES, _MOST_NAMES * self.width()))

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

    def _paint_name(self, painter: QPainter, bar: Bar, middle: float, room: float) -> None:
        palette = theme().palette
        draw_marker(painter, QPointF(6, middle - 8 if bar.note else middle), bar.precision, 8, fill=bar.fill)
        painter.setFont(font(12, 600))
        painter.setPen(QColor(palette.text))
        name = QFontMetricsF(painter.font()).elidedText(bar.name, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(18, middle - 4 if bar.note else middle + 4), name)
        painter.setFont(font(12))
        painter.setPen(QColor(palette.text2))
        room -= _BOLT if bar.is_fast else 0.0
        note = QFontMetricsF(painter.font()).elidedText(bar.note, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(18, middle + 12), note)
        if bar.is_fast:
            left = 20 + QFontMetricsF(painter.font()).horizontalAdvance(note)
            draw_icon(painter, QRectF(left, middle + 1, 14, 14), "bolt", palette.text2)

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
            end = max(end, self._paint_whisker(painter, bar.interval, area, middle, height * 0.35, scale))
        painter.setFont(font(13, 600))
        painter.setPen(QColor(palette.text))
        painter.drawText(QPointF(end + 7, middle + 5), _text(bar.value))

    @staticmethod
    def _paint_whisker(
        painter: QPainter,
        interval: tuple[float, float],
        area: QRectF,
        middle: float,
        half: float,
        scale: float,
    ) -> float:
        """Draws an interval; where it ends on the widget."""
        low, high = (area.left() + max(0.0, edge) * scale for edge in interval)
        is_cut = high > area.right() + 0.5
        high = min(high, area.right())
        ink = QColor(theme().palette.text)
        painter.setPen(QPen(ink, 2, c=Qt.PenCapStyle.FlatCap))
        painter.drawLine(QPointF(low, middle), QPointF(high - (half if is_cut else 0.0), middle))
        for edge in (low,) if is_cut else (low, high):
            painter.drawLine(QPointF(edge, middle - half), QPointF(edge, middle + half))
        if is_cut:
            tip, back = QPointF(high, middle), high - half * 1.2
            points = [tip, QPointF(back, middle - half / 2), QPointF(back, middle + half / 2)]
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ink)
            painter.drawPolygon(QPolygonF(points))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        return high


def axis_end(bars: Sequence[Bar]) -> float:
    """Where the axis ends: no whisker is so long that the bars are not to be seen beside it."""
    value = max((bar.value or 0.0 for bar in bars), default=0.0)
    end = max((bar.interval[1] for bar in bars if bar.interval and bar.value is not None), default=0.0)
    return max(value, min(end, _LONGEST_WHISKER * value))


def _text(value: float | None) -> str:
    return number(value)
