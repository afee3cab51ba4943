"""The runs in view: title strip, stat cards, gauges and four linked plots, on a page that scrolls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QWidget

from gui.session.live_run import LiveRun
from gui.train.cards import LiveCards
from gui.train.details import LiveDetails
from gui.train.outcome import AnswerView, FailureCard, Offer, code_shown
from gui.train.plots import LivePlots
from gui.train.rank_memory import RankMemoryStrip
from gui.train.strip import LiveGauges, LiveStrip
from gui.widgets.boxes import Stretch, in_column, wide

_COMPACT_BELOW, _LOW_BELOW = 560, 748
"""Of the page: the window is 52 higher."""


class RunsPage(QScrollArea):
    """The scrollable page of live runs: title bar, result, metrics and plots, fitted to the window's height.

    `LivePanel` fills its parts.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page = QWidget(self)
        self.strip, self.cards = LiveStrip(page), LiveCards(page)
        self.gauges, self.details = LiveGauges(page), LiveDetails(page)
        self.ranks, self.plots = RankMemoryStrip(page), LivePlots(page)
        self.answer, self.failure = AnswerView(page), FailureCard(page)
        self._told: object = None
        self.failure.hide()
        self.details.hide()
        figures = (self.cards, self.gauges, self.ranks, self.details, wide(self.plots), Stretch())
        told = (self.strip, self.failure, self.answer)
        self._column = in_column(*told, *figures, parent=page, margins=None, spacing=8)
        self.setWidget(page)

    def show_failure(
        self, run: LiveRun | None, offers: Callable[[], Sequence[Offer]], *, is_all: bool
    ) -> None:
        """Show why a run failed, above cards and curves, or instead of them if `is_all`."""
        told = None if run is None else (run.run_id, run.problem, is_all)
        if run is not None and run.problem is not None and told != self._told:
            whose = "" if is_all else f"{run.label} failed. "
            problem = run.problem.model_copy(update={"message": f"{whose}{run.problem.message}"})
            self.failure.show_problem(problem, run.detail, code_shown(run.experiment), offers())
        self._told = told
        self.failure.setVisible(run is not None)
        self.cards.setVisible(not is_all)
        self.plots.setVisible(not is_all)

    def fit(self, height: int) -> None:
        """Hide other parts in a low panel, so the plots have enough height."""
        is_compact = height < _COMPACT_BELOW
        margin = 8 if is_compact else 16
        self._column.setContentsMargins(16, margin, 16, margin)
        self.cards.set_compact(is_compact)
        for line in (self.gauges, self.ranks):
            line.set_room(not is_compact)
        self.answer.set_compact(height < _LOW_BELOW)
        self.plots.set_two(height < _LOW_BELOW)
