"""The page of a sweep: its results in several views, and the card of a cell."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.sweep.results import CellResult, Results
from gui.sweep.cell_card import CellCard
from gui.sweep.views.cells_view import CellsView
from gui.sweep.views.map_views import HeatMapView, LinesView
from gui.sweep.views.picture_view import PictureView
from gui.sweep.views.scatter_view import ScatterView
from gui.sweep.words import counts
from gui.widgets import ElidedLabel, label
from gui.widgets.answers.view_tabs import ViewTab, ViewTabs
from gui.widgets.boxes import in_column, wide

_TITLES = ("Map", "Lines", "Trade-off", "Table")
_GUIDE = "sweeps"


class SweepPage(QWidget):
    """Shows the results of a sweep. The signals carry cells: those that are chosen, or the last chosen.

    `runs_wanted` asks for their runs in Train, `comparison_wanted` to compare them, `use_wanted` puts the
    cell's settings into the form; `hold_wanted` and `leave_out_wanted` carry a cell and whether to.
    """

    runs_wanted = Signal(object)  # tuple[str, ...]
    comparison_wanted = Signal(object)  # tuple[int, ...]
    use_wanted = Signal(int)
    hold_wanted = Signal(int, bool)
    leave_out_wanted = Signal(int, bool)
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._results: Results | None = None
        self._chosen: tuple[int, ...] = ()
        self._views: Mapping[str, PictureView | CellsView] = {
            "map": HeatMapView(),
            "lines": LinesView(),
            "scatter": ScatterView(),
            "table": CellsView(),
        }
        self._stale: set[str] = set()
        self.counts = ElidedLabel("", "hint")
        self.tabs = ViewTabs(
            "Views of the sweep",
            [
                ViewTab(name, title, _GUIDE, view)
                for (name, view), title in zip(self._views.items(), _TITLES, strict=True)
            ],
        )
        self.card = CellCard()
        self._awaited = label("The cells are being read.", "empty")
        self._awaited.setAlignment(Qt.AlignmentFlag.AlignCenter)
        content = QWidget()
        in_column(self.counts, wide(self.tabs), self.card, parent=content, spacing=8)
        self._pages = QStackedLayout(self)
        for page in (self._awaited, content):
            self._pages.addWidget(page)
        self._connect()

    def show_results(self, results: Results | None) -> None:
        """Shows the results of a sweep; None while they are read."""
        self._results = results
        self._pages.setCurrentIndex(0 if results is None else 1)
        if results is None:
            self.choose(())
            return
        self._stale = set(self._views)
        self._fill_tab()
        self.choose(self._chosen)

    def show_time(self, time_left: str) -> None:
        """Shows how many cells are done, and when all will be."""
        known = "" if self._results is None else counts(self._results)
        self.counts.set_whole_text("  ·  ".join(part for part in (known, time_left) if part))

    def results(self) -> Results | None:
        return self._results

    def chosen(self) -> tuple[int, ...]:
        """The cells that are chosen, the last one shown on the card."""
        return self._chosen

    def choose(self, cells: tuple[int, ...]) -> None:
        """Chooses these cells."""
        self._chosen = cells
        results = self._results
        shown = results.cells[cells[-1]] if results is not None and cells else None
        self.card.show_cell(shown, results, len(cells))
        for view in self._views.values():
            view.mark_cells(cells)

    def _last(self) -> CellResult | None:
        return self.card.cell()

    def _fill_tab(self) -> None:
        """Fills the view in front; the others wait until they are looked at."""
        name = self.tabs.name()
        if name in self._stale and self._results is not None:
            self._stale.remove(name)
            self._views[name].show_results(self._results)
            self._views[name].mark_cells(self._chosen)

    def _show_runs(self) -> None:
        if (cell := self._last()) is not None:
            self.runs_wanted.emit(cell.run_ids)

    def _connect(self) -> None:
        for view in self._views.values():
            view.cells_chosen.connect(self.choose)
        self.tabs.currentChanged.connect(self._fill_tab)
        self.tabs.guide_wanted.connect(self.guide_wanted)
        card = self.card
        card.closed.connect(lambda: self.choose(()))
        card.runs_wanted.connect(self._show_runs)
        card.comparison_wanted.connect(lambda: self.comparison_wanted.emit(self._chosen))
        card.use_wanted.connect(lambda: self.use_wanted.emit(self._chosen[-1]))
        card.hold_wanted.connect(lambda is_held: self.hold_wanted.emit(self._chosen[-1], is_held))
        card.leave_out_wanted.connect(lambda is_out: self.leave_out_wanted.emit(self._chosen[-1], is_out))
