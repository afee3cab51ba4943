"""The window below its top bar: a side column, the workspaces, and the dock with the runs."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QStackedWidget, QVBoxLayout, QWidget

from gui.dock_room import DockRoom
from gui.panels.dock import OPEN_HEIGHT, Dock
from gui.panels.top_bar import SIDE_WIDTH
from gui.widgets.notice import Notice

_LEAST_SIDE, _WIDEST_SIDE = 300, 440
_CONTROLS = 64
"""The height of the controls at the lower edge of a workspace that has no side column for them."""


class Body(QSplitter):
    """One workspace at a time, each by its key with the side column beside it; None: it has all the room."""

    def __init__(
        self, workspaces: Mapping[str, tuple[QWidget, QWidget | None]], notice: Notice, dock: Dock
    ) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._workspaces, self._notice, self._dock = dict(workspaces), notice, dock
        self._keys = tuple(workspaces)
        self._side, self._pages = QStackedWidget(), QStackedWidget()
        self._side.setMinimumWidth(_LEAST_SIDE)
        self._side.setMaximumWidth(_WIDEST_SIDE)
        self.middle = DockRoom(dock)
        self.setChildrenCollapsible(False)
        self.addWidget(self._side)
        self.addWidget(self.middle)
        self.setStretchFactor(1, 1)
        self.setSizes([SIDE_WIDTH, 1120])

    def fill(self) -> None:
        """Takes in what it shows, once it stands in its window.

        Each change of a parent sets the style of all that is below it anew: done before, each panel would be
        styled once for every level above it.
        """
        holder = QWidget()
        self.middle.fill(holder)
        column = QVBoxLayout(holder)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._pages)
        self._notice.float_over(holder)
        for page, side in self._workspaces.values():
            self._pages.addWidget(page)
            if side is not None and self._side.indexOf(side) < 0:
                self._side.addWidget(side)

    @property
    def workspace(self) -> str:
        return self._keys[self._pages.currentIndex()]

    def show_workspace(self, key: str, ticked: int) -> None:
        """Brings a workspace to the front; with `ticked` runs, Compare may take the room of the dock.

        Raises ValueError for a key that there is not.
        """
        index, side = self._keys.index(key), self._workspaces[key][1]
        if key != self.workspace:
            self._make_room(key, ticked)
        self._pages.setCurrentIndex(index)
        if side is not None:
            self._side.setCurrentWidget(side)
        self._side.setVisible(side is not None)
        self._notice.keep_free(_CONTROLS if side is None else 0)
        self._dock.setVisible(side is not None)

    def _make_room(self, key: str, ticked: int) -> None:
        is_low = self._dock.usual_height(self.window().height()) < OPEN_HEIGHT
        is_crowded = {"compare": ticked > 1, "memory": is_low}
        self.middle.make_room(self.workspace == "train", is_crowded.get(key, False))


def stack(holder: QWidget, above: QWidget, below: QWidget) -> None:
    """Puts the one above the other, which has all the room that is left."""
    column = QVBoxLayout(holder)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(above)
    column.addWidget(below, 1)
