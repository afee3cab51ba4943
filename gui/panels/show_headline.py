"""The top of Show: what is seen, one plain sentence about it, and a word of caution where one is due."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from gui.panels.show_buttons import ShowButton
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_text import TextBlock, TextRow


class ShowHeadline(QWidget):
    """`doubts_wanted` when all that speaks against the figures is asked for, `again_wanted` when a disturbed
    measurement is to be made anew."""

    doubts_wanted = Signal()
    again_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._title, self._sentence = TextRow(), TextBlock(17)
        self._doubt = TextRow()
        self.more = ShowButton("", "showLink", "Everything that speaks against these figures")
        self.more.clicked.connect(self.doubts_wanted)
        self.again = ShowButton("Measure again", "show", "Train both anew, one after the other")
        self.again.clicked.connect(self.again_wanted)
        self._caution = QWidget()
        self._row = QHBoxLayout(self._caution)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._doubt.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._row.addWidget(self.again, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addWidget(self._doubt)
        self._row.addWidget(self.more, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        for one in (self._title, self._sentence, self._caution):
            self._column.addWidget(one)
        self._caution.hide()

    def set_scale(self, scale: Scale) -> None:
        for one in (self._title, self._sentence, self._doubt, self.again, self.more):
            one.set_scale(scale)
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
        """The two lines, and after `caution` the first of the doubts on a third with a way to the others.

        Of a measurement that is spoiled the lines say so: the third one offers to make it anew.
        """
        self._title.set_spans([Span(title, 30, 600)])
        self._title.set_told(title)
        self._sentence.set_words(sentence)
        self._sentence.setVisible(bool(sentence))
        self._caution.setVisible(bool(doubts))
        if not doubts:
            return
        first, others = doubts[0], len(doubts) - 1
        self.again.setVisible(is_spoiled)
        spans = [Span(f"{caution}:", 15, 600), Span(first, 15, 400, "text2", gap=6)]
        self._doubt.set_spans(spans[1:] if is_spoiled else spans)
        self._doubt.set_told(self._doubt.words())
        self.more.setText(f"and {others} more" if others else "More")
        self.more.tell(self.more.text(), "Everything that speaks against these figures")

    def words(self) -> str:
        """All it says."""
        parts = [self._title.words(), self._sentence.words()]
        if not self._caution.isHidden():
            parts.append(self._doubt.words())
        return " ".join(part for part in parts if part)
