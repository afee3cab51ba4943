"""The page that shows two runs while they are being measured, one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from engine.patterns import patterns
from engine.records.race import MOST_BLOCKS
from gui.panels.show_buttons import ShowButton
from gui.panels.show_lane import LaneHead
from gui.panels.show_measuring import MeasuredLane, Measuring
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_stage import ShowStage
from gui.panels.show_text import TextRow


class MeasuringPage(QWidget):
    """It repaints only when it is told something new: the run that trains has the machine to itself.

    `stop_wanted` when the measuring is to be given up.
    """

    stop_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.stage = ShowStage()
        self.stage.memory.tanks.set_absent("not yet")
        self.stage.memory.tanks.set_final(False)
        self.stage.memory.show_words(("", ""))
        self._tiles: NDArray[np.uint8] | None = None
        self._heads: tuple[LaneHead, ...] = ()
        self._told: tuple[str, ...] = ()
        self._foot = QFrame()
        self._foot.setProperty("surface", "foot")
        self.stop = ShowButton(" Stop", "showPrimary", "Stop measuring; what was recorded is kept", "stop")
        self.stop.clicked.connect(self.stop_wanted)
        self._why, self._subject = TextRow(), TextRow()
        why = "One after the other, so that neither slows the other down. Then both are played side by side."
        self._why.set_spans([Span(why, 14, 400, "text2")])
        self._why.set_told(why)
        self._row = QHBoxLayout(self._foot)
        self._row.addWidget(self.stop)
        self._row.addWidget(self._why, 1)
        self._row.addWidget(self._subject)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.stage, 1)
        column.addWidget(self._foot)

    def set_scale(self, scale: Scale) -> None:
        for part in (self.stage, self.stop, self._why, self._subject):
            part.set_scale(scale)
        self._foot.setFixedHeight(max(scale.px(64), 46))
        self.stop.setFixedWidth(max(scale.px(106), 100))
        self._row.setContentsMargins(scale.px(48), 0, scale.px(48), 0)
        self._row.setSpacing(scale.px(18))
        self._subject.keep_width()

    def show_measuring(self, measuring: Measuring) -> None:
        """Shows how far it is; cheap enough for each repaint of a run that trains."""
        self.stage.headline.show_words(measuring.title, measuring.sentence)
        self._subject.set_spans([Span(measuring.subject, 14, 400, "text3")])
        self._subject.set_told(measuring.subject)
        self._subject.keep_width()
        self._show_heads(measuring)
        for lane, shown in ((measuring.full, self.stage.full), (measuring.mixed, self.stage.mixed)):
            shown.set_count(round(MOST_BLOCKS * lane.fraction), f"{lane.samples:,.0f}", lane.state)
        self.stage.middle.set_number(None)
        self.stage.middle.show_words(*measuring.words())
        self._show_memory(measuring)
        self._tell(measuring)

    def _tell(self, measuring: Measuring) -> None:
        told = (measuring.title, measuring.running, measuring.phase)
        if told == self._told:
            # not each count: a screen reader would never come to an end
            return
        self._told = told
        self.stage.set_told()
        self.setAccessibleName("Measuring")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """All it says."""
        stage = self.stage
        return " ".join(part.words() for part in (stage.headline, stage.full, stage.middle, stage.mixed))

    def _show_heads(self, measuring: Measuring) -> None:
        heads = tuple(map(_head, (measuring.full, measuring.mixed)))
        if heads == self._heads and measuring.tiles is self._tiles:
            return
        self._heads, self._tiles = heads, measuring.tiles
        tiles = measuring.tiles
        shown = tiles if tiles is not None and len(tiles) else patterns(MOST_BLOCKS)
        for head, lane in zip(heads, (self.stage.full, self.stage.mixed), strict=True):
            lane.show_lane(head, shown, MOST_BLOCKS)

    def _show_memory(self, measuring: Measuring) -> None:
        memory = self.stage.memory
        memory.tanks.set_looks(measuring.full.precision, measuring.mixed.precision)
        memory.show_peaks(measuring.full.peak_mib, measuring.mixed.peak_mib)


def _head(lane: MeasuredLane) -> LaneHead:
    return LaneHead(lane.precision, "full", lane.name, lane.detail)
