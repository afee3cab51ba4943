"""What stands in the place of the runs table where there is nothing to show."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from gui.widgets import Button, ElidedLabel, label, set_text

_NO_RUNS = "No runs yet. Each run is kept here with its curves and figures, also after a restart."
_NOT_FOUND = "Use other words, or look in one place alone, as in tag:paper or status:failed."


class NoRuns(QWidget):
    """`all_wanted` when the filter is to be emptied."""

    all_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._said = ElidedLabel("", "empty")
        self._said.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint = label("", "hint")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._all = Button("Show all runs", "strip", "Empty the filter (Escape in it)")
        self._all.clicked.connect(self.all_wanted)
        middle = QHBoxLayout()
        middle.addStretch()
        middle.addWidget(self._all)
        middle.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 0, 16, 0)
        column.setSpacing(4)
        column.addStretch()
        column.addWidget(self._said)
        column.addWidget(self._hint)
        column.addSpacing(4)
        column.addLayout(middle)
        column.addStretch()

    def tell(self, looked_for: str | None) -> None:
        """Says that nothing was found, or, where `looked_for` is None, that there is nothing yet."""
        self._said.set_whole_text(_NO_RUNS if looked_for is None else f"No run matches “{looked_for}”.")
        set_text(self._hint, "" if looked_for is None else _NOT_FOUND)
        self._hint.setVisible(looked_for is not None)
        self._all.setVisible(looked_for is not None)
