"""The slider of loss scales: what becomes of the gradients at each, and which would lose least."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSlider, QWidget

from engine.protocol.advice import Changes
from engine.protocol.numerics.formats import FP16, Exponents, NumberFormat
from engine.protocol.numerics.ranges import SCALE_EXPONENTS, ModuleRange, best_scale_exponent, lost_fraction
from gui.numerics.ranges.words import best_sentence, scale_sentence, scale_text
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import in_column, in_row, wide

_HANDLE = 12
_TIP = (
    "The loss is multiplied by this before the backward pass, and so are all gradients: left and right arrow "
    "keys halve and double it"
)


class _Slider(QSlider):
    """Marks the scale that the gradients were computed with."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setProperty("kind", "plain")
        self.setRange(SCALE_EXPONENTS.start, SCALE_EXPONENTS.stop - 1)
        self.setPageStep(4)
        self.setAccessibleName("Loss scale, as a power of two")
        self.setToolTip(_TIP)
        self.setFixedHeight(40)
        self.setMinimumWidth(120)
        self.marked: int | None = None
        theme().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.marked is None:
            return
        palette, painter = theme().palette, QPainter(self)
        share = (self.marked - self.minimum()) / (self.maximum() - self.minimum())
        place = round(_HANDLE / 2 + share * (self.width() - _HANDLE))
        painter.fillRect(QRectF(place - 1, self.height() / 2 + 5, 2, 5), QColor(palette.text2))
        painter.setFont(font(11))
        painter.setPen(QColor(palette.text3))
        width = QFontMetricsF(painter.font()).horizontalAdvance("now")
        left = min(max(0.0, place - width / 2), self.width() - width)
        painter.drawText(QPointF(left, self.height() - 1), "now")
        painter.end()


class LossScale(QWidget):
    """`moved` carries the chosen scale's exponent; `changes_wanted` the settings that take the best scale."""

    moved = Signal(int)
    changes_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[ModuleRange, ...] = ()
        self._all, self._form = Exponents(), FP16
        self._best, self._least = 0, 0.0
        self._uses_scaler, self._gains = True, False
        self.slider = _Slider()
        self.slider.valueChanged.connect(self._move)
        self._value = label("", "value")
        self._value.setMinimumWidth(86)
        self.sentence = label("", "body", wraps=True)
        self.use = Button("Use", "strip", "Put this loss scale into the form")
        self.use.clicked.connect(lambda: self.changes_wanted.emit(self._changes()))
        head = in_row(label("Loss scale", "label"), wide(self.slider), self._value, self.use, spacing=12)
        in_column(head, self.sentence, parent=self, spacing=2)

    @property
    def exponent(self) -> int:
        """The chosen scale's."""
        return self.slider.value()

    def show_gradients(self, rows: Sequence[ModuleRange], together: Exponents, scale: float) -> None:
        """Shows these gradients, `together` those of all modules, at the scale they were computed with."""
        self._rows, self._all = tuple(rows), together
        least, most = self.slider.minimum(), self.slider.maximum()
        self.slider.marked = min(max(round(log2(scale)), least), most)
        self.slider.blockSignals(True)
        self.slider.setValue(self.slider.marked)
        self.slider.blockSignals(False)
        self.slider.update()
        self.set_form(self._form)

    def set_form(self, form: NumberFormat) -> None:
        """Looks for the best scale for another format."""
        self._form, self._best = form, best_scale_exponent(self._rows, form)
        self._least = lost_fraction(self._rows, form, self._best)
        marked = self.slider.marked
        self._gains = marked is not None and lost_fraction(self._rows, form, marked) > self._least
        self._say()

    def set_uses_scaler(self, uses_scaler: bool) -> None:
        """True if the experiment has a loss scaler, whose scale can be set."""
        if uses_scaler != self._uses_scaler:
            self._uses_scaler = uses_scaler
            self._say()

    def _move(self, exponent: int) -> None:
        self._say()
        self.moved.emit(exponent)

    def _say(self) -> None:
        exponent, factor = self.exponent, 2.0**self.exponent
        overflowing = sum((row.exponents.largest or 0.0) * factor > self._form.largest for row in self._rows)
        is_best = lost_fraction(self._rows, self._form, exponent) <= self._least
        set_text(self._value, scale_text(exponent))
        words = scale_sentence(self._all, overflowing, self._form, exponent)
        set_text(self.sentence, f"{words} {best_sentence(self._best, is_best=is_best)}")
        self.use.setText(f"Use 2^{self._best}")
        self.use.setAccessibleName(self.use.text())
        self.use.setToolTip(f"Starts with a loss scale of {scale_text(self._best)}: sets it in the form")
        self.use.setVisible(self._uses_scaler and self._form == FP16 and self._gains)

    def _changes(self) -> Changes:
        return (("scaler.init_scale", f"{2.0**self._best:.12g}"),)
