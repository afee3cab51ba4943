"""The one huge number of the race, with its multiplication sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from gui.theme.fonts import font
from gui.theme.theme import theme

SIGN = "×"
_ARROWS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
_PX = 208
_SPACING = -7
_HEIGHT, _COMMA_HEIGHT = 0.77, 1.09
"""What figures take of the type's size from top to bottom, with a hair's breadth above and below; a comma
hangs below them, and as much is left above so that they stand in the middle."""

_LEAST_GAP, _MOST_GAP, _LAST_GAP = 0.038, 0.09, 0.066
"""Between the outlines of two figures; the most after a 1 that leads, which is narrow in its place; and what
stands after the last figure whichever it is."""

_SIGN_PX = 168 / _PX
_SIGN_GAP = 9 / _PX
_SIGN_RISE = 21 / _PX
"""How far the sign stands above the figures' baseline, so that their middles meet."""


class NumberView(QAbstractButton):
    """A number as large as its height and width allow, at the left edge; a press asks where it comes from.

    While it counts, figures stand in the places of the number it will come to (`set_room_for`), so that
    neither the point nor the sign moves, but by a whole place where it gains one.
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
        """Shows this number, such as "5.7"; None and "" show nothing, of which "" keeps its room."""
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
        """Keeps the room that this number will need; None takes only what is shown."""
        if text != self._room_for:
            self._room_for = text
            self._limit()
            self.update()

    def set_most_px(self, px: int) -> None:
        """The size of type, in pixels, unless its height or width asks for a smaller one."""
        self._most_px = px
        self._limit()

    def natural_width(self, height: int) -> int:
        """How wide it is where only `height`, in pixels, and the size of type limit it."""
        widest = self._widest()
        px = min(height / _height(widest), self._most_px)
        return math.ceil(_laid_out(widest, widest, px).width) if widest else 0

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
            # else Qt would move the focus with them, and the race would not
            event.ignore()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._text:
            return
        laid = _laid_out(self._text, self._widest(), self._type_px())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0.0, (self.height() + laid.cap_height) / 2)
        painter.fillPath(laid.path, QColor(theme().palette.text))
        painter.end()

    def _type_px(self) -> float:
        by_height = min(self.height() / _height(self._widest()), self._most_px)
        wide = _laid_out(self._widest(), self._widest(), by_height).width
        return by_height * min(1.0, self.width() / wide) if wide > 0 else by_height

    def _limit(self) -> None:
        if math.isfinite(self._most_px):
            self.setMaximumHeight(math.ceil(self._most_px * _height(self._widest())))
        self.updateGeometry()

    def _widest(self) -> str:
        return max(self._room_for or "", self._text or "", key=len)


@dataclass(frozen=True)
class _Laid:
    """The outline of a number with its baseline at 0, and its size in pixels."""

    path: QPainterPath
    width: float
    cap_height: float


def _height(text: str) -> float:
    return _COMMA_HEIGHT if "," in text else _HEIGHT


@lru_cache(maxsize=32)
def _laid_out(text: str, room_for: str, px: float) -> _Laid:
    figures = _face(px, 700)
    metrics = QFontMetricsF(figures)
    # what is yet shorter than what it comes to begins at the same edge
    like = _widened(room_for if len(room_for) == len(text) else text)
    places = _places(like, metrics, px)
    path = QPainterPath()
    for number, (character, (begin, advance)) in enumerate(zip(text, places, strict=True)):
        aside = (advance - metrics.horizontalAdvance(character)) / 2
        x = begin + aside
        if number == 0:
            # a wider figure than the first one it comes to is not cut off
            x = max(x, -_edges(px, character)[0])
        path.addText(QPointF(x, 0.0), figures, character)
    end = _end(like, places, px)
    sign = _face(px * _SIGN_PX, 600)
    path.addText(QPointF(end, -_SIGN_RISE * px), sign, SIGN)
    width = end + QFontMetricsF(sign).horizontalAdvance(SIGN)
    return _Laid(path, width, metrics.capHeight())


@lru_cache(maxsize=128)
def _edges(px: float, figure: str) -> tuple[float, float]:
    """Where the figure's outline begins and ends; metrics round this to whole pixels."""
    path = QPainterPath()
    path.addText(QPointF(0.0, 0.0), _face(px, 700), figure)
    return path.boundingRect().left(), path.boundingRect().right()


def _widened(text: str) -> str:
    """What gives each place room for whichever figure counts through it; a 1 that leads never changes."""
    return text[:1] + text[1:].replace("1", "0")


def _places(text: str, metrics: QFontMetricsF, px: float) -> list[tuple[float, float]]:
    """Where each character begins, so that the outline of the first is at 0, and how wide it is."""
    edges = [_edges(px, character) for character in text]
    places: list[tuple[float, float]] = []
    for number, (character, (left, _)) in enumerate(zip(text, edges, strict=True)):
        at = -left
        if number:
            at = sum(places[-1]) + _SPACING * px / _PX
            outline_end = places[-1][0] + edges[number - 1][1]
            at = max(at, outline_end + _LEAST_GAP * px - left)
            if number == 1 and text[0] == "1":
                at = min(at, outline_end + _MOST_GAP * px - left)
        places.append((at, metrics.horizontalAdvance(character)))
    return places


def _end(text: str, places: list[tuple[float, float]], px: float) -> float:
    """Where the sign begins."""
    if not text:
        return 0.0
    outline_end = places[-1][0] + _edges(px, text[-1])[1]
    return outline_end + _LAST_GAP * px + _SPACING * px / _PX + _SIGN_GAP * px


def _face(px: float, weight: int) -> QFont:
    return font(max(round(px), 1), weight, display=True)
