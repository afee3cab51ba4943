"""The bar above the runs table: how many runs there are, the filter, and what can be done with some."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QHBoxLayout, QWidget

from engine.records.record import RunRecord, Status
from gui.panels.runs_filter import FilterEdit
from gui.widgets import Button, IconButton, label, set_text

HEIGHT = 40


class RunsBar(QWidget):
    """Its controls are for the panel to connect."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(HEIGHT)
        self.filter = FilterEdit()
        self.compare = Button("Compare", "strip", "Set the ticked runs side by side")
        self.export = Button("Export…", "strip", "Save the ticked runs in another form (Ctrl+E)")
        self.delete = IconButton("trash", "Delete the highlighted runs")
        self.chevron = IconButton("chevron-down", "Close the runs", "Close the table of runs")
        self._count, self._ticked = label("", "unit"), label("", "unit")
        self._extras = QHBoxLayout()
        self._extras.setSpacing(4)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 0, 16, 0)
        row.setSpacing(8)
        row.addWidget(label("Runs", "panelTitle"))
        row.addWidget(self._count)
        row.addSpacing(16)
        row.addWidget(self.filter, 1)
        row.addLayout(self._extras)
        row.addStretch()
        row.addWidget(self._ticked)
        row.addSpacing(8)
        for button in (self.compare, self.export, self.delete, self.chevron):
            row.addWidget(button)

    def add(self, widget: QWidget) -> None:
        """Stands a control of the window's beside the filter."""
        self._extras.addWidget(widget)

    def set_open(self, is_open: bool) -> None:
        """Says of the chevron what it does now."""
        self.chevron.set_icon("chevron-down" if is_open else "chevron-up")
        self.chevron.setAccessibleName("Close the runs" if is_open else "Open the runs")
        self.chevron.setToolTip("Close the table of runs" if is_open else "Open the table of runs")

    def set_counts(self, shown: int, total: int, queued: int, ticked: int) -> None:
        """How many runs there are, those that the filter shows, that wait, and that are ticked."""
        # those that wait stand at the end of the table, out of sight of who has just queued one
        waiting = f" · {queued:,} queued" if queued else ""
        found = f"{shown:,} of " if shown != total else ""
        set_text(self._count, f"{found}{total:,}{waiting}")
        set_text(self._ticked, f"{ticked:,} ticked" if ticked else "")
        self.compare.setEnabled(ticked > 1)
        tip = "Set the ticked runs side by side" if ticked > 1 else "Tick two or more runs to compare them"
        self.compare.setToolTip(tip)
        self.export.setEnabled(ticked > 0)

    def set_highlighted(self, runs: Sequence[RunRecord]) -> None:
        """Which runs the bin would delete."""
        deletable = any(run.status is not Status.RUNNING for run in runs)
        self.delete.setEnabled(deletable)
        self.delete.setToolTip(
            "Delete the highlighted runs" if deletable else "Click a run to highlight it, then delete it here"
        )
