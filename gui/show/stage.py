"""The stage of the race and of its measurement: headline, two lanes, the ratio, and the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QSpacerItem, QWidget

from engine.experiment.experiment import Precision
from engine.race.memory import OF_THE_TIME, TENSOR_CORES_BUSY, percent_text
from engine.race.race import Which
from engine.race.tanks import Tank
from engine.words.numbers import memory_unit_text
from gui.show.race.lanes import LaneView
from gui.show.race.number import NumberView
from gui.show.race.tank import TanksView
from gui.show.scale import COLUMN_GAP, Scale, ShowButton, Span
from gui.show.text import TextBlock, TextRow
from gui.widgets import divider
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from resources.looks import MarkFill


class ShowHeadline(QWidget):
    """Title, result, and a line of doubts.

    `doubts_wanted` asks for all doubts, `again_wanted` to repeat a disturbed measurement.
    """

    doubts_wanted = Signal()
    again_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._title, self._sentence = TextRow(), TextBlock(17)
        self._doubt = TextRow()
        self.more = ShowButton("", "showLink", "Everything that speaks against these figures")
        self.more.clicked.connect(self.doubts_wanted)
        self.again = ShowButton("Measure again", "show", "Train both again, one after the other")
        self.again.clicked.connect(self.again_wanted)
        self._caution = QWidget()
        self._doubt.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        again, more = (
            Placed(one, alignment=Qt.AlignmentFlag.AlignVCenter) for one in (self.again, self.more)
        )
        self._row = in_row(again, self._doubt, more, Stretch(1), parent=self._caution)
        self._column = in_column(self._title, self._sentence, self._caution, parent=self)
        self._caution.hide()

    def set_scale(self, scale: Scale) -> None:
        for part in (self._title, self._sentence, self._doubt, self.again, self.more):
            part.set_scale(scale)
        self._column.setSpacing(scale.px(9))
        self._column.setContentsMargins(0, scale.px(4), 0, 0)
        self._row.setSpacing(scale.px(12))

    def show_words(
        self,
        title: str,
        sentence: str,
        doubts: Sequence[str] = (),
        caution: str = "",
        *,
        is_spoiled: bool = False,
    ) -> None:
        """Shows title and sentence; on a third line `caution` with the first doubt and a link to the others.

        With `is_spoiled` the title itself is the caution, and the third line offers to measure again.
        """
        self._title.set_spans([Span(title, 30, 600)])
        self._title.set_spoken(title)
        self._sentence.set_words(sentence)
        self._sentence.setVisible(bool(sentence))
        self._caution.setVisible(bool(doubts))
        if not doubts:
            return
        first, others = doubts[0], len(doubts) - 1
        self.again.setVisible(is_spoiled)
        spans = [Span(f"{caution}:", 15, 600), Span(first, 15, 400, "text2", gap=6)]
        self._doubt.set_spans(spans[1:] if is_spoiled else spans)
        self._doubt.set_spoken(self._doubt.words())
        self.more.setText(f"and {others} more" if others else "More")
        self.more.tell(self.more.text(), "Everything that speaks against these figures")

    def words(self) -> str:
        """All its text."""
        parts = [self._title.words(), self._sentence.words()]
        if not self._caution.isHidden():
            parts.append(self._doubt.words())
        return " ".join(part for part in parts if part)


_LANE_HEIGHT = 127
"""Five rows of 26 px less the last gap."""


@dataclass(frozen=True)
class LaneHead:
    """What is written above the blocks."""

    precision: Precision
    fill: MarkFill
    name: str
    detail: str


class ShowLane(QWidget):
    """A lane's heading and its blocks; its text changes many times a second without a new layout."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._head: LaneHead | None = None
        self._row, self.view = TextRow(), LaneView()
        self.view.setAccessibleName(name)
        self._column = in_column(self._row, self.view, parent=self)

    def set_scale(self, scale: Scale) -> None:
        self._row.set_scale(scale)
        self._column.setSpacing(scale.px(14))
        self.view.setFixedHeight(scale.px(_LANE_HEIGHT))

    def show_lane(self, head: LaneHead, tiles: NDArray[np.uint8] | None, blocks: int) -> None:
        """Shows a lane of `blocks`, none of them lit."""
        self._head = head
        self._row.set_marker(head.precision, head.fill)
        self.view.set_look(head.precision, head.fill)
        self.view.set_tiles(tiles)
        self.view.set_blocks(blocks)
        self.set_count(0, "0", "")

    def set_count(self, lit: int, count: str, words: str) -> None:
        """Shows how many blocks are lit, the count of samples, and what it counts."""
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

    def set_spoken(self) -> None:
        """Updates what screen readers say."""
        self._row.set_spoken(self._row.words())

    def words(self) -> str:
        return self._row.words()


_WIDTH, _LEAST_WIDTH = 272, 192
_BUSY_DESIGN = (216.0, 170.0)
_ROOM_FOR_ACTIVITY = 560


def memory_width(scale: Scale) -> int:
    """The width of the memory panel, in pixels."""
    return max(scale.px(_WIDTH), _LEAST_WIDTH)


class ShowMemory(QFrame):
    def __init__(self) -> None:
        super().__init__()
        self.setProperty("surface", "showPanel")
        self._title, self._below = TextRow(), TextBlock(14)
        self._title.set_spans([Span("Memory used", 20, 600)])
        self._title.set_spoken("Memory used at its highest point")
        self.tanks = TanksView("Memory used at its highest point")
        self._busy_title, self._busy_below = TextRow(), TextBlock(14)
        self._busy_title.set_spans([Span(TENSOR_CORES_BUSY, 17, 600)])
        self._busy_title.set_spoken(f"{TENSOR_CORES_BUSY}, {OF_THE_TIME}")
        self._busy_below.set_words(OF_THE_TIME)
        self.busy = TanksView(TENSOR_CORES_BUSY, 100.0, percent_text, _BUSY_DESIGN)
        self._show_unit(None, None)
        self._line = divider()
        self._strong, self._rest = TextBlock(20, 600, "text"), TextBlock(14)
        self._head, self._foot = in_column(self._title, self._below), in_column(self._strong, self._rest)
        self._activity = QWidget()
        self._busy_column = in_column(
            divider(), 8, self._busy_title, self._busy_below, wide(self.busy), parent=self._activity
        )
        self._has_activity = False
        self._column = in_column(
            self._head, Placed(self.tanks, 5), self._line, self._foot, Placed(self._activity, 3), parent=self
        )
        self._activity.hide()

    def set_scale(self, scale: Scale) -> None:
        self.setFixedWidth(memory_width(scale))
        texts = (self._title, self._below, self._strong, self._rest, self._busy_title, self._busy_below)
        for text in texts:
            text.set_scale(scale)
        side, end = scale.px(28), scale.px(26)
        self._column.setContentsMargins(side, end, side, end)
        for place in (self._head, self._foot, self._busy_column):
            place.setSpacing(scale.px(5))
        self._column.setSpacing(scale.px(16))

    def show_tanks(self, full: Tank, mixed: Tank) -> None:
        self.tanks.set_tanks(full, mixed)
        self._show_unit(full.amount, mixed.amount)

    def show_activity(self, tanks: tuple[Tank, Tank] | None) -> None:
        """Shows how busy the Tensor Cores were; None where that is not known."""
        self._has_activity = tanks is not None
        if tanks is not None:
            self.busy.set_tanks(*tanks)
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """In a low panel the memory keeps all the room."""
        self._activity.setVisible(self._has_activity and self.height() >= _ROOM_FOR_ACTIVITY)

    def _show_unit(self, *peaks_mib: float | None) -> None:
        # the second line keeps its place before there is an amount
        self._below.set_words(f"at its highest point\n{memory_unit_text(*peaks_mib)}")

    def show_words(self, words: tuple[str, str]) -> None:
        """Shows a strong line and a plain line below it; hides empty ones."""
        self._strong.set_words(words[0])
        self._rest.set_words(words[1])
        self._strong.setVisible(bool(words[0]))
        self._rest.setVisible(bool(words[1]))
        self._line.setVisible(any(words))

    def set_fill(self, fraction: float) -> None:
        """Fills the tanks to this fraction of what they hold, 0 to 1."""
        self.tanks.set_fill(fraction)
        self.busy.set_fill(fraction)

    def words(self) -> tuple[str, str]:
        return self._strong.words(), self._rest.words()


_SIZE = 38
_NUMBER = 208
_MOST_WORDS = 520
"""The width beside the number at scale 1; a longer line wraps, in smaller type."""

_TIP = "How sure this number is, and what speaks against it"


class ShowMiddle(QWidget):
    """The number and its caption; `certainty_wanted` when the number or the link below is pressed."""

    certainty_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._captions: tuple[tuple[str, str], ...] = ()
        self._scale = Scale()
        self.number = NumberView()
        self.number.setToolTip(_TIP)
        self.number.clicked.connect(self.certainty_wanted)
        self._strong, self._rest, self._why = TextRow(), TextRow(), TextBlock(20)
        self.sure = ShowButton("", "showLink", _TIP)
        self.sure.clicked.connect(self.certainty_wanted)
        sure = Placed(self.sure, alignment=Qt.AlignmentFlag.AlignLeft)
        self._words = in_column(Stretch(1), self._strong, self._rest, self._why, 0, sure, Stretch(1))
        self._row = in_row(self.number, wide(self._words), parent=self)

    def set_scale(self, scale: Scale) -> None:
        for part in (self._strong, self._rest, self._why, self.sure):
            part.set_scale(scale)
        self._words.setSpacing(scale.px(5))
        self._row.setSpacing(scale.px(30))
        self.number.set_most_px(scale.px(_NUMBER))
        self._scale = scale
        self._keep_room()

    def set_number(self, text: str | None) -> None:
        """Shows the number as it counts; None hides it."""
        self.number.set_text(text)
        self.number.setVisible(text is not None)

    def set_room(self, number: str | None, captions: Sequence[tuple[str, str]]) -> None:
        """Reserves the width of the final number, and of the widest caption."""
        self.number.set_room_for(number)
        self._captions = tuple(captions)
        self._keep_room()

    def show_words(self, strong: str, rest: str, *, sure: str = "") -> None:
        """Shows the two lines beside the number; `sure` names the link below them, "" for no link."""
        self._strong.set_spans([Span(strong, _SIZE, 600)])
        is_long = Span(rest, _SIZE).width(Scale()) > _MOST_WORDS
        self._rest.setVisible(not is_long)
        self._why.setVisible(is_long)
        if is_long:
            self._why.set_words(rest)
        self._rest.set_spans([Span(rest, _SIZE, 400, "text2")])
        self.sure.setVisible(bool(sure))
        if sure != self.sure.text():
            self.sure.setText(sure)
            self.sure.tell(sure, _TIP)

    def set_spoken(self) -> None:
        """Updates what screen readers say."""
        for row in (self._strong, self._rest):
            row.set_spoken(row.words())

    def _keep_room(self) -> None:
        wide = max((self._needed(caption) for caption in self._captions), default=0)
        self._strong.setMinimumWidth(min(wide, self._scale.px(_MOST_WORDS)))

    def _needed(self, caption: tuple[str, str]) -> int:
        spans = [Span(text, _SIZE, weight) for text, weight in zip(caption, (600, 400), strict=True)]
        return max(span.width(self._scale) for span in spans)

    def words(self) -> str:
        return f"{self._strong.words()} {self._rest.words()}".strip()


class ShowStage(QWidget):
    """Lays out and scales its parts; the pages fill them."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = ShowHeadline()
        self.full, self.mixed = ShowLane("Lane of full precision"), ShowLane("Lane of mixed precision")
        self.middle = ShowMiddle()
        self.memory = ShowMemory()
        self._column = in_column(self.headline, self.full, wide(self.middle), self.mixed, spacing=0)
        self._gap = QSpacerItem(0, 0)
        self._column.insertItem(1, self._gap)
        self._row = in_row(wide(self._column), self.memory, parent=self)

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

    def set_spoken(self) -> None:
        """Updates what screen readers say."""
        for part in (self.full, self.mixed, self.middle):
            part.set_spoken()
