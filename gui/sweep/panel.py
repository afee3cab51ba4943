"""The workspace Sweep: a grid's results as pictures and a table, and the search for the fastest settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from engine.export.formats import SWEEP, TUNE
from engine.protocol.tuning import Tuning
from engine.sweep.results import Results
from gui.session.orders.head import WorkHead
from gui.session.orders.studies import StudyView
from gui.session.orders.sweeps import SweepView
from gui.sweep.fastest import words as fastest_words
from gui.sweep.fastest.options import FastestOptions
from gui.sweep.fastest.page import FastestPage
from gui.sweep.page import SweepPage
from gui.sweep.words import fraction_done, state, time_left
from gui.widgets import Button, EmptyState
from gui.widgets.boxes import in_column, wide

_NOTHING_YET = (
    "Which settings are the best for this model on this machine?",
    "Several values in any field of the form, such as batch sizes 32, 64, 128, make a grid: a sweep trains "
    "every combination, short pilots first. Or let Ammeter search for the fastest settings by itself.",
    "Fill in an example",
    "Puts three batch sizes around the form's, and both precisions, into the form",
)


class SweepPanel(QFrame):
    """Shows a sweep or a tuning, whichever was opened last.

    `example_wanted` asks to put a small grid into the form, `guide_wanted` for a page of the guide.
    """

    example_wanted = Signal()
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self._view: SweepView | None = None
        self._tuning: StudyView[Tuning] | None = None
        self.go_on = Button("Go on", "strip", "Trains the turns that are left", "play")
        self.head = WorkHead("Sweep", "sweep", "sweeps", "pilots", SWEEP.formats, self.go_on)
        self.head.stop.setText("Stop the sweep")
        self.head.stop.setToolTip("Ends the sweep with this step; it can go on later. Its runs are kept")
        self.empty = EmptyState(*_NOTHING_YET)
        self.empty.pressed.connect(self.example_wanted)
        self.page = SweepPage()
        self.page.guide_wanted.connect(self.guide_wanted)
        self.options = FastestOptions()
        self.options.guide_wanted.connect(self.guide_wanted)
        self.fastest_go_on = Button("Go on", "strip", "Goes on with the search", "play")
        self.fastest_head = WorkHead(
            "Find the fastest", "search", "searches", "trials", TUNE.formats, self.fastest_go_on
        )
        self.fastest = FastestPage()
        self.fastest.wanted.connect(self.options.wanted)
        self._lay_out()
        self.show_tuning(None)
        self.show_view(None)

    def show_view(self, view: SweepView | None) -> None:
        """Shows how far a sweep is; None for none. Another than before comes to the front."""
        is_other = view is None or self._view is None or view.key != self._view.key
        self._view = view
        if is_other:
            self.page.show_results(None)
            self.bring_to_front(self.page)
        self._show_head()

    def show_tuning(self, view: StudyView[Tuning] | None) -> None:
        """Shows how far a tuning is; None for none. Another than before comes to the front."""
        is_other = view is None or self._tuning is None or view.key != self._tuning.key
        self._tuning = view
        self.fastest_go_on.setVisible(view is not None and not view.is_unfinished and not view.is_complete)
        if view is None:
            self.fastest_head.show_view(None, "", 0.0, None, is_known=False)
        else:
            self.fastest.show_view(view)
            tuning, note = view.answer, fastest_words.state(view)
            fraction, is_known = fastest_words.fraction_done(tuning), bool(tuning.trials)
            self.fastest_head.show_view(view, note, fraction, None, is_known=is_known)
        if is_other:
            self.bring_to_front(self.fastest)

    def bring_to_front(self, page: QWidget) -> None:
        """Shows this page, or the other where it has nothing to show, or else the empty state."""
        known = [self.page] if self._view is not None else []
        shown = [*known, *([self.fastest] if self._tuning is not None else []), self.empty]
        front = page if page in shown else shown[0]
        self._pages.setCurrentWidget(front)
        self.head.setVisible(front is not self.fastest)
        self.fastest_head.setVisible(front is self.fastest)
        self.options.setVisible(front is not self.page)
        self.head.problem.setVisible(front is self.page and bool(self.head.problem.text()))
        self.fastest_head.problem.setVisible(front is self.fastest and bool(self.fastest_head.problem.text()))

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a sweep nor a tuning to show."""
        return self._view is None and self._tuning is None

    def show_results(self, results: Results) -> None:
        """Shows what is known of the cells of the sweep in view."""
        self.page.show_results(results)
        self._show_head()

    def view(self) -> SweepView | None:
        return self._view

    def tuning(self) -> StudyView[Tuning] | None:
        return self._tuning

    def state(self) -> dict[str, Any]:
        """What is remembered across a restart, as plain JSON values."""
        return {"tab": self.page.tabs.name(), "fastest": self.options.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError for a broken one."""
        if state:
            self.page.tabs.open(state["tab"])
            self.options.restore(state["fastest"])

    def _show_head(self) -> None:
        view, results = self._view, self.page.results()
        self.go_on.setVisible(view is not None and not view.is_unfinished and not view.is_over)
        if view is None:
            self.head.show_view(None, "", 0.0, None, is_known=False)
            return
        self.page.show_time(time_left(view, datetime.now(UTC)))
        self.go_on.setEnabled(not view.is_elsewhere)
        fraction = 0.0 if results is None else fraction_done(results)
        self.head.show_view(view, f"{view.name}: {state(view)}", fraction, None, is_known=results is not None)

    def _lay_out(self) -> None:
        panel = QFrame()
        panel.setProperty("surface", "panel")
        self._pages = QStackedLayout()
        problems = (self.head.problem, self.fastest_head.problem)
        in_column(
            self.options, *problems, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8
        )
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in (self.empty, self.page, self.fastest):
            self._pages.addWidget(page)
        in_column(self.head, self.fastest_head, wide(panel), parent=self, margins=16, spacing=8)
