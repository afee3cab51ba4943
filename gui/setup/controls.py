"""The editors of the setup form. Their values are text, with a label, a unit or a note inside the field.

Each has the signal `edited`, which carries new text, `set_value` and `set_label`.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from engine.experiment.experiment import setting_help, setting_title
from engine.experiment.settings import FAST, PLAIN, RECIPE_PARTS, joined, parts_of
from gui.setup.facts import Choices
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import ComboBox, Segmented
from gui.widgets.boxes import Stretch, grid_of, in_column, in_row
from gui.widgets.labels import describe


class InnerNote(QWidget):
    """A label or a unit inside another control, such as "steps". It paints its own text.

    A label would inherit the combo box's font and color.
    """

    def __init__(self, text: str = "", align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignRight) -> None:
        super().__init__()
        self._text, self._align = text, align
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
        painter.drawText(self.rect(), self._align | Qt.AlignmentFlag.AlignVCenter, self._text)
        painter.end()


_ARROW_WIDTH, _ARROW, _UNIT_WIDTH = 32, 28, 84
GAP, _LEAST_WIDTH = 8, 60
# a line edit begins its text 2 px further in than a combo box
FLUSH = -2


class NumberEdit(QLineEdit):
    """A text field for a number or a text, with its unit at the right, and perhaps its label at the left.

    It accepts any text, which the form validates.
    """

    def __init__(self, name: str, tip: str, *, unit: str = "", hint: str = "") -> None:
        super().__init__()
        self.edited = self.textEdited
        describe(self, name, tip)
        self.setPlaceholderText(hint)
        self._label = InnerNote(align=Qt.AlignmentFlag.AlignLeft)
        self._row = in_row(self._label, Stretch(), parent=self, margins=(12, 0, 11, 0), spacing=0)
        self._unit: QWidget | None = None
        self.setMinimumWidth(_LEAST_WIDTH)
        self.set_label("", 0)
        if unit:
            self.put_right(InnerNote(unit))

    def put_right(self, widget: QWidget) -> None:
        """Add a unit or a small button inside the field, at the right."""
        self._unit = widget
        self._row.addWidget(widget)
        self.keep_clear()

    def set_label(self, text: str, width: int) -> None:
        """Show the label inside the field, in `width` pixels. "" removes it."""
        self._label.set_text(text)
        self._label.setFixedWidth(width if text else 0)
        self.keep_clear()

    def keep_clear(self) -> None:
        """Set the margins of the typed text so that it does not cover the label and the unit."""
        taken = 0 if self._unit is None or self._unit.isHidden() else self._unit.sizeHint().width() + GAP
        self.setTextMargins(FLUSH + self._label.width(), 0, taken, 0)

    def set_value(self, text: str) -> None:
        """Show a value. If the text is equal, keep the cursor where it is."""
        if text != self.text():
            self.setText(text)
            self.setCursorPosition(0)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.keep_clear()


UNITS = ("steps", "epochs")


class LengthEdit(NumberEdit):
    """The length of training: a number and its unit. `unit_chosen` carries `steps` or `epochs`."""

    unit_chosen = Signal(str)

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip)
        self.unit = ChoiceBox("Unit of the length", "Set the length in steps or in epochs")
        self.unit.setProperty("kind", "unit")
        self.unit.set_choices([(unit, unit) for unit in UNITS])
        self.unit.setFixedWidth(_UNIT_WIDTH)
        self.unit.edited.connect(self.unit_chosen)
        self.put_right(self.unit)
        self._row.setContentsMargins(12, 0, 1, 0)

    def keep_clear(self) -> None:
        self.setTextMargins(FLUSH + self._label.width(), 0, 0 if self._unit is None else _UNIT_WIDTH, 0)


class ChoiceBox(ComboBox):
    """A combo box with a few values. The mouse wheel scrolls the form, not the value."""

    edited = Signal(str)
    mutes_caption = True

    def __init__(self, name: str, tip: str, choices: Choices = ()) -> None:
        super().__init__()
        describe(self, name, tip)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        describe(self.view(), f"{name}: choices", tip)
        self.setMinimumContentsLength(4)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._info = InnerNote()
        self._wordings: tuple[str, ...] = ()
        self._words = self._caption = self._label = ""
        self._indent = 0
        in_row(Stretch(), self._info, parent=self, margins=(11, 0, _ARROW_WIDTH, 0), spacing=0)
        if choices:
            self.set_choices(choices)
        self.currentTextChanged.connect(self._fit_info)
        self.activated.connect(lambda: self.edited.emit(self.value()))

    def set_choices(self, choices: Choices) -> None:
        """Set the (value, text) pairs, and keep the shown value."""
        kept = self.value()
        if self.choices() == list(choices):
            return
        self.blockSignals(True)
        self.clear()
        for value, words in choices:
            self.addItem(words, value)
        self.blockSignals(False)
        self.set_value(kept)
        self._fit_info()

    def value(self) -> str:
        """Return the selected value. Empty if there is none."""
        return str(self.currentData() or "")

    def set_value(self, value: str) -> None:
        """Show a value. Add it if it is not in the list."""
        row = self.findData(value)
        if row < 0 and value:
            self.addItem(value, value)
            row = self.count() - 1
        self.setCurrentIndex(row)

    def choices(self) -> Choices:
        """Return the (value, text) pairs in the list."""
        return [(str(self.itemData(row) or ""), self.itemText(row)) for row in range(self.count())]

    def set_label(self, text: str, width: int) -> None:
        """Show the label inside the box, in `width` pixels. "" removes it."""
        self._label, self._indent = text, width if text else 0
        self._fit_info()

    def set_caption(self, words: str) -> None:
        """Show a caption instead of the selected text. "" removes it."""
        if words != self._caption:
            self._caption = words
            self.setAccessibleDescription(words)
            self._fit_info()

    def set_info(self, *wordings: str) -> None:
        """Show a fact about the selection at the right, in the first wording that fits."""
        self._wordings = wordings
        self._fit_info()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_info()

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter, option = theme().palette, QStylePainter(self), QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        left, whole = self._left_margin(), self.rect()
        if self._label:
            painter.setFont(font(12))
            painter.setPen(QColor(palette.text3))
            painter.drawText(whole.adjusted(left, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self._label)
        if not self.isEditable():
            painter.setFont(self.font())
            is_muted = (self._caption and self.mutes_caption) or self.property("kind") == "unit"
            ink = palette.text2 if is_muted else palette.text
            painter.setPen(QColor(ink if self.isEnabled() else palette.off))
            rect = whole.adjusted(left + self._indent, 0, 0, 0)
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, self._words)
        painter.end()

    def _left_margin(self) -> int:
        return GAP if self.property("kind") == "unit" else 12

    def _fit_info(self) -> None:
        """Show the full text if it fits next to the fact, else the part before its first comma."""
        metrics, room = QFontMetrics(self.font()), self.width() - self._left_margin() - self._indent - _ARROW
        whole = self._caption or self.currentText()
        short = whole.partition(",")[0] if self._wordings or self._caption or self._label else whole
        for words, fact in [(whole, fact) for fact in self._wordings[:1] or ("",)] + [
            (short, fact) for fact in (*self._wordings, "")
        ]:
            self._info.set_text(fact)
            taken = self._info.sizeHint().width() + 2 * GAP if fact else 0
            if metrics.horizontalAdvance(words) + taken <= room:
                break
        self._words = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


_CUSTOM = "custom"
_CHOICES = {
    PLAIN: ("Plain", "The standard training loop, so any difference comes from the precision alone."),
    FAST: (
        "Fast",
        "channels_last, fused optimizer, torch.compile, a CUDA graph and BatchNorm counters on the host. "
        "Whatever does not apply is skipped and listed in the run.",
    ),
    _CUSTOM: ("Custom", "Select single optimizations, to see what each one gains."),
}
_PART_WORDS = {
    "channels_last": (
        "Channels last",
        "Stores images in the layout that Tensor Cores use, so convolutions need no rearranging.",
    ),
    "fused": (
        "Fused optimizer",
        "Updates all weights in a few GPU kernels. The CPU no longer waits to learn whether "
        "gradients overflowed.",
    ),
    "compile": (
        "Compile",
        "torch.compile fuses many small operations into few. The first step takes about a minute.",
    ),
    "capture": (
        "Capture",
        "Records the full step as one CUDA graph. The GPU no longer waits for Python to launch kernels.",
    ),
    "host_counters": (
        "BatchNorm counters on the host",
        "Keeps BatchNorm's batch counters on the CPU, which saves a GPU kernel for each layer.",
    ),
}
RECIPES: Choices = (
    (PLAIN, "Plain"),
    (FAST, "Fast"),
    *((part, words) for part, (words, _) in _PART_WORDS.items()),
)
"""The values of a sweep over optimizations: plain, fast, and each optimization alone."""


class RecipeEdit(QWidget):
    """The control to choose the optimizations of the training step. `edited` carries them as text.

    The form lays out `parts`, the check boxes of Custom, below it.
    """

    edited = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._value = PLAIN
        self._chose_parts = False
        names = tuple((key, name) for key, (name, _) in _CHOICES.items())
        title, tip = setting_title("step.recipe"), setting_help("step.recipe")
        self.choice, self.box = Segmented(names, title, tip), ChoiceBox(title, tip, names)
        for key, (_, about) in _CHOICES.items():
            self.choice.button(key).setToolTip(about)
        self.choice.changed.connect(self._choose)
        self.box.edited.connect(self._choose)
        self.box.hide()
        self.boxes = {part: self._make_box(part) for part in RECIPE_PARTS}
        self.parts = QWidget()
        grid = grid_of(self.parts, margins=(0, 0, 0, 12), spacing=(8, 8), grows=(0, 1))
        for place, box in enumerate(self.boxes.values()):
            grid.addWidget(box, place // 2, place % 2, 1, 2 if place == len(self.boxes) - 1 else 1)
        in_column(self.choice, self.box, parent=self)
        self.set_value(PLAIN)

    def set_label(self, text: str, width: int) -> None:
        """Show a box with the label inside, or with "" a row of segments."""
        self.choice.setHidden(bool(text))
        self.box.setVisible(bool(text))
        self.box.set_label(text, width)

    def set_value(self, recipe: str) -> None:
        """Show a value. The check boxes stay visible unless it changed from outside."""
        if recipe != self._value:
            self._value, self._chose_parts = recipe, False
        self._show()

    def _show(self) -> None:
        in_parts = self._chose_parts or self._value not in (PLAIN, FAST)
        for control in (self.choice, self.box):
            control.set_value(_CUSTOM if in_parts else self._value)
        self.parts.setVisible(in_parts)
        chosen = parts_of(self._value)
        for part, box in self.boxes.items():
            box.setChecked(part in chosen)

    def _choose(self, key: str) -> None:
        self._chose_parts = key == _CUSTOM
        if key == _CUSTOM:
            self._show()
        else:
            self._emit(key)

    def _emit(self, recipe: str) -> None:
        self._value = recipe
        self._show()
        self.edited.emit(recipe)

    def _make_box(self, part: str) -> QCheckBox:
        words, tip = _PART_WORDS[part]
        box = QCheckBox(words)
        describe(box, f"{setting_title('step.recipe')}: {words}", tip)
        box.clicked.connect(
            lambda: self._emit(joined(part for part, box in self.boxes.items() if box.isChecked()))
        )
        return box
