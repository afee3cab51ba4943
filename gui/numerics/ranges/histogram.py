"""The histogram of exponents in the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QWidget

from engine.drawing.shapes import Drawing
from engine.numerics.range_histogram import Axis, histogram, histogram_area
from engine.protocol.numerics.formats import SMALL_FORMATS, Exponents, NumberFormat
from gui.charts.painter import Painted


class Histogram(Painted):
    """The engine's picture, as large as the widget. `hovered` carries an exponent, or None."""

    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exponents, self._axis, self._form = Exponents(), Axis(), SMALL_FORMATS[0]
        self.setMouseTracking(True)
        self.setMinimumSize(200, 128)

    def show_exponents(self, exponents: Exponents, axis: Axis, form: NumberFormat, words: str) -> None:
        """Shows a histogram, what `form` would lose emphasised; `words` say the same."""
        self._exponents, self._axis, self._form = exponents, axis, form
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(320, 128)

    def drawing(self) -> Drawing:
        return histogram(self._exponents, self._axis, self._form, self._size(), self.accessibleName())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.hovered.emit(self._axis.exponent_at(event.position().x(), histogram_area(self._size())))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _size(self) -> tuple[float, float]:
        return self.width(), self.height()
