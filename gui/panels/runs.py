"""The runs panel: every saved run as one line, to tick, filter, compare, rename, delete or stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMenu,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from engine.records.record import RunRecord, Status
from gui.panels.runs_figures import Column
from gui.panels.runs_filter import FilterEdit
from gui.panels.runs_model import RunsModel
from gui.panels.runs_table import RunsTable
from gui.widgets import Button, IconButton, label, set_text

HEADER_HEIGHT = 40
_NOT_RESUMED = "Runs cannot be resumed here."
_NOT_BEGUN = "Runs cannot be begun here."
_NO_RUNS = "No runs yet. Each run is kept here with its curves and figures, also after a restart."


class RunsPanel(QWidget):
    """The dock's runs. It shows and asks; the main window does what is asked, and hands the runs in."""

    checked_changed = Signal(object)  # tuple[str, ...]
    compare_requested = Signal(object)  # tuple[str, ...]
    delete_requested = Signal(object)  # tuple[str, ...]
    use_settings_requested = Signal(object)  # RunRecord
    rename_requested = Signal(object, str)  # RunRecord, the new name
    stop_requested = Signal()
    take_out_requested = Signal(str)
    begin_requested = Signal(str)
    resume_requested = Signal(str)
    open_requested = Signal(str)
    details_requested = Signal(str)
    open_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RunsModel(self)
        self.table = RunsTable(self.model)
        self.filter = FilterEdit()
        self._is_open = True
        self._resume_obstacle: Callable[[RunRecord], str | None] = lambda _run: _NOT_RESUMED
        self._begin_obstacle: Callable[[RunRecord], str | None] = lambda _run: _NOT_BEGUN
        self._empty = label(_NO_RUNS, "empty")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.table)
        self.pages.addWidget(self._empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._make_header())
        layout.addWidget(self.pages, 1)
        self._connect()
        self._refresh()

    def set_runs(self, runs: Sequence[RunRecord]) -> None:
        """Shows these runs and no others; what is ticked, highlighted and scrolled to stays so."""
        self.model.set_runs(runs)
        self._refresh()

    def update_run(self, run: RunRecord) -> None:
        """Adds a run, or shows what has changed in one."""
        self.model.update_run(run)
        self._refresh()

    def set_progress(self, run_id: str, fraction: float) -> None:
        """How far a running run is, 0 to 1."""
        self.model.set_progress(run_id, fraction)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Ticks these runs and no others."""
        self.model.set_checked(ids)

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        return self.model.checked()

    def is_open(self) -> bool:
        return self._is_open

    def set_open(self, is_open: bool) -> None:
        """Shows the table, or the header alone; `open_changed` tells the window to make room."""
        if is_open == self._is_open:
            return
        self._is_open = is_open
        self.pages.setVisible(is_open)
        self._chevron.set_icon("chevron-down" if is_open else "chevron-up")
        self._chevron.setAccessibleName("Close the runs" if is_open else "Open the runs")
        self._chevron.setToolTip("Close the table of runs" if is_open else "Open the table of runs")
        self.open_changed.emit(is_open)

    def add_header_widget(self, widget: QWidget) -> None:
        """Stands a control of the window's, such as the switch to the log, beside the filter."""
        self._extras.addWidget(widget)

    def set_resume_obstacle(self, obstacle: Callable[[RunRecord], str | None]) -> None:
        """How the panel learns why a run that is over cannot go on; None where it can."""
        self._resume_obstacle = obstacle

    def set_begin_obstacle(self, obstacle: Callable[[RunRecord], str | None]) -> None:
        """How the panel learns why a queued run is not for this window to begin; None where it is."""
        self._begin_obstacle = obstacle

    def state(self) -> dict[str, Any]:
        """What survives a restart: how the table is sorted."""
        header = self.table.horizontalHeader()
        descending = header.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
        return {"column": header.sortIndicatorSection(), "descending": descending}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises KeyError or ValueError for anything else."""
        orders = Qt.SortOrder
        order = orders.DescendingOrder if state["descending"] else orders.AscendingOrder
        self.table.sortByColumn(Column(state["column"]), order)

    def delete_highlighted(self) -> None:
        """Asks for the highlighted runs to be deleted; one that waits is taken out of the queue instead."""
        chosen = self.table.highlighted()
        for run in chosen:
            if run.status is Status.QUEUED:
                self.take_out_requested.emit(run.id)
        over = tuple(run.id for run in chosen if run.status.is_over)
        if over:
            self.delete_requested.emit(over)

    def menu_for(self, run: RunRecord) -> QMenu:
        """What can be done with a run, as the menu of its row."""
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.setAccessibleName(f"What to do with {run.name}")
        for words, against, slot in self._entries(run):
            action = menu.addAction(words)
            action.setToolTip(against or words)
            action.setEnabled(against is None)
            action.triggered.connect(lambda _=False, slot=slot: slot())
        return menu

    def _entries(self, run: RunRecord) -> list[tuple[str, str | None, Callable[[], object]]]:
        """The menu's lines: words, why it cannot be chosen (None if it can), and what it does."""
        unborn = "It has not begun yet." if run.status is Status.QUEUED else None
        alone = None if len(self.checked()) > 1 else "Tick two or more runs to compare them."
        entries: list[tuple[str, str | None, Callable[[], object]]] = [
            ("Show its curves", unborn, lambda: self.open_requested.emit(run.id)),
            ("Details", unborn, lambda: self.details_requested.emit(run.id)),
            ("Use these settings", None, lambda: self.use_settings_requested.emit(run)),
            ("Rename", None, lambda: self.table.rename(run.id)),
            ("Compare the ticked runs", alone, self._compare),
        ]
        if run.status is Status.RUNNING:
            entries.append(("Stop", None, self.stop_requested.emit))
        elif run.status is Status.QUEUED:
            waits = self._begin_obstacle(run)
            entries.append(("Run", waits, lambda: self.begin_requested.emit(run.id)))
            entries.append(("Take out of the queue", None, self.delete_highlighted))
        else:
            obstacle = self._resume_obstacle(run)
            entries.append(("Resume", obstacle, lambda: self.resume_requested.emit(run.id)))
            entries.append(("Delete", None, self.delete_highlighted))
        return entries

    def _make_header(self) -> QWidget:
        header = QWidget()
        header.setFixedHeight(HEADER_HEIGHT)
        row = QHBoxLayout(header)
        row.setContentsMargins(16, 0, 16, 0)
        row.setSpacing(8)
        self._count, self._selected = label("", "unit"), label("", "unit")
        self._extras = QHBoxLayout()
        self._extras.setSpacing(4)
        self._compare_button = Button("Compare", "strip", "Set the ticked runs side by side")
        self._delete_button = IconButton("trash", "Delete the highlighted runs")
        self._chevron = IconButton("chevron-down", "Close the runs", "Close the table of runs")
        row.addWidget(label("Runs", "panelTitle"))
        row.addWidget(self._count)
        row.addSpacing(16)
        row.addWidget(self.filter, 1)
        row.addLayout(self._extras)
        row.addStretch()
        row.addWidget(self._selected)
        row.addSpacing(8)
        for button in (self._compare_button, self._delete_button, self._chevron):
            row.addWidget(button)
        return header

    def _connect(self) -> None:
        self.model.checked_changed.connect(self.checked_changed)
        self.model.checked_changed.connect(self._refresh)
        self.model.rename_requested.connect(self._rename)
        self.table.selectionModel().selectionChanged.connect(self._refresh)
        self.table.stop_requested.connect(self.stop_requested)
        self.table.take_out_requested.connect(self.take_out_requested)
        self.table.open_requested.connect(self.open_requested)
        self.table.delete_pressed.connect(self.delete_highlighted)
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.filter.textChanged.connect(self._filter)
        self._compare_button.clicked.connect(self._compare)
        self._delete_button.clicked.connect(self.delete_highlighted)
        self._chevron.clicked.connect(lambda: self.set_open(not self._is_open))

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._refresh()

    def _rename(self, run_id: str, name: str) -> None:
        run = self.model.known(run_id)
        if run is not None:
            self.rename_requested.emit(run, name)

    def _compare(self) -> None:
        self.compare_requested.emit(self.checked())

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        if index.isValid():
            menu = self.menu_for(self.model.run(index.row()))
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))

    def _refresh(self) -> None:
        total, ticked = self.model.total, len(self.checked())
        # those that wait stand at the end of the table, out of sight of who has just queued one
        waiting = f" · {self.model.queued:,} queued" if self.model.queued else ""
        set_text(self._count, f"{total:,}{waiting}")
        set_text(self._selected, f"{ticked:,} selected" if ticked else "")
        set_text(self._empty, _NO_RUNS if not total else f"No run matches “{self.filter.text().strip()}”.")
        self.pages.setCurrentIndex(0 if self.model.rowCount() else 1)
        self._compare_button.setEnabled(ticked > 1)
        tip = "Set the ticked runs side by side" if ticked > 1 else "Tick two or more runs to compare them"
        self._compare_button.setToolTip(tip)
        chosen = self.table.highlighted()
        deletable = any(run.status is not Status.RUNNING for run in chosen)
        self._delete_button.setEnabled(deletable)
        self._delete_button.setToolTip(
            "Delete the highlighted runs" if deletable else "Click a run to highlight it, then delete it here"
        )
