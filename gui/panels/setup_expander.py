"""The heading that folds a part of a form in and out."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from gui.fonts import font
from gui.icons import draw_icon
from gui.theme import theme

_INDENT = 20


class Expander(QAbstractButton):
    """A chevron and a title; it takes a press anywhere in its row. Checked means open."""

    def __init__(self, text: str, tooltip: str) -> None:
        super().__init__()
        self._font = font(13, 600)
        self.setText(text)
        self.setCheckable(True)
        self.setAccessibleName(text)
        self.setToolTip(tooltip)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(_INDENT + QFontMetrics(self._font).horizontalAdvance(self.text()) + 4, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        painter = QPainter(self)
        chevron = "chevron-down" if self.isChecked() else "chevron-right"
        draw_icon(painter, QRectF(-2, self.height() / 2 - 8, 16, 16), chevron, palette.text2)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text))
        painter.drawText(self.rect().adjusted(_INDENT, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()
