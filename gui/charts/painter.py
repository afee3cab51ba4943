"""The engine's drawings in the window: shapes painted by Qt, and the chart of bars."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.bar_chart import Bar, axis_end, bar_chart, least_height
from engine.drawing.shapes import Box, Dot, Drawing, Shape, Stroke, Words, colour
from engine.words.numbers import number
from gui.theme.fonts import font
from gui.theme.theme import theme

_EDGE = 1.5
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""How much of a text is before its place."""


def paint(painter: QPainter, drawing: Drawing) -> None:
    """Paints the shapes in the theme's colours, the first of them undermost."""
    for shape in drawing.shapes:
        painter.save()
        _paint(painter, shape, QColor(colour(theme().palette, shape.ink)))
        painter.restore()


def _paint(painter: QPainter, shape: Shape, ink: QColor) -> None:
    if isinstance(shape, Box):
        painter.fillRect(QRectF(shape.x, shape.y, shape.width, shape.height), ink)
    elif isinstance(shape, Words):
        painter.setFont(font(round(shape.size), shape.weight))
        painter.setPen(ink)
        width = QFontMetricsF(painter.font()).horizontalAdvance(shape.text)
        painter.drawText(QPointF(shape.x - _BEFORE[shape.anchor] * width, shape.y), shape.text)
    elif isinstance(shape, Stroke):
        pen = QPen(ink, shape.width, c=Qt.PenCapStyle.FlatCap, j=Qt.PenJoinStyle.RoundJoin)
        if shape.dash:
            pen.setDashPattern([length / shape.width for length in shape.dash])
        painter.setPen(pen)
        # a line straight across or down is to be sharp
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, len(shape.points) > 2)
        painter.drawPolyline(QPolygonF([QPointF(x, y) for x, y in shape.points]))
    else:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_bare = shape.edge is None
        edge = QPen(QColor(colour(theme().palette, shape.edge or shape.ink)), _EDGE)
        painter.setPen(QPen(Qt.PenStyle.NoPen) if is_bare else edge)
        if isinstance(shape, Dot):
            painter.setBrush(ink)
            painter.drawEllipse(QPointF(shape.x, shape.y), shape.radius, shape.radius)
        else:
            ink.setAlphaF(shape.opacity)
            painter.setBrush(ink)
            painter.drawPolygon(QPolygonF([QPointF(x, y) for x, y in shape.points]))


class BarChart(QWidget):
    """The engine's chart of bars, as high as the widget. Where no bar has a length it says so."""

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
        self.setMinimumHeight(int(least_height(len(bars))))
        values = ", ".join(f"{bar.title} {bar.note} {number(bar.value)}" for bar in bars)
        self.setAccessibleName(values if axis_end(self._bars) > 0 else hint)
        self.update()

    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    def sizeHint(self) -> QSize:
        return QSize(420, self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if axis_end(self._bars) > 0:
            paint(painter, bar_chart(self._bars, self.width(), self.accessibleName(), self.height()))
        elif self._hint:
            painter.setFont(font(13))
            painter.setPen(QColor(theme().palette.text2))
            words = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(QRectF(self.rect()).adjusted(12, 0, -12, 0), words, self._hint)
        painter.end()
