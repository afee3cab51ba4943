"""The one huge number of the race: how many times as fast, with its multiplication sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from gui.fonts import font
from gui.theme import theme

SIGN = "×"
_PX = 208
_SPACING = -7
_HEIGHT = 0.77
"""What figures take of the type's size from top to bottom, with a hair's breadth above and below."""
_SIGN_PX = 168 / _PX
_SIGN_GAP = 9 / _PX
_SIGN_RISE = 21 / _PX
"""How far the sign stands above the figures' baseline, so that their middles meet."""


class NumberView(QAbstractButton):
    """A number as large as its height and width allow, at the left edge; a press asks where it comes from.

    While it counts up, figures stand in the places of the number it will come to (`set_room_for`), so that
    neither the point nor the sign moves.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text: str | None = None
        self._room_for: str | None = None
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setEnabled(False)
        theme().changed.connect(self.update)

    @property
    def shown(self) -> str | None:
        """The number without its sign; None while there is none."""
        return self._text

    def set_text(self, text: str | None) -> None:
        """Shows this number, such as "5.7"; None shows nothing."""
        if text == self._text:
            return
        had_room = self._widest()
        self._text = text
        self.setEnabled(text is not None)
        self.setCursor(Qt.CursorShape.PointingHandCursor if text else Qt.CursorShape.ArrowCursor)
        self._name()
        if self._widest() != had_room:
            self.updateGeometry()
        self.update()

    def set_room_for(self, text: str | None) -> None:
        """Keeps the room that this number will need; None takes only what is shown."""
        if text != self._room_for:
            self._room_for = text
            self._name()
            self.updateGeometry()
            self.update()

    def natural_width(self, height: int) -> int:
        """How wide it is where only `height`, in pixels, limits it."""
        widest = self._widest()
        return math.ceil(_laid_out(widest, widest, height / _HEIGHT).width) if widest else 0

    def sizeHint(self) -> QSize:
        limited = self.minimumHeight() == self.maximumHeight()
        height = self.maximumHeight() if limited else round(_PX * _HEIGHT)
        return QSize(self.natural_width(height), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 24)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._text is None:
            return
        laid = _laid_out(self._text, self._widest(), self._type_px())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0.0, (self.height() + laid.cap_height) / 2)
        painter.fillPath(laid.path, QColor(theme().palette.text))
        painter.end()

    def _type_px(self) -> float:
        by_height = self.height() / _HEIGHT
        wide = _laid_out(self._widest(), self._widest(), by_height).width
        return by_height * min(1.0, self.width() / wide) if wide > 0 else by_height

    def _widest(self) -> str:
        return max(self._room_for or "", self._text or "", key=len)

    def _name(self) -> None:
        # not what it counts through: a reader would never come to an end
        told = self._room_for or self._text
        self.setAccessibleName(f"{told} times as fast" if told and self._text is not None else "")


@dataclass(frozen=True)
class _Laid:
    """The outline of a number with its baseline at 0, and its size in pixels."""

    path: QPainterPath
    width: float
    cap_height: float


@lru_cache(maxsize=32)
def _laid_out(text: str, room_for: str, px: float) -> _Laid:
    figures = _face(px, 700)
    metrics = QFontMetricsF(figures)
    spacing = _SPACING * px / _PX
    places = _places(room_for, metrics, spacing)
    # the number's edge, not the room before its first figure, stands at the left
    left = -metrics.leftBearing(room_for[0]) if room_for else 0.0
    path = QPainterPath()
    # from the right: what is yet shorter than what it comes to has the same figures after the point
    for character, (begin, advance) in zip(reversed(text), reversed(places), strict=False):
        aside = (advance - metrics.horizontalAdvance(character)) / 2
        # a wider figure than the first one it comes to is not cut off
        x = max(left + begin + aside, -metrics.leftBearing(character))
        path.addText(QPointF(x, 0.0), figures, character)
    end = left + places[-1][0] + places[-1][1] + spacing + _SIGN_GAP * px if places else left
    sign = _face(px * _SIGN_PX, 600)
    path.addText(QPointF(end, -_SIGN_RISE * px), sign, SIGN)
    width = end + QFontMetricsF(sign).horizontalAdvance(SIGN)
    return _Laid(path, width, metrics.capHeight())


def _edge(face: QFont, figure: str) -> float:
    """Where the figure's outline begins; metrics round this up to a whole pixel or more."""
    path = QPainterPath()
    path.addText(QPointF(0.0, 0.0), face, figure)
    return path.boundingRect().left()


def _places(text: str, metrics: QFontMetricsF, spacing: float) -> list[tuple[float, float]]:
    """Where each character begins and how wide it is."""
    places, at = [], 0.0
    for character in text:
        advance = metrics.horizontalAdvance(character)
        places.append((at, advance))
        at += advance + spacing
    return places


def _face(px: float, weight: int) -> QFont:
    return font(max(round(px), 1), weight, display=True)
