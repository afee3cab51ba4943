"""The answer of a comparison on its page: the sentence, and the quiet line below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from engine.compare.sides import Side
from engine.compare.verdict import Pieces
from gui.widgets import label, set_text
from gui.widgets.boxes import in_column
from gui.widgets.labels import plain_tip
from gui.widgets.stat_card import LARGE, VerdictLabel

_QUIET_LINES = 2


@dataclass(frozen=True)
class Answer:
    """What a comparison found: `lines` about `side`, and in the `quiet` line the interval and the cautions.

    `run_ids` are all its runs; `alike` names the figures that do not differ by more than repeats do; `when`
    says when it ended and how long it took.
    """

    run_ids: tuple[str, ...]
    lines: tuple[Pieces, ...]
    side: Side | None
    quiet: tuple[str, ...]
    when: str
    alike: frozenset[str] = frozenset()


class AnswerView(QWidget):
    """Hidden until there is an answer."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large = VerdictLabel()
        self._large.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._quiet = label("", "body")
        self._quiet.setWordWrap(True)
        self._quiet.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._clauses: tuple[str, ...] = ()
        in_column(self._large, self._quiet, parent=self, margins=(0, 0, 0, 6), spacing=6)
        self.hide()

    def show_answer(self, answer: Answer | None) -> None:
        """Shows an answer; None hides it."""
        self.setVisible(answer is not None)
        if answer is not None:
            self._large.show_lines(answer.lines, answer.side)
            self._clauses = answer.quiet
            self._quiet.setToolTip(plain_tip("\n".join(answer.quiet)))
            self._quiet.setAccessibleName(_line(answer.quiet))
            self._quiet.setVisible(bool(answer.quiet))
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Shows as many clauses as two lines hold, the first at least, and how many more there are."""
        metrics, room = self._quiet.fontMetrics(), QRect(0, 0, self.width(), 1_000)
        for count in range(len(self._clauses), 0, -1):
            more = len(self._clauses) - count
            words = _line((*self._clauses[:count], *([f"{more} more"] if more else [])))
            height = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height()
            if height <= _QUIET_LINES * metrics.lineSpacing() or count == 1:
                set_text(self._quiet, words)
                return

    def set_low(self, is_low: bool) -> None:
        """Takes a smaller size in a low window."""
        self._large.set_sizes(tuple(size for size in LARGE if size[0] < 29) if is_low else LARGE)

    def text(self) -> str:
        """The sentence and all that the quiet line has to say."""
        return f"{self._large.accessibleName()} {_line(self._clauses)}".strip()


def _line(clauses: Sequence[str]) -> str:
    return " · ".join(clauses)
