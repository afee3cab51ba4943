"""The control of the speed recipe: plain, fast, or some parts of fast that are ticked one by one."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QVBoxLayout, QWidget

from engine.parts import FAST, PLAIN, RECIPE_PARTS, joined
from gui.panels.setup_fields import LABELS, TIPS
from gui.widgets import Segmented

_PARTS = "parts"
_CHOICES = ((PLAIN, "Plain"), (FAST, "Fast"), (_PARTS, "Parts"))
_CHOICE_TIPS = {
    PLAIN: "The loop as every guide writes it, so that a gain is the precision's alone.",
    FAST: "All of it: channels last, fused optimizer, compiled, captured in one graph. What a model or a "
    "device cannot do is left out, and the run says so.",
    _PARTS: "Choose which parts of the fast recipe to use, to see what each of them gives.",
}
_PART_WORDS = {
    "channels_last": (
        "Channels last",
        "Lays pictures out as Tensor Cores want them: convolutions need no rearranging.",
    ),
    "fused": ("Fused optimizer", "One GPU program changes all the weights, and nothing waits for the host."),
    "compile": (
        "Compile",
        "torch.compile joins small operations into few. The first step takes a minute or so.",
    ),
    "capture": (
        "Capture",
        "Records the whole step as one CUDA graph: the GPU no longer waits for Python to launch it.",
    ),
}


class RecipeEdit(QWidget):
    """Text in and text out, as the experiment has it; `edited` carries the recipe.

    `parts` holds the ticks: it is for the form to lay out, below, where they have its whole width.
    """

    edited = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._value = PLAIN
        self._chose_parts = False
        self.choice = Segmented(_CHOICES, LABELS["step.recipe"], TIPS["step.recipe"])
        for key, tip in _CHOICE_TIPS.items():
            self.choice.button(key).setToolTip(tip)
        self.choice.changed.connect(self._choose)
        self.boxes = {part: self._make_box(part) for part in RECIPE_PARTS}
        self.parts = QWidget()
        grid = QGridLayout(self.parts)
        grid.setContentsMargins(0, 0, 0, 12)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(8)
        for place, box in enumerate(self.boxes.values()):
            grid.addWidget(box, place // 2, place % 2)
            grid.setColumnStretch(place % 2, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.choice)
        self.set_value(PLAIN)

    def value(self) -> str:
        return self._value

    def set_value(self, recipe: str) -> None:
        """Shows a recipe. The ticks stay in sight for as long as nobody else changes it."""
        if recipe != self._value:
            self._value, self._chose_parts = recipe, False
        self._show()

    def _show(self) -> None:
        in_parts = self._chose_parts or self._value not in (PLAIN, FAST)
        self.choice.set_value(_PARTS if in_parts else self._value)
        self.parts.setVisible(in_parts)
        chosen = RECIPE_PARTS if self._value == FAST else self._value.split("+")
        for part, box in self.boxes.items():
            box.setChecked(part in chosen)

    def _choose(self, key: str) -> None:
        self._chose_parts = key == _PARTS
        if key == _PARTS:
            self._show()
        else:
            self._tell(key)

    def _tick(self) -> None:
        self._tell(joined(part for part, box in self.boxes.items() if box.isChecked()))

    def _tell(self, recipe: str) -> None:
        self._value = recipe
        self._show()
        self.edited.emit(recipe)

    def _make_box(self, part: str) -> QCheckBox:
        words, tip = _PART_WORDS[part]
        box = QCheckBox(words)
        box.setAccessibleName(f"Recipe: {words}")
        box.setToolTip(tip)
        box.clicked.connect(self._tick)
        return box
