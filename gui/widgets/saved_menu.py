"""A menu of what is saved: opens an entry, or deletes the one that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget


class SavedEntry(NamedTuple):
    """Something saved: its key, what it is, when it was made, and more about it."""

    key: str
    text: str
    created: datetime
    tip: str


class SavedMenu(QMenu):
    """`opened` and `delete_asked` carry a key. It is filled whenever it opens."""

    opened = Signal(str)
    delete_asked = Signal(str)

    def __init__(self, parent: QWidget, noun: str, plural: str) -> None:
        """`noun` and `plural` are what the entries are called: "search", "searches"."""
        super().__init__(parent)
        self.setAccessibleName(f"Saved {plural}")
        self.setToolTipsVisible(True)
        self._noun = noun
        self._source: Callable[[], Sequence[SavedEntry]] = tuple
        self._shown: str | None = None
        self.aboutToShow.connect(self._fill)

    def set_source(self, source: Callable[[], Sequence[SavedEntry]]) -> None:
        """Sets the function that gives the entries."""
        self._source = source

    def set_shown(self, key: str | None) -> None:
        """Sets which entry is shown, and can be deleted."""
        self._shown = key

    def _fill(self) -> None:
        self.clear()
        entries = self._source()
        for entry in entries:
            self._add(entry)
        if not entries:
            none = f"No {self._noun} has been saved yet. Each one is kept here when it ends."
            self.addAction(none).setEnabled(False)
            return
        self.addSeparator()
        delete = self.addAction(f"Delete this {self._noun}…")
        delete.setEnabled(self._shown in [entry.key for entry in entries])
        delete.triggered.connect(lambda: self.delete_asked.emit(self._shown or ""))

    def _add(self, entry: SavedEntry) -> None:
        when = entry.created.astimezone().strftime("%d %b, %H:%M")
        action = self.addAction(f"{entry.text}\t{when}")
        action.setCheckable(True)
        action.setChecked(entry.key == self._shown)
        action.setToolTip(entry.tip)
        action.triggered.connect(lambda: self.opened.emit(entry.key))
