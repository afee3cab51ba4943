"""The empty page of a comparison: the outline of the answer to come, the question, and the button."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import Button, draw_marker, label, set_text
from gui.widgets.boxes import Placed, Stretch, in_column
from gui.widgets.labels import set_property

_OUTLINE, _PITCH, _BAR, _SHORTER = QSize(480, 170), 80, 40, 0.54
_LEAST_HEIGHT = 420
"""Of the page, below which the outline is left out."""


class Outline(QWidget):
    """Two dashed bars, of which the second is the shorter: how much is what is asked."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sides: tuple[tuple[Precision, str], ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def show_sides(self, sides: Sequence[tuple[Precision, str]]) -> None:
        """Shows the first two sides, each by its precision and label."""
        self._sides = tuple(sides[:2])
        self.update()

    def sizeHint(self) -> QSize:
        return _OUTLINE

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = theme().palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(12, 500))
        width = float(self.width() - 1)
        for place, (precision, words) in enumerate(self._sides):
            top = place * _PITCH
            draw_marker(painter, QPointF(6, top + 9), precision, fill="hollow")
            painter.setPen(QColor(palette.text2))
            painter.drawText(QRectF(18, top, width, 18), Qt.AlignmentFlag.AlignVCenter, words)
            painter.setPen(QPen(QColor(palette.line2), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            length = width * (_SHORTER if place else 1.0)
            painter.drawRoundedRect(QRectF(0.5, top + 24.5, length, _BAR), 4, 4)
        if len(self._sides) > 1:
            self._draw_gain(painter, width)
        painter.end()

    def _draw_gain(self, painter: QPainter, width: float) -> None:
        palette, begin = theme().palette, width * _SHORTER
        painter.setPen(QColor(palette.line2))
        for x in (begin, width):
            painter.drawLine(QPointF(x, 68), QPointF(x, 165))
        painter.setPen(QColor(palette.text2))
        room = QRectF(begin, 146, width - begin, 18)
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, "time saved: ?")


class EmptyAnswer(QWidget):
    """`pressed` when the button is, which asks what the form says."""

    pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.outline = Outline()
        self._has_sides = False
        self._question, self._hint = label("", "pageTitle"), label("", "body")
        for words in (self._question, self._hint):
            words.setAlignment(Qt.AlignmentFlag.AlignCenter)
            words.setWordWrap(True)
        self.button = Button("Compare", "primary", "Asks what the form says")
        set_property(self.button, "wide", "true")
        self.button.clicked.connect(self.pressed)
        centre = Qt.AlignmentFlag.AlignHCenter
        parts = (Placed(self.outline, 0, centre), 24, self._question, 8, self._hint, 20)
        in_column(
            Stretch(2),
            *parts,
            Placed(self.button, 0, centre),
            Stretch(3),
            parent=self,
            margins=(24, 0, 24, 0),
            spacing=0,
        )

    def tell(self, question: str, hint: str, sides: Sequence[tuple[Precision, str]] = ()) -> None:
        """Shows a question, what will be done about it, and the sides of the answer to come."""
        set_text(self._question, question)
        set_text(self._hint, hint)
        self.outline.show_sides(sides)
        self._has_sides = bool(sides)
        self._fit()
        self.setAccessibleName(self.words())

    def words(self) -> str:
        """The question and the hint."""
        return f"{self._question.text()} {self._hint.text()}".strip()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self.outline.setVisible(self._has_sides and self.height() >= _LEAST_HEIGHT)
