"""The 4 px progress bar."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment import Precision
from gui.theme import theme


def draw_bar(painter: QPainter, rect: QRectF, fraction: float, color: str, track: str) -> None:
    """A bar with round ends filled to `fraction` (0 to 1), for widgets and delegates."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    radius = rect.height() / 2
    painter.setBrush(QColor(track))
    painter.drawRoundedRect(rect, radius, radius)
    filled = QRectF(rect.left(), rect.top(), rect.width() * min(max(fraction, 0.0), 1.0), rect.height())
    if filled.width() > 0:
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(filled, radius, radius)
    painter.restore()


class ProgressLine(QWidget):
    """A bar 4 px high in a precision's colour, or in neutral ink without one."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._fraction = 0.0
        self._precision: Precision | None = None
        self.setFixedHeight(4)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_progress(0.0)
        theme().changed.connect(self.update)

    def set_progress(self, fraction: float, precision: Precision | None = None) -> None:
        """Fills the bar to `fraction` (0 to 1)."""
        self.setAccessibleName(f"{self._name}: {fraction:.0%}")
        if (fraction, precision) != (self._fraction, self._precision):
            self._fraction, self._precision = fraction, precision
            self.update()

    def fraction(self) -> float:
        return self._fraction

    def sizeHint(self) -> QSize:
        return QSize(120, 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        color = palette.look(self._precision).color if self._precision is not None else palette.text2
        painter = QPainter(self)
        draw_bar(painter, QRectF(self.rect()), self._fraction, color, palette.bg3)
        painter.end()
