"""The huge number of the race, with its multiplication sign."""

from __future__ import annotations

import math
from functools import lru_cache

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from engine.drawing.shapes import CAPITAL, Drawing
from engine.race.number import Metrics, laid_out
from gui.charts.painter import paint, words_width
from gui.theme.fonts import font
from gui.theme.theme import theme

_ARROWS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
_PX = 208
_HEIGHT, _COMMA_HEIGHT = 0.77, 1.09
"""The height of figures in sizes of type, with a hair's breadth above and below. A comma hangs below them,
and as much is left above, so that they stand in the middle."""

_MEASURED_AT = 1024


@lru_cache(maxsize=32)
def _advance(letter: str, weight: int) -> float:
    return words_width(letter, _MEASURED_AT, weight) / _MEASURED_AT


@lru_cache(maxsize=32)
def _edges(figure: str) -> tuple[float, float]:
    path = QPainterPath()
    path.addText(QPointF(0.0, 0.0), font(_MEASURED_AT, 700, display=True), figure)
    outline = path.boundingRect()
    return outline.left() / _MEASURED_AT, outline.right() / _MEASURED_AT


_METRICS = Metrics(_advance, _edges)
"""Of the window's fonts."""


class NumberView(QAbstractButton):
    """A number as large as the widget allows, at the left edge; a press asks where it comes from.

    While it counts, its figures stand in the places of the final number (`set_room_for`), so that the point
    and the sign move only where it gains a figure.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text: str | None = None
        self._room_for: str | None = None
        self._most_px = math.inf
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setEnabled(False)
        theme().changed.connect(self.update)

    @property
    def shown(self) -> str | None:
        """The number without its sign; None while there is none."""
        return self._text

    def set_text(self, text: str | None) -> None:
        """Shows this number, such as "5.7"; None shows nothing, and "" nothing but keeps its room."""
        if text == self._text:
            return
        had_room = self._widest()
        self._text = text
        self.setEnabled(bool(text))
        self.setCursor(Qt.CursorShape.PointingHandCursor if text else Qt.CursorShape.ArrowCursor)
        if self._widest() != had_room:
            self._limit()
        self.update()

    def set_room_for(self, text: str | None) -> None:
        """Reserves the width of this number; None takes only what is shown."""
        if text != self._room_for:
            self._room_for = text
            self._limit()
            self.update()

    def set_most_px(self, px: int) -> None:
        """Sets the largest size of type, in pixels; height and width may ask for less."""
        self._most_px = px
        self._limit()

    def natural_width(self, height: int) -> int:
        """The width where only `height`, in pixels, and the largest size of type limit it."""
        widest = self._widest()
        px = min(height / _height(widest), self._most_px)
        return math.ceil(px * laid_out(widest, widest, _METRICS).width) if widest else 0

    def sizeHint(self) -> QSize:
        px = self._most_px if math.isfinite(self._most_px) else _PX
        height = math.ceil(px * _height(self._widest()))
        return QSize(self.natural_width(height), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 24)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        if event.key() in _ARROWS:
            # else Qt would move the focus, and the race would not move
            event.ignore()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._text:
            return
        px = self._type_px()
        number = laid_out(self._text, self._widest(), _METRICS)
        painter = QPainter(self)
        shapes = number.shapes(0.0, (self.height() + CAPITAL * px) / 2, px)
        paint(painter, Drawing(self.width(), self.height(), shapes))
        painter.end()

    def _type_px(self) -> float:
        widest = self._widest()
        by_height = min(self.height() / _height(widest), self._most_px)
        return min(by_height, self.width() / laid_out(widest, widest, _METRICS).width)

    def _limit(self) -> None:
        if math.isfinite(self._most_px):
            self.setMaximumHeight(math.ceil(self._most_px * _height(self._widest())))
        self.updateGeometry()

    def _widest(self) -> str:
        return max(self._room_for or "", self._text or "", key=len)


def _height(text: str) -> float:
    return _COMMA_HEIGHT if "," in text else _HEIGHT
