"""The saved runs as a table model: sorted, filtered and updated in place, one row at a time."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from engine.records.record import RunRecord, Status
from gui.panels.runs_figures import (
    HEADINGS,
    NUMBERS,
    Baselines,
    Column,
    cell_text,
    matches,
    recipe_tip,
    settings_words,
    sort_value,
    when_words,
)

_MANY = 64
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class _Descending:
    value: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)


class RunsModel(QAbstractTableModel):
    """Rows are the runs that pass the filter, in the chosen order; runs are known by their ids.

    Sorting is done here and not in a proxy: comparing thousands of rows through Qt takes a second.
    """

    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: dict[str, RunRecord] = {}
        self._shown: list[str] = []
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}
        self._queue: list[str] = []
        self._words: tuple[str, ...] = ()
        self.sorted_by = (Column.WHEN, Qt.SortOrder.DescendingOrder)
        self._baselines = Baselines()

    def set_runs(self, runs: Iterable[RunRecord]) -> None:
        """Shows these runs and no others; where little has changed, only that is touched."""
        wanted = {run.id: run for run in runs}
        gone = self._runs.keys() - wanted.keys()
        changed = [run for run in wanted.values() if self._runs.get(run.id) != run]
        if len(gone) + len(changed) > _MANY:
            self._reset(wanted)
        else:
            for run_id in gone:
                self._remove(run_id)
            for run in changed:
                self.update_run(run)
        if not self._checked <= wanted.keys():
            self._checked &= wanted.keys()
            self.checked_changed.emit(self.checked())

    def update_run(self, run: RunRecord) -> None:
        """Adds a run or shows what has changed in one; no other row moves."""
        old = self._runs.get(run.id)
        self._runs[run.id] = run
        if run.status is not Status.RUNNING:
            self._progress.pop(run.id, None)
        self._place(run)
        if old is None or old.status is not run.status or old.summary != run.summary:
            self._refresh_others()

    def set_progress(self, run_id: str, fraction: float) -> None:
        """How far a running run is, 0 to 1."""
        self._progress[run_id] = min(max(fraction, 0.0), 1.0)
        if run_id in self._shown:
            cell = self.index(self._shown.index(run_id), Column.STATUS)
            self.dataChanged.emit(cell, cell)

    def set_filter(self, text: str) -> None:
        """Shows the runs in which every word of `text` occurs."""
        self._words = tuple(text.casefold().split())
        self._reset(self._runs)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Ticks these runs and no others."""
        wanted = {run_id for run_id in ids if run_id in self._runs}
        if wanted != self._checked:
            self._checked = wanted
            self._emit_column(Column.TICK, Column.STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        known = [self._runs[run_id] for run_id in self._checked if run_id in self._runs]
        return tuple(run.id for run in sorted(known, key=lambda run: run.number))

    def is_checked(self, row: int) -> bool:
        return self._shown[row] in self._checked

    def can_tick(self, row: int) -> bool:
        """Whether there is anything to see of the run yet."""
        return self.run(row).status is not Status.QUEUED

    def run(self, row: int) -> RunRecord:
        """The run in a row."""
        return self._runs[self._shown[row]]

    def row_of(self, run_id: str) -> int | None:
        """Where a run is shown; None if the filter hides it."""
        return self._shown.index(run_id) if run_id in self._shown else None

    def known(self, run_id: str) -> RunRecord | None:
        """The run of that id, shown or not."""
        return self._runs.get(run_id)

    def progress(self, row: int) -> float | None:
        """How far the run in a row is, where that is known."""
        return self._progress.get(self._shown[row])

    @property
    def total(self) -> int:
        """How many runs there are, shown or not."""
        return len(self._runs)

    @property
    def queued(self) -> int:
        """How many of them wait for their turn."""
        return sum(run.status is Status.QUEUED for run in self._runs.values())

    # What follows are Qt's own names.

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = Column(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return HEADINGS[column][0]
        if role == Qt.ItemDataRole.ToolTipRole:
            return HEADINGS[column][1]
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
            return self._tip(row, column)
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
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if index.column() == Column.NAME:
            flags |= Qt.ItemFlag.ItemIsEditable
        if index.column() == Column.TICK and self.can_tick(index.row()):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.sorted_by = (Column(column), order)
        self._rearrange()

    def text(self, row: int, column: Column) -> str:
        """The words of one cell."""
        run = self.run(row)
        if column is not Column.WHEN:
            return cell_text(run, column, self._baselines)
        if run.status is Status.QUEUED:
            return "next" if self._queue[:1] == [run.id] else "later"
        return when_words(run, datetime.now().astimezone())

    def _tip(self, row: int, column: Column) -> str | None:
        run = self.run(row)
        if column is Column.STATUS:
            problem = run.problem
            return f"{problem.message} {problem.remedy}" if problem else None
        if column is Column.NAME:
            return settings_words(run)
        if column is Column.RECIPE:
            return recipe_tip(run)
        if column is Column.TICK:
            return HEADINGS[column][1] if self.can_tick(row) else "This run has not begun yet"
        if column is Column.SPEED and run.summary is not None:
            return run.summary.speed_note
        return None

    def _spoken(self, row: int, column: Column) -> str:
        if column is Column.TICK:
            return f"{self.run(row).name}, {'ticked' if self.is_checked(row) else 'not ticked'}"
        if column is Column.MARKER:
            return self.run(row).experiment.precision.label
        return f"{HEADINGS[column][0]}: {self.text(row, column)}"

    def _reset(self, runs: dict[str, RunRecord]) -> None:
        self.beginResetModel()
        self._runs = runs
        self._refresh_derived()
        self._shown = [run.id for run in runs.values() if matches(run, self._words)]
        self._shown.sort(key=self._order)
        self.endResetModel()

    def _remove(self, run_id: str) -> None:
        row = self.row_of(run_id)
        if row is not None:
            self.beginRemoveRows(QModelIndex(), row, row)
            self._shown.pop(row)
        del self._runs[run_id]
        if row is not None:
            self.endRemoveRows()
        self._refresh_others()

    def _refresh_derived(self) -> None:
        queued = [run for run in self._runs.values() if run.status is Status.QUEUED]
        self._queue = [run.id for run in sorted(queued, key=lambda run: run.number)]
        self._baselines = Baselines(self._runs.values())

    def _refresh_others(self) -> None:
        """One run's end can change what the others say: who is next, and what they are measured against."""
        self._refresh_derived()
        if self.sorted_by[0] is Column.RATIO:
            self._rearrange()
        self._emit_column(Column.WHEN)
        self._emit_column(Column.RATIO)

    def _order(self, run_id: str) -> tuple[bool, Any, int]:
        run, (column, order) = self._runs[run_id], self.sorted_by
        value: Any = sort_value(run, column, self._baselines)
        if value is not None and order is Qt.SortOrder.DescendingOrder:
            value = _Descending(value)
        return value is None, 0 if value is None else value, -run.number

    def _rearrange(self) -> None:
        before = self.persistentIndexList()
        rows = [self._shown[index.row()] for index in before]
        self.layoutAboutToBeChanged.emit()
        self._shown.sort(key=self._order)
        places = {run_id: row for row, run_id in enumerate(self._shown)}
        after = [
            self.index(places[run_id], index.column()) for run_id, index in zip(rows, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _place(self, run: RunRecord) -> None:
        row, is_wanted = self.row_of(run.id), matches(run, self._words)
        others = [run_id for run_id in self._shown if run_id != run.id]
        if not is_wanted:
            if row is not None:
                self.beginRemoveRows(QModelIndex(), row, row)
                self._shown = others
                self.endRemoveRows()
            return
        place = bisect.bisect_left(others, self._order(run.id), key=self._order)
        others.insert(place, run.id)
        if row is None:
            self.beginInsertRows(QModelIndex(), place, place)
            self._shown = others
            self.endInsertRows()
            return
        if place != row:
            goal = place if place < row else place + 1
            self.beginMoveRows(QModelIndex(), row, row, QModelIndex(), goal)
            self._shown = others
            self.endMoveRows()
        self.dataChanged.emit(self.index(place, 0), self.index(place, len(Column) - 1))

    def _emit_column(self, first: Column, last: Column | None = None) -> None:
        if self._shown:
            bottom = len(self._shown) - 1
            self.dataChanged.emit(self.index(0, first), self.index(bottom, first if last is None else last))
