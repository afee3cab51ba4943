"""The page of a sweep: its results in several views, and the card of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from engine.compare.figures import ACCURACY, PEAK_MEMORY, SPEED
from engine.sweep.heat_map import heat_map
from engine.sweep.lines import lines
from engine.sweep.picture import CellPicture, cell_words, shown_figures, usual_axes, usual_lines
from engine.sweep.results import CellResult, Results
from engine.sweep.scatter import scatter
from engine.sweep.words import columns_of
from gui.sweep.views.choosers import Chooser, chooser_row
from gui.sweep.views.picture_view import PictureView, Slice, figure_entries, figure_named
from gui.sweep.words import counts, facts_of, status_of
from gui.widgets import Button, ElidedLabel, IconButton, label, set_text
from gui.widgets.answer_page import ViewTab, ViewTabs, wrapped
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS

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


class ScatterView(PictureView):
    """Speed against memory in the shade of the accuracy, or any other figures, with the Pareto front."""

    def __init__(self) -> None:
        super().__init__("Scatter of the sweep")
        self.across = Chooser("Across", "The figure across")
        self.up = Chooser("Upwards", "The figure upwards")
        self.shade = Chooser("Shade", "The figure that the shades show; without any, precisions have colours")
        for chooser in (self.across, self.up, self.shade):
            chooser.changed.connect(self.canvas.redraw)
        self.rows.addLayout(chooser_row(self.up, self.across, self.shade))

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        entries = figure_entries(results)
        names = [name for name, _ in entries]
        self.across.offer(entries, PEAK_MEMORY.name if PEAK_MEMORY.name in names else names[-1])
        self.up.offer(entries, SPEED.name if SPEED.name in names else names[0])
        usual = ACCURACY.name if ACCURACY.name in names else None
        self.shade.offer([(None, "none"), *entries], usual)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        x, y = (figure_named(results, chooser.key()) for chooser in (self.across, self.up))
        shade = None if self.shade.key() is None else figure_named(results, self.shade.key())
        return scatter(results, x, y, shade, size)


class HeatMapView(PictureView):
    """A figure over two axes, each cell in a shade of its value."""

    is_map = True

    def __init__(self) -> None:
        super().__init__("Heat map of the sweep")
        self.slice = Slice(self, "Across", "Down", "The axis downwards")

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        self.slice.offer(results, usual_axes(results.grid), is_other_grid=is_other_grid)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        figure = figure_named(results, self.slice.figure.key())
        return heat_map(results, *self.slice.axes(), figure, self.slice.at(), size)


class LinesView(PictureView):
    """A figure over an axis, a line for every value of another."""

    def __init__(self) -> None:
        super().__init__("Lines of the sweep")
        self.slice = Slice(self, "Over", "Lines", "The axis with a line for every value")

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        self.slice.offer(results, usual_lines(results.grid), is_other_grid=is_other_grid)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        figure = figure_named(results, self.slice.figure.key())
        return lines(results, *self.slice.axes(), figure, self.slice.at(), size)


_LEAST_COLUMN, _MOST_COLUMN = 56, 240
_FILTER_TIP = "Shows only the cells that have all of these words in any column, such as: bf16 64 done"


class CellsView(FilteredTable[CellResult]):
    """A row for every cell of the grid. `cells_chosen` carries the indexes of the selected cells."""

    cells_chosen = Signal(object)

    def __init__(self) -> None:
        self._results: Results | None = None
        table = ResultTable[CellResult]("Cells of the sweep", key=lambda cell: cell.index, about=self._words)
        super().__init__(table, "cell", _FILTER_TIP)
        table.selected.connect(lambda: self.cells_chosen.emit(self.chosen()))
        self.show_results(None)

    def show_results(self, results: Results | None) -> None:
        """Shows the cells of these results, filtered and sorted as before; None for none."""
        self._results = results
        if results is None:
            self.table.show_rows((), ())
        else:
            self.table.show_rows(results.cells, _columns(results))
        self.tell("There are no cells yet.")

    def chosen(self) -> tuple[int, ...]:
        """The indexes of the selected cells."""
        return tuple(cell.index for cell in self.table.selected_rows())

    def mark_cells(self, cells: Iterable[int]) -> None:
        """Selects cells that were chosen elsewhere, without `cells_chosen`."""
        self.table.select_keys(cells)

    def _words(self, cell: CellResult) -> str:
        return cell_words(cell, shown_figures(self._results)) if self._results is not None else ""


def _columns(results: Results) -> list[Column[CellResult]]:
    columns = columns_of(results)
    return [
        Column(
            column.heading,
            column.text,
            column.value,
            column.tip,
            width=_LEAST_COLUMN,
            widest=GROWS if column is columns[-1] else _MOST_COLUMN,
            is_number=column.is_number,
        )
        for column in columns
    ]


_HOLD = ("Hold", "Trains nothing more of this cell until it is released")
_RELEASE = ("Release", "Lets this cell take its turns again")
_HELD = ("held", "failed", "stopped")
_LEAVE_OUT = ("Leave out", "Trains nothing of this cell")
_TAKE_IN = ("Take in", "Trains this cell after all")

_COMPARE = ("Compare with its baseline", "Ticks the runs of both; a click with Ctrl chooses further cells")
_COMPARE_ALL = "Ticks the runs of the chosen cells and opens Results"


class CellCard(QFrame):
    """Hidden until a cell is shown. The signals are the buttons'; the page knows which cell is shown."""

    runs_wanted = Signal()
    comparison_wanted = Signal()
    use_wanted = Signal()
    hold_wanted = Signal(bool)
    leave_out_wanted = Signal(bool)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "chip")
        self._cell: CellResult | None = None
        self.name = ElidedLabel("", "strong")
        self.status = ElidedLabel("", "hint")
        self.figures = wrapped("", "body")
        self.show_runs = Button("Show its runs", "strip", "Opens the curves of the cell's runs")
        self.compare = Button(_COMPARE[0], "strip", _COMPARE[1])
        self.use = Button("Use these settings", "strip", "Puts the cell's settings into the form")
        self.hold = Button(_HOLD[0], "strip", _HOLD[1])
        self.leave_out = Button(_LEAVE_OUT[0], "strip", _LEAVE_OUT[1])
        close = IconButton("cross", "Close this card", "Close this card")
        buttons = (self.show_runs, self.compare, self.use, self.hold, self.leave_out)
        top = in_row(self.name, wide(self.status), close, spacing=12)
        below = in_row(*buttons, spacing=8)
        below.addStretch(1)
        in_column(top, self.figures, below, parent=self, margins=(12, 6, 6, 10), spacing=6)
        close.clicked.connect(self.closed)
        self.show_runs.clicked.connect(self.runs_wanted)
        self.compare.clicked.connect(self.comparison_wanted)
        self.use.clicked.connect(self.use_wanted)
        self.hold.clicked.connect(lambda: self.hold_wanted.emit(self.hold.text() == _HOLD[0]))
        self.leave_out.clicked.connect(
            lambda: self.leave_out_wanted.emit(self.leave_out.text() == _LEAVE_OUT[0])
        )
        self.hide()

    def show_cell(self, cell: CellResult | None, results: Results | None, chosen: int) -> None:
        """Shows a cell of these results, the last of so many chosen; None hides the card."""
        self._cell = cell
        self.setVisible(cell is not None)
        if cell is None or results is None:
            return
        self.name.set_whole_text(cell.name)
        self.status.set_whole_text(status_of(cell))
        set_text(self.figures, facts_of(cell, results))
        self.figures.setVisible(bool(self.figures.text()))
        self.show_runs.setEnabled(bool(cell.run_ids))
        self.compare.setEnabled(bool(cell.run_ids))
        self._offer(self.compare, _COMPARE if chosen == 1 else (f"Compare {chosen:,} cells", _COMPARE_ALL))
        self._offer(self.hold, _RELEASE if cell.status in _HELD else _HOLD)
        self._offer(self.leave_out, _TAKE_IN if cell.status == "left out" else _LEAVE_OUT)
        self.hold.setEnabled(cell.status not in ("left out", "done"))

    def cell(self) -> CellResult | None:
        return self._cell

    def _offer(self, button: Button, words: tuple[str, str]) -> None:
        text, tip = words
        button.setText(text)
        button.setAccessibleName(text)
        button.setToolTip(tip)
