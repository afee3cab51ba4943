"""The page Sweep: the results of a grid as charts and a table, and the card of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.compare.metrics import ACCURACY, LOSS, PEAK_MEMORY, SPEED
from engine.export.formats import SWEEP
from engine.sweep.chart import cell_words, shown_figures
from engine.sweep.results import WEAK, CellResult, Results
from engine.sweep.words import columns_of, notes_of
from engine.words.numbers import clock_text, counted, date_text, duration, number, times
from gui.session.study_page import StudyHead, StudyPage
from gui.session.sweeps import SweepView
from gui.sweep.chart_view import ChartView, HeatMapView, LinesView, ScatterView
from gui.widgets import Button, ElidedLabel, EmptyState, IconButton, label, set_text
from gui.widgets.answer_page import ViewTab, ViewTabs
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.labels import wrapped
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS, width_of


class SweepPanel(StudyPage[SweepView]):
    """The page of a sweep. `example_wanted` asks to fill the form with a small example grid."""

    example_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        self.resume = Button("Resume", "strip", "Run the remaining combinations", "play")
        super().__init__(StudyHead("Sweep", "sweep", "pilots", SWEEP.formats, self.resume), parent)
        self.head.stop.setText("Stop the sweep")
        self.head.stop.setToolTip("Stop after this step. Runs are kept, and the sweep can be resumed.")
        self.empty = EmptyState(
            "How do throughput, memory and accuracy change with any setting?",
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
        """Return the state to remember, as plain JSON values."""
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
        self.page.show_time(_time_left_text(view, datetime.now(UTC)))
        self.resume.setEnabled(not view.is_elsewhere)
        fraction = 0.0 if results is None else _fraction_done(results)
        self.head.show_view(
            view, f"{view.name}: {_state_text(view)}", fraction, None, is_known=results is not None
        )


_TITLES = ("Map", "Lines", "Trade-off", "Table")
_GUIDE = "sweep-settings"


class SweepPage(QWidget):
    """Shows the results of a sweep as charts and as a table, with details of the selected cell below.

    `runs_wanted` asks to show runs live, `comparison_wanted` to compare the selected cells, and `use_wanted`
    to put a cell's settings into the form. `pause_wanted` and `exclude_wanted` carry a cell's index, and True
    to pause or exclude it, False to undo that.
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
        self._views: Mapping[str, ChartView | CellsView] = {
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
        known = "" if self.results is None else _counts_text(self.results)
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


_FINAL = ("done", "failed", "excluded")
_ON_CARD = tuple(figure.name for figure in (SPEED, PEAK_MEMORY, ACCURACY, LOSS, WEAK))


def _counts_text(results: Results) -> str:
    """Return the counts of finished cells and of runs: "7 of 12 combinations, 14 runs"."""
    done = sum(cell.status in _FINAL for cell in results.cells)
    runs = sum(len(cell.run_ids) for cell in results.cells)
    return f"{done:,} of {counted(len(results.cells), 'combination')}, {counted(runs, 'run')}"


def _fraction_done(results: Results) -> float:
    """Return the share of finished cells, 0 to 1."""
    return sum(cell.status in _FINAL for cell in results.cells) / len(results.cells)


def _state_text(view: SweepView) -> str:
    """Return a sweep's state in words."""
    if view.is_waiting:
        return "waiting in the queue"
    if view.is_live:
        turn = view.turn
        if turn is None:
            return "starting a process"
        return view.pilot_words() or f"{view.cell_name(turn.cell)}, run {turn.repeat}"
    over = "finished" if view.is_over else "unfinished"
    how = "running in another window" if view.is_elsewhere else over
    return ", ".join(part for part in (how, view.device_name, date_text(view.created)) if part)


def _time_left_text(view: SweepView, now: datetime) -> str:
    """Return the time left of a sweep in progress, and the clock time of its end, or "" if unknown."""
    estimate = view.estimate
    if estimate is None or not view.is_live:
        return ""
    now = now.astimezone()
    clock = clock_text(now + timedelta(seconds=estimate.seconds_left), now)
    about = "roughly " if estimate.is_rough else ""
    return f"{about}{duration(estimate.seconds_left)} left, until {clock}"


def _metrics_text(cell: CellResult, results: Results) -> str:
    """Return a cell's metrics in a line, its ratio with the interval first."""
    parts, grid = [], results.grid
    if cell.ratio is not None and grid.baseline(grid.cells[cell.index]).index != cell.index:
        unreliable = ", unreliable" if cell.is_ratio_disturbed else ""
        parts.append(f"{times(cell.ratio)}× its baseline{_interval(cell.ratio_interval, 2)}{unreliable}")
    for figure in results.figures:
        if (value := cell.value(figure)) is not None and figure.name in _ON_CARD:
            interval = _interval(cell.intervals.get(figure.name), figure.digits)
            parts.append(f"{figure.title} {figure.text_with_unit(value)}{interval}")
    return "  ·  ".join(parts)


def _interval(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    return "" if interval is None else f" ({number(interval[0], digits)} to {number(interval[1], digits)})"


def _status_text(cell: CellResult) -> str:
    """Return a cell's state, with its reason."""
    disturbed = ", unreliable" if cell.is_disturbed else ""
    runs = f", {counted(len(cell.run_ids), 'run')}" if cell.run_ids else ""
    return f"{cell.status}{runs}{disturbed}{': ' + cell.why if cell.why else ''}"


_MOST_COLUMN, _MEASURED = 240, 50
_FILTER_TIP = "Show only combinations with all of these words in any column, e.g. bf16 64 done"


class CellsView(FilteredTable[CellResult]):
    """The table of a sweep's cells. `cells_chosen` carries the indexes of the selected cells."""

    cells_chosen = Signal(object)

    def __init__(self) -> None:
        self._results: Results | None = None
        table = ResultTable[CellResult](
            "Combinations of the sweep", key=lambda cell: cell.index, about=self._words
        )
        self._marks = ElidedLabel("", "hint")
        super().__init__(table, "combination", _FILTER_TIP, after=(self._marks,))
        table.selected.connect(lambda: self.cells_chosen.emit(self.chosen()))
        self.mark_cells = table.select_keys
        self.show_results(None)

    def show_results(self, results: Results | None) -> None:
        """Show the cells of these results, filtered and sorted as before. None shows no cell."""
        self._results = results
        self._marks.set_whole_text(" ".join(notes_of(results)) if results is not None else "")
        if results is None:
            self.table.show_rows((), ())
        else:
            self.table.show_rows(results.cells, _columns(results))
        self.show_count("There are no combinations yet.")

    def chosen(self) -> tuple[int, ...]:
        """The indexes of the selected cells."""
        return tuple(cell.index for cell in self.table.selected_rows())

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
            width=width_of((column.heading, *map(column.text, results.cells[:_MEASURED]))),
            widest=GROWS if column is columns[-1] else _MOST_COLUMN,
            is_number=column.is_number,
        )
        for column in columns
    ]


_PAUSE = ("Pause", "Pause this combination until you resume it")
_RESUME = ("Resume", "Resume this combination")
_PAUSED = ("paused", "failed", "stopped")
_EXCLUDE = ("Exclude", "Do not run this combination")
_INCLUDE = ("Include", "Include this combination again")
_COMPARE = ("Compare with its baseline", "Select the runs of both. Ctrl+click to select more combinations.")
_COMPARE_ALL = "Select their runs and open Results"


class CellCard(Surface):
    """A box with the results of one cell of a sweep, and buttons to use, pause or exclude it.

    It is hidden until a cell is shown. The page connects the buttons.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("chip", parent=parent)
        self.name, self.status = ElidedLabel("", "strong"), ElidedLabel("", "hint")
        self.figures = wrapped("", "body")
        self.show_runs = Button("Show its runs", "strip", "Open the curves of its runs")
        self.compare = Button(_COMPARE[0], "strip", _COMPARE[1])
        self.use = Button("Use these settings", "strip", "Put its settings into the form")
        self.pause = Button(_PAUSE[0], "strip", _PAUSE[1])
        self.exclude = Button(_EXCLUDE[0], "strip", _EXCLUDE[1])
        self.close_button = IconButton("cross", "Close this card", "Close this card")
        buttons = (self.show_runs, self.compare, self.use, self.pause, self.exclude)
        top = in_row(self.name, wide(self.status), self.close_button, spacing=12)
        below = in_row(*buttons, Stretch(1), spacing=8)
        in_column(top, self.figures, below, parent=self, margins=(12, 6, 6, 10), spacing=6)
        self.hide()

    @property
    def would_pause(self) -> bool:
        """True if the button pauses the cell, False if it resumes it."""
        return self.pause.text() == _PAUSE[0]

    @property
    def would_exclude(self) -> bool:
        """True if the button excludes the cell, False if it includes it."""
        return self.exclude.text() == _EXCLUDE[0]

    def show_cell(self, cell: CellResult | None, results: Results | None, chosen: int) -> None:
        """Show a cell of these results, the last of `chosen` cells. None hides the card."""
        self.setVisible(cell is not None)
        if cell is None or results is None:
            return
        self.name.set_whole_text(cell.name)
        self.status.set_whole_text(_status_text(cell))
        set_text(self.figures, _metrics_text(cell, results))
        self.figures.setVisible(bool(self.figures.text()))
        self.show_runs.setEnabled(bool(cell.run_ids))
        self.compare.setEnabled(bool(cell.run_ids))
        self.compare.set_words(
            *(_COMPARE if chosen == 1 else (f"Compare {chosen:,} combinations", _COMPARE_ALL))
        )
        self.pause.set_words(*(_RESUME if cell.status in _PAUSED else _PAUSE))
        self.exclude.set_words(*(_INCLUDE if cell.status == "excluded" else _EXCLUDE))
        self.pause.setEnabled(cell.status not in ("excluded", "done"))
