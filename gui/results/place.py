"""The page Results: the table at the left, the opened item at the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from gui.runs.panel import RunsPanel

WIDE, MIDDLE, NARROW = 640, 480, 320
"""The widths of the table: alone, next to an opened item, and next to one that needs the room."""
_LEAST_TABLE, _LEAST_ITEM = 280, 520
STUDY, _FIGURES = 700, 560
"""The room that a study and that metrics need next to the table to be shown in full."""


class ResultsPlace(QSplitter):
    """The page Results. `runs` is the table on the left.

    To start sooner, the right side is made and set when it is first needed.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setChildrenCollapsible(False)
        self.runs = RunsPanel(self)
        self.runs.setMinimumWidth(_LEAST_TABLE)
        self.addWidget(self.runs)
        self._item: QWidget | None = None
        self._wanted, self._needed, self._chosen = WIDE, _FIGURES, 0
        self.splitterMoved.connect(lambda place, _index: self._choose(place))

    def set_item(self, item: QWidget) -> None:
        """Set the right side."""
        self._item = item
        item.setMinimumWidth(_LEAST_ITEM)
        self.addWidget(item)
        self.setStretchFactor(1, 1)
        self._settle()

    def want_width(self, width: int, needed: int = _FIGURES) -> None:
        """Set the table's width, or less if the right side would get less than `needed`.

        Nothing changes where the user has chosen another.
        """
        self._wanted, self._needed = width, needed
        self._settle()

    def state(self) -> dict[str, Any]:
        """Return the state that survives a restart: the table's width set by the user, 0 for none."""
        return {"width": self._chosen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError, TypeError or ValueError for anything else."""
        self._chosen = max(0, int(state["width"]))
        self._settle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def _choose(self, width: int) -> None:
        self._chosen = width

    def table_width(self, room: int) -> int:
        """Return the table's width in `room` pixels: the user's, else the wanted width, or less if narrow."""
        steps = (width for width in (WIDE, MIDDLE, NARROW) if width <= self._wanted)
        fitting = next((width for width in steps if room - width >= self._needed), NARROW)
        return min(self._chosen or fitting, max(_LEAST_TABLE, room - _LEAST_ITEM))

    def _settle(self) -> None:
        if self._item is not None:
            table = self.table_width(self.width())
            self.setSizes([table, max(1, self.width() - table)])
