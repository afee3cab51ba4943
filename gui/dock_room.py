"""How the workspaces and the dock below them share the height of the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from gui.panels.dock import LOW_HEIGHT, Dock

_LEAST_ABOVE = 200


class DockRoom(QSplitter):
    """The dock's height is its own, and what a person drags it to; all the rest goes to what is above."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self._dock = dock
        self._was_open = True
        self._chosen: int | None = None
        self.setChildrenCollapsible(False)
        self.splitterMoved.connect(lambda: self._choose(self._dock.height()))

    def fill(self, above: QWidget) -> None:
        """Puts `above` and the dock in their places."""
        above.setMinimumHeight(_LEAST_ABOVE)
        self.addWidget(above)
        self.addWidget(self._dock)
        self.setStretchFactor(0, 1)

    @property
    def chosen_height(self) -> int | None:
        """The height of the open dock that a person dragged it to; None for the usual one."""
        return self._chosen

    def restore_height(self, chosen: int | None) -> None:
        """Takes back what `chosen_height` gave. Raises ValueError for anything else."""
        if chosen is not None and (type(chosen) is not int or chosen < LOW_HEIGHT):
            raise ValueError(chosen)
        self._chosen = chosen

    def settle(self, window_height: int) -> None:
        """Gives the dock the chosen height, or what is usual in a window of this height, folded or open."""
        height, dock = self.height(), self._dock.usual_height(window_height)
        if self._chosen is not None and self._dock.runs.is_open():
            dock = min(self._chosen, max(LOW_HEIGHT, height - _LEAST_ABOVE))
        self.setSizes([max(1, height - dock), dock])

    def window_resized(self, old_height: int, new_height: int) -> None:
        """A window that became low gives the plots the room, and one that became high the runs."""
        usual = self._dock.usual_height
        if self._chosen is not None or usual(old_height) != usual(new_height):
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

    def _choose(self, height: int) -> None:
        if self._dock.runs.is_open():
            self._chosen = height
