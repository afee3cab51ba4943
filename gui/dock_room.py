"""How the workspaces and the dock below them share the height of the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from gui.panels.dock import Dock


class DockRoom(QSplitter):
    """The dock's height is its own, and what a person drags it to; all the rest goes to what is above."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self._dock = dock
        self._was_open = True
        self.setChildrenCollapsible(False)

    def fill(self, above: QWidget) -> None:
        """Puts `above` and the dock in their places."""
        self.addWidget(above)
        self.addWidget(self._dock)
        self.setStretchFactor(0, 1)

    def settle(self, window_height: int) -> None:
        """Gives the dock the height that is usual in a window of this height, folded or open."""
        height, dock = self.height(), self._dock.usual_height(window_height)
        self.setSizes([max(1, height - dock), dock])

    def window_resized(self, old_height: int, new_height: int) -> None:
        """A window that became low gives the plots the room, and one that became high the runs."""
        if self._dock.usual_height(old_height) != self._dock.usual_height(new_height):
            self.settle(new_height)

    def make_room(self, is_training: bool, is_crowded: bool) -> None:
        """Folds the dock where the height is needed above it, and unfolds it again for training.

        `is_training` says whether the workspace that is left is Train, where a person's choice counts.
        """
        if is_training:
            self._was_open = self._dock.runs.is_open()
        self._dock.runs.set_open(self._was_open and not is_crowded)

    def is_open(self, is_training: bool) -> bool:
        """Whether the dock is open, or will be again when the workspace that folded it is left."""
        return self._dock.runs.is_open() if is_training else self._was_open
