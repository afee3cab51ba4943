"""The setup form's controls: text in and text out, with a unit or a note inside the field."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QWidget,
)

from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import ComboBox, set_property


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


_ARROW_WIDTH = 32
GAP = 8
# a line edit begins its text 2 px further in than a combo box
FLUSH = -2

Choices = Sequence[tuple[str, str]]


class NumberEdit(QLineEdit):
    """A number as text, with its unit at the right. Anything may be typed; the form says what is wrong."""

    edited = Signal(str)

    def __init__(self, name: str, tip: str, *, unit: str = "", hint: str = "") -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setPlaceholderText(hint)
        self.setTextMargins(FLUSH, 0, 0, 0)
        self._row = _inner_row(self, right=11)
        self._unit: QWidget | None = None
        if unit:
            self.put_right(InnerNote(unit))
        self.textEdited.connect(self.edited)

    def put_right(self, widget: QWidget) -> None:
        """Stands a unit or a small button inside the field, at the right."""
        self._unit = widget
        self._row.addWidget(widget)
        self.keep_clear()

    def keep_clear(self) -> None:
        """Keeps the typed text clear of what stands at the right."""
        if self._unit is not None:
            self.setTextMargins(FLUSH, 0, self._unit.sizeHint().width() + GAP, 0)

    def set_value(self, text: str) -> None:
        """Shows a value; the text under somebody's cursor is left alone where it means the same."""
        if text != self.text():
            self.setText(text)
            self.setCursorPosition(0)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.keep_clear()


class LengthEdit(NumberEdit):
    """How long to train: a number, and a button inside the field that changes its unit."""

    unit_toggled = Signal()

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip)
        self.unit_button = QToolButton()
        self.unit_button.setProperty("kind", "link")
        self.unit_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.unit_button.clicked.connect(self.unit_toggled)
        self.put_right(self.unit_button)

    def set_unit(self, unit: str) -> None:
        """Shows `steps` or `epochs`, and offers the other."""
        other = "epochs" if unit == "steps" else "steps"
        self.unit_button.setText(unit)
        self.unit_button.setAccessibleName(f"Length is in {unit}")
        self.unit_button.setToolTip(f"Counted in {unit}. Press to count in {other}.")
        self.keep_clear()


class ChoiceBox(ComboBox):
    """One of a few values, each with the words for it. The wheel scrolls the form, not the choice."""

    edited = Signal(str)

    def __init__(self, name: str, tip: str, choices: Choices = ()) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.view().setAccessibleName(f"{name}: what there is to choose from")
        self.view().setToolTip(tip)
        self.setMinimumContentsLength(4)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._info = InnerNote()
        self._wordings: tuple[str, ...] = ()
        self._words = ""
        self._caption = ""
        _inner_row(self, right=_ARROW_WIDTH).addWidget(self._info)
        self.set_choices(choices)
        self.currentTextChanged.connect(self._fit_info)
        self.activated.connect(lambda: self.edited.emit(self.value()))

    def set_choices(self, choices: Choices) -> None:
        """Offers these (value, words), keeping the value that is shown."""
        kept = self.value()
        if [(self.itemData(row), self.itemText(row)) for row in range(self.count())] == list(choices):
            return
        self.blockSignals(True)
        self.clear()
        for value, words in choices:
            self.addItem(words, value)
        self.blockSignals(False)
        self.set_value(kept)
        self._fit_info()

    def value(self) -> str:
        """The chosen value; empty while there is none."""
        return str(self.currentData() or "")

    def set_value(self, value: str) -> None:
        """Shows a value; one that is not offered is added, so that what is set is always seen."""
        row = self.findData(value)
        if row < 0 and value:
            self.addItem(value, value)
            row = self.count() - 1
        self.setCurrentIndex(row)

    def set_caption(self, words: str) -> None:
        """Shows words in place of the choice's own, quietly; empty for its own."""
        if words != self._caption:
            self._caption = words
            self.setAccessibleDescription(words)
            set_property(self, "caption", "true" if words else "false")
            self._fit_info()

    def set_info(self, *wordings: str) -> None:
        """A fact about the choice, at the right: the first of its wordings that there is room for."""
        self._wordings = wordings
        self._fit_info()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_info()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.isEditable():
            super().paintEvent(event)
            return
        painter, option = QStylePainter(self), QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self._words
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    def _fit_info(self) -> None:
        """The whole words if they fit beside the fact, else the part before their first comma."""
        metrics, room = QFontMetrics(self.font()), self.width() - 11 - GAP - _ARROW_WIDTH
        whole = self._caption or self.currentText()
        short = whole.partition(",")[0] if self._wordings or self._caption else whole
        for words, fact in [(whole, fact) for fact in self._wordings[:1] or ("",)] + [
            (short, fact) for fact in (*self._wordings, "")
        ]:
            self._info.set_text(fact)
            if metrics.horizontalAdvance(words) + self._info.sizeHint().width() <= room:
                break
        self._words = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


def _inner_row(host: QWidget, right: int) -> QHBoxLayout:
    row = QHBoxLayout(host)
    row.setContentsMargins(11, 0, right, 0)
    row.setSpacing(0)
    row.addStretch()
    return row
