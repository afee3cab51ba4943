"""What speaks against a comparison: one plain line, and the rest of the reasons when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from engine.text import printable
from gui.widgets import Button, label

_GAP = 24


class DoubtLine(QWidget):
    """Hidden while nothing speaks against the figures; what was trained may stand at its right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._doubts: tuple[str, ...] = ()
        self._first, self._rest = label("", "body"), label("", "body")
        for one in (self._first, self._rest):
            one.setWordWrap(True)
            one.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._more = Button("Show more", "link", "Show or hide the other reasons")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._unfold)
        self._beside = label("", "body")
        self._beside.hide()
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self._first, 1)
        row.addWidget(self._more, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._beside, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self._rest)
        self.hide()

    def show_doubts(self, doubts: Sequence[str]) -> None:
        """Says the first of these sentences, and that there are more."""
        self._doubts = tuple(dict.fromkeys(map(printable, doubts)))
        self.setVisible(bool(self._doubts))
        if not self._doubts:
            return
        self._first.setText(f"With caution: {self._doubts[0]}")
        self._rest.setText("\n".join(self._doubts[1:]))
        self._more.setVisible(len(self._doubts) > 1)
        self._more.setChecked(False)
        self._unfold(False)

    def stand_beside(self, words: str) -> bool:
        """Shows `words` at the right of the first doubt, if there is one and both fit in one line."""
        parts = [self._first.text(), words, *([self._more.text()] if len(self._doubts) > 1 else [])]
        wide = sum(self._first.fontMetrics().horizontalAdvance(part) + _GAP for part in parts)
        fits = bool(words and self._doubts) and wide <= self.width()
        self._beside.setText(words if fits else "")
        self._beside.setVisible(fits)
        return fits

    def doubts(self) -> tuple[str, ...]:
        return self._doubts

    def _unfold(self, is_open: bool) -> None:
        self._rest.setVisible(is_open)
        self._more.setText("Show less" if is_open else f"and {len(self._doubts) - 1} more")
        self._more.setAccessibleName(self._more.text())
