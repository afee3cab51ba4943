"""The workspace Compare: ticked runs beside a baseline, in words, in figures and in curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from engine.records.comparison import Comparison, compare
from engine.records.record import RunRecord
from gui.panels.compare_column import Choice
from gui.panels.compare_headline import Headline
from gui.panels.compare_table import FigureTable
from gui.panels.live_run import LiveRun
from gui.panels.run_words import recipe_notes
from gui.plots.bars import Bar, BarChart
from gui.plots.curves import Curve
from gui.plots.overlay import OverlayPlot
from gui.widgets import ElidedLabel, label

_MOST_FULL_NAMES = 3


class ComparePanel(QScrollArea):
    """Shows what it is given; which runs, and which of them is the baseline, is chosen beside it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setAccessibleName("Comparison")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._runs: tuple[tuple[RunRecord, LiveRun], ...] = ()
        self.headline = Headline()
        self.table = FigureTable()
        self.bars = BarChart()
        self.losses = OverlayPlot("Training loss")
        self.losses.axis_changed.connect(lambda _by_time: self._show_curves())
        self._lay_out()
        self.show_runs(Choice(None, None), ())

    def show_runs(self, choice: Choice, runs: Sequence[tuple[RunRecord, LiveRun]]) -> None:
        """Lays `runs` over one another, against the chosen baseline."""
        self._runs = tuple(runs)
        records = [record for record, _ in runs]
        self._charts.setVisible(bool(records))
        self.table.setVisible(bool(records))
        if choice.baseline is None:
            self.headline.show_hint(
                "Tick runs in the table below to compare them.",
                "Their curves are laid over one another, and their figures stand beside the baseline's.",
            )
            return
        comparison = compare(records, choice.baseline)
        headline = next((record for record in records if record.id == choice.headline), None)
        if headline is None:
            self.headline.show_hint("Tick another run to compare with this one.")
        else:
            self.headline.show_pair(comparison, headline)
        self.table.show_comparison(comparison, choice.headline)
        self._show_bars(comparison)
        self._show_curves()

    def _lay_out(self) -> None:
        inner = QFrame()
        inner.setProperty("surface", "page")
        column = QVBoxLayout(inner)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(8)
        column.addWidget(self.headline)
        column.addWidget(self.table)
        self._charts = QWidget()
        charts = QHBoxLayout(self._charts)
        charts.setContentsMargins(0, 0, 0, 0)
        charts.setSpacing(8)
        charts.addWidget(self._bar_panel(), 2)
        charts.addWidget(self.losses, 3)
        self._charts.setMinimumHeight(240)
        column.addWidget(self._charts, 1)
        self.setWidget(inner)

    def _bar_panel(self) -> QFrame:
        panel = QFrame()
        panel.setProperty("surface", "panel")
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(label("Throughput", "panelTitle"))
        self._bar_unit = ElidedLabel("", "unit")
        head.addWidget(self._bar_unit, 1)
        column = QVBoxLayout(panel)
        column.setContentsMargins(12, 12, 12, 8)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self.bars, 1)
        return panel

    def _show_bars(self, comparison: Comparison) -> None:
        self._bar_unit.set_whole_text("samples/s, whisker: 95 % within the run")
        recipes = recipe_notes(comparison.runs)
        self.bars.set_bars(
            [
                Bar(
                    run.experiment.precision,
                    run.experiment.precision.label,
                    f"{recipes[run.id]}, {run.name}" if recipes[run.id] else run.name,
                    run.summary.samples_per_second if run.summary else None,
                    run.summary.samples_per_second_ci if run.summary else None,
                )
                for run in comparison.runs
            ]
        )

    def _show_curves(self) -> None:
        axis = "seconds" if self.losses.by_time else "step"
        curves = [
            Curve(
                record.id,
                record.experiment.precision,
                # with more than three the legend has room for one name each; the marker tells the precision
                record.name
                if len(self._runs) > _MOST_FULL_NAMES
                else f"{record.experiment.precision.label}, {record.name}",
                np.asarray(live.column(axis), dtype=np.float64),
                np.asarray(live.column("loss"), dtype=np.float64),
            )
            for record, live in self._runs
        ]
        units = {live.loss_unit for _, live in self._runs if live.loss_unit}
        unit = f"{units.pop()}, " if len(units) == 1 else ""
        self.losses.set_curves(
            curves,
            f"Training loss against {'time' if self.losses.by_time else 'step'}",
            f"{unit}smoothed over 15 steps",
        )
