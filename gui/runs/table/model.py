"""The table model of the saved runs: its rows, and the text and actions of each cell."""

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
from gui.runs.table.cells import cell_text, cell_tip
from gui.runs.table.columns import COMPARED, HEADINGS, NUMBERS, PICTURES_HEADING, Column
from gui.runs.table.line import RUNS_MIME_TYPE, Line, dragged_runs, when_words
from gui.runs.table.lines import RunsList
from gui.widgets.labels import plain_tip

_DEFAULT_BASELINE = "the FP32 run of its own comparison"
_MANY = 64
"""Rows that may leave or change at once; beyond that a reset is quicker."""
Index = QModelIndex | QPersistentModelIndex


class RunsModel(QAbstractTableModel):
    """Rows are the runs that pass the filter, in the chosen order; runs are known by their ids.

    Sorting is done here and not in a proxy: comparing thousands of rows through Qt takes a second.
    """

    tags_changed = Signal()
    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = RunsList()
        self._shown: list[Line] = []
        self.sorted_by = (Column.WHEN, Qt.SortOrder.DescendingOrder)
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}
        self._paused: str | None = None

    def take(self, runs: Iterable[RunRecord]) -> None:
        """Shows these runs and no others; ticks, progress and the views' places stay with their runs."""
        had_tags, only_pictures = bool(self.tags()), self._runs.only_pictures
        if not self._runs.take(runs):
            return
        running = {run_id for run_id in self._progress if self._is_running(run_id)}
        self._progress = {run_id: self._progress[run_id] for run_id in running}
        self._paused = self._paused if self._paused in running else None
        self._show()
        # the end of a run can change what others say: who is next, and what they are measured against
        for column in (Column.WHEN, *COMPARED):
            self._emit_columns(column, column)
        if had_tags != bool(self.tags()):
            self.tags_changed.emit()
        if only_pictures != self._runs.only_pictures:
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.SPEED, Column.SPEED)
        self.set_checked(self._checked)

    def update_run(self, run: RunRecord) -> None:
        """Adds a run, or shows what has changed in it."""
        runs = {run_id: line.run for run_id, line in self._runs.lines.items()}
        self.take({**runs, run.id: run}.values())

    @property
    def baseline(self) -> str | None:
        """The id of the chosen baseline; None for the default."""
        return self._runs.baseline

    def set_baseline(self, run_id: str | None) -> None:
        """Measures all runs against this one; None for the FP32 run of each one's comparison."""
        if run_id != self.baseline:
            self._runs.measure_against(run_id)
            self._show()
            self._emit_columns(Column.NAME, Column.LOSS_GAIN)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, Column.RATIO, Column.LOSS_GAIN)

    def is_baseline(self, row: int) -> bool:
        """Whether the run in a row is the chosen baseline."""
        return self.run(row).id == self.baseline

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

    def line(self, row: int) -> Line:
        """The line in a row."""
        return self._shown[row]

    def run(self, row: int) -> RunRecord:
        """The run in a row."""
        return self._shown[row].run

    def row_of(self, run_id: str) -> int | None:
        """The row of a run; None if the filter hides it."""
        line = self._runs.lines.get(run_id)
        return next((row for row, shown in enumerate(self._shown) if shown is line), None)

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

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """How far a running run is, 0 to 1, and whether it is paused."""
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
            self._emit_columns(Column.TICK, Column.STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        known = [run for run_id in self._checked if (run := self.known(run_id)) is not None]
        return tuple(run.id for run in sorted(known, key=lambda run: run.number))

    def ticks(self) -> Qt.CheckState:
        """Whether all, some or none of the shown runs are ticked; queued runs do not count."""
        if not self._checked:
            return Qt.CheckState.Unchecked
        ticked = {line.run.id in self._checked for line in self._shown if _can_tick(line.run)}
        if len(ticked) > 1:
            return Qt.CheckState.PartiallyChecked
        return Qt.CheckState.Checked if ticked == {True} else Qt.CheckState.Unchecked

    def toggle_all(self) -> None:
        """Ticks all runs that are shown, or none if all are ticked; hidden runs keep their ticks."""
        shown = {line.run.id for line in self._shown if _can_tick(line.run)}
        is_all = self.ticks() is Qt.CheckState.Checked
        self.set_checked(self._checked - shown if is_all else self._checked | shown)

    def is_checked(self, row: int) -> bool:
        return self.run(row).id in self._checked

    def can_tick(self, row: int) -> bool:
        """Whether the run in a row has anything to show yet."""
        return _can_tick(self.run(row))

    def progress(self, row: int) -> float | None:
        """How far the run in a row is, 0 to 1, if that is known."""
        return self._progress.get(self.run(row).id)

    def is_paused(self, row: int) -> bool:
        """Whether the run in a row is paused."""
        return self.run(row).id == self._paused

    def is_spoiled(self, row: int, column: Column = Column.RATIO) -> bool:
        """Whether a comparison of times means nothing, since the run or its baseline was disturbed."""
        line, baselines, figure = self.line(row), self._runs.baselines, COMPARED.get(column)
        if figure is None or not figure.is_of_time or baselines.change(line, figure) is None:
            return False
        return bool(baselines.spoiled(line))

    def heading(self, column: Column) -> tuple[str, str]:
        """A column's heading, which names the baseline, and what the column means."""
        if column is Column.SPEED and self._runs.only_pictures:
            return PICTURES_HEADING
        words, tip = HEADINGS[column]
        if column not in COMPARED:
            return words, tip
        chosen = self._runs.baselines.chosen
        of = _DEFAULT_BASELINE if chosen is None else f"“{chosen.run.name}”"
        return words.format(self._runs.baselines.name), tip.format(of)

    def text(self, row: int, column: Column) -> str:
        """The text of a cell."""
        line = self._shown[row]
        if column is Column.STATUS and self.is_paused(row):
            return "Paused"
        if column is not Column.WHEN:
            return cell_text(line, column, self._runs.baselines)
        if line.run.status is Status.QUEUED:
            return "next" if self._runs.queue[:1] == [line.run.id] else "later"
        return when_words(line.run, datetime.now().astimezone())

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
        caution = ", not clean" if self.is_spoiled(row, column) else ""
        pinned = ", pinned" if column is Column.NAME and run.is_pinned else ""
        baseline = ", the baseline" if column is Column.NAME and self.is_baseline(row) else ""
        return f"{self.heading(column)[0]}: {self.text(row, column)}{caution}{pinned}{baseline}{note}"

    def _is_running(self, run_id: str) -> bool:
        run = self.known(run_id)
        return run is not None and run.status is Status.RUNNING

    def _show(self) -> None:
        """Shows the lines that the list has in view now; views keep their place on the rows that stay."""
        lines = self._runs.in_view()
        gone, new = set(self._shown).difference(lines), set(lines).difference(self._shown)
        if len(gone) + len(new) > _MANY:
            self.beginResetModel()
            self._shown = lines
            self.endResetModel()
            return
        arriving = {line.run.id: line for line in new}
        for row in sorted(map(self._shown.index, gone), reverse=True):
            line = arriving.pop(self.run(row).id, None)
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

    def _arrange(self, lines: list[Line]) -> None:
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
