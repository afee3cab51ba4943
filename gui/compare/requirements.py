"""The requirements on a comparison: whether each is met, why, and the interval at the bound."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.compare.comparison import Comparison
from engine.compare.requirement import Outcome, judge_saved
from engine.drawing.looks import SideLook, side_looks
from engine.drawing.requirement_chart import requirement_chart
from gui.charts.painter import DrawingView
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import ElidedLabel, label, set_text
from gui.widgets.boxes import Stretch, Surface, discard, in_column, in_row, set_beside, wide
from gui.widgets.labels import wrapped

_MARKS = {True: "check", False: "cross-outline", None: "help"}
MOST_OUTCOMES = 4
"""The number of outcomes above which only those of one side are shown."""
_LARGE, _SMALL = (28, 240, 84), (16, 112, 24)
"""The size of a mark, and the least width and the height of a chart, of a single outcome and of several."""
_CHART_BESIDE = 520


class RequirementsCard(Surface):
    """A card with the outcome of each requirement, and the exit status for CI. Hidden without any."""

    def __init__(self) -> None:
        super().__init__("panel", "Only if")
        self._name, self._status = ElidedLabel("", "mono"), label("", "strong")
        status = in_row(label("exit status", "hint"), self._status, spacing=4)
        head = in_row(label("Only if", "panelTitle"), wide(self._name), status, spacing=8)
        self.rows: list[OutcomeRow] = []
        self._column = in_column(spacing=10)
        in_column(head, wide(self._column), parent=self, margins=(16, 12, 16, 12), spacing=10)
        self.hide()

    def show_comparison(self, comparison: Comparison, side_id: str) -> None:
        """Show all outcomes. If there are more than `MOST_OUTCOMES`, show only those of the side."""
        judgement, looks = judge_saved(comparison), side_looks(comparison.sides)
        is_short = len(judgement.outcomes) <= MOST_OUTCOMES
        shown = [one for one in judgement.outcomes if is_short or one.side.id == side_id]
        discard(self._column, *self.rows)
        self.rows, told = [], [*comparison.report(side_id).verdict.notes]
        for one in shown:
            # the verdict above, or another row, may say why
            words = " ".join(sentence for sentence in one.reasons if sentence not in told)
            row = OutcomeRow(one, looks[one.side.id], len(shown) == 1, words)
            told += one.reasons
            self.rows.append(row)
            self._column.addWidget(row)
        self._name.set_whole_text(shown[0].name if len(shown) == 1 else "")
        set_text(self._status, str(judgement.exit_status))
        self.setVisible(bool(shown))


class OutcomeRow(QWidget):
    """The outcome of a requirement: the answer in large type, the reason, and the interval at the bound."""

    def __init__(self, outcome: Outcome, look: SideLook, is_alone: bool, words: str) -> None:
        """Show the `words` of the reason, "" if they are said elsewhere."""
        super().__init__()
        self._outcome, self._mark, self._is_alone = outcome, QLabel(), is_alone
        self._size, width, height = _LARGE if is_alone else _SMALL
        answer = label(outcome.word, "answer" if is_alone else "stat")
        name = ElidedLabel("" if is_alone else outcome.name, "mono")
        head = in_row(self._mark, answer, wide(name), spacing=12 if is_alone else 8)
        reason = wrapped(words, "body")
        reason.setHidden(not words)
        told = in_column(*([head] if is_alone else []), reason, Stretch(1), spacing=2)
        self._row = in_row(wide(told), spacing=12)
        in_column(*([] if is_alone else [head]), self._row, parent=self, spacing=2)
        if outcome.cell is not None:
            chart = DrawingView()
            chart.show_drawing(partial(requirement_chart, outcome, look))
            chart.setAccessibleName("")  # that of the row says the same
            chart.setMinimumWidth(width)
            chart.setFixedHeight(height)
            self._row.addWidget(chart)
        self.setAccessibleName(outcome.sentence)
        theme().changed.connect(self._recolor)
        self._recolor()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        set_beside(self._row, not self._is_alone or event.size().width() >= _CHART_BESIDE)

    def _recolor(self) -> None:
        palette, is_met = theme().palette, self._outcome.is_met
        ink = palette.text2 if is_met is None else palette.text
        self._mark.setPixmap(pixmap(_MARKS[is_met], ink, self._size, self.devicePixelRatioF()))
