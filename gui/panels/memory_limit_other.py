"""Asks for a memory limit that is not among the buttons, and says what is wrong with what was typed."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from gui.widgets import Field

_LEAST_GIB = 0.1
_WIDTH = 340


class OtherSize(QDialog):
    """`agreed` carries the size in GiB. What is no size stays in the field, with the reason under it."""

    agreed = Signal(float)

    def __init__(self, title: str, size_gib: float, most_gib: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._most_gib = most_gib
        self.edit = QLineEdit(f"{size_gib:g}")
        self.edit.setAccessibleName(title)
        self.edit.selectAll()
        self.field = Field(f"GiB, {_range(most_gib)}", self.edit)
        self.field.setMinimumWidth(_WIDTH)
        kinds = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel)
        for button in buttons.buttons():
            # the style's own signs are coloured pictures that nothing else here has
            button.setIcon(QIcon())
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.addWidget(self.field)
        column.addWidget(buttons)
        self.edit.textChanged.connect(lambda _text: self.field.set_problem(None))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)

    def accept(self) -> None:
        """Closes with a size; stays open with the reason where none was typed."""
        size = typed_gib(self.edit.text(), self._most_gib)
        if size is None:
            wanted = f"a number {_range(self._most_gib)}"
            typed = self.edit.text().strip()
            self.field.set_problem(f"“{typed}” is not {wanted}." if typed else f"Type {wanted}.")
            # a label that wraps asks for its height only when the window is laid out anew
            self.adjustSize()
            self.edit.selectAll()
            self.edit.setFocus()
            return
        self.agreed.emit(size)
        super().accept()


def typed_gib(text: str, most_gib: float) -> float | None:
    """The size that was typed, to the hundredth of a GiB; None where it is none, or out of range."""
    try:
        size = round(float(text.strip().replace(",", ".")), 2)
    except ValueError:
        return None
    return size if _LEAST_GIB <= size <= _shown(most_gib) else None


def _range(most_gib: float) -> str:
    return f"from {_LEAST_GIB:g} to {_shown(most_gib):g}"


def _shown(most_gib: float) -> float:
    return math.floor(most_gib * 100) / 100
