"""The rows of the runs table: filtered, sorted and moved in place, one at a time where little changes."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from engine.records.record import RunRecord
from gui.panels.runs_columns import Column
from gui.panels.runs_line import Line
from gui.panels.runs_list import RunsList

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
