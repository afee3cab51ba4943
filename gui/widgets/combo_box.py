"""A combo box whose list is as wide as its longest words, however narrow the box."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox

_AROUND = 10
"""The list's border and inner margin, on both sides."""
_MOST_ROWS = 14


class ComboBox(QComboBox):
    """The one kind of combo box; its list looks as the style sheet has it."""

    def __init__(self) -> None:
        super().__init__()
        self.setMaxVisibleItems(_MOST_ROWS)

    def showPopup(self) -> None:
        view = self.view()
        bar = view.verticalScrollBar().sizeHint().width() if self.count() > _MOST_ROWS else 0
        view.setMinimumWidth(max(self.width(), view.sizeHintForColumn(0) + _AROUND + bar))
        super().showPopup()
