"""What the race and its measuring have in common: headline, two lanes, the middle, and the memory."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QSpacerItem, QVBoxLayout, QWidget

from engine.records.race import Which
from gui.panels.show_headline import ShowHeadline
from gui.panels.show_lane import ShowLane
from gui.panels.show_memory import ShowMemory
from gui.panels.show_middle import ShowMiddle
from gui.panels.show_scale import COLUMN_GAP, Scale


class ShowStage(QWidget):
    """Its parts are for its pages to fill; it lays them out and scales them."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = ShowHeadline()
        self.full, self.mixed = ShowLane("Lane of full precision"), ShowLane("Lane of mixed precision")
        self.middle = ShowMiddle()
        self.memory = ShowMemory()
        self._column = QVBoxLayout()
        self._column.setSpacing(0)
        self._column.addWidget(self.headline)
        self._gap = QSpacerItem(0, 0)
        self._column.addItem(self._gap)
        self._column.addWidget(self.full)
        self._column.addWidget(self.middle, 1)
        self._column.addWidget(self.mixed)
        self._row = QHBoxLayout(self)
        self._row.addLayout(self._column, 1)
        self._row.addWidget(self.memory)

    def lane(self, which: Which) -> ShowLane:
        return self.full if which == "full" else self.mixed

    def set_scale(self, scale: Scale) -> None:
        for part in (self.headline, self.full, self.mixed, self.middle, self.memory):
            part.set_scale(scale)
        side = scale.px(48)
        self._row.setContentsMargins(side, scale.px(24), side, scale.px(33))
        self._row.setSpacing(scale.px(COLUMN_GAP))
        self._gap.changeSize(0, scale.px(32))
        self._column.invalidate()

    def set_told(self) -> None:
        """Lets screen readers know what it shows now."""
        for part in (self.full, self.mixed, self.middle):
            part.set_told()
