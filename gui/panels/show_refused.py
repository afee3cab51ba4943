"""The page of Show for what cannot be shown: why, and what to do instead."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from gui.panels.show_buttons import ShowButton
from gui.panels.show_scale import Scale
from gui.panels.show_text import TextBlock
from gui.widgets import put_in_the_middle

_WIDTH = 760
_SHOW_ME, _TRY_AGAIN = " Show me", " Try again"


class RefusedPage(QWidget):
    """`compare_wanted` to choose other runs, `show_me_wanted` to measure a pair anew."""

    compare_wanted = Signal()
    show_me_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._sentence, self._remedy = TextBlock(30, 600, "text"), TextBlock(17)
        self.show_me = ShowButton(_SHOW_ME, "showPrimary", "Measure both ways now, and play them", "play")
        self.compare = ShowButton("Choose runs in Compare", "show", "Tick the runs to lay side by side")
        self.show_me.clicked.connect(self.show_me_wanted)
        self.compare.clicked.connect(self.compare_wanted)
        self._buttons = QHBoxLayout()
        for button in (self.show_me, self.compare):
            self._buttons.addWidget(button)
        self._buttons.addStretch(1)
        self._inner = QWidget()
        self._column = QVBoxLayout(self._inner)
        self._column.setContentsMargins(0, 0, 0, 0)
        for block in (self._sentence, self._remedy):
            self._column.addWidget(block)
        self._column.addLayout(self._buttons)
        put_in_the_middle(self, self._inner)

    def set_scale(self, scale: Scale) -> None:
        for part in (self._sentence, self._remedy, self.show_me, self.compare):
            part.set_scale(scale)
        self._inner.setFixedWidth(scale.px(_WIDTH))
        self._column.setSpacing(scale.px(14))
        self._buttons.setContentsMargins(0, scale.px(14), 0, 0)
        self._buttons.setSpacing(scale.px(12))

    def show_refusal(self, sentence: str, remedy: str, *, was_measured: bool = False) -> None:
        """Says why in a sentence, and what to do about it; what `was_measured` can be tried again."""
        self.show_me.setText(_TRY_AGAIN if was_measured else _SHOW_ME)
        self.show_me.setAccessibleName(self.show_me.text().strip())
        self._sentence.set_words(sentence)
        self._remedy.set_words(remedy)
        self._remedy.setVisible(bool(remedy))
        self.setAccessibleName("There is nothing to show")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """All it says."""
        return f"{self._sentence.words()} {self._remedy.words()}".strip()
