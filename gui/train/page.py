"""The runs in view: title strip, stat cards, gauges and four linked plots, on a page that scrolls."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from engine.experiment.problem import Problem
from gui.train.answer import AnswerView
from gui.train.cards import LiveCards
from gui.train.details import LiveDetails
from gui.train.gauges import LiveGauges
from gui.train.plots import LivePlots
from gui.train.strip import LiveStrip
from gui.widgets import label, set_text
from gui.widgets.boxes import Stretch, in_column, wide

_COMPACT_BELOW, _LOW_BELOW = 560, 740
_WIDEST = 720
"""A longer line would not be read."""


class FailureCard(QFrame):
    """Why there is nothing to see, and what to do about it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._message, self._remedy = label("", "title"), label("", "body")
        for words in (self._message, self._remedy):
            words.setTextFormat(Qt.TextFormat.PlainText)
            words.setWordWrap(True)
            words.setMaximumWidth(_WIDEST)
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        in_column(self._message, self._remedy, parent=self, margins=20, spacing=8)

    def tell(self, problem: Problem) -> None:
        """Shows a problem and its remedy."""
        set_text(self._message, problem.message)
        set_text(self._remedy, problem.remedy)
        self.setAccessibleName(f"{problem.message} {problem.remedy}")


class RunsPage(QScrollArea):
    """Lays out its parts for the height there is; the panel fills them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page = QWidget(self)
        self.strip, self.cards = LiveStrip(page), LiveCards(page)
        self.gauges, self.details = LiveGauges(page), LiveDetails(page)
        self.plots = LivePlots(page)
        self.answer, self.failure = AnswerView(page), FailureCard(page)
        self.failure.hide()
        self.details.hide()
        self._column = in_column(
            self.strip,
            self.failure,
            self.answer,
            self.cards,
            self.gauges,
            self.details,
            wide(self.plots),
            Stretch(),
            parent=page,
            margins=None,
            spacing=8,
        )
        self.setWidget(page)

    def show_failure(self, problem: Problem | None) -> None:
        """Shows why runs without a step failed in place of their figures and curves; None for these."""
        if problem is not None:
            self.failure.tell(problem)
        self.failure.setVisible(problem is not None)
        self.cards.setVisible(problem is None)
        self.plots.setVisible(problem is None)

    def fit(self, height: int) -> None:
        """In a low panel, gives the room of other parts to the plots."""
        is_low = height < _COMPACT_BELOW
        margin = 8 if is_low else 16
        self._column.setContentsMargins(16, margin, 16, margin)
        self.cards.set_compact(is_low)
        self.gauges.set_room(not is_low)
        self.answer.set_low(height < _LOW_BELOW)
