"""The table model of the saved runs: the text and actions of each cell, and the rows.

Rows are filtered, sorted and moved in place, row by row where little changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from engine.store.record import RunRecord, Status
from gui.runs.cells import cell_text, cell_tip
from gui.runs.line import (
    HEADINGS,
    NUMBERS,
    PICTURES_HEADING,
    RUNS_MIME_TYPE,
    Column,
    Line,
    dragged_runs,
    when_words,
)
from gui.runs.lines import RunsList

_MANY = 64
Index = QModelIndex | QPersistentModelIndex


class RunsRows(QAbstractTableModel):
    """Rows are the runs that pass the filter, in the chosen order; runs are known by their ids.

    Sorting is done here and not in a proxy: comparing thousands of rows through Qt takes a second.
    """

    tags_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = RunsList()
        self.sorted_by = (Column.WHEN, Qt.SortOrder.DescendingOrder)

    def set_runs(self, runs: Iterable[RunRecord]) -> None:
        """Shows these runs and no others; where little has changed, only that is touched."""
        wanted = {run.id: run for run in runs}
        gone = self._runs.lines.keys() - wanted.keys()
        changed = {run_id: run for run_id, run in wanted.items() if self._runs.differs(run)}
        if len(gone) + len(changed) > _MANY:
            self.beginResetModel()
            lines = self._runs.lines
            self._runs.lines = {
                run_id: Line(run) if run_id in changed else lines[run_id] for run_id, run in wanted.items()
            }
            self._derive()
            self._runs.show()
            self.endResetModel()
        elif gone or changed:
            for run_id in gone:
                self._remove(run_id)
            for run in changed.values():
                self._put(run)
            self._refresh_others()

    def update_run(self, run: RunRecord) -> None:
        """Adds a run or shows what has changed in one; no other row moves."""
        if self._runs.differs(run):
            self._put(run)
            self._refresh_others()

    def set_filter(self, text: str) -> None:
        """Shows the runs that `Search` finds by `text`."""
        self.beginResetModel()
        self._runs.find(text)
        self.endResetModel()

    def line(self, row: int) -> Line:
        """What is told in a row."""
        return self._runs.shown[row]

    def run(self, row: int) -> RunRecord:
        """The run in a row."""
        return self._runs.shown[row].run

    def row_of(self, run_id: str) -> int | None:
        """Where a run is shown; None if the filter hides it."""
        return self._runs.row_of(run_id)

    def known(self, run_id: str) -> RunRecord | None:
        """The run of that id, shown or not."""
        line = self._runs.lines.get(run_id)
        return None if line is None else line.run

    def tags(self) -> tuple[str, ...]:
        """The tags that runs have, those of the most runs first."""
        return self._runs.tags()

    @property
    def total(self) -> int:
        """How many runs there are, shown or not."""
        return len(self._runs.lines)

    @property
    def queued(self) -> int:
        """How many of them wait for their turn."""
        return len(self._runs.queue)

    # What follows are Qt's own names.

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._runs.shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(Column)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.sorted_by = (Column(column), order)
        self.layoutAboutToBeChanged.emit()
        # only now: a view's selection is kept as persistent indexes of its own from here on
        before = self.persistentIndexList()
        lines = [self.line(index.row()) for index in before]
        self._runs.sort(Column(column), order is Qt.SortOrder.DescendingOrder)
        if before:
            places = {line.run.id: row for row, line in enumerate(self._runs.shown)}
            rows = [places[line.run.id] for line in lines]
            after = [self.index(row, index.column()) for row, index in zip(rows, before, strict=True)]
            self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _remove(self, run_id: str) -> None:
        row = self.row_of(run_id)
        if row is not None:
            self._take_out(row)
        del self._runs.lines[run_id]

    def _take_out(self, row: int) -> None:
        self.beginRemoveRows(QModelIndex(), row, row)
        self._runs.shown.pop(row)
        self.endRemoveRows()

    def _put(self, run: RunRecord) -> None:
        """Adds a run in its place, or moves it there."""
        row, line = self.row_of(run.id), Line(run)
        self._runs.lines[run.id] = line
        place = self._runs.place_of(line, row)
        if row is None and place is not None:
            self.beginInsertRows(QModelIndex(), place, place)
            self._runs.shown.insert(place, line)
            self.endInsertRows()
        elif row is not None and place is None:
            self._take_out(row)
        elif row is not None and place is not None:
            self._move(row, place, line)

    def _move(self, row: int, place: int, line: Line) -> None:
        shown = self._runs.shown
        if place == row:
            shown[row] = line
        else:
            self.beginMoveRows(QModelIndex(), row, row, QModelIndex(), place if place < row else place + 1)
            shown.pop(row)
            shown.insert(place, line)
            self.endMoveRows()
        self.dataChanged.emit(self.index(place, 0), self.index(place, len(Column) - 1))

    def _derive(self) -> None:
        had_tags, only_pictures = bool(self.tags()), self._runs.only_pictures
        self._runs.derive()
        if had_tags != bool(self.tags()):
            self.tags_changed.emit()
        if only_pictures != self._runs.only_pictures:
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.SPEED, Column.SPEED)

    def _refresh_others(self) -> None:
        """One run's end can change what the others say: who is next, and what they are measured against."""
        self._derive()
        if self._runs.is_sorted_by_ratio:
            self.sort(*self.sorted_by)
        self._emit_column(Column.WHEN)
        self._emit_column(Column.RATIO)

    def _emit_column(self, first: Column, last: Column | None = None) -> None:
        if self._runs.shown:
            bottom = len(self._runs.shown) - 1
            self.dataChanged.emit(self.index(0, first), self.index(bottom, first if last is None else last))


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
            return self.line(row).overview.precision.label
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
