"""The table model of everything saved: its rows, and the text and actions of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from gui.runs.table.columns import COMPARED, RIGHT, Column
from gui.runs.table.line import RUNS_MIME_TYPE, Line, dragged_runs
from gui.runs.table.lines import RunsList
from gui.runs.table.rows import Heading, Item, ItemKind, Row, Study
from gui.runs.table.texts import RowTexts
from gui.widgets.labels import plain_tip

_DEFAULT_BASELINE = "the first run of its own comparison"
_RATIO = "Ratio"
_MANY = 64
"""Rows that may leave or change at once; beyond that a reset is quicker."""
Index = QModelIndex | QPersistentModelIndex


class RunsModel(QAbstractTableModel):
    """Rows are what passes the filter, in the chosen order; runs are known by their ids.

    Sorting is done here and not in a proxy: comparing thousands of rows through Qt takes a second.
    """

    tags_changed = Signal()
    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = RunsList()
        self._shown: list[Row] = []
        self.sorted_by = (Column.WHEN, Qt.SortOrder.DescendingOrder)
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}
        self._texts = RowTexts(self._runs)

    def take(self, runs: Iterable[RunRecord]) -> None:
        """Shows these runs and no others; ticks, progress and the views' places stay with their runs."""
        had_tags, only_pictures = bool(self.tags()), self._runs.only_pictures
        if not self._runs.take(runs):
            return
        running = {run_id for run_id in self._progress if self._is_running(run_id)}
        self._progress = {run_id: self._progress[run_id] for run_id in running}
        self._texts.paused = self._texts.paused if self._texts.paused in running else None
        self._show()
        # the end of a run can change what others say: who is next, and what they are measured against
        for column in (Column.WHEN, *COMPARED):
            self._emit_columns(column, column)
        if had_tags != bool(self.tags()):
            self.tags_changed.emit()
        if only_pictures != self._runs.only_pictures:
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.SPEED, Column.SPEED)
        self.set_checked(self._checked)

    def take_studies(self, studies: Iterable[Study]) -> None:
        """Shows these studies and no others."""
        if self._runs.take_studies(studies):
            self._show()

    def update_run(self, run: RunRecord) -> None:
        """Adds a run, or shows what has changed in it."""
        runs = {run_id: line.run for run_id, line in self._runs.lines.items()}
        self.take({**runs, run.id: run}.values())

    @property
    def baseline(self) -> str | None:
        """The id of the chosen baseline; None for the default."""
        return self._runs.baseline

    def set_baseline(self, run_id: str | None) -> None:
        """Measures all runs against this one; None for the first run of each one's comparison."""
        if run_id != self.baseline:
            self._runs.measure_against(run_id)
            self._show()
            self._emit_columns(Column.NAME, Column.LOSS_GAIN)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.RATIO, Column.LOSS_GAIN)

    def folders(self) -> dict[str, int]:
        """The folders that runs are in, by name, with how many are in each."""
        return self._runs.folders()

    def in_folder(self, folder: str) -> tuple[str, ...]:
        """The ids of the runs in a folder."""
        return tuple(line.run.id for line in self._runs.lines.values() if line.run.folder == folder)

    def set_filter(self, text: str) -> None:
        """Shows the runs that `Search` finds by `text`."""
        self._runs.find(text)
        self._show()

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Shows what is of one kind; None for everything."""
        self._runs.choose_kind(kind)
        self._show()

    def row(self, row: int) -> Row:
        """What stands in a row."""
        return self._shown[row]

    def runs_at(self, row: int) -> tuple[RunRecord, ...]:
        """The run in a row, or those of the item there that pass the filter."""
        return tuple(line.run for line in self._runs.lines_of(self._shown[row]))

    def row_of(self, key: str) -> int | None:
        """The row of a run, by its id, or of an item, by its key; None if it is not shown."""
        return next((row for row, shown in enumerate(self._shown) if shown.key == key), None)

    def owner(self, run_id: str) -> Item | None:
        """The comparison or sweep that a run belongs to."""
        return self._runs.owners.get(run_id)

    def item(self, key: str) -> Item | None:
        """The item of that key, shown or not."""
        return next((item for item in self._runs.items if item.key == key), None)

    def items(self) -> tuple[Item, ...]:
        """The comparisons and studies, shown or not."""
        return self._runs.items

    def studies(self) -> int:
        """How many items other than comparisons there are, shown or not."""
        return sum(item.kind != "comparison" for item in self._runs.items)

    def is_below(self, row: int) -> bool:
        """Whether a row is that of a run below its item."""
        return self._texts.is_below(self._shown[row])

    def is_folded(self, item: Item) -> bool:
        """Whether the runs of an item are hidden."""
        return self._runs.is_folded(item)

    def fold(self, item: Item, is_folded: bool) -> None:
        """Hides or shows the runs of an item."""
        if item.lines and is_folded != self.is_folded(item):
            self._runs.fold(item, is_folded)
            self._show()
            self._emit_columns(Column.NAME, Column.NAME)

    def known(self, run_id: str) -> RunRecord | None:
        """The run of that id, shown or not."""
        line = self._runs.lines.get(run_id)
        return None if line is None else line.run

    def tags(self) -> tuple[str, ...]:
        """The tags in use, the most frequent first."""
        return self._runs.tags()

    @property
    def total(self) -> int:
        """How many runs there are, shown or not."""
        return len(self._runs.lines)

    def shown_runs(self) -> int:
        """How many runs pass the filter, those below a closed item among them."""
        return len(self._runs.found)

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """How far a running run is, 0 to 1, and whether it is paused."""
        self._progress[run_id] = min(max(fraction, 0.0), 1.0)
        self._texts.paused = run_id if is_paused else None
        row = self.row_of(run_id)
        if row is not None:
            self.dataChanged.emit(self.index(row, Column.SPEED), self.index(row, Column.STATUS))

    def set_checked(self, ids: Iterable[str]) -> None:
        """Ticks these runs and no others."""
        wanted = {run_id for run_id in ids if run_id in self._runs.lines}
        if wanted != self._checked:
            self._checked = wanted
            self._emit_columns(Column.TICK, Column.STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        known = [run for run_id in self._checked if (run := self.known(run_id)) is not None]
        return tuple(run.id for run in sorted(known, key=lambda run: run.number))

    def ticks(self) -> Qt.CheckState:
        """Whether all, some or none of the shown runs are ticked; queued runs do not count."""
        return self._state(self._tickable()) if self._checked else Qt.CheckState.Unchecked

    def toggle_all(self) -> None:
        """Ticks all runs that are shown, or none if all are ticked; hidden runs keep their ticks."""
        self._toggle(self._tickable())

    def toggle(self, rows: Iterable[int]) -> None:
        """Ticks the runs of some rows, or none of them if all are ticked."""
        self._toggle({run.id for row in rows for run in self.runs_at(row) if _can_tick(run)})

    def tick(self, row: int) -> Qt.CheckState:
        """Whether the run in a row is ticked, or all, some or none of those of the item there."""
        return self._state({run.id for run in self.runs_at(row) if _can_tick(run)})

    def can_tick(self, row: int) -> bool:
        """Whether there is a run in a row with anything to show yet."""
        return any(map(_can_tick, self.runs_at(row)))

    def _tickable(self) -> set[str]:
        return {run.id for row in range(len(self._shown)) for run in self.runs_at(row) if _can_tick(run)}

    def _state(self, run_ids: set[str]) -> Qt.CheckState:
        ticked = len(run_ids & self._checked)
        if ticked == 0:
            return Qt.CheckState.Unchecked
        return Qt.CheckState.Checked if ticked == len(run_ids) else Qt.CheckState.PartiallyChecked

    def _toggle(self, run_ids: set[str]) -> None:
        self.set_checked(self._checked - run_ids if run_ids <= self._checked else self._checked | run_ids)

    def progress(self, run_id: str) -> float | None:
        """How far a run is, 0 to 1, if that is known."""
        return self._progress.get(run_id)

    def is_paused(self, run_id: str) -> bool:
        """Whether a run is paused."""
        return run_id == self._texts.paused

    def is_spoiled(self, row: int, column: Column = Column.RATIO) -> bool:
        """Whether a comparison of times means nothing, since the run or its baseline was disturbed."""
        return self._texts.is_spoiled(self._shown[row], column)

    def is_base(self, row: int) -> bool:
        """Whether the run in a row is what its ratio is against."""
        shown = self._shown[row]
        return isinstance(shown, Line) and self._runs.baselines.of(shown) is shown

    def result(self, row: int) -> str:
        """What stands across the columns of figures: the outcome of a study, or why a run has no figures."""
        return self._texts.result(self._shown[row])

    def heading(self, column: Column) -> tuple[str, str]:
        """A column's heading, which names the baseline, and what the column means."""
        return self._texts.heading(column)

    def text(self, row: int, column: Column) -> str:
        """The text of a cell."""
        return self._texts.text(self._shown[row], column)

    # Overrides of Qt, by Qt's names.

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(Column)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.sorted_by = (Column(column), order)
        self._runs.sort(Column(column), order is Qt.SortOrder.DescendingOrder)
        self._show()

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = Column(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return self.heading(column)[0]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(self.heading(column)[1])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column in RIGHT else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = Column(index.column()), index.row()
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return self.text(row, column)
        if role == Qt.ItemDataRole.CheckStateRole and column is Column.TICK and self.runs_at(row):
            return self.tick(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._texts.tip(self._shown[row], column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._texts.spoken(self._shown[row], column, self.tick(row))
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        column, row = Column(index.column()), index.row()
        if role == Qt.ItemDataRole.CheckStateRole and column is Column.TICK and self.can_tick(row):
            self.toggle([row])
            return True
        name = str(value).strip()
        if role == Qt.ItemDataRole.EditRole and column is Column.NAME and name != self.text(row, column):
            if name:
                self.rename_requested.emit(self._shown[row], name)
            return bool(name)
        return False

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        shown, flags = self._shown[index.row()], Qt.ItemFlag.ItemIsEnabled
        if isinstance(shown, Heading):
            return flags
        flags |= Qt.ItemFlag.ItemIsSelectable
        if not (runs := self.runs_at(index.row())):
            return flags
        flags |= Qt.ItemFlag.ItemIsDragEnabled
        if index.column() == Column.NAME and (isinstance(shown, Line) or shown.kind == "comparison"):
            flags |= Qt.ItemFlag.ItemIsEditable
        if index.column() == Column.TICK and any(map(_can_tick, runs)):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def mimeTypes(self) -> list[str]:
        return [RUNS_MIME_TYPE, "text/plain"]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        runs = dict.fromkeys((run.id, run.name) for row in rows for run in self.runs_at(row))
        return dragged_runs(tuple(runs))

    def supportedDragActions(self) -> Qt.DropAction:
        return Qt.DropAction.CopyAction

    def _is_running(self, run_id: str) -> bool:
        run = self.known(run_id)
        return run is not None and run.status is Status.RUNNING

    def _show(self) -> None:
        """Shows the rows that the list has in view now; views keep their place on the rows that stay."""
        lines = self._runs.in_view()
        gone, new = set(self._shown).difference(lines), set(lines).difference(self._shown)
        if len(gone) + len(new) > _MANY:
            self.beginResetModel()
            self._shown = lines
            self.endResetModel()
            return
        arriving = {line.key: line for line in new}
        for row in sorted(map(self._shown.index, gone), reverse=True):
            line = arriving.pop(self._shown[row].key, None)
            if line is not None:
                self._shown[row] = line
            else:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self._shown[row]
                self.endRemoveRows()
        if arriving:
            self.beginInsertRows(QModelIndex(), len(self._shown), len(lines) - 1)
            self._shown += arriving.values()
            self.endInsertRows()
        if lines != self._shown:
            self._arrange(lines)
        for row in map(lines.index, new):
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(Column) - 1))

    def _arrange(self, lines: list[Row]) -> None:
        """Puts the rows into the order of `lines`, which are the same."""
        self.layoutAboutToBeChanged.emit()
        # only now: a view's selection is kept as persistent indexes of its own from here on
        before = self.persistentIndexList()
        kept = [self._shown[index.row()] for index in before]
        self._shown = lines
        rows = {line: row for row, line in enumerate(lines)} if before else {}
        after = [self.index(rows[line], index.column()) for line, index in zip(kept, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _emit_columns(self, first: Column, last: Column) -> None:
        if self._shown:
            self.dataChanged.emit(self.index(0, first), self.index(len(self._shown) - 1, last))


def _can_tick(run: RunRecord) -> bool:
    return run.status is not Status.QUEUED
