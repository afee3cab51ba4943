"""The answer of a comparison above its live plots."""

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
from gui.widgets.labels import describe, plain_tip
from gui.widgets.verdict_label import LARGE, VerdictLabel

_QUIET_LINES = 2


@dataclass(frozen=True)
class ComparisonOutcome:
    """The result of a comparison: large `lines` about `side`, and small text with interval and cautions.

    `quiet` has the parts of the small text. `run_ids` are all runs of the comparison. `alike` names the
    metrics whose difference is within the spread of repeats. `when` says when the comparison ended and how
    long it took.
    """

    run_ids: tuple[str, ...]
    lines: tuple[Pieces, ...]
    side: Side | None
    quiet: tuple[str, ...]
    when: str
    is_of_scripts: bool = False
    alike: frozenset[str] = frozenset()


class AnswerView(QWidget):
    """Shows the result of a comparison above its live plots. Hidden until there is a result."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large = VerdictLabel()
        self._large.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._quiet = label("", "body", wraps=True)
        self._quiet.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._clauses: tuple[str, ...] = ()
        in_column(self._large, self._quiet, parent=self, margins=(0, 0, 0, 6), spacing=6)
        self.hide()

    def show_answer(self, answer: ComparisonOutcome | None) -> None:
        """Show an answer. None hides it."""
        self.setVisible(answer is not None)
        if answer is not None:
            self._large.show_lines(answer.lines, answer.side)
            self._clauses = answer.quiet
            describe(self._quiet, _line(answer.quiet), plain_tip("\n".join(answer.quiet)))
            self._quiet.setVisible(bool(answer.quiet))
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics, room = self._quiet.fontMetrics(), QRect(0, 0, self.width(), 1_000)
        for count in range(len(self._clauses), 0, -1):
            more = len(self._clauses) - count
            words = _line((*self._clauses[:count], *([f"{more} more"] if more else [])))
            height = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height()
            if height <= _QUIET_LINES * metrics.lineSpacing() or count == 1:
                set_text(self._quiet, words)
                return

    def set_compact(self, is_compact: bool) -> None:
        """Use smaller text in a low window."""
        self._large.set_sizes(tuple(size for size in LARGE if size[0] < 29) if is_compact else LARGE)

    def text(self) -> str:
        """Return the sentence and all clauses of the quiet line."""
        return f"{self._large.accessibleName()} {_line(self._clauses)}".strip()


def _line(clauses: Sequence[str]) -> str:
    return " · ".join(clauses)
