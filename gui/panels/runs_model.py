"""The saved runs as a table model: what each cell says, and what can be done in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import QMimeData, QModelIndex, QObject, Qt, Signal

from engine.records.record import RunRecord, Status
from gui.panels.runs_columns import HEADINGS, NUMBERS, PICTURES_HEADING, Column
from gui.panels.runs_figures import cell_text
from gui.panels.runs_rows import Index, RunsRows
from gui.panels.runs_tips import cell_tip
from gui.panels.runs_words import when_words
from gui.runs_mime import RUNS_MIME_TYPE, dragged_runs


class RunsModel(RunsRows):
    """The cells of the rows: their words and their ticks, what can be changed in place and dragged out."""

    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}
        self._paused: str | None = None

    def set_runs(self, runs: Iterable[RunRecord]) -> None:
        super().set_runs(runs)
        there = {run_id for run_id in self._checked if self.known(run_id) is not None}
        if there != self._checked:
            self._checked = there
            self.checked_changed.emit(self.checked())

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """How far a running run is, 0 to 1, and whether it waits."""
        self._progress[run_id] = min(max(fraction, 0.0), 1.0)
        self._paused = run_id if is_paused else None
        row = self.row_of(run_id)
        if row is not None:
            cell = self.index(row, Column.STATUS)
            self.dataChanged.emit(cell, cell)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Ticks these runs and no others."""
        wanted = {run_id for run_id in ids if run_id in self._runs.lines}
        if wanted != self._checked:
            self._checked = wanted
            self._emit_column(Column.TICK, Column.STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        known = [run for run_id in self._checked if (run := self.known(run_id)) is not None]
        return tuple(run.id for run in sorted(known, key=lambda run: run.number))

    def ticks(self) -> Qt.CheckState:
        """Whether all, some or none of the runs that are shown are ticked; those that wait do not count."""
        ticked = {line.run.id in self._checked for line in self._runs.shown if _can_tick(line.run)}
        if len(ticked) > 1:
            return Qt.CheckState.PartiallyChecked
        return Qt.CheckState.Checked if ticked == {True} else Qt.CheckState.Unchecked

    def toggle_all(self) -> None:
        """Ticks every run that is shown, or none of them where all are; what the filter hides stays."""
        shown = {line.run.id for line in self._runs.shown if _can_tick(line.run)}
        is_all = self.ticks() is Qt.CheckState.Checked
        self.set_checked(self._checked - shown if is_all else self._checked | shown)

    def is_checked(self, row: int) -> bool:
        return self.run(row).id in self._checked

    def can_tick(self, row: int) -> bool:
        """Whether there is anything to see of the run yet."""
        return _can_tick(self.run(row))

    def progress(self, row: int) -> float | None:
        """How far the run in a row is, where that is known."""
        return self._progress.get(self.run(row).id)

    def is_paused(self, row: int) -> bool:
        """Whether the run in a row is being trained, but waits."""
        return self.run(row).id == self._paused

    def is_spoiled(self, row: int) -> bool:
        """Whether nothing follows from the ratio in a row, since the run or its baseline was disturbed."""
        line, baselines = self.line(row), self._runs.baselines
        return baselines.ratio(line) is not None and bool(baselines.spoiled(line))

    def heading(self, column: Column) -> tuple[str, str]:
        """A column's heading, and what it means."""
        is_of_pictures = column is Column.SPEED and self._runs.only_pictures
        return PICTURES_HEADING if is_of_pictures else HEADINGS[column]

    def text(self, row: int, column: Column) -> str:
        """The words of one cell."""
        line = self._runs.shown[row]
        if column is Column.STATUS and self.is_paused(row):
            return "Paused"
        if column is not Column.WHEN:
            return cell_text(line, column, self._runs.baselines)
        if line.run.status is Status.QUEUED:
            return "next" if self._runs.queue[:1] == [line.run.id] else "later"
        return when_words(line.run, datetime.now().astimezone())

    # What follows are Qt's own names.

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = Column(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return self.heading(column)[0]
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.heading(column)[1]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column in NUMBERS else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = Column(index.column()), index.row()
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return self.text(row, column)
        if role == Qt.ItemDataRole.CheckStateRole and column is Column.TICK:
            return Qt.CheckState.Checked if self.is_checked(row) else Qt.CheckState.Unchecked
        if role == Qt.ItemDataRole.ToolTipRole:
            return cell_tip(self.line(row), column, self._runs.baselines)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(row, column)
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        column, run = Column(index.column()), self.run(index.row())
        if role == Qt.ItemDataRole.CheckStateRole and column is Column.TICK and self.can_tick(index.row()):
            ticked = Qt.CheckState(value) == Qt.CheckState.Checked
            self.set_checked(self._checked | {run.id} if ticked else self._checked - {run.id})
            return True
        name = str(value).strip()
        if role == Qt.ItemDataRole.EditRole and column is Column.NAME and name and name != run.name:
            self.rename_requested.emit(run.id, name)
            return True
        return False

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled
        if index.column() == Column.NAME:
            flags |= Qt.ItemFlag.ItemIsEditable
        if index.column() == Column.TICK and self.can_tick(index.row()):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def mimeTypes(self) -> list[str]:
        return [RUNS_MIME_TYPE, "text/plain"]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        return dragged_runs([(self.run(row).id, self.run(row).name) for row in rows])

    def supportedDragActions(self) -> Qt.DropAction:
        return Qt.DropAction.CopyAction

    def _spoken(self, row: int, column: Column) -> str:
        run = self.run(row)
        if column is Column.TICK:
            return f"{run.name}, {'ticked' if self.is_checked(row) else 'not ticked'}"
        if column is Column.MARKER:
            return self.line(row).glance.precision.label
        note = f". Note: {run.note}" if column is Column.NAME and run.note else ""
        caution = ", not clean" if column is Column.RATIO and self.is_spoiled(row) else ""
        return f"{self.heading(column)[0]}: {self.text(row, column)}{caution}{note}"

    def _put(self, run: RunRecord) -> None:
        if run.status is not Status.RUNNING:
            self._progress.pop(run.id, None)
            self._paused = None if self._paused == run.id else self._paused
        super()._put(run)


def _can_tick(run: RunRecord) -> bool:
    return run.status is not Status.QUEUED
