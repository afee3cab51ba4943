"""The page Sweep: the results of a grid as charts and a table, and the card of a selected cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.compare.verdict import Piece
from engine.experiment.experiment import Precision
from engine.export.document import Conclusion, Document, Section
from engine.export.formats import SWEEP
from engine.export.kinds.sweep import CELLS, CHARTS, TABLE
from engine.sweep.chart import metric_words, shown_figures, state_words
from engine.sweep.results import CellResult, Results
from engine.sweep.words import finished_count
from engine.words.names import dataset_words
from engine.words.numbers import clock_text, duration
from gui.answer import page
from gui.answer.page import PageTexts, StudyPage
from gui.session.views import SweepView
from gui.sweep.chart_view import ChartView, HeatMapView, LinesView, ScatterView
from gui.widgets import Button, ElidedLabel, EmptyState, IconButton, set_text
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.labels import wrapped

_GUIDE, _READING = "sweep-settings", "Reading the results…"
_UNREAD = Document(
    "",
    "",
    (*(Section(tab, tab=tab, widget=name) for tab, name in CHARTS.items()), Section(CELLS, tab=TABLE)),
    "",
    answers=(Conclusion(None, (Piece(_READING),)),),
    nothing=_READING,
)


class SweepPanel(StudyPage[SweepView]):
    """The page of a sweep, whose results are read later than its progress is known.

    `card` shows the last of the `chosen` cells. `example_wanted` asks to fill the form with a small example
    grid.
    """

    example_wanted = Signal()
    kind = PageTexts("Sweep", "sweep", "sweep", "pilots", SWEEP.formats)
    guides: ClassVar[Mapping[str, str]] = dict.fromkeys((*CHARTS, TABLE), _GUIDE)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.resume = Button("Resume", "strip", "Run the remaining combinations", "play")
        empty = EmptyState(
            "How do throughput, memory and accuracy change with any setting?",
            "Add a setting in the form and enter its values, such as batch sizes 32, 64, 128. The sweep "
            "trains every combination, after a short test run (pilot) of each.",
            "Fill in an example",
            "Put three batch sizes and two precisions into the form",
        )
        self.results: Results | None = None
        self.chosen: tuple[int, ...] = ()
        self.charts: dict[str, ChartView] = {}
        self.card = CellCard()
        self._read: Document | None = None
        views = {"map": HeatMapView, "lines": LinesView, "scatter": ScatterView}
        widgets = {name: partial(self._chart, name, make) for name, make in views.items()}
        super().__init__(empty, (self.resume,), widgets, parent, foot=self.card)
        self.head.stop.setToolTip("Stop after this step. Runs are kept, and the sweep can be resumed.")
        self.empty.pressed.connect(self.example_wanted)
        self.card.close_button.clicked.connect(lambda: self.choose(()))
        self.rows_selected.connect(lambda _title, places: self.choose(places))
        self.tabs.currentChanged.connect(lambda: self.choose(self.chosen))
        self.show_view(None)

    def show_view(self, view: SweepView | None) -> None:
        if view is None or self._view is None or view.key != self._view.key:
            self.results = self._read = None
            self.choose(())
        super().show_view(view)
        self.resume.setVisible(view is not None and not view.is_unfinished and not view.is_over)
        self.resume.setEnabled(view is not None and not view.is_elsewhere)

    def show_results(self, results: Results, document: Document) -> None:
        """Show the results of the sweep in view."""
        self.results, self._read = results, document
        self.show_view(self._view)
        self.choose(self.chosen)

    def choose(self, cells: tuple[int, ...]) -> None:
        """Select cells, and show the last one on the card."""
        self.chosen = cells
        shown = self.results.cells[cells[-1]] if self.results is not None and cells else None
        self.card.show_cell(shown, self.results, len(cells))
        for chart in self.charts.values():
            chart.canvas.mark_cells(cells)
        view = self.tabs.views.get(TABLE)
        if view is not None and CELLS in view.sections:
            view.sections[CELLS].select_rows(cells)

    def document(self, view: SweepView) -> Document:
        return self._read or _UNREAD

    def answer_of(self, view: SweepView) -> Results | None:
        return self.results

    def title(self, view: SweepView) -> str:
        return view.name

    def note(self, view: SweepView) -> str:
        if view.is_live and not view.is_waiting:
            known = (_turn_text(view), _time_left_text(view, datetime.now(UTC)))
            return " · ".join(filter(None, known))
        first, over = view.grid.cells[0].experiment, "finished" if view.is_over else "unfinished"
        state = "running in another window" if view.is_elsewhere else over
        return page.state_words(view, f"{first.model} on {dataset_words(first.dataset)}, {state}", "")

    def progress(self, view: SweepView) -> tuple[float, Precision | None]:
        results = self.results
        return (0.0 if results is None else finished_count(results) / len(results.cells)), None

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        return {"tab": self.tabs.name()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError for a broken one."""
        if state:
            self.tabs.restore(state["tab"])

    def _chart(self, name: str, make: Callable[[], ChartView]) -> ChartView:
        chart = self.charts[name] = make()
        chart.cells_chosen.connect(self.choose)
        return chart


def _turn_text(view: SweepView) -> str:
    """Return a sentence on the run or pilot in progress."""
    if (turn := view.turn) is None:
        return "starting a process"
    return view.pilot_words() or f"{view.cell_name(turn.cell)}, run {turn.repeat}"


def _time_left_text(view: SweepView, now: datetime) -> str:
    """Return the time left of a sweep in progress, and the clock time of its end, or "" if unknown."""
    if (estimate := view.estimate) is None:
        return ""
    now = now.astimezone()
    clock = clock_text(now + timedelta(seconds=estimate.seconds_left), now)
    about = "roughly " if estimate.is_rough else ""
    return f"{about}{duration(estimate.seconds_left)} left, until {clock}"


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
        super().__init__("panel", parent=parent)
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
        self.status.set_whole_text(state_words(cell))
        set_text(self.figures, "  ·  ".join(metric_words(cell, shown_figures(results))))
        self.figures.setVisible(bool(self.figures.text()))
        for button in (self.show_runs, self.compare):
            button.setEnabled(bool(cell.run_ids))
        self.compare.set_words(
            *(_COMPARE if chosen == 1 else (f"Compare {chosen:,} combinations", _COMPARE_ALL))
        )
        self.pause.set_words(*(_RESUME if cell.status in _PAUSED else _PAUSE))
        self.exclude.set_words(*(_INCLUDE if cell.status == "excluded" else _EXCLUDE))
        self.pause.setEnabled(cell.status not in ("excluded", "done"))
