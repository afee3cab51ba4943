"""The sliders of ranges: of loss scales, which says what each would lose, and of a run's samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSlider, QWidget

from engine.protocol.numerics.formats import FP16, Exponents, NumberFormat
from engine.protocol.numerics.ranges import SCALE_EXPONENTS, ModuleRange, best_scale_exponent, lost_fraction
from engine.words.numbers import share_text
from gui.numerics.range_table import scale_text
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import in_column, in_row, wide

_HANDLE, _VALUE_WIDTH = 12, 86
_SCALE_TIP = (
    "The loss is multiplied by this before the backward pass, and so are all gradients: left and right arrow "
    "keys halve and double it"
)
_SAMPLE_TIP = (
    "The ranges of a run, sample by sample: left and right arrow keys go to the one before and after"
)


class _Slider(QSlider):
    """Marks the value `marked`, that of now."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setProperty("kind", "plain")
        self.setAccessibleName(name)
        self.setToolTip(tip)
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
    """`changes_wanted` carries the settings that take the best scale."""

    changes_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[ModuleRange, ...] = ()
        self._all, self._form = Exponents(), FP16
        self._best, self._least = 0, 0.0
        self._uses_scaler, self._gains = True, False
        self.slider = _Slider("Loss scale, as a power of two", _SCALE_TIP)
        self.slider.setRange(SCALE_EXPONENTS.start, SCALE_EXPONENTS.stop - 1)
        self.slider.setPageStep(4)
        self.slider.setFixedHeight(40)
        self.slider.setMinimumWidth(120)
        self.slider.valueChanged.connect(self._say)
        self._value = label("", "value")
        self._value.setMinimumWidth(_VALUE_WIDTH)
        self.sentence = label("", "body", wraps=True)
        self.use = Button("Use", "strip", "Put this loss scale into the form")
        self.use.clicked.connect(
            lambda: self.changes_wanted.emit((("scaler.init_scale", f"{2.0**self._best:.12g}"),))
        )
        head = in_row(label("Loss scale", "label"), wide(self.slider), self._value, self.use, spacing=12)
        in_column(head, self.sentence, parent=self, spacing=2)

    def show_gradients(self, rows: Sequence[ModuleRange], together: Exponents, scale: float) -> None:
        """Shows these gradients, `together` those of all modules, at the scale they were computed with."""
        self._rows, self._all = tuple(rows), together
        self.slider.marked = min(max(round(log2(scale)), self.slider.minimum()), self.slider.maximum())
        with QSignalBlocker(self.slider):
            self.slider.setValue(self.slider.marked)
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

    def _say(self) -> None:
        exponent, form = self.slider.value(), self._form
        factor = 2.0**exponent
        overflowing = sum((row.exponents.largest or 0.0) * factor > form.largest for row in self._rows)
        is_best = lost_fraction(self._rows, form, exponent) <= self._least
        best = "No other scale loses less." if is_best else f"2^{self._best} would lose least."
        set_text(self._value, scale_text(exponent))
        set_text(self.sentence, f"{_scale_sentence(self._all, overflowing, form, exponent)} {best}")
        self.use.setText(f"Use 2^{self._best}")
        self.use.setAccessibleName(self.use.text())
        self.use.setToolTip(f"Starts with a loss scale of {scale_text(self._best)}: sets it in the form")
        self.use.setVisible(self._uses_scaler and form == FP16 and self._gains)


def _scale_sentence(gradients: Exponents, overflowing: int, form: NumberFormat, exponent: int) -> str:
    """The fate of all gradients at a loss scale of 2**exponent; `overflowing` counts modules."""
    under = gradients.underflow_fraction(form, exponent)
    lost = f"{share_text(under)} of the gradients become 0" if under else "no gradient becomes 0"
    words = f"At {scale_text(exponent)}: {lost} in {form.label},"
    if not overflowing:
        return f"{words} none overflows."
    over = share_text(gradients.overflow_fraction(form, exponent))
    where = "1 module" if overflowing == 1 else f"{overflowing:,} modules"
    return f"{words} {over} overflow (in {where}): the step would be skipped."


class SampleSlider(QWidget):
    """Chooses among the samples of a run, from 0; `step` says after which it was taken."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = _Slider("Sample", _SAMPLE_TIP)
        self.step = label("", "value")
        self.step.setMinimumWidth(_VALUE_WIDTH)
        parts = (label("After step", "label"), wide(self.slider), self.step)
        in_row(*parts, parent=self, margins=(0, 6, 0, 0), spacing=12)

    def show_count(self, count: int) -> None:
        """Offers that many samples, the newest chosen."""
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, count - 1)
            self.slider.setValue(count - 1)
        self.slider.setEnabled(count > 1)
