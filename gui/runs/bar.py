"""The bar above the runs table: count, filter and buttons; and the page of an empty table."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedLayout, QToolButton, QWidget

from engine.experiment.text import shortened
from engine.store.record import RunRecord, Status
from gui.runs.table.lines import TIP
from gui.runs.views import ALL_RUNS
from gui.widgets import Button, EmptyState, IconButton, label, set_text
from gui.widgets.filter_edit import FilterEdit
from gui.widgets.shortcuts import keys_of
from gui.widgets.welcome import Welcome

_NOT_FOUND = (
    "Use other words, or look in one place alone, as in tag:paper or status:failed.",
    "Show all runs",
    "Empty the filter (Escape in it)",
)
_DELETED = "All runs are deleted."
_UNTIL = "They can be brought back until Ammeter is closed."


class NoRuns(QWidget):
    """`all_wanted` asks to empty the filter, `undo_wanted` to undo a deletion.

    `welcome` stands here where nothing was trained yet.
    """

    all_wanted = Signal()
    undo_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.welcome = Welcome(is_large=False)
        self._not_found = EmptyState("", *_NOT_FOUND)
        tip = f"Bring back the runs that were deleted last ({keys_of('undo')})"
        self._deleted = EmptyState(_DELETED, _UNTIL, "Bring them back", tip)
        self._not_found.pressed.connect(self.all_wanted)
        self._deleted.pressed.connect(self.undo_wanted)
        self._pages = QStackedLayout(self)
        for page in (self.welcome, self._not_found, self._deleted):
            self._pages.addWidget(page)

    def tell_none(self) -> None:
        """Says that there are no runs yet, and what to begin with."""
        self._pages.setCurrentWidget(self.welcome)

    def tell_not_found(self, looked_for: str) -> None:
        """Says that the filter finds nothing."""
        self._not_found.tell(f"No run matches “{shortened(looked_for)}”.", *_NOT_FOUND)
        self._pages.setCurrentWidget(self._not_found)

    def tell_deleted(self) -> None:
        """Says that all runs have just been deleted."""
        self._pages.setCurrentWidget(self._deleted)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)


HEIGHT = 40
_WIDEST_VIEW, _LEAST_FILTER = 180, 96
_VIEWS_TIP = "Saved views: a filter, columns, an order and a baseline under a name"


class RunsBar(QWidget):
    """The panel connects its controls."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(HEIGHT)
        self.filter = FilterEdit("Filter runs", TIP)
        # a narrow window leaves the form its width
        self.filter.setMinimumWidth(_LEAST_FILTER)
        self.compare = Button("Compare", "strip", "Set the ticked runs side by side")
        self.export = Button("Export…", "strip", "Save the ticked runs in another form (Ctrl+E)")
        self.delete = IconButton("trash", "Delete the highlighted runs")
        self.chevron = IconButton("chevron-down", "Close the runs", "Close the table of runs")
        self.views = Button(ALL_RUNS, "strip", _VIEWS_TIP)
        self.views.setMaximumWidth(_WIDEST_VIEW)
        self.columns = IconButton("columns", "Columns", "Choose the columns of the table")
        self.columns.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._count, self._ticked = label("", "unit"), label("", "unit")
        self._extras = QHBoxLayout()
        self._extras.setSpacing(4)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 0, 16, 0)
        row.setSpacing(8)
        row.addWidget(label("Runs", "panelTitle"))
        row.addWidget(self._count)
        row.addSpacing(8)
        row.addWidget(self.views)
        row.addWidget(self.filter, 1)
        row.addWidget(self.columns)
        row.addLayout(self._extras)
        row.addStretch()
        row.addWidget(self._ticked)
        row.addSpacing(8)
        for button in (self.compare, self.export, self.delete, self.chevron):
            row.addWidget(button)

    def add(self, widget: QWidget) -> None:
        """Puts a control of the window beside the filter."""
        self._extras.addWidget(widget)

    def show_view(self, name: str) -> None:
        """Names the view that is shown."""
        self.views.setText(name.replace("&", "&&"))
        self.views.setAccessibleName(f"View: {name}")

    def set_open(self, is_open: bool) -> None:
        """Turns the chevron, and says what it does now."""
        self.chevron.set_icon("chevron-down" if is_open else "chevron-up")
        self.chevron.setAccessibleName("Close the runs" if is_open else "Open the runs")
        self.chevron.setToolTip("Close the table of runs" if is_open else "Open the table of runs")

    def set_counts(self, shown: int, total: int, ticked: int) -> None:
        """Shows how many runs there are, pass the filter and are ticked."""
        shown_of = f"{shown:,} of " if shown != total else ""
        set_text(self._count, f"{shown_of}{total:,}")
        set_text(self._ticked, f"{ticked:,} ticked" if ticked else "")
        self.compare.setEnabled(ticked > 1)
        tip = "Set the ticked runs side by side" if ticked > 1 else "Tick two or more runs to compare them"
        self.compare.setToolTip(tip)
        self.export.setEnabled(ticked > 0)

    def set_highlighted(self, runs: Sequence[RunRecord]) -> None:
        """Enables the bin if it can delete any of these runs."""
        deletable = any(run.status is not Status.RUNNING for run in runs)
        self.delete.setEnabled(deletable)
        self.delete.setToolTip(
            "Delete the highlighted runs" if deletable else "Click a run to highlight it, then delete it here"
        )
