"""A comparison in Results: the sentence first, then figures, bars, settings and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QScrollArea, QTabWidget, QToolButton, QWidget

from engine.compare.comparison import Comparison
from engine.compare.figures import SPEED, FigureRow
from engine.drawing.bar_chart import Bar
from engine.drawing.looks import side_fills, side_looks
from engine.experiment.experiment import Experiment
from engine.export.document import Cell, Section
from engine.export.report.published import PublishedRow, published_beside, published_section
from engine.words.numbers import number
from gui.charts.lines import Line, Quantity
from gui.charts.painter import BarChart
from gui.compare.headline import Headline
from gui.compare.reading import ComparedRuns
from gui.compare.settings import SettingsCard
from gui.compare.table import FigureTable
from gui.runs.table.line import dropped_runs, has_runs
from gui.widgets import Button, ElidedLabel, label
from gui.widgets.answer_page import wrapped
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS

if TYPE_CHECKING:
    from gui.charts.overlay import OverlayPlot


class BarPanel(QFrame):
    """The bar chart with its title, and what its whiskers mean."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.chart = BarChart()
        self._unit = ElidedLabel("", "unit")
        head = in_row(label(SPEED.title, "panelTitle"), wide(self._unit), spacing=8)
        in_column(head, wide(self.chart), parent=self, margins=(12, 14, 12, 8), spacing=8)

    def show_comparison(self, comparison: Comparison) -> None:
        """Shows a bar per side."""
        row = next(row for row in comparison.figures if row.figure.name == SPEED.name)
        self._unit.set_whole_text(f"{row.figure.unit}{_whiskers(row)}")
        looks, bars = side_looks(comparison.sides), []
        for report, cell in zip(comparison.reports, row.cells, strict=True):
            side = report.side
            note = ", ".join(part for part in (side.note, "not clean" if report.is_disturbed else "") if part)
            bars.append(
                Bar(
                    looks[side.id],
                    side.label,
                    note,
                    cell.value,
                    "no speed" if cell.value is None else number(cell.value),
                    cell.interval,
                    side.is_named_fast,
                )
            )
        self.chart.set_bars(bars, _why_none(comparison))


def _why_none(comparison: Comparison) -> str:
    """Why no side has a speed, with the runs' own reason if they give one."""
    runs = [run for side in comparison.sides for run in side.runs]
    reasons = dict.fromkeys(run.summary.speed_note for run in runs if run.summary is not None)
    reason = next(filter(None, reasons), "")
    sentence = "None of these runs has a speed." if len(runs) > 1 else "This run has no speed."
    if not reason:
        return sentence
    return f"{sentence} {reason[:1].upper()}{reason[1:].rstrip('.')}."


def _whiskers(row: FigureRow) -> str:
    kinds = {cell.interval_kind for cell in row.cells if cell.interval is not None}
    if not kinds:
        return ""
    if kinds == {"repeats"}:
        return ", 95 % over repeats"
    if kinds == {"within run"}:
        return ", 95 % within the run"
    return ", 95 % over repeats or in a run"


def lines_of(compared: ComparedRuns) -> tuple[Line, ...]:
    """A line per run; a side's oldest run is drawn in front of its repeats."""
    sides = compared.comparison.sides
    counts = Counter(side.precision for side in sides)
    fills = side_fills(sides)
    lines = []
    for side in sides:
        for repeat, run in enumerate(side.runs):
            note = side.note if counts[side.precision] > 1 else ""
            traces = compared.runs[run.id].traces
            lines.append(
                Line(
                    run.id,
                    side.precision,
                    side.title,
                    traces,
                    note,
                    repeat > 0,
                    fills[side.id],
                    side.colour,
                )
            )
    return tuple(lines)


def units_of(compared: ComparedRuns) -> dict[Quantity, str]:
    """The units of the y axis; "" for the loss if the runs do not share one."""
    units = {run.loss_unit for run in compared.runs.values()} - {""}
    return {"loss": units.pop() if len(units) == 1 else "", "accuracy": "%"}


_EMPTY = (
    (
        "There is nothing to compare yet.",
        "Train one model in two precisions: both appear here, in words, figures and curves.",
        "Run an experiment",
        "Goes to the form, where the precisions are ticked",
    ),
    (
        "One run is saved. Train the same model in another precision to compare the two.",
        "Or click the run at the left to see its figures alone.",
        "Run an experiment",
        "Goes to the form, where the precisions are ticked",
    ),
    (
        "Click what you want to see, or tick runs to compare them.",
        "Their curves are overlaid, and their figures appear beside the baseline's.",
        "Compare the newest runs",
        "Ticks the newest comparison, or else the newest two runs",
    ),
)
"""Sentence, hint, button and tooltip with no saved run, with one, and with more."""

_LEAST_FIGURES, _BESIDE = 260, 560
"""The least height of bars and settings, and the width from which they stand side by side."""


class ComparePanel(QFrame):
    """Shows a comparison; runs are chosen at the left, and the sides in the head above.

    `target_chosen` when another accuracy to reach was typed. `missing_wanted` carries a
    tuple of experiments that would show where a gain comes from, `again_wanted` a tuple of sides to measure
    again, `runs_dropped` run ids. `newest_wanted` and `experiment_wanted` are offered while nothing is
    compared.
    """

    target_chosen = Signal()
    missing_wanted = Signal(object)
    again_wanted = Signal(object)
    runs_dropped = Signal(object)
    newest_wanted = Signal()
    experiment_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.setAccessibleName("Comparison")
        self.setAcceptDrops(True)
        self._comparison: Comparison | None = None
        self._saved = 0
        self.offer = Button("", "secondary", "")
        self.offer.clicked.connect(self._take_offer)
        self.headline = Headline()
        self.headline.missing_wanted.connect(self.missing_wanted)
        self.headline.again_wanted.connect(self.again_wanted)
        self.table = FigureTable()
        self.table.target_chosen.connect(self.target_chosen)
        self.published = PublishedCard()
        self.bars, self.settings = BarPanel(), SettingsCard()
        self.figures, self._curves = self._figures_page(), QWidget()
        self._curves_row = in_row(parent=self._curves, margins=(0, 8, 0, 0))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName("Views of the comparison")
        for arrow in self.tabs.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.tabs.addTab(self.figures, "Figures")
        self.tabs.addTab(self._curves, "Curves")
        # else the offer would be at the lower edge
        self._rest = QWidget()
        offer = Placed(self.offer, alignment=Qt.AlignmentFlag.AlignLeft)
        parts = (self.headline, offer, wide(self.tabs), wide(self._rest))
        in_column(*parts, parent=self, margins=(16, 0, 16, 16), spacing=8)
        self.clear()

    @cached_property
    def curves(self) -> OverlayPlot:
        """Made when runs are first compared: it would slow the window's start."""
        from gui.charts.overlay import OverlayPlot

        curves = OverlayPlot(self._curves)
        self._curves_row.addWidget(curves, 1)
        return curves

    def clear(self) -> None:
        """Shows what to do: nothing is opened."""
        self._set_empty(True)
        self._say_empty()

    def set_saved(self, count: int) -> None:
        """Sets how many runs are saved: the offer depends on it."""
        if min(count, 2) != min(self._saved, 2):
            self._saved = count
            if self._comparison is None and not self.offer.isHidden():
                self._say_empty()

    def say_reading(self, count: int) -> None:
        """Says that runs are being read, if no comparison is shown."""
        if self._comparison is None:
            self.offer.hide()
            self.headline.show_hint(f"Reading {count:,} runs…" if count > 1 else "Reading the run…")

    def show_comparison(self, compared: ComparedRuns, headline: str | None) -> None:
        """Shows a comparison, with the side of the id `headline` in the headline, or the only one."""
        self._set_empty(False)
        self._comparison = compared.comparison
        self.curves.set_lines(lines_of(compared), units_of(compared))
        self.bars.show_comparison(compared.comparison)
        self.table.show_comparison(compared.comparison)
        self.published.show_comparison(compared.comparison)
        self.set_headline(headline)

    def set_headline(self, side_id: str | None) -> None:
        """Puts another side in the headline; None for the baseline, if it is alone."""
        comparison = self._comparison
        if comparison is None:
            return
        side = comparison.report(side_id or comparison.baseline.id).side
        self.headline.show_side(comparison, side.id)
        self.table.set_headline(side_id)
        self.settings.show_pair(comparison, side)

    def comparison(self) -> Comparison | None:
        """What is shown; None for nothing."""
        return self._comparison

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Sets which experiments are queued or running already: they are not offered again."""
        self.headline.set_awaited(experiments)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if has_runs(event.mimeData()):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dropEvent(self, event: QDropEvent) -> None:
        run_ids = dropped_runs(event.mimeData())
        if run_ids:
            event.acceptProposedAction()
            self.runs_dropped.emit(run_ids)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        beside = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._beside.setDirection(beside[event.size().width() < _BESIDE])

    def _figures_page(self) -> QScrollArea:
        page, area = QFrame(), QScrollArea()
        page.setProperty("surface", "page")
        charts = QWidget()
        self._beside = in_row(wide(self.bars), wide(self.settings), parent=charts, spacing=8)
        for part in (self.bars, self.settings):
            part.setMinimumHeight(_LEAST_FIGURES)
        in_column(self.table, wide(charts), self.published, parent=page, margins=(0, 8, 0, 0), spacing=8)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName("Figures")
        area.setWidget(page)
        return area

    def _set_empty(self, is_empty: bool) -> None:
        if is_empty:
            self._comparison = None
            self.published.hide()
        self.offer.setVisible(is_empty)
        self._rest.setVisible(is_empty)
        self.tabs.setVisible(not is_empty)

    def _say_empty(self) -> None:
        words, small, action, tip = _EMPTY[min(self._saved, 2)]
        self.headline.show_hint(words, small)
        self.offer.setText(action)
        self.offer.setAccessibleName(action)
        self.offer.setToolTip(tip)

    def _take_offer(self) -> None:
        (self.newest_wanted if self._saved > 1 else self.experiment_wanted).emit()


_WIDTHS = {"Precision": 92, "Batch": 60, "img/s": 72, "Yours": 72, "Accuracy": 76, "Year": 48}
_VALUES: Mapping[str, Callable[[PublishedRow], float | None]] = {
    "Batch": lambda row: row.figure.batch_size,
    "img/s": lambda row: row.figure.samples_per_second,
    "Yours": lambda row: row.ratio,
    "Accuracy": lambda row: row.figure.accuracy_percent,
    "Year": lambda row: row.source.year,
}
_Row = tuple[PublishedRow, tuple[Cell, ...]]


class PublishedCard(QFrame):
    """Folded until its button is pressed, and hidden where nothing is published of the models compared."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._section: Section | None = None
        self._table: ResultTable[_Row] = ResultTable("Published figures", whole=True)
        self.opener = Button(
            "Published figures",
            "toggle",
            "Lays published figures of the same model beside yours, here and in an exported web page",
        )
        self.opener.toggled.connect(self._refresh)
        self._warning, self._sources = wrapped("", "body"), wrapped("", "hint")
        head = in_row(self.opener, Stretch(1))
        in_column(
            head, self._warning, self._table, self._sources, parent=self, margins=(12, 8, 12, 8), spacing=8
        )
        self.hide()

    @property
    def is_open(self) -> bool:
        """Whether the published figures are wanted."""
        return self.opener.isChecked()

    def show_comparison(self, comparison: Comparison) -> None:
        """Shows what is published of the models that were compared."""
        rows = published_beside(comparison)
        section = published_section(rows) if rows else None
        self._section = section
        if section is not None:
            columns = [_column(section, place) for place in range(len(section.headings))]
            self._table.show_rows(list(zip(rows, section.rows, strict=True)), columns)
        self.setVisible(bool(rows))
        self._refresh()

    def texts(self) -> list[list[str]]:
        """The texts of the rows that are shown."""
        return self._table.lines()[1:] if self._table.isVisible() else []

    def _refresh(self) -> None:
        section = self._section if self.is_open else None
        for part in (self._warning, self._table, self._sources):
            part.setVisible(section is not None)
        if section is not None:
            self._warning.setText(" ".join(section.sentences))
            self._sources.setText("\n".join(section.notes))


def _column(section: Section, place: int) -> Column[_Row]:
    title = section.headings[place]
    value, width = _VALUES.get(title), _WIDTHS.get(title)
    return Column(
        title,
        lambda row: row[1][place],
        None if value is None else lambda row: value(row[0]),
        width=width or 90,
        widest=0 if width else GROWS,
        is_number=title in section.right,
    )
