"""A comparison in Results: the headline, then metrics, speed bars, settings, devices and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QTabWidget, QToolButton, QWidget

from engine.compare.comparison import Comparison, SettingRow, setting_rows
from engine.compare.details import BY_DEVICE
from engine.compare.metrics import SPEED
from engine.compare.ranking import MANY
from engine.compare.sides import Side
from engine.drawing.bar_chart import ChartBar
from engine.drawing.curve_chart import RunCurve
from engine.drawing.looks import By, side_fills, side_looks
from engine.drawing.loss_charts import LossChart, difference_to_baseline, time_to_loss
from engine.experiment.experiment import FACTS, setting_title
from engine.export.report.metrics import speed_note
from engine.export.report.report import devices_section
from engine.words.names import speed_unit
from engine.words.numbers import number
from gui.charts.lines import Quantity, SavedCurves
from gui.charts.painter import BarChart, DrawingView
from gui.compare.headline import Headline
from gui.compare.ranking import SidesTable
from gui.compare.reading import ComparedRuns
from gui.compare.requirements import RequirementsCard
from gui.compare.table import MetricTable
from gui.runs.table.rows import dropped_runs, has_runs
from gui.widgets import Button, ElidedLabel, label, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, in_column, in_row, scrolled, set_beside, wide
from gui.widgets.buttons import Segmented
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS, word_columns


def lines_of(compared: ComparedRuns) -> tuple[SavedCurves, ...]:
    """Return one line per run. A side's oldest run is drawn in front of its repeats."""
    sides = compared.comparison.sides
    counts = Counter(side.precision for side in sides)
    fills = side_fills(sides)
    return tuple(
        SavedCurves(
            run.id,
            side.precision,
            side.title,
            compared.runs[run.id].traces,
            side.note if counts[side.precision] > 1 else "",
            repeat > 0,
            fills[side.id],
        )
        for side in sides
        for repeat, run in enumerate(side.runs)
    )


def loss_curves(compared: ComparedRuns) -> tuple[RunCurve, ...]:
    """Return the smoothed training loss of every run that has samples."""
    return tuple(
        RunCurve(run, side, repeat, points, points, points)
        for side in compared.comparison.sides
        for repeat, run in enumerate(side.runs)
        if len((points := compared.runs[run.id].loss).steps)
    )


def best_units(compared: ComparedRuns) -> dict[Quantity, str]:
    """Return the units of the y axis, with "" for the loss if the runs have different units."""
    units = {run.loss_unit for run in compared.runs.values()} - {""}
    speeds = speed_unit(run.evidence.run.experiment for run in compared.runs.values())
    loss = units.pop() if len(units) == 1 else ""
    return {"loss": loss, "accuracy": "%", "throughput": speeds, "memory": "GiB"}


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

_LEAST_METRICS, _BESIDE, _CHARTS_BESIDE = 260, 560, 800
"""The least height of bars and settings, and the least widths to show these or two charts side by side."""
_SETTING = 90
_LEAST_CHART, _LOSS_HEIGHT, _HIGHEST_LOSS, _ABOVE_CHARTS = 320, 240, 340, 600
_BY_TIP = "Plot the loss by time or by training step"


_ROW, _MARGIN = 24, 12
_FIRST = ("model", "dataset", "batch_size", "epochs", "steps", "step.recipe", "optimizer.name")
_MOST_FIRST = 5


class SettingsCard(Surface):
    """A table of the settings of the baseline and of the side in the headline, those that differ first."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", "Settings", parent)
        self._rows: tuple[SettingRow, ...] = ()
        self._names: tuple[str, ...] = ()
        self.show_all = Button("Show all", "inline", "Show all settings, or only the most important ones")
        self.show_all.setCheckable(True)
        self.show_all.toggled.connect(lambda _on: self._fill())
        self.table = ResultTable[SettingRow](
            "Settings", key=lambda row: row.key, whole=True, sorts=False, row_height=_ROW
        )
        head = in_row(label("Settings", "panelTitle"), Stretch(1), self.show_all, spacing=8)
        in_column(head, self.table, Stretch(1), parent=self, margins=_MARGIN, spacing=8)

    def show_pair(self, comparison: Comparison, side: Side) -> None:
        """Show the settings of the baseline and of `side`, which may be the baseline itself."""
        pair = (comparison.baseline, side) if side is not comparison.baseline else (side,)
        self._rows, self._names = tuple(setting_rows(pair)), tuple(one.title for one in pair)
        self._fill()

    def _fill(self) -> None:
        differing = [row for row in self._rows if row.differs]
        same = [row for row in self._rows if not row.differs]
        by_key = {row.key: row for row in same}
        first = [by_key[key] for key in _FIRST if key in by_key][:_MOST_FIRST]
        shown = same if self.show_all.isChecked() else first
        columns = [
            Column[SettingRow]("Setting", lambda row: setting_title(row.key), width=_SETTING, widest=GROWS)
        ]
        for place, name in enumerate(self._names):
            text = partial(_setting_text, place=place)
            columns.append(Column(name, text, width=_SETTING, widest=GROWS, look=_setting_look))
        self.table.show_rows([*differing, *shown], columns)
        # the machine is listed with them, but is no setting: a report counts as many
        settings = sum(row.key not in FACTS for row in self._rows)
        self.show_all.set_words("Show fewer" if self.show_all.isChecked() else f"Show all {settings:,}")


def _setting_text(row: SettingRow, place: int) -> str:
    return row.texts[place]


def _setting_look(row: SettingRow) -> Look:
    return Look(600 if row.differs else 400)


class BarPanel(Surface):
    """The bar chart of a comparison, with a title and an explanation of its whiskers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.chart = BarChart()
        self._unit = ElidedLabel("", "unit")
        head = in_row(label(SPEED.title, "panelTitle"), wide(self._unit), spacing=8)
        in_column(head, wide(self.chart), Stretch(), parent=self, margins=(12, 14, 12, 8), spacing=8)

    def show_comparison(self, comparison: Comparison) -> None:
        """Show one bar per side."""
        row = next(row for row in comparison.metrics if row.metric.name == SPEED.name)
        self._unit.set_whole_text(", ".join(filter(None, (row.metric.unit, speed_note(row)))))
        looks, bars = side_looks(comparison.sides), []
        for report, cell in zip(comparison.reports, row.cells, strict=True):
            side = report.side
            note = ", ".join(filter(None, (side.note, "unreliable" if report.is_disturbed else "")))
            bars.append(
                ChartBar(
                    looks[side.id],
                    side.label,
                    note,
                    cell.value,
                    "no throughput" if cell.value is None else number(cell.value),
                    cell.interval,
                    side.is_named_fast,
                )
            )
        self.chart.set_bars(bars, _why_none(comparison))


class LossChartPanel(Surface):
    """A chart of the loss of many sides. Where it has a time axis, a switch shows it by step instead."""

    def __init__(self, name: str, *, has_switch: bool = False) -> None:
        super().__init__("panel", name)
        self._title, self._note = label("", "panelTitle"), ElidedLabel("", "unit")
        self.by = Segmented((("seconds", "Time"), ("step", "Steps")), "Horizontal axis", _BY_TIP)
        self.view = DrawingView(self)
        self.view.setMinimumWidth(_LEAST_CHART)
        head = in_row(self._title, wide(self._note), self.by, spacing=8)
        in_column(head, wide(self.view), parent=self, margins=(12, 10, 12, 8), spacing=6)
        # shown before it has its place, it would be a window of its own for a moment
        self.by.setVisible(has_switch)

    def show_chart(self, chart: LossChart | None) -> None:
        """Show a chart. None hides the panel."""
        self.setVisible(chart is not None)
        if chart is not None:
            set_text(self._title, chart.title)
            self._note.set_whole_text(chart.note)
            self.view.show_drawing(chart.draw)


def _why_none(comparison: Comparison) -> str:
    runs = [run for side in comparison.sides for run in side.runs]
    reasons = dict.fromkeys(run.summary.speed_note for run in runs if run.summary is not None)
    reason = next(filter(None, reasons), "")
    sentence = f"No throughput was measured in {'these runs' if len(runs) > 1 else 'this run'}."
    if not reason:
        return sentence
    return f"{sentence} {reason[:1].upper()}{reason[1:].rstrip('.')}."


class DevicesCard(Surface):
    """The metrics of each device of multi-device runs. Hidden if there are no such runs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.table: ResultTable[Sequence[object]] = ResultTable(BY_DEVICE, whole=True, sorts=False)
        in_column(label(BY_DEVICE, "panelTitle"), self.table, parent=self, margins=(12, 12, 12, 8), spacing=8)
        self.hide()

    def show_comparison(self, comparison: Comparison) -> None:
        """Show the devices of all compared runs."""
        section = devices_section(comparison.sides)
        if section is not None:
            self.table.show_rows(section.rows, word_columns(section.headings, section.right, section.rows))
        self.setVisible(section is not None)


class ComparePanel(Surface):
    """The page of a comparison. The runs table selects its runs, and the `ItemHead` above selects its sides.

    `runs_dropped` carries the ids of runs dragged here. While nothing is compared, buttons emit
    `newest_wanted` (compare the newest runs) and `experiment_wanted` (show the form).
    """

    runs_dropped = Signal(object)
    newest_wanted = Signal()
    experiment_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("page", "Comparison", parent)
        self.setAcceptDrops(True)
        self.comparison: Comparison | None = None
        self._saved, self._is_empty = 0, True
        self._losses, self._unit = tuple[RunCurve, ...](), ""
        self.offer = Button("", "secondary", "", do=self._take_offer)
        self.headline = Headline()
        self.ranking = SidesTable("Ranking of the compared sides")
        self.losses = LossChartPanel("Time to loss", has_switch=True)
        self.differences = LossChartPanel("Difference to the baseline")
        self.losses.by.changed.connect(self._show_losses)
        self.further = SidesTable("Further metrics")
        self.table, self.required = MetricTable(self.further), RequirementsCard()
        self.devices, self.bars, self.settings = DevicesCard(), BarPanel(), SettingsCard()
        self.metrics_page, self._curves = self._metrics_page(), QWidget()
        self._curves_row = in_row(parent=self._curves, margins=(0, 8, 0, 0))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName("Views of the comparison")
        for arrow in self.tabs.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.tabs.addTab(self.metrics_page, "Metrics")
        self.tabs.addTab(self._curves, "Curves")
        # else the offer would be at the lower edge
        self._rest = QWidget()
        offer = Placed(self.offer, alignment=Qt.AlignmentFlag.AlignLeft)
        parts = (self.headline, offer, wide(self.tabs), wide(self._rest))
        in_column(*parts, parent=self, margins=(16, 0, 16, 16), spacing=8)
        self.clear()

    @cached_property
    def curves(self) -> Any:
        """The curves, an `OverlayPlot`, imported and made with the first comparison: that takes a while."""
        from gui.charts.overlay import OverlayPlot

        curves = OverlayPlot(self._curves)
        self._curves_row.addWidget(curves, 1)
        return curves

    def clear(self) -> None:
        """Show a hint, because nothing is opened."""
        self._set_empty(True)
        self._say_empty()

    def set_saved_count(self, count: int) -> None:
        """Set the number of saved runs, on which the offered action depends."""
        if min(count, 2) != min(self._saved, 2):
            self._saved = count
            if self._is_empty:
                self._say_empty()

    def show_reading(self, count: int) -> None:
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
        is_ranking = len(compared.comparison.sides) >= MANY
        self._ranked.setVisible(is_ranking)
        self._charts.setVisible(is_ranking)
        self.further.setVisible(is_ranking)
        self.bars.setVisible(not is_ranking)
        self._losses = loss_curves(compared) if is_ranking else ()
        self._unit = best_units(compared)["loss"]
        if is_ranking:
            self.ranking.show_ranking(compared.comparison)
            self.further.show_further(compared.comparison)
            self.differences.show_chart(difference_to_baseline(compared.comparison, self._losses, self._unit))
            self._show_losses()
        else:
            self.bars.show_comparison(compared.comparison)
        self.table.show_comparison(compared.comparison)
        self.devices.show_comparison(compared.comparison)
        self.set_headline(headline)

    def set_headline(self, side_id: str | None) -> None:
        """Show the conclusion about another side. None shows the baseline alone."""
        comparison = self.comparison
        if comparison is None:
            return
        side = comparison.report(side_id or comparison.baseline.id).side
        self.headline.show_side(comparison, side.id)
        self.required.show_comparison(comparison, side.id)
        self.table.set_headline(side_id)
        self.ranking.set_headline(side_id)
        self.settings.show_pair(comparison, side)

    def _show_losses(self) -> None:
        if self.comparison is not None:
            by: By = "seconds" if self.losses.by.value() == "seconds" else "step"
            self.losses.show_chart(time_to_loss(self.comparison, self._losses, self._unit, by))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        event.setAccepted(has_runs(event.mimeData()))

    def dropEvent(self, event: QDropEvent) -> None:
        run_ids = dropped_runs(event.mimeData())
        if run_ids:
            event.acceptProposedAction()
            self.runs_dropped.emit(run_ids)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        set_beside(self._beside, event.size().width() >= _BESIDE)
        set_beside(self._charts_row, event.size().width() >= _CHARTS_BESIDE)
        room = max(_LOSS_HEIGHT, min(_HIGHEST_LOSS, event.size().height() - _ABOVE_CHARTS))
        for panel in (self.losses, self.differences):
            panel.view.setFixedHeight(room)

    def _metrics_page(self) -> QScrollArea:
        page, charts = Surface("page"), QWidget()
        self._beside = in_row(wide(self.bars), wide(self.settings), parent=charts, spacing=8)
        # not as a minimum of the parts: that would take the place of their content's own
        self._beside.addStrut(_LEAST_METRICS)
        self._ranked, self._charts = Surface("panel"), QWidget()
        in_column(self.ranking, parent=self._ranked, margins=(4, 1, 6, 1))
        both = (wide(self.losses), wide(self.differences))
        self._charts_row = in_row(*both, parent=self._charts, spacing=8)
        ranked = (self.required, self._ranked, wide(self._charts))
        parts = (*ranked, self.table, wide(charts), self.devices)
        in_column(*parts, parent=page, margins=(0, 8, 0, 0), spacing=8)
        return scrolled("Metrics", page)

    def _set_empty(self, is_empty: bool) -> None:
        if is_empty:
            self.comparison = None
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
