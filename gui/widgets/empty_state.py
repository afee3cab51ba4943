"""What stands where there is nothing to show: what is so, what to do next, and a button that does it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from gui.widgets.buttons import Button
from gui.widgets.labels import label, set_text

_LOW = 76
"""Pixels of height below which the second sentence is left out."""
_WIDEST = 560


class EmptyState(QWidget):
    """Two sentences and at most one button, in the middle. `pressed` when the button was.

    It asks for no room, so that nothing grows because it has nothing to show.
    """

    pressed = Signal()

    def __init__(
        self,
        text: str,
        hint: str = "",
        action: str = "",
        tooltip: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._text, self._hint = _middle("empty"), _middle("hint")
        self._hint.setMaximumWidth(_WIDEST)
        self.button = Button(action, "strip", tooltip)
        self.button.clicked.connect(self.pressed)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 0, 16, 0)
        column.setSpacing(4)
        column.addStretch()
        column.addWidget(self._text)
        column.addLayout(_centred(self._hint, 8))
        column.addSpacing(4)
        column.addLayout(_centred(self.button, 0))
        column.addStretch()
        self.tell(text, hint, action, tooltip)

    def tell(self, text: str, hint: str = "", action: str = "", tooltip: str = "") -> None:
        """Says what is so and what to do; without an `action` there is no button."""
        set_text(self._text, text)
        set_text(self._hint, hint)
        self.button.setText(action)
        self.button.setAccessibleName(action)
        self.button.setToolTip(tooltip or action)
        self.button.setVisible(bool(action))
        self.setAccessibleName(self.words())
        self._fit()

    def words(self) -> str:
        """Both sentences."""
        return f"{self._text.text()} {self._hint.text()}".strip()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self._hint.setVisible(bool(self._hint.text()) and self.height() >= _LOW)


def _middle(role: str) -> QLabel:
    result = label("", role)
    result.setAlignment(Qt.AlignmentFlag.AlignCenter)
    result.setWordWrap(True)
    return result


def _centred(widget: QWidget, stretch: int) -> QHBoxLayout:
    row = QHBoxLayout()
    row.addStretch(1)
    row.addWidget(widget, stretch)
    row.addStretch(1)
    return row
