"""The page of the question Sweep: the results of a grid as pictures and a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from engine.export.formats import SWEEP
from engine.sweep.results import Results
from gui.session.study_page import StudyHead
from gui.session.sweeps import SweepView
from gui.sweep.page import SweepPage
from gui.sweep.words import fraction_done, state, time_left
from gui.widgets import Button, EmptyState
from gui.widgets.boxes import in_column, wide

_NOTHING_YET = (
    "How do speed, memory and accuracy change with any setting?",
    "Several values in any field of the form, such as batch sizes 32, 64, 128, make a grid: a sweep trains "
    "every combination, short pilots first.",
    "Fill in an example",
    "Puts three batch sizes around the form's, and both precisions, into the form",
)


class SweepPanel(QFrame):
    """Shows a sweep.

    `example_wanted` asks to put a small grid into the form, `guide_wanted` for a page of the guide.
    """

    example_wanted = Signal()
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self._view: SweepView | None = None
        self.go_on = Button("Go on", "strip", "Trains the turns that are left", "play")
        self.head = StudyHead("Sweep", "sweep", "pilots", SWEEP.formats, self.go_on)
        self.head.stop.setText("Stop the sweep")
        self.head.stop.setToolTip("Ends the sweep with this step; it can go on later. Its runs are kept")
        self.empty = EmptyState(*_NOTHING_YET)
        self.empty.pressed.connect(self.example_wanted)
        self.page = SweepPage()
        self.page.guide_wanted.connect(self.guide_wanted)
        self._lay_out()
        self.show_view(None)

    def show_view(self, view: SweepView | None) -> None:
        """Shows how far a sweep is; None for the empty state."""
        is_other = view is None or self._view is None or view.key != self._view.key
        self._view = view
        if is_other:
            self.page.show_results(None)
        self._pages.setCurrentWidget(self.empty if view is None else self.page)
        self._show_head()

    def show_results(self, results: Results) -> None:
        """Shows what is known of the cells of the sweep in view."""
        self.page.show_results(results)
        self._show_head()

    def view(self) -> SweepView | None:
        return self._view

    def state(self) -> dict[str, Any]:
        """The remembered state, as plain JSON values."""
        return {"tab": self.page.tabs.name()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError for a broken one."""
        if state:
            self.page.tabs.open(state["tab"])

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
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in (self.empty, self.page):
            self._pages.addWidget(page)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)
