"""Drawings in the window: shapes painted by Qt, the bar chart, and drawings with parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.drawing.bar_chart import ChartBar, axis_end, bar_chart, least_height, most_height
from engine.drawing.blocks import BlockGrid
from engine.drawing.shapes import Box, Dot, Drawing, Shape, Stroke, TextLine, ink_color, wrapped
from engine.words.numbers import number
from gui.charts.blocks import paint_blocks
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip
from resources.looks import Palette

_EDGE = 1.5
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""The share of a text before its place."""
_DISPLAY_FROM = 18
_HINT_LINE = 17.0
_LEAST_WIDTH = 420
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1}
_PRESSES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


@lru_cache(maxsize=128)
def _face(size: float, weight: int) -> QFont:
    return font(round(size), weight, display=size >= _DISPLAY_FROM)


def paint(painter: QPainter, drawing: Drawing) -> None:
    """Paint the shapes in the theme's colors, in painter's order (back to front)."""
    palette = theme().palette
    for _, alike in groupby(drawing.shapes, _style):
        shapes = tuple(alike)
        painter.save()
        _paint(painter, shapes, palette)
        painter.restore()


def _style(shape: Shape) -> object:
    # equal for bars and for a hatching, which are painted at once: a race has no time for one by one
    if isinstance(shape, Box):
        return shape.ink
    if not isinstance(shape, Stroke) or shape.dash:
        return shape
    return shape.ink, shape.width, _is_straight(shape)


def _is_straight(line: Stroke) -> bool:
    left, top = line.points[0]
    return all(x == left for x, _ in line.points) or all(y == top for _, y in line.points)


def _paint(painter: QPainter, shapes: Sequence[Shape], palette: Palette) -> None:
    shape = shapes[0]
    if isinstance(shape, BlockGrid):
        paint_blocks(painter, shape)
        return
    ink = QColor(ink_color(palette, shape.ink))
    if isinstance(shape, Box):
        for box in shapes:
            if isinstance(box, Box):
                painter.fillRect(QRectF(box.x, box.y, box.width, box.height), ink)
    elif isinstance(shape, TextLine):
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
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, not _is_straight(shape))
        path = QPainterPath()
        for line in lines:
            path.addPolygon(QPolygonF([QPointF(x, y) for x, y in line.points]))
        painter.strokePath(path, pen)
    else:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_bare = shape.edge is None
        edge = QPen(QColor(ink_color(palette, shape.edge or shape.ink)), _EDGE)
        painter.setPen(QPen(Qt.PenStyle.NoPen) if is_bare else edge)
        if isinstance(shape, Dot):
            painter.setBrush(ink)
            painter.drawEllipse(QPointF(shape.x, shape.y), shape.radius, shape.radius)
        else:
            ink.setAlphaF(shape.opacity)
            painter.setBrush(ink)
            painter.drawPolygon(QPolygonF([QPointF(x, y) for x, y in shape.points]))


class DrawingView(QWidget):
    """A widget that paints a drawing made for its size."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._draw: Callable[[float, float], Drawing] = partial(Drawing, shapes=())
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme().changed.connect(self.update)

    def show_drawing(self, draw: Callable[[float, float], Drawing]) -> None:
        """Show the drawings that `draw` makes for a width and a height."""
        self._draw = draw
        self.setAccessibleName(self.drawing().description)
        self.update()

    def drawing(self) -> Drawing:
        """Return the current drawing."""
        return self._draw(self.width(), self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint(painter, self.drawing())
        painter.end()


class BarChart(DrawingView):
    """A chart of horizontal bars that fills the widget's height. If no bar has a length, it shows a hint."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bars: tuple[ChartBar, ...] = ()
        self._hint = ""
        self.setMinimumSize(240, 100)

    def set_bars(self, bars: Sequence[ChartBar], hint: str = "") -> None:
        """Show these bars, or the text `hint` if no bar has a length."""
        self.bars, self._hint = tuple(bars), hint
        self.setMinimumHeight(int(least_height(len(bars))))
        self.setMaximumHeight(int(most_height(len(bars))))
        values = ", ".join(f"{bar.title} {bar.note} {number(bar.value)}" for bar in bars)
        self.setAccessibleName(values if axis_end(self.bars) > 0 else hint)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(420, self.minimumHeight())

    def drawing(self) -> Drawing:
        width, height = self.width(), self.height()
        if axis_end(self.bars) > 0:
            return bar_chart(self.bars, width, self.accessibleName(), height)
        lines = wrapped(self._hint, width - 24, 13, most=4)
        top = (height - _HINT_LINE * len(lines)) / 2
        words = (
            TextLine(width / 2, top + _HINT_LINE * (row + 0.75), line, "text2", 13, anchor="middle")
            for row, line in enumerate(lines)
        )
        return Drawing(width, height, tuple(words))


class Spot(Protocol):
    """A part of a drawing that the user can point at or click, such as a bar."""

    def holds(self, x: float, y: float) -> bool: ...


S = TypeVar("S", bound=Spot)


class InteractiveDrawing(QWidget, Generic[S]):
    """A drawing as wide as the widget, with parts (spots) to hover, visit by keys, and click.

    A subclass draws it and returns its spots. `chosen` carries the spot that is clicked, or on which Enter is
    pressed. With `fills_height` the drawing is as high as the widget. Otherwise the widget is as high as the
    drawing.
    """

    chosen = Signal(object)
    fills_height = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self._drawing = Drawing(0, 0, ())
        self._spots: Sequence[S] = ()
        self.current: S | None = None
        """The spot that is pointed at, or that the keys have come to."""
        self._is_stale = False
        self._painted: QPixmap | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        high = QSizePolicy.Policy.Expanding if self.fills_height else QSizePolicy.Policy.Fixed
        self.setSizePolicy(QSizePolicy.Policy.Expanding, high)
        self.setMinimumWidth(_LEAST_WIDTH)
        self.setAccessibleName(name)
        theme().changed.connect(self._repaint)

    def drawn(self, width: float) -> tuple[Drawing, Sequence[S]]:
        """Return the drawing of that width, and its spots, the topmost first."""
        raise NotImplementedError

    def tip(self, spot: S) -> str:
        """Return the tooltip of a spot."""
        raise NotImplementedError

    def outline(self, spot: S) -> QRectF:
        """Return the frame around a spot."""
        raise NotImplementedError

    def draw_frame(self, painter: QPainter, spot: S) -> None:
        """Mark a spot, with the painter's pen."""
        painter.drawRect(self.outline(spot))

    def stops(self) -> Sequence[S]:
        """Return the spots that arrow keys go to, in their order."""
        return self.spots()

    def spots(self) -> Sequence[S]:
        """Return the parts of the drawing."""
        self._draw_if_stale()
        return self._spots

    def marked(self) -> Iterable[S]:
        """Return the spots that have a frame, in addition to the current one."""
        return ()

    def next_stop(self, key: Qt.Key) -> S | None:
        """Return the spot for an arrow key. None for any other key."""
        step, stops = _STEPS.get(key), self.stops()
        if step is None or not stops:
            return None
        start = stops.index(self.current) if self.current in stops else min(0, -step)
        return stops[(start + step) % len(stops)]

    def press(self, spot: S, *, adds: bool) -> None:
        """Handle a click or Enter on a spot. With Ctrl it `adds` to the chosen spots."""
        self.chosen.emit(spot)

    def redraw(self) -> None:
        """Redraw for another content or size."""
        self._is_stale = True
        if not self.fills_height:
            self._draw_if_stale()
            self.setFixedHeight(round(self._drawing.height))
        self._repaint()

    def _draw_if_stale(self) -> None:
        if self._is_stale:
            self._is_stale = False
            self._drawing, self._spots = self.drawn(max(_LEAST_WIDTH, self.width()))
            if self.current not in self._spots:
                self.current = None
            self._describe()

    def _describe(self) -> None:
        told = self._drawing.description if self.current is None else self.tip(self.current)
        self.setAccessibleDescription(told)

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, round(self._drawing.height))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.fills_height or event.size().width() != event.oldSize().width():
            self.redraw()

    def paintEvent(self, event: QPaintEvent) -> None:
        self._draw_if_stale()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._pixmap())
        painter.setPen(QPen(QColor(theme().palette.text), 2))
        for spot in self.marked():
            self.draw_frame(painter, spot)
        if self.current is not None:
            painter.setPen(QPen(QColor(theme().palette.text), 1))
            self.draw_frame(painter, self.current)
        painter.end()

    def event(self, event: QEvent) -> bool:
        if not isinstance(event, QHelpEvent) or event.type() is not QEvent.Type.ToolTip:
            return super().event(event)
        spot = self._spot_at(QPointF(event.pos()))
        QToolTip.showText(event.globalPos(), plain_tip(self.tip(spot)) if spot is not None else "", self)
        return True

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        spot = self._spot_at(event.position())
        self.setCursor(Qt.CursorShape.ArrowCursor if spot is None else Qt.CursorShape.PointingHandCursor)
        self._mark(spot)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._mark(None)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        spot = self._spot_at(event.position())
        if spot is not None and event.button() is Qt.MouseButton.LeftButton:
            self.press(spot, adds=bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        stop = self.next_stop(Qt.Key(event.key()))
        if stop is not None:
            self._mark(stop)
        elif event.key() in _PRESSES and self.current is not None:
            self.press(self.current, adds=bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier))
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._mark(None)

    def _spot_at(self, position: QPointF) -> S | None:
        return next((spot for spot in self.spots() if spot.holds(position.x(), position.y())), None)

    def _mark(self, spot: S | None) -> None:
        if spot != self.current:
            self.current = spot
            self._describe()
            self.update()

    def _repaint(self) -> None:
        self._painted = None
        self.update()

    def _pixmap(self) -> QPixmap:
        # painted once: hovering over a thousand spots repaints only their frames
        ratio = self.devicePixelRatioF()
        if self._painted is None or self._painted.devicePixelRatio() != ratio:
            self._painted = QPixmap((QSizeF(self.size()) * ratio).toSize())
            self._painted.setDevicePixelRatio(ratio)
            self._painted.fill(Qt.GlobalColor.transparent)
            painter = QPainter(self._painted)
            paint(painter, self._drawing)
            painter.end()
        return self._painted
