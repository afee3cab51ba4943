"""The throughput of every side as bars, with the whiskers of their intervals."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from engine.exports.side_looks import side_fills
from engine.records.cells import FigureRow
from engine.records.comparison import Comparison
from engine.records.figures import SPEED
from gui.panels.compare_sign import is_named_fast
from gui.plots.bars import Bar, BarChart
from gui.widgets import ElidedLabel, label


class BarPanel(QFrame):
    """The chart with its title, and what its whiskers are."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.chart = BarChart()
        self._unit = ElidedLabel("", "unit")
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(label(SPEED.title, "panelTitle"))
        head.addWidget(self._unit, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 14, 12, 8)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self.chart, 1)

    def show_comparison(self, comparison: Comparison) -> None:
        """Shows a bar a side."""
        row = next(row for row in comparison.figures if row.figure.name == SPEED.name)
        self._unit.set_whole_text(f"{row.figure.unit}{_whiskers(row)}")
        fills, bars = side_fills(comparison.sides), []
        for report, cell in zip(comparison.reports, row.cells, strict=True):
            side = report.side
            note = ", ".join(
                part for part in (side.detail, "not clean" if report.is_disturbed else "") if part
            )
            bars.append(
                Bar(
                    side.precision,
                    side.title.removesuffix(f", {side.detail}"),
                    note,
                    cell.value,
                    cell.interval,
                    fills[side.id],
                    is_named_fast(side),
                )
            )
        self.chart.set_bars(bars, _why_none(comparison))


def _why_none(comparison: Comparison) -> str:
    """What to say where no side has a speed: the reason that the runs themselves give, where they do."""
    runs = [run for side in comparison.sides for run in side.runs]
    reasons = dict.fromkeys(run.summary.speed_note for run in runs if run.summary is not None)
    reason = next((one for one in reasons if one), "")
    told = "None of these runs has a speed." if len(runs) > 1 else "This run has no speed."
    if not reason:
        return told
    return f"{told} {reason[:1].upper()}{reason[1:].rstrip('.')}."


def _whiskers(row: FigureRow) -> str:
    kinds = {cell.interval_kind for cell in row.cells if cell.interval is not None}
    if not kinds:
        return ""
    if kinds == {"repeats"}:
        return ", 95 % over repeats"
    if kinds == {"within run"}:
        return ", 95 % within the run"
    return ", 95 % over repeats or in a run"
