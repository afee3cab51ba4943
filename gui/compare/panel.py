"""A comparison in Results: the headline, then metrics, bars, settings and curves."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QScrollArea, QTabWidget, QToolButton, QWidget

from engine.compare.comparison import Comparison
from engine.drawing.looks import side_fills
from gui.charts.lines import Line, Quantity
from gui.compare.cards import BarPanel, DevicesCard, PublishedCard, SettingsCard
from gui.compare.headline import Headline
from gui.compare.reading import ComparedRuns
from gui.compare.table import FigureTable
from gui.runs.table.line import dropped_runs, has_runs
from gui.widgets import Button
from gui.widgets.boxes import Placed, Surface, in_column, in_row, scrolled, wide

if TYPE_CHECKING:
    from gui.charts.overlay import OverlayPlot


def lines_of(compared: ComparedRuns) -> tuple[Line, ...]:
    """Return one line per run. A side's oldest run is drawn in front of its repeats."""
    sides = compared.comparison.sides
    counts = Counter(side.precision for side in sides)
    fills = side_fills(sides)
    return tuple(
        Line(
            run.id,
            side.precision,
            side.title,
            compared.runs[run.id].traces,
            side.note if counts[side.precision] > 1 else "",
            repeat > 0,
            fills[side.id],
            side.colour,
        )
        for side in sides
        for repeat, run in enumerate(side.runs)
    )


def best_units(compared: ComparedRuns) -> dict[Quantity, str]:
    """Return the units of the y axis, with "" for the loss if the runs have different units."""
    units = {run.loss_unit for run in compared.runs.values()} - {""}
    return {"loss": units.pop() if len(units) == 1 else "", "accuracy": "%"}


_EMPTY = (
    (
        "There is nothing to compare yet.",
        "Train one model in two precisions to see the result, metrics and curves.",
        "",
        "",
    ),
    (
        "One run is saved. Train the same model in another precision to compare the two.",
        "Or click the run on the left to see its metrics.",
        "Run an experiment",
        "Open the form to select precisions",
    ),
    (
        "Click a result to open it, or select runs to compare them.",
        "Their curves are overlaid, and their metrics shown next to the baseline's.",
        "Compare the newest runs",
        "Select the newest comparison, or else the newest two runs",
    ),
)
"""Sentence, hint, button and tooltip for no saved run, one saved run, and more."""

_LEAST_FIGURES, _BESIDE = 260, 560
"""The least height of bars and settings, and the least width to show them side by side."""


class ComparePanel(Surface):
    """The view of a comparison. Runs are selected in the table, and sides in the head above.

    `runs_dropped` carries run ids. `newest_wanted` and `experiment_wanted` are offered while nothing is
    compared.
    """

    runs_dropped = Signal(object)
    newest_wanted = Signal()
    experiment_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("page", "Comparison", parent)
        self.setAcceptDrops(True)
        self.comparison: Comparison | None = None
        self._saved, self._is_empty = 0, True
        self.offer = Button("", "secondary", "", do=self._take_offer)
        self.headline = Headline()
        self.table = FigureTable()
        self.devices, self.published = DevicesCard(), PublishedCard()
        self.bars, self.settings = BarPanel(), SettingsCard()
        self.figures, self._curves = self._figures_page(), QWidget()
        self._curves_row = in_row(parent=self._curves, margins=(0, 8, 0, 0))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName("Views of the comparison")
        for arrow in self.tabs.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.tabs.addTab(self.figures, "Metrics")
        self.tabs.addTab(self._curves, "Curves")
        # else the offer would be at the lower edge
        self._rest = QWidget()
        offer = Placed(self.offer, alignment=Qt.AlignmentFlag.AlignLeft)
        parts = (self.headline, offer, wide(self.tabs), wide(self._rest))
        in_column(*parts, parent=self, margins=(16, 0, 16, 16), spacing=8)
        self.clear()

    @cached_property
    def curves(self) -> OverlayPlot:
        """The curves, created on the first comparison to keep the window's start fast."""
        from gui.charts.overlay import OverlayPlot

        curves = OverlayPlot(self._curves)
        self._curves_row.addWidget(curves, 1)
        return curves

    def clear(self) -> None:
        """Show a hint, because nothing is opened."""
        self._set_empty(True)
        self._say_empty()

    def set_saved(self, count: int) -> None:
        """Set the number of saved runs, on which the offered action depends."""
        if min(count, 2) != min(self._saved, 2):
            self._saved = count
            if self._is_empty:
                self._say_empty()

    def say_reading(self, count: int) -> None:
        """Show that runs are being read, if no comparison is shown."""
        if self.comparison is None:
            self._is_empty = False
            self.offer.hide()
            self.headline.show_hint(f"Reading {count:,} runs…" if count > 1 else "Reading the run…")

    def show_comparison(self, compared: ComparedRuns, headline: str | None) -> None:
        """Show a comparison with the side of the id `headline` in the headline, or the only side."""
        self._set_empty(False)
        self.comparison = compared.comparison
        self.curves.set_lines(lines_of(compared), best_units(compared))
        self.bars.show_comparison(compared.comparison)
        self.table.show_comparison(compared.comparison)
        self.devices.show_comparison(compared.comparison)
        self.published.show_comparison(compared.comparison)
        self.set_headline(headline)

    def set_headline(self, side_id: str | None) -> None:
        """Put another side in the headline. None stands for a baseline without others."""
        comparison = self.comparison
        if comparison is None:
            return
        side = comparison.report(side_id or comparison.baseline.id).side
        self.headline.show_side(comparison, side.id)
        self.table.set_headline(side_id)
        self.settings.show_pair(comparison, side)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        event.setAccepted(has_runs(event.mimeData()))

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
        page, charts = Surface("page"), QWidget()
        self._beside = in_row(wide(self.bars), wide(self.settings), parent=charts, spacing=8)
        # not as a minimum of the parts: that would take the place of their content's own
        self._beside.addStrut(_LEAST_FIGURES)
        parts = (self.table, wide(charts), self.devices, self.published)
        in_column(*parts, parent=page, margins=(0, 8, 0, 0), spacing=8)
        return scrolled("Metrics", page)

    def _set_empty(self, is_empty: bool) -> None:
        if is_empty:
            self.comparison = None
            self.published.hide()
        self._is_empty = is_empty
        self.offer.setVisible(is_empty)
        self._rest.setVisible(is_empty)
        self.tabs.setVisible(not is_empty)

    def _say_empty(self) -> None:
        words, small, action, tip = _EMPTY[min(self._saved, 2)]
        self.headline.show_hint(words, small)
        self.offer.setVisible(bool(action))
        self.offer.set_words(action, tip or words, name=action or words)

    def _take_offer(self) -> None:
        (self.newest_wanted if self._saved > 1 else self.experiment_wanted).emit()
