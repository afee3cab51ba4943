"""The foot of the table: how long each side took to an accuracy, and what its differences mean."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from gui.widgets import ElidedLabel, label, set_property

_HEIGHT = 40
_MOST = 100.0


class TargetRow(QWidget):
    """`changed` says that another accuracy was typed, or none."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(_HEIGHT)
        self._told: float | None = None
        self.edit = QLineEdit()
        self.edit.setFixedWidth(64)
        self.edit.setProperty("small", "true")
        self.edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.edit.setAccessibleName("Accuracy to reach, in per cent")
        self.edit.setToolTip("An accuracy in per cent: the table then says when each side reached it first")
        self.edit.setPlaceholderText("none")
        self.edit.editingFinished.connect(self._tell)
        self.edit.textEdited.connect(lambda _text: set_property(self.edit, "problem", "false"))
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(8)
        self._words, self._note = label("Time and samples to an accuracy of", "body"), ElidedLabel("", "unit")
        self._percent = label("%", "unit")
        for one in (self._words, self.edit, self._percent):
            row.addWidget(one)
        self._note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._note, 1)

    def show_for(self, has_accuracy: bool, note: str) -> None:
        """Offers the box where there is an accuracy, and says `note` beside it; else it is hidden."""
        for one in (self._words, self.edit, self._percent):
            one.setVisible(has_accuracy)
        self._note.set_whole_text(note)
        self.setVisible(has_accuracy or bool(note))

    def accuracy(self) -> float | None:
        """What was asked for, as a fraction; None for none, or where it is no accuracy."""
        try:
            percent = float(self.edit.text().strip().rstrip("%").replace(",", "."))
        except ValueError:
            return None
        return percent / 100 if 0 < percent <= _MOST else None

    def _tell(self) -> None:
        asked = self.accuracy()
        is_wrong = asked is None and bool(self.edit.text().strip())
        set_property(self.edit, "problem", "true" if is_wrong else "false")
        if asked != self._told:
            self._told = asked
            self.changed.emit()
