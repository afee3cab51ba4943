"""The cells of a sweep: their table, the card of one cell, and the words of both."""

from __future__ import annotations

from datetime import datetime, timedelta

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.compare.metrics import ACCURACY, LOSS, PEAK_MEMORY, SPEED
from engine.sweep.picture import cell_words, shown_figures
from engine.sweep.results import CellResult, Results
from engine.sweep.scaling import WEAK
from engine.sweep.words import columns_of, notes_of
from engine.words.numbers import clock_text, counted, date_text, duration, number, times
from gui.session.sweeps import SweepView
from gui.widgets import Button, ElidedLabel, IconButton, set_text
from gui.widgets.answer_page import wrapped
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS, width_of

_FINAL = ("done", "failed", "excluded")
_ON_CARD = tuple(figure.name for figure in (SPEED, PEAK_MEMORY, ACCURACY, LOSS, WEAK))


def counts(results: Results) -> str:
    """Return the counts of finished cells and of runs: "7 of 12 cells, 14 runs"."""
    done = sum(cell.status in _FINAL for cell in results.cells)
    runs = sum(len(cell.run_ids) for cell in results.cells)
    return f"{done:,} of {counted(len(results.cells), 'cell')}, {counted(runs, 'run')}"


def fraction_done(results: Results) -> float:
    """Return the share of finished cells, 0 to 1."""
    return sum(cell.status in _FINAL for cell in results.cells) / len(results.cells)


def state(view: SweepView) -> str:
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


def time_left(view: SweepView, now: datetime) -> str:
    """Return the time left of a sweep in progress, and the clock time of its end, or "" if unknown."""
    estimate = view.estimate
    if estimate is None or not view.is_live:
        return ""
    now = now.astimezone()
    clock = clock_text(now + timedelta(seconds=estimate.seconds_left), now)
    about = "roughly " if estimate.is_rough else ""
    return f"{about}{duration(estimate.seconds_left)} left, until {clock}"


def facts_of(cell: CellResult, results: Results) -> str:
    """Return a cell's metrics in a line, its ratio with the interval first."""
    parts, grid = [], results.grid
    if cell.ratio is not None and grid.baseline(grid.cells[cell.index]).index != cell.index:
        unreliable = ", not reliable" if cell.is_ratio_disturbed else ""
        parts.append(f"{times(cell.ratio)}× its baseline{_interval(cell.ratio_interval, 2)}{unreliable}")
    for figure in results.figures:
        if (value := cell.value(figure)) is not None and figure.name in _ON_CARD:
            interval = _interval(cell.intervals.get(figure.name), figure.digits)
            parts.append(f"{figure.title} {figure.text_with_unit(value)}{interval}")
    return "  ·  ".join(parts)


def _interval(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    return "" if interval is None else f" ({number(interval[0], digits)} to {number(interval[1], digits)})"


def status_of(cell: CellResult) -> str:
    """Return a cell's state, with its reason."""
    disturbed = ", disturbed" if cell.is_disturbed else ""
    runs = f", {counted(len(cell.run_ids), 'run')}" if cell.run_ids else ""
    return f"{cell.status}{runs}{disturbed}{': ' + cell.why if cell.why else ''}"


_MOST_COLUMN, _MEASURED = 240, 50
_FILTER_TIP = "Show only cells with all of these words in any column, e.g. bf16 64 done"


class CellsView(FilteredTable[CellResult]):
    """A row for every cell of the grid. `cells_chosen` carries the indexes of the selected cells."""

    cells_chosen = Signal(object)

    def __init__(self) -> None:
        self._results: Results | None = None
        table = ResultTable[CellResult]("Cells of the sweep", key=lambda cell: cell.index, about=self._words)
        self._marks = ElidedLabel("", "hint")
        super().__init__(table, "cell", _FILTER_TIP, after=(self._marks,))
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
        self.show_count("There are no cells yet.")

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
_COMPARE = ("Compare with its baseline", "Select the runs of both. Ctrl+click to select more cells.")
_COMPARE_ALL = "Select the runs of these cells and open Results"


class CellCard(Surface):
    """The card of a cell, hidden until a cell is shown. The page connects the buttons."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("chip", parent=parent)
        self.name, self.status = ElidedLabel("", "strong"), ElidedLabel("", "hint")
        self.figures = wrapped("", "body")
        self.show_runs = Button("Show its runs", "strip", "Open the curves of the cell's runs")
        self.compare = Button(_COMPARE[0], "strip", _COMPARE[1])
        self.use = Button("Use these settings", "strip", "Put the cell's settings into the form")
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
        self.status.set_whole_text(status_of(cell))
        set_text(self.figures, facts_of(cell, results))
        self.figures.setVisible(bool(self.figures.text()))
        self.show_runs.setEnabled(bool(cell.run_ids))
        self.compare.setEnabled(bool(cell.run_ids))
        self.compare.set_words(*(_COMPARE if chosen == 1 else (f"Compare {chosen:,} cells", _COMPARE_ALL)))
        self.pause.set_words(*(_RESUME if cell.status in _PAUSED else _PAUSE))
        self.exclude.set_words(*(_INCLUDE if cell.status == "excluded" else _EXCLUDE))
        self.pause.setEnabled(cell.status not in ("excluded", "done"))
