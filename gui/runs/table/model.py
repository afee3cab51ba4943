"""The table model of all saved results: rows, check boxes, and the progress of running ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QMimeData, QModelIndex, QObject, Qt, Signal

from engine.store.record import RunRecord, Status
from gui.runs.table.columns import COMPARED, Column
from gui.runs.table.line import RUNS_MIME_TYPE, RunRow, dragged_runs
from gui.runs.table.lines import RunsList
from gui.runs.table.rows import Heading, Item, ItemKind, Row, StudyRow
from gui.widgets.labels import plain_tip
from gui.widgets.table.columns import LEFT, RIGHT
from gui.widgets.table.model import Index

_INVALID = QModelIndex()
_MANY = 64
"""Rows that may leave or change at once; beyond that a reset is quicker."""
_TICKED = {Qt.CheckState.Checked: "selected", Qt.CheckState.PartiallyChecked: "partly selected"}


class RunsModel(RunsList, QAbstractTableModel):
    """The Qt model of the results table: its rows, filtered and sorted. Runs are identified by id.

    It sorts by itself, because a proxy model takes a second for thousands of rows.
    """

    tags_changed = Signal()
    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)  # Item or RunRow, the new name
    reordering = Signal()
    reordered = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        QAbstractTableModel.__init__(self, parent)
        RunsList.__init__(self)
        self.sorted_by = (Column.WHEN, Qt.SortOrder.DescendingOrder)
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}
        self.is_rearranging = False
        """True while rows come, go or move, and a view's current row with them."""

    def set_runs(self, runs: Iterable[RunRecord]) -> None:
        """Replace all runs. Selection, progress and scroll position are kept."""
        had_tags, only_pictures = bool(self.tags), self.only_pictures
        if not self.replace_runs(runs):
            return
        running = {key for key, line in self.lines.items() if line.run.status is Status.RUNNING}
        self._progress = {run_id: self._progress[run_id] for run_id in self._progress if run_id in running}
        self.paused = self.paused if self.paused in running else None
        self._show()
        # the end of a run can change what others say: who is next, and what they are measured against
        for column in (Column.WHEN, *COMPARED):
            self._emit_columns(column, column)
        if had_tags != bool(self.tags):
            self.tags_changed.emit()
        if only_pictures != self.only_pictures:
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.SPEED, Column.SPEED)
        self.set_checked(self._checked)

    def set_studies(self, studies: Iterable[StudyRow]) -> None:
        """Replace all studies."""
        if self.replace_studies(studies):
            self._show()

    def update_run(self, run: RunRecord) -> None:
        """Add a run, or show what has changed in it."""
        self.set_runs({**{run_id: line.run for run_id, line in self.lines.items()}, run.id: run}.values())

    def set_baseline(self, run_id: str | None) -> None:
        """Set the baseline of all runs. None means the first run of each comparison."""
        if run_id != self.baseline:
            self.use_baseline(run_id)
            self._show()
            self._emit_columns(Column.NAME, Column.LOSS_GAIN)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.RATIO, Column.LOSS_GAIN)

    def set_filter(self, text: str) -> None:
        """Show the runs that `Search` finds by `text`."""
        self.filter_by(text)
        self._show()

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Show the results of one kind, or all for None."""
        self.show_kind(kind)
        self._show()

    def fold(self, item: Item, is_folded: bool) -> None:
        if item.lines and is_folded != self.is_folded(item):
            self.set_folded(item, is_folded)
            self._show()
            self._emit_columns(Column.NAME, Column.NAME)

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """Set how far a running run is, 0 to 1, and whether it is paused."""
        self._progress[run_id] = min(max(fraction, 0.0), 1.0)
        self.paused = run_id if is_paused else None
        if (row := self.row_of(run_id)) is not None:
            self.dataChanged.emit(self.index(row, Column.SPEED), self.index(row, Column.STATUS))

    def progress(self, run_id: str) -> float | None:
        """Return the progress of a run, 0 to 1, or None if unknown."""
        return self._progress.get(run_id)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Select exactly these runs."""
        wanted = self.lines.keys() & set(ids)
        if wanted != self._checked:
            self._checked = wanted
            self._emit_columns(Column.TICK, Column.STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """Return the selected runs, oldest first."""
        ticked = [line.run for key, line in self.lines.items() if key in self._checked]
        return tuple(run.id for run in sorted(ticked, key=lambda run: run.number))

    def ticks(self) -> Qt.CheckState:
        """Return whether all, some or none of the shown runs are selected. Queued runs do not count."""
        return self._state(self._tickable()) if self._checked else Qt.CheckState.Unchecked

    def toggle_all(self) -> None:
        """Select all shown runs, or deselect them if all are selected. Hidden runs are unchanged."""
        self.toggle(range(len(self.shown)))

    def toggle(self, rows: Iterable[int]) -> None:
        """Select the runs of some rows, or deselect them if all are selected."""
        ids = self._tickable(rows)
        self.set_checked(self._checked - ids if ids <= self._checked else self._checked | ids)

    def tick(self, row: int) -> Qt.CheckState:
        """Return whether all, some or none of the runs in a row are selected."""
        return self._state(self._tickable([row]))

    def can_tick(self, row: int) -> bool:
        """Return True if a row has a run that has started."""
        return bool(self._tickable([row]))

    def _tickable(self, rows: Iterable[int] | None = None) -> set[str]:
        places = range(len(self.shown)) if rows is None else rows
        runs = (run for row in places for run in self.runs_at(row))
        return {run.id for run in runs if run.status is not Status.QUEUED}

    def _state(self, run_ids: set[str]) -> Qt.CheckState:
        ticked = len(run_ids & self._checked)
        if ticked == 0:
            return Qt.CheckState.Unchecked
        return Qt.CheckState.Checked if ticked == len(run_ids) else Qt.CheckState.PartiallyChecked

    def is_right(self, column: Column) -> bool:
        return column is Column.WHEN or self.columns[column].is_number

    def rowCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self.shown)

    def columnCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(Column)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.sorted_by = (Column(column), order)
        self.order_by(Column(column), order is Qt.SortOrder.DescendingOrder)
        self._show()

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = Column(section)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.heading(column)[0]
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self.heading(column)[1])
            case Qt.ItemDataRole.TextAlignmentRole:
                return RIGHT if self.is_right(column) else LEFT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = Column(index.column()), index.row()
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return self.text(row, column)
            case Qt.ItemDataRole.CheckStateRole if column is Column.TICK and self.runs_at(row):
                return self.tick(row)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self.tip(row, column)) or None
            case Qt.ItemDataRole.AccessibleTextRole:
                shown = self.shown[row]
                if column is not Column.TICK or isinstance(shown, Heading):
                    return self.spoken(row, column)
                name = shown.title if isinstance(shown, Item) else shown.run.title
                return f"{name}, {_TICKED.get(self.tick(row), 'not selected')}"
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        column, row = Column(index.column()), index.row()
        if role == Qt.ItemDataRole.CheckStateRole and column is Column.TICK and self.can_tick(row):
            self.toggle([row])
            return True
        name = str(value).strip()
        if role == Qt.ItemDataRole.EditRole and column is Column.NAME and name != self.text(row, column):
            if name:
                self.rename_requested.emit(self.shown[row], name)
            return bool(name)
        return False

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        shown, row, flags = self.shown[index.row()], index.row(), Qt.ItemFlag.ItemIsEnabled
        if isinstance(shown, Heading):
            return flags
        flags |= Qt.ItemFlag.ItemIsSelectable
        if not self.runs_at(row):
            return flags
        flags |= Qt.ItemFlag.ItemIsDragEnabled
        if index.column() == Column.NAME and (isinstance(shown, RunRow) or shown.kind == "comparison"):
            flags |= Qt.ItemFlag.ItemIsEditable
        if index.column() == Column.TICK and self.can_tick(row):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def mimeTypes(self) -> list[str]:
        return [RUNS_MIME_TYPE, "text/plain"]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        return dragged_runs(
            tuple(dict.fromkeys((run.id, run.title) for row in rows for run in self.runs_at(row)))
        )

    def supportedDragActions(self) -> Qt.DropAction:
        return Qt.DropAction.CopyAction

    def _show(self) -> None:
        self.is_rearranging = True
        self._rearrange(self.visible_rows())
        self.is_rearranging = False

    def _rearrange(self, rows: list[Row]) -> None:
        gone, new = set(self.shown).difference(rows), set(rows).difference(self.shown)
        if len(gone) + len(new) > _MANY:
            self.beginResetModel()
            self.shown = rows
            self.endResetModel()
            return
        arriving = {row.key: row for row in new}
        for place in sorted(map(self.shown.index, gone), reverse=True):
            row = arriving.pop(self.shown[place].key, None)
            if row is not None:
                self.shown[place] = row
            else:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self.shown[place]
                self.endRemoveRows()
        if arriving:
            self.beginInsertRows(QModelIndex(), len(self.shown), len(rows) - 1)
            self.shown += arriving.values()
            self.endInsertRows()
        if rows != self.shown:
            self._put_in_order(rows)
        for place in map(rows.index, new):
            self.dataChanged.emit(self.index(place, 0), self.index(place, len(Column) - 1))

    def _put_in_order(self, rows: list[Row]) -> None:
        self.reordering.emit()
        self.layoutAboutToBeChanged.emit()
        # only now: a view's selection is kept as persistent indexes of its own from here on
        before = self.persistentIndexList()
        kept = [self.shown[index.row()] for index in before]
        self.shown = rows
        places = {row: place for place, row in enumerate(rows)} if before else {}
        after = [self.index(places[row], index.column()) for row, index in zip(kept, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()
        self.reordered.emit()

    def _emit_columns(self, first: Column, last: Column) -> None:
        if self.shown:
            self.dataChanged.emit(self.index(0, first), self.index(len(self.shown) - 1, last))
