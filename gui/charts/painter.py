"""The engine's drawings in the window: shapes painted by Qt, and the chart of bars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.bar_chart import Bar, axis_end, bar_chart, least_height
from engine.drawing.shapes import Box, Dot, Drawing, Shape, Stroke, Words, colour
from engine.words.numbers import number
from gui.theme.fonts import font
from gui.theme.theme import theme
from resources.looks import Palette

_EDGE = 1.5
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""How much of a text is before its place."""

_DISPLAY_FROM = 18


def words_width(text: str, size: float, weight: int = 400) -> float:
    """How wide the window draws a text, in pixels."""
    return QFontMetricsF(_face(size, weight)).horizontalAdvance(text)


@lru_cache(maxsize=128)
def _face(size: float, weight: int) -> QFont:
    return font(round(size), weight, display=size >= _DISPLAY_FROM)


def paint(painter: QPainter, drawing: Drawing) -> None:
    """Paints the shapes in the theme's colours, the first of them undermost."""
    palette = theme().palette
    for _, alike in groupby(drawing.shapes, _style):
        shapes = tuple(alike)
        painter.save()
        _paint(painter, shapes, palette)
        painter.restore()


def _style(shape: Shape) -> object:
    """The lines of a hatching are alike, and painted at once: a race has no time for one after the other."""
    if not isinstance(shape, Stroke) or shape.dash:
        return shape
    return shape.ink, shape.width, _is_straight(shape)


def _is_straight(line: Stroke) -> bool:
    """Whether it runs straight across or down."""
    return any(len(set(places)) == 1 for places in zip(*line.points, strict=True))


def _paint(painter: QPainter, shapes: Sequence[Shape], palette: Palette) -> None:
    shape = shapes[0]
    ink = QColor(colour(palette, shape.ink))
    if isinstance(shape, Box):
        painter.fillRect(QRectF(shape.x, shape.y, shape.width, shape.height), ink)
    elif isinstance(shape, Words):
        painter.setFont(_face(shape.size, shape.weight))
        painter.setPen(ink)
        width = QFontMetricsF(painter.font()).horizontalAdvance(shape.text)
        painter.drawText(QPointF(shape.x - _BEFORE[shape.anchor] * width, shape.y), shape.text)
    elif isinstance(shape, Stroke):
        pen = QPen(ink, shape.width, c=Qt.PenCapStyle.FlatCap, j=Qt.PenJoinStyle.RoundJoin)
        if shape.dash:
            pen.setDashPattern([length / shape.width for length in shape.dash])
        lines = [line for line in shapes if isinstance(line, Stroke)]
        # a line straight across or down is to be sharp
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, not all(map(_is_straight, lines)))
        path = QPainterPath()
        for line in lines:
            path.addPolygon(QPolygonF([QPointF(x, y) for x, y in line.points]))
        painter.strokePath(path, pen)
    else:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_bare = shape.edge is None
        edge = QPen(QColor(colour(palette, shape.edge or shape.ink)), _EDGE)
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
