"""Between the lanes: the one large number, what it means, and a way to how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from gui.panels.show_buttons import ShowButton
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_text import TextBlock, TextRow
from gui.race.number_view import NumberView

_SIZE = 38
_NUMBER = 208
_MOST_WORDS = 520
"""The room that the number leaves them, as at scale 1; a line that needs more wraps, in smaller type."""

_TIP = "How sure this number is, and what speaks against it"


class ShowMiddle(QWidget):
    """`certainty_wanted` when the number or the link below its words is pressed."""

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
        self._words = QVBoxLayout()
        self._words.addStretch(1)
        self._words.addWidget(self._strong)
        self._words.addWidget(self._rest)
        self._words.addWidget(self._why)
        self._words.addSpacing(0)
        self._words.addWidget(self.sure, 0, Qt.AlignmentFlag.AlignLeft)
        self._words.addStretch(1)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addWidget(self.number)
        self._row.addLayout(self._words, 1)

    def set_scale(self, scale: Scale) -> None:
        for one in (self._strong, self._rest, self._why, self.sure):
            one.set_scale(scale)
        self._words.setSpacing(scale.px(5))
        self._row.setSpacing(scale.px(30))
        self.number.set_most_px(scale.px(_NUMBER))
        self._scale = scale
        self._keep_room()

    def set_number(self, text: str | None) -> None:
        """The number as it counts; None where there is none."""
        self.number.set_text(text)
        self.number.setVisible(text is not None)

    def set_room(self, number: str | None, captions: Sequence[tuple[str, str]]) -> None:
        """Keeps the room for the number that it counts up to, and for the widest of the lines beside it."""
        self.number.set_room_for(number)
        self._captions = tuple(captions)
        self._keep_room()

    def show_words(self, strong: str, rest: str, *, sure: str = "") -> None:
        """The two lines at the number's right; `sure` names the link to more, "" where there is no more."""
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

    def set_told(self) -> None:
        """Lets screen readers know what it says now."""
        for row in (self._strong, self._rest):
            row.set_told(row.words())

    def _keep_room(self) -> None:
        wide = max((self._needed(caption) for caption in self._captions), default=0)
        self._strong.setMinimumWidth(min(wide, self._scale.px(_MOST_WORDS)))

    def _needed(self, caption: tuple[str, str]) -> int:
        spans = [Span(text, _SIZE, weight) for text, weight in zip(caption, (600, 400), strict=True)]
        return max(span.width(self._scale) for span in spans)

    def words(self) -> str:
        return f"{self._strong.words()} {self._rest.words()}".strip()
