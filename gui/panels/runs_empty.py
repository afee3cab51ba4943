"""What stands in the place of the runs table where there is nothing to show."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.text import shortened
from gui.panels.welcome import Welcome
from gui.shortcuts import keys_of
from gui.widgets import EmptyState

_NOT_FOUND = (
    "Use other words, or look in one place alone, as in tag:paper or status:failed.",
    "Show all runs",
    "Empty the filter (Escape in it)",
)
_DELETED = "All runs are deleted."
_UNTIL = "They can be brought back until Ammeter is closed."


class NoRuns(QWidget):
    """`all_wanted` when the filter is to be emptied, `undo_wanted` when a deletion is to be undone.

    `welcome` stands here where nothing was trained yet.
    """

    all_wanted = Signal()
    undo_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.welcome = Welcome(is_large=False)
        self._not_found = EmptyState("", *_NOT_FOUND)
        tip = f"Bring back the runs that were deleted last ({keys_of('undo')})"
        self._deleted = EmptyState(_DELETED, _UNTIL, "Bring them back", tip)
        self._not_found.pressed.connect(self.all_wanted)
        self._deleted.pressed.connect(self.undo_wanted)
        self._pages = QStackedLayout(self)
        for page in (self.welcome, self._not_found, self._deleted):
            self._pages.addWidget(page)

    def tell_none(self) -> None:
        """Says that there is nothing yet, and what to begin with."""
        self._pages.setCurrentWidget(self.welcome)

    def tell_not_found(self, looked_for: str) -> None:
        """Says that the filter finds nothing."""
        self._not_found.tell(f"No run matches “{shortened(looked_for)}”.", *_NOT_FOUND)
        self._pages.setCurrentWidget(self._not_found)

    def tell_deleted(self) -> None:
        """Says that there were runs, and all of them have just been deleted."""
        self._pages.setCurrentWidget(self._deleted)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)
