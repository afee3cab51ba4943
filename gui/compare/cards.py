"""The cards of a comparison: speed bars, settings of two sides, and devices."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from engine.compare.comparison import Comparison, SettingRow, setting_rows
from engine.compare.devices import BY_DEVICE
from engine.compare.metrics import SPEED, MetricRow
from engine.compare.sides import Side
from engine.drawing.bar_chart import Bar
from engine.drawing.looks import side_looks
from engine.experiment.experiment import FACTS, setting_title
from engine.export.report.report import devices_section
from engine.words.numbers import number
from gui.charts.painter import BarChart
from gui.widgets import Button, ElidedLabel, divider, label
from gui.widgets.boxes import Stretch, Surface, grid_of, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.table import ResultTable
from gui.widgets.table.columns import word_columns

_ROW, _MARGIN, _BETWEEN = 24, 12, 13
_FIRST = ("model", "dataset", "batch_size", "epochs", "steps", "step.recipe", "optimizer.name")
_MOST_FIRST = 5


class SettingsCard(Surface):
    """The settings of the baseline and of the side in the headline, read-only."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", "Settings", parent)
        self._rows: tuple[SettingRow, ...] = ()
        self._texts: list[list[str]] = []
        self.show_all = Button("Show all", "inline", "Show all settings, or only the most important ones")
        self.show_all.setCheckable(True)
        self.show_all.toggled.connect(lambda _on: self._fill())
        self._rows_holder = QWidget()
        head = in_row(
            label("Settings", "panelTitle"), label("read-only", "unit"), Stretch(1), self.show_all, spacing=8
        )
        self._column = in_column(head, self._rows_holder, Stretch(1), parent=self, margins=_MARGIN, spacing=8)

    def show_pair(self, comparison: Comparison, side: Side) -> None:
        """Show the settings of the baseline and of `side`, which may be the baseline itself."""
        pair = (comparison.baseline, side) if side is not comparison.baseline else (side,)
        self._rows = tuple(setting_rows(pair))
        self._fill()

    def texts(self) -> list[list[str]]:
        """Return the texts of the rows: title, then the values, or one value if both are the same."""
        return self._texts

    def _fill(self) -> None:
        differing = [row for row in self._rows if row.differs]
        same = [row for row in self._rows if not row.differs]
        by_key = {row.key: row for row in same}
        first = [by_key[key] for key in _FIRST if key in by_key][:_MOST_FIRST]
        shown = same if self.show_all.isChecked() else first
        self._texts = [_texts(row) for row in (*differing, *shown)]
        # the machine is listed with them, but is no setting: a report counts as many
        left = sum(row.key not in FACTS for row in same if row not in shown)
        both = ", the same in both" if differing or len(self._rows[0].texts) > 1 else ""
        more = [label(f"{left:,} more{both}", "unit")] if left else []
        holder = QWidget()
        in_column(_grid(differing, shown), *more, parent=holder, spacing=0)
        self._column.replaceWidget(self._rows_holder, holder)
        self._rows_holder.hide()
        self._rows_holder.deleteLater()
        self._rows_holder = holder
        holder.show()
        settings = sum(row.key not in FACTS for row in self._rows)
        self.show_all.set_words("Show fewer" if self.show_all.isChecked() else f"Show all {settings:,}")


def _texts(row: SettingRow) -> list[str]:
    return [setting_title(row.key), *(row.texts if row.differs else row.texts[:1])]


def _grid(differing: Sequence[SettingRow], same: Sequence[SettingRow]) -> QWidget:
    holder = QWidget()
    grid = grid_of(holder, spacing=(8, 0))
    # all in one grid, or the values of both would not begin below each other
    for place, row in enumerate((*differing, None, *same)):
        if row is None:
            if differing:
                grid.addWidget(divider(), place, 0, 1, 3)
                grid.setRowMinimumHeight(place, _BETWEEN)
            continue
        texts = _texts(row)
        for column, text in enumerate(texts):
            role = "body" if column == 0 else "strong" if column == 2 else "value"
            grid.addWidget(_cell(text, role), place, column, 1, 2 if len(texts) == column + 1 == 2 else 1)
    for column, stretch in enumerate((4, 3, 3)):
        grid.setColumnStretch(column, stretch)
    return holder


def _cell(text: str, role: str) -> QLabel:
    result = ElidedLabel(text, role)
    result.setFixedHeight(_ROW)
    result.setToolTip(plain_tip(text))
    result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return result


class BarPanel(Surface):
    """The bar chart with its title and the meaning of its whiskers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.chart = BarChart()
        self._unit = ElidedLabel("", "unit")
        head = in_row(label(SPEED.title, "panelTitle"), wide(self._unit), spacing=8)
        in_column(head, wide(self.chart), Stretch(), parent=self, margins=(12, 14, 12, 8), spacing=8)

    def show_comparison(self, comparison: Comparison) -> None:
        """Show one bar per side."""
        row = next(row for row in comparison.metrics if row.metric.name == SPEED.name)
        self._unit.set_whole_text(f"{row.metric.unit}{_whiskers(row)}")
        looks, bars = side_looks(comparison.sides), []
        for report, cell in zip(comparison.reports, row.cells, strict=True):
            side = report.side
            note = ", ".join(filter(None, (side.note, "unreliable" if report.is_disturbed else "")))
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
    runs = [run for side in comparison.sides for run in side.runs]
    reasons = dict.fromkeys(run.summary.speed_note for run in runs if run.summary is not None)
    reason = next(filter(None, reasons), "")
    sentence = f"No speed was measured in {'these runs' if len(runs) > 1 else 'this run'}."
    if not reason:
        return sentence
    return f"{sentence} {reason[:1].upper()}{reason[1:].rstrip('.')}."


def _whiskers(row: MetricRow) -> str:
    kinds = {cell.interval_kind for cell in row.cells if cell.interval is not None}
    if not kinds:
        return ""
    if kinds == {"repeats"}:
        return ", 95% interval over repeats"
    if kinds == {"within run"}:
        return ", 95% interval within the run"
    return ", 95% interval over repeats or within a run"


class DevicesCard(Surface):
    """The metrics of each device, hidden if no run was trained on multiple devices."""

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
