"""The top of Show: what is seen, one plain sentence about it, and a word of caution where one is due."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from gui.panels.show_buttons import ShowButton
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_text import TextBlock, TextRow

_CAUTION = "Not a clean comparison:"


class ShowHeadline(QWidget):
    """`doubts_wanted` when all that speaks against the figures is asked for."""

    doubts_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._title, self._sentence = TextRow(), TextBlock(17)
        self._doubt = TextRow()
        self.more = ShowButton("", "showLink", "Everything that speaks against these figures")
        self.more.clicked.connect(self.doubts_wanted)
        self._caution = QWidget()
        self._row = QHBoxLayout(self._caution)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._doubt.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._row.addWidget(self._doubt)
        self._row.addWidget(self.more, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        for one in (self._title, self._sentence, self._caution):
            self._column.addWidget(one)
        self._caution.hide()

    def set_scale(self, scale: Scale) -> None:
        for one in (self._title, self._sentence, self._doubt, self.more):
            one.set_scale(scale)
        self._column.setSpacing(scale.px(9))
        self._column.setContentsMargins(0, scale.px(4), 0, 0)
        self._row.setSpacing(scale.px(12))

    def show_words(self, title: str, sentence: str, doubts: Sequence[str] = ()) -> None:
        """The two lines, and the first of the doubts on a third with a way to the others."""
        self._title.set_spans([Span(title, 30, 600)])
        self._title.set_told(title)
        self._sentence.set_words(sentence)
        self._sentence.setVisible(bool(sentence))
        self._caution.setVisible(bool(doubts))
        if not doubts:
            return
        first, others = doubts[0], len(doubts) - 1
        self._doubt.set_spans([Span(_CAUTION, 15, 600), Span(first, 15, 400, "text2", gap=6)])
        self._doubt.set_told(f"{_CAUTION} {first}")
        self.more.setText(f"and {others} more" if others else "More")
        self.more.tell(self.more.text(), "Everything that speaks against these figures")

    def words(self) -> str:
        """All it says."""
        parts = [self._title.words(), self._sentence.words()]
        if not self._caution.isHidden():
            parts.append(self._doubt.words())
        return " ".join(part for part in parts if part)
