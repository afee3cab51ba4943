"""The page of the question Sweep: the results of a grid as charts and a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.export.formats import SWEEP
from engine.sweep.results import Results
from gui.session.study_page import StudyHead, StudyPage
from gui.session.sweeps import SweepView
from gui.sweep.cells import CellCard, CellsView, counts, fraction_done, state, time_left
from gui.sweep.picture_view import HeatMapView, LinesView, PictureView, ScatterView
from gui.widgets import Button, ElidedLabel, EmptyState, label
from gui.widgets.answer_page import ViewTab, ViewTabs
from gui.widgets.boxes import in_column, wide


class SweepPanel(StudyPage[SweepView]):
    """The page of a sweep. `example_wanted` asks to put a small grid into the form."""

    example_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        self.resume = Button("Resume", "strip", "Run the remaining combinations", "play")
        super().__init__(StudyHead("Sweep", "sweep", "pilots", SWEEP.formats, self.resume), parent)
        self.head.stop.setText("Stop the sweep")
        self.head.stop.setToolTip("Stop after this step. Runs are kept, and the sweep can be resumed.")
        self.empty = EmptyState(
            "How do speed, memory and accuracy change with any setting?",
            "Enter several values in any field of the form, such as batch sizes 32, 64, 128. The sweep "
            "trains every combination, after a short test run (pilot) of each.",
            "Fill in an example",
            "Put three batch sizes and two precisions into the form",
        )
        self.empty.pressed.connect(self.example_wanted)
        self.page = SweepPage()
        self.page.tabs.guide_wanted.connect(self.guide_wanted)
        self.lay_out(self.empty, self.page)
        self.show_view(None)

    def show_view(self, view: SweepView | None) -> None:
        """Show a sweep's progress. None shows the empty state."""
        is_other = view is None or self._view is None or view.key != self._view.key
        self._view = view
        if is_other:
            self.page.show_results(None)
        self._pages.setCurrentWidget(self.empty if view is None else self.page)
        self._show_head()

    def show_results(self, results: Results) -> None:
        """Show the results of the sweep in view."""
        self.page.show_results(results)
        self._show_head()

    def state(self) -> dict[str, Any]:
        """The remembered state, as plain JSON values."""
        return {"tab": self.page.tabs.name()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError for a broken one."""
        if state:
            self.page.tabs.open(state["tab"])

    def _show_head(self) -> None:
        view, results = self._view, self.page.results
        self.resume.setVisible(view is not None and not view.is_unfinished and not view.is_over)
        if view is None:
            self.head.show_view(None)
            return
        self.page.show_time(time_left(view, datetime.now(UTC)))
        self.resume.setEnabled(not view.is_elsewhere)
        fraction = 0.0 if results is None else fraction_done(results)
        self.head.show_view(view, f"{view.name}: {state(view)}", fraction, None, is_known=results is not None)


_TITLES = ("Map", "Lines", "Trade-off", "Table")
_GUIDE = "sweep-settings"


class SweepPage(QWidget):
    """The results of a sweep in several views, and the card of a cell. The signals carry the chosen cells, or
    the last one.

    `runs_wanted` asks for their runs in Experiment, `comparison_wanted` to compare them, `use_wanted` puts
    the cell's settings into the form. `pause_wanted` and `exclude_wanted` carry a cell and whether to.
    """

    runs_wanted = Signal(object)  # tuple[str, ...]
    comparison_wanted = Signal(object)  # tuple[int, ...]
    use_wanted = Signal(int)
    pause_wanted = Signal(int, bool)
    exclude_wanted = Signal(int, bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.results: Results | None = None
        self.chosen: tuple[int, ...] = ()
        """The cells that are chosen, the last one shown on the card."""
        self._views: Mapping[str, PictureView | CellsView] = {
            "map": HeatMapView(),
            "lines": LinesView(),
            "scatter": ScatterView(),
            "table": CellsView(),
        }
        self._stale: set[str] = set()
        self.counts, self.card = ElidedLabel("", "hint"), CellCard()
        views = zip(self._views.items(), _TITLES, strict=True)
        tabs = [ViewTab(name, title, _GUIDE, view) for (name, view), title in views]
        self.tabs = ViewTabs("Views of the sweep", tabs)
        awaited, content = label("Reading the results…", "empty"), QWidget()
        awaited.setAlignment(Qt.AlignmentFlag.AlignCenter)
        in_column(self.counts, wide(self.tabs), self.card, parent=content, spacing=8)
        self._pages = QStackedLayout(self)
        for page in (awaited, content):
            self._pages.addWidget(page)
        self._connect()

    def show_results(self, results: Results | None) -> None:
        """Show the results of a sweep. None while they are read."""
        self.results = results
        self._pages.setCurrentIndex(0 if results is None else 1)
        if results is None:
            self.choose(())
            return
        self._stale = set(self._views)
        self._fill_tab()
        self.choose(self.chosen)

    def show_time(self, time_left: str) -> None:
        """Show the number of finished cells, and the time left."""
        known = "" if self.results is None else counts(self.results)
        self.counts.set_whole_text("  ·  ".join(part for part in (known, time_left) if part))

    def choose(self, cells: tuple[int, ...]) -> None:
        self.chosen = cells
        results = self.results
        shown = results.cells[cells[-1]] if results is not None and cells else None
        self.card.show_cell(shown, results, len(cells))
        for view in self._views.values():
            view.mark_cells(cells)

    def _fill_tab(self) -> None:
        # the others wait until they are looked at
        name = self.tabs.name()
        if name in self._stale and self.results is not None:
            self._stale.remove(name)
            self._views[name].show_results(self.results)
            self._views[name].mark_cells(self.chosen)

    def _show_runs(self) -> None:
        if self.results is not None:
            self.runs_wanted.emit(self.results.cells[self.chosen[-1]].run_ids)

    def _connect(self) -> None:
        for view in self._views.values():
            view.cells_chosen.connect(self.choose)
        self.tabs.currentChanged.connect(self._fill_tab)
        card = self.card
        card.close_button.clicked.connect(lambda: self.choose(()))
        card.show_runs.clicked.connect(self._show_runs)
        card.compare.clicked.connect(lambda: self.comparison_wanted.emit(self.chosen))
        card.use.clicked.connect(lambda: self.use_wanted.emit(self.chosen[-1]))
        card.pause.clicked.connect(lambda: self.pause_wanted.emit(self.chosen[-1], card.would_pause))
        card.exclude.clicked.connect(lambda: self.exclude_wanted.emit(self.chosen[-1], card.would_exclude))
