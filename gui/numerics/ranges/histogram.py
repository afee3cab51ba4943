"""The histogram of exponents in the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.numerics.range_histogram import Axis, histogram, histogram_area
from engine.protocol.numerics.formats import SMALL_FORMATS, Exponents, NumberFormat
from gui.charts.painter import paint
from gui.theme.theme import theme


class Histogram(QWidget):
    """The engine's picture, as large as the widget. `hovered` carries an exponent, or None."""

    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exponents, self._axis, self._form = Exponents(), Axis(), SMALL_FORMATS[0]
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(200, 128)
        theme().changed.connect(self.update)

    def show_exponents(self, exponents: Exponents, axis: Axis, form: NumberFormat, words: str) -> None:
        """Shows a histogram, what `form` would lose emphasised; `words` say the same."""
        self._exponents, self._axis, self._form = exponents, axis, form
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(320, 128)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint(
            painter, histogram(self._exponents, self._axis, self._form, self._size(), self.accessibleName())
        )
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.hovered.emit(self._axis.exponent_at(event.position().x(), histogram_area(self._size())))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _size(self) -> tuple[float, float]:
        return self.width(), self.height()
