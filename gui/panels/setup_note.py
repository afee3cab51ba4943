"""Quiet text inside a control, such as a unit or a fact about the choice."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.fonts import font
from gui.theme import theme


class InnerNote(QWidget):
    """Paints its own text: a label inside a combo box takes over the box's font and ink when it moves."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text
        self._font = font(12)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        theme().changed.connect(self.update)

    def text(self) -> str:
        return self._text

    def set_text(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(QFontMetrics(self._font).horizontalAdvance(self._text), 16)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        painter = QPainter(self)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text3 if self.isEnabled() else palette.off))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._text)
        painter.end()
