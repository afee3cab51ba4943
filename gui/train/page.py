"""The runs in view: title strip, race or answer, gauges and linked plots, on a page that scrolls."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QWidget

from engine.compare.failure import Failure
from gui.train.details import LiveDetails
from gui.train.failure import FailureView
from gui.train.outcome import AnswerView, ComparisonOutcome
from gui.train.plots import LivePlots
from gui.train.race import Scene
from gui.train.race_view import LiveRaceView
from gui.train.strip import LiveGauges, LiveStrip, RankMemoryStrip
from gui.widgets.boxes import Placed, Stretch, in_column, wide

_PLOTS = 196
"""The least height of the plots between the parts of an answer about scripts."""
_COMPACT_BELOW, _LOW_BELOW, _NARROW_BELOW = 560, 748, 880
"""Of the page: the window is 52 higher."""


class RunsPage(QScrollArea):
    """The scrollable page of live runs: title bar, race or result, and plots, fitted to the window's size.

    `LivePanel` fills its parts.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page = QWidget(self)
        self.strip, self.race = LiveStrip(page), LiveRaceView(page)
        self.gauges, self.details = LiveGauges(page), LiveDetails(page)
        self.ranks, self.plots = RankMemoryStrip(page), LivePlots(page)
        self.answer, self.failure = AnswerView(page), FailureView(page)
        self.failure.hide()
        self.details.hide()
        self.race.hide()
        told = (self.strip, self.failure, self.answer, Placed(self.race, 2))
        self._around: tuple[QWidget, ...] = ()
        figures = (self.gauges, self.ranks, self.details, wide(self.plots), Stretch())
        self._column = in_column(*told, *figures, parent=page, margins=None, spacing=8)
        self.setWidget(page)
        self.strip.view.log_chosen.connect(self.plots.set_log)
        self.strip.view.whole_wanted.connect(lambda: self.plots.set_x_range(None))

    def add_around_plots(self, above: QWidget, below: QWidget) -> None:
        """Add what is above and below the plots while there is an answer about scripts."""
        self._around = (above, below)
        for part in self._around:
            part.hide()
        self._column.insertWidget(self._column.indexOf(self.gauges), above)
        self._column.insertWidget(self._column.indexOf(self.plots) + 1, below)

    def show_answer(self, answer: ComparisonOutcome | None) -> None:
        """Show the answer of a comparison. None hides it."""
        self.answer.show_answer(answer)
        for part in self._around:
            part.setVisible(answer is not None and answer.is_of_scripts)
        self.fit(self.size())

    def show_failure(self, failure: Failure | None, *, is_all: bool) -> None:
        """Show why runs failed, above cards and curves, or instead of them if `is_all`."""
        if failure is not None:
            self.failure.show_failure(failure)
        self.failure.setVisible(failure is not None)
        self.plots.setVisible(not is_all)

    def show_race(self, scene: Scene | None) -> None:
        """Show the race at a moment. None once it is over."""
        is_on, height = scene is not None, self.race.height_for(self.width())
        if scene is not None:
            self.race.show_scene(scene)
        if is_on == self.race.isHidden() or height != self.race.height_for(self.width()):
            self.race.setVisible(is_on)
            self.fit(self.size())

    def fit(self, size: QSize) -> None:
        """Hide other parts in a small panel, so race and plots have enough room."""
        is_compact, is_low = size.height() < _COMPACT_BELOW, size.height() < _LOW_BELOW
        margin = 8 if is_compact else 16
        self._column.setContentsMargins(16, margin, 16, margin)
        for line in (self.gauges, self.ranks):
            line.set_room(not is_compact)
        self.answer.set_compact(is_low)
        is_racing = not self.race.isHidden()
        self.race.set_low(is_low)
        self.race.setMaximumHeight(self.race.height_for(size.width() - 32))
        is_narrow = is_racing and size.width() < _NARROW_BELOW
        has_parts = any(not part.isHidden() for part in self._around)
        self.plots.set_shape(are_two=is_low or is_narrow or has_parts, in_a_row=is_racing)
        self.plots.setMinimumHeight(_PLOTS if has_parts else 0)
