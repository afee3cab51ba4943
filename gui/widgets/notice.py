"""A strip that tells one thing in words, with at most two things to do about it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from gui.widgets.buttons import Button, IconButton
from gui.widgets.labels import label, set_text


class Notice(QFrame):
    """Hidden until it has something to say; a new message takes the place of the one before.

    `dismissed`, after a person has answered or closed a message.
    """

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._text = label("", "strong")
        self._text.setWordWrap(True)
        self._remedy = label("", "body")
        self._remedy.setWordWrap(True)
        self._action = Button("Do it", "strip", "Does what the message says can be done")
        self._action.clicked.connect(self._act)
        self._do: Callable[[], None] | None = None
        self._other = Button("Or this", "strip", "Does what the message says can be done instead")
        self._other.clicked.connect(self._act_otherwise)
        self._do_otherwise: Callable[[], None] | None = None
        close = IconButton("cross", "Close this message")
        close.clicked.connect(self._close)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 8, 8)
        row.setSpacing(12)
        row.addWidget(self._text)
        row.addWidget(self._remedy)
        row.addWidget(self._action)
        row.addWidget(self._other)
        row.addWidget(close)
        self.hide()

    def tell(
        self,
        text: str,
        remedy: str = "",
        action: str = "",
        do: Callable[[], None] | None = None,
        *,
        other: tuple[str, Callable[[], None]] | None = None,
    ) -> None:
        """Shows `text`, what to do about it, and a button named `action` that calls `do`.

        `other` is a second button: its name, and what it calls.
        """
        set_text(self._text, text)
        set_text(self._remedy, remedy)
        self._remedy.setVisible(bool(remedy))
        # the longer one gets the room, so that both wrap into as few lines as can be
        self._row.setStretchFactor(self._text, max(1, len(text)))
        self._row.setStretchFactor(self._remedy, max(1, len(remedy)))
        self._action.setVisible(do is not None)
        self._action.setText(action)
        self._action.setAccessibleName(action)
        self._action.setToolTip(action)
        self._do = do
        other_name, self._do_otherwise = other or ("", None)
        self._other.setVisible(other is not None)
        self._other.setText(other_name)
        self._other.setAccessibleName(other_name)
        self._other.setToolTip(other_name)
        self.setAccessibleName(f"{text} {remedy}".strip())
        self.show()

    def drop(self) -> None:
        """Takes back a message about what is past; one that still offers something to do stays."""
        if self._do is None:
            self.hide()

    def text(self) -> str:
        """What it says now; empty while it is hidden."""
        return self._text.text() if not self.isHidden() else ""

    def offers(self) -> tuple[str, ...]:
        """What the buttons offer to do."""
        offered = ((self._action, self._do), (self._other, self._do_otherwise))
        return tuple(button.text() for button, do in offered if do is not None)

    def _close(self) -> None:
        self.hide()
        self.dismissed.emit()

    def _act_otherwise(self) -> None:
        self.hide()
        if self._do_otherwise is not None:
            self._do_otherwise()
        self.dismissed.emit()

    def _act(self) -> None:
        self.hide()
        if self._do is not None:
            self._do()
        self.dismissed.emit()
