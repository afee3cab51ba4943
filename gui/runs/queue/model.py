"""The rows of the queue's table, and the moves by drag and drop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QMimeData, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from gui.runs.queue.schedule import Schedule, Slot, schedule
from gui.runs.queue.words import begins_text, duration_text, state_text, time_text
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel

MIME = "application/x-ammeter-queue"
_INVALID = QModelIndex()


class Column(IntEnum):
    HANDLE, KIND, NAME, WHAT, STATE, TAKES, BEGINS, ENDS, ACTIONS = range(9)


_HEADINGS = ("", "", "Name", "What it is", "State", "Takes", "Begins", "Done at", "")
_TIPS: Mapping[int, str] = {
    Column.TAKES: "How long it still takes, by earlier runs with the same settings on this device",
    Column.BEGINS: "When it will begin, if what is before it takes as long as expected",
    Column.ENDS: "When it will be over, if all takes as long as expected",
}


class QueueModel(TableModel):
    """The items with their times. `move_asked` carries the keys that were dragged, and the key before which
    they were dropped, None for the end."""

    move_asked = Signal(object, object)
    headings = _HEADINGS
    tips = _TIPS
    right = (Column.TAKES, Column.BEGINS, Column.ENDS)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.schedule: Schedule = schedule((), datetime.now(), rests=False)

    def rows(self) -> Sequence[Slot]:
        return self.schedule.slots

    def take(self, new: Schedule) -> None:
        """Shows these items; the rows are only made anew where they are others."""
        same = [item.key for item in new.items] == [item.key for item in self.schedule.items]
        if not same:
            self.beginResetModel()
        self.schedule = new
        if not same:
            self.endResetModel()
        elif new.slots:
            self.dataChanged.emit(self.index(0, 0), self.index(len(new.slots) - 1, len(Column) - 1))

    def row_of(self, key: str) -> int | None:
        return next((row for row, slot in enumerate(self.rows()) if slot.item.key == key), None)

    def text(self, row: int, column: Column) -> str:
        """A cell's words."""
        slot, now = self.rows()[row], self.schedule.now
        match column:
            case Column.NAME:
                return slot.item.title
            case Column.WHAT:
                return slot.item.detail
            case Column.STATE:
                return state_text(slot.item)
            case Column.TAKES:
                return duration_text(slot.item)
            case Column.BEGINS:
                return begins_text(slot, now)
            case Column.ENDS:
                return time_text(slot.ends, now)
        return ""

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = index.row(), Column(index.column())
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.text(row, column)
            case Qt.ItemDataRole.AccessibleTextRole:
                return self.text(row, column) or self.rows()[row].item.kind
            case Qt.ItemDataRole.ToolTipRole if column in (Column.NAME, Column.WHAT):
                item = self.rows()[row].item
                return plain_tip(f"{item.title}\n{item.detail}")
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            # between the rows
            return Qt.ItemFlag.ItemIsDropEnabled
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsDragEnabled

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [MIME]

    def mimeData(self, indexes: Iterable[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        data = QMimeData()
        data.setData(MIME, "\n".join(self.rows()[row].item.key for row in rows).encode())
        return data

    def dropMimeData(
        self,
        data: QMimeData,
        action: Qt.DropAction,
        row: int,
        column: int,
        parent: QModelIndex | QPersistentModelIndex = _INVALID,
    ) -> bool:
        if not data.hasFormat(MIME):
            return False
        place = row if row >= 0 else parent.row() if parent.isValid() else len(self.rows())
        keys = bytes(data.data(MIME).data()).decode().split("\n")
        before = next((item.key for item in self.schedule.items[place:] if item.key not in keys), None)
        self.move_asked.emit(keys, before)
        # the rows are not the view's to remove
        return False
