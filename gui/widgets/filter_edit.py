"""A line edit that filters what stands below it."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit

from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip


class FilterEdit(QLineEdit):
    """A line edit with a magnifying glass at its left; Escape empties it."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__()
        self.setProperty("small", "true")
        self.setPlaceholderText(name)
        self.setFixedHeight(28)
        self.setMinimumWidth(120)
        self.setMaximumWidth(240)
        self.setTextMargins(18, 0, 0, 0)
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(tip))
        theme().changed.connect(self.update)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        draw_icon(painter, QRectF(10, self.height() / 2 - 7, 14, 14), "search", theme().palette.text3)
        painter.end()
