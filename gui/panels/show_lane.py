"""One lane of the race: its name and count above, its blocks of pictures below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.experiment import Precision
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_text import TextRow
from gui.race.lane_view import LaneView
from resources.looks import MarkFill

_LANE_HEIGHT = 127
"""Five rows of 26 px less the last gap."""


@dataclass(frozen=True)
class LaneHead:
    """What stands above the blocks."""

    precision: Precision
    fill: MarkFill
    name: str
    detail: str


class ShowLane(QWidget):
    """Its texts change many times a second without a new layout."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._head: LaneHead | None = None
        self._row, self.view = TextRow(), LaneView()
        self.view.setAccessibleName(name)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self._row)
        self._column.addWidget(self.view)

    def set_scale(self, scale: Scale) -> None:
        self._row.set_scale(scale)
        self._column.setSpacing(scale.px(14))
        self.view.setFixedHeight(scale.px(_LANE_HEIGHT))

    def show_lane(self, head: LaneHead, tiles: NDArray[np.uint8] | None, blocks: int) -> None:
        """A lane of so many blocks, none of which is lit."""
        self._head = head
        self._row.set_marker(head.precision, head.fill)
        self.view.set_look(head.precision, head.fill)
        self.view.set_tiles(tiles)
        self.view.set_blocks(blocks)
        self.set_count(0, "0", "")

    def set_count(self, lit: int, count: str, words: str) -> None:
        """How many blocks are lit, the count of samples, and what it counts."""
        self.view.set_lit(lit)
        head = self._head
        if head is None:
            return
        right = [
            Span(count, 26, 600, precision=head.precision),
            Span(words, 15, 500, "text2", gap=10),
        ]
        self._row.set_spans(
            [Span(head.name, 26, 600), Span(head.detail, 15, 400, "text3", gap=14)], right if words else []
        )

    def set_told(self) -> None:
        """Lets screen readers know what it shows now."""
        self._row.set_told(self._row.words())

    def words(self) -> str:
        return self._row.words()
