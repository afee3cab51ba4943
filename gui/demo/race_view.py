"""The card of a race in the window, scaled as a whole to the widget, and the buttons of Demo."""

from __future__ import annotations

import re

from PySide6.QtCore import QEvent, QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import ink_color
from engine.race.card import GROUND, HEIGHT, NUMBER_AREA, WIDTH, CardFrame, RaceCard
from engine.words.names import GLOSSARY
from gui.charts.painter import paint
from gui.theme.theme import theme
from gui.widgets.buttons import Button
from gui.widgets.labels import plain_tip

_ARROWS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
_SURE = "Show how certain this number is, and reasons to doubt it"


class DemoButton(Button):
    """A button on the page Demo. Arrow keys move the replay instead of the focus.

    Its `kind`, the name of its style, begins with "show".
    """

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _ARROWS:
            # else they would move the focus and not the replay
            event.ignore()
            return
        super().keyPressEvent(event)


class _NumberButton(DemoButton):
    """The area of the number and its caption on the card. Only its focus ring is painted."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.hasFocus():
            painter = QPainter(self)
            painter.setPen(QColor(theme().palette.text3))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.end()


class RaceView(QWidget):
    """Paints the card of a race at one frame. `number` is a button over the number and its caption."""

    def __init__(self) -> None:
        super().__init__()
        self.card: RaceCard | None = None
        self.frame: CardFrame | None = None
        self._still: QPixmap | None = None
        self.number = _NumberButton("", "showLink", _SURE, parent=self)
        self.number.hide()
        theme().changed.connect(self._redraw)

    def show_card(self, card: RaceCard, frame: CardFrame, *, explains_number: bool = False) -> None:
        """Show another card. With `explains_number` the number can be pressed."""
        self.card, self.frame = card, frame
        self.number.setVisible(explains_number)
        self._redraw()
        self.announce()

    def show_frame(self, frame: CardFrame) -> None:
        """Show another frame of the card."""
        if frame != self.frame:
            self.frame = frame
            self.update()

    def words(self) -> str:
        """Return all of the card in words."""
        return "" if self.card is None or self.frame is None else self.card.description(self.frame)

    def announce(self) -> None:
        """Update the text for screen readers. At each frame it would never be read to its end."""
        self.setAccessibleName(self.words())
        if self.frame is not None:
            number = f"{self.frame.number} times" if self.frame.number else ""
            self.number.setAccessibleName(" ".join(filter(None, (number, *self.frame.caption))))

    @property
    def scale(self) -> float:
        """The widget's pixels per pixel of the card."""
        return max(min(self.width() / WIDTH, self.height() / HEIGHT), 0.01)

    def _corner(self) -> QPointF:
        size = QSizeF(WIDTH, HEIGHT) * self.scale
        return QPointF(round((self.width() - size.width()) / 2), round((self.height() - size.height()) / 2))

    def area(self, rect: Rect) -> QRectF:
        """Return the place of a part of the card on the widget."""
        corner, scale = self._corner(), self.scale
        return QRectF(
            corner.x() + rect.left * scale,
            corner.y() + rect.top * scale,
            rect.width * scale,
            rect.height * scale,
        )

    def _redraw(self) -> None:
        self._still = None
        self.update()

    def _place(self, painter: QPainter) -> None:
        painter.translate(self._corner())
        painter.scale(self.scale, self.scale)

    def _painted(self, card: RaceCard) -> QPixmap:
        ratio = self.devicePixelRatioF()
        if self._still is None or self._still.devicePixelRatio() != ratio:
            self._still = QPixmap((QSizeF(self.size()) * ratio).toSize())
            self._still.setDevicePixelRatio(ratio)
            self._still.fill(QColor(ink_color(theme().palette, GROUND)))
            painter = QPainter(self._still)
            self._place(painter)
            paint(painter, card.still)
            painter.end()
        return self._still

    def event(self, event: QEvent) -> bool:
        if not isinstance(event, QHelpEvent) or event.type() is not QEvent.Type.ToolTip:
            return super().event(event)
        point = QPointF(event.pos())
        hints = () if self.card is None else self.card.hints
        words = next((words for rect, words in hints if self.area(rect).contains(point)), "")
        QToolTip.showText(event.globalPos(), plain_tip(explained(words) or words), self)
        return True

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._redraw()
        self.number.setGeometry(self.area(NUMBER_AREA).toAlignedRect())

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.card is None or self.frame is None:
            return
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._painted(self.card))
        self._place(painter)
        paint(painter, self.card.moving(self.frame))
        painter.end()


def explained(text: str) -> str:
    """Return the meaning of each glossary term in `text`, a line each, or ""."""
    meanings: list[str] = []
    for term in sorted(GLOSSARY, key=len, reverse=True):
        pattern = rf"(?<![\w-]){re.escape(term)}(?![\w-])"
        if re.search(pattern, text, re.IGNORECASE):
            # "mixed precision" must not explain "precision" as well
            text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
            meanings.append(f"{term[:1].upper()}{term[1:]}: {GLOSSARY[term]}")
    return "\n".join(reversed(meanings))
