"""The header of an overlay: title, unit, and the choices of what is laid over what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QSizePolicy, QSpacerItem, QWidget

from gui.plots.overlay_lines import Quantity
from gui.plots.smooth_button import SmoothButton
from gui.plots.trace import By
from gui.widgets import Button, ElidedLabel

_QUANTITIES = (
    ("loss", "Loss", "Show the training loss"),
    ("accuracy", "Accuracy", "Show the accuracy of validation"),
)
_BYS = (
    ("step", "Steps", "Lay the curves by training step"),
    ("seconds", "Time", "Lay the curves by seconds since each run began"),
    ("samples", "Samples", "Lay the curves by the samples trained on"),
)


_NARROW = 520


class OverlayHeader(QWidget):
    """`changed` says that another quantity or another axis was chosen."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title, self._unit = ElidedLabel("", "panelTitle"), ElidedLabel("", "unit")
        self._unit.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 6)
        row.setSpacing(4)
        row.addWidget(self._title)
        row.addSpacing(4)
        row.addWidget(self._unit, 1)
        self.smooth = SmoothButton()
        self._gaps = QSpacerItem(12, 0), QSpacerItem(12, 0)
        row.addWidget(self.smooth)
        row.addItem(self._gaps[0])
        self._quantities = self._toggles(row, _QUANTITIES)
        row.addItem(self._gaps[1])
        self._bys = self._toggles(row, _BYS)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = event.size().width() < _NARROW
        self.smooth.set_brief(is_narrow)
        for gap in self._gaps:
            gap.changeSize(4 if is_narrow else 12, 0)

    @property
    def quantity(self) -> Quantity:
        return cast(Quantity, _QUANTITIES[self._quantities.checkedId()][0])

    @property
    def by(self) -> By:
        return cast(By, _BYS[self._bys.checkedId()][0])

    def choose(self, *, quantity: Quantity | None = None, by: By | None = None) -> None:
        """Chooses as a click does."""
        for group, choices, wanted in ((self._quantities, _QUANTITIES, quantity), (self._bys, _BYS, by)):
            if wanted is not None:
                group.button([key for key, *_ in choices].index(wanted)).click()

    def set_words(self, title: str, unit: str) -> None:
        self._title.set_whole_text(title)
        self._unit.set_whole_text(unit)

    def set_quantity_known(self, quantity: Quantity, is_known: bool) -> None:
        """Whether any of the runs has it."""
        self._quantities.button([key for key, *_ in _QUANTITIES].index(quantity)).setEnabled(is_known)

    def _toggles(self, row: QHBoxLayout, choices: Sequence[tuple[str, str, str]]) -> QButtonGroup:
        group = QButtonGroup(self)
        for number, (_key, text, tip) in enumerate(choices):
            button = Button(text, "toggle", tip)
            button.setChecked(number == 0)
            group.addButton(button, number)
            row.addWidget(button)
        group.idToggled.connect(self._tell)
        return group

    def _tell(self, _number: int, is_chosen: bool) -> None:
        if is_chosen:
            self.changed.emit()
