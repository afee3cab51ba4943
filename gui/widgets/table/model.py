"""The Qt model of a table, which sorts and filters its rows without a proxy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from typing import Any, Generic

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
)

from gui.widgets.labels import plain_tip
from gui.widgets.table.columns import Column, Row, in_order

Index = QModelIndex | QPersistentModelIndex
_INVALID = QModelIndex()
_NONE = -1


def selected_places(selection: QItemSelectionModel) -> list[int]:
    """Return the selected rows in order, where whole rows are selected.

    `selectedRows` asks for the flags of every cell, which takes seconds for thousands of rows.
    """
    ranges = selection.selection().toList()
    return sorted({row for each in ranges for row in range(each.top(), each.bottom() + 1)})


def selection_of(model: QAbstractItemModel, places: Iterable[int]) -> QItemSelection:
    """Return a selection of whole rows, a range for each run of adjacent ones. `places` are sorted."""
    selection, last_column = QItemSelection(), model.columnCount() - 1
    for _, numbered in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        stretch = [row for _, row in numbered]
        selection.select(model.index(stretch[0], 0), model.index(stretch[-1], last_column))
    return selection


class RowModel(QAbstractTableModel, Generic[Row]):
    """The Qt model of a table whose rows are any objects, identified by `key`.

    `about` returns a row's tooltip, and `found_by` the text that a filter searches. Rows that are `pinned`
    stay on top in every order.
    """

    def __init__(
        self,
        key: Callable[[Row], Hashable],
        about: Callable[[Row], str] | None,
        found_by: Callable[[Row], str] | None,
        pinned: Callable[[Row], bool] | None,
    ) -> None:
        super().__init__()
        self.key = key
        self._about, self._found_by, self._pinned = about, found_by, pinned
        self.columns: tuple[Column[Row], ...] = ()
        self.given: Sequence[Row] = ()
        self.rows: Sequence[Row] = ()
        self._texts: list[str] | None = None
        self._words: list[str] = []
        self._keeps: Callable[[Row], bool] | None = None
        self._sorted_by: Hashable = None
        self._descends = False

    def show(self, rows: Sequence[Row], columns: Sequence[Column[Row]]) -> None:
        """Replace all rows, filtered and sorted as before."""
        before, titles = list(map(self.key, self.rows)), [column.key for column in self.columns]
        is_same = titles == [column.key for column in columns]
        self.given, self._texts = tuple(rows), None
        shown = self._in_order(columns)
        if is_same and before == list(map(self.key, shown)):
            self.columns, self.rows = tuple(columns), shown
            self.update_texts()
            return
        self.beginResetModel()
        self.columns, self.rows = tuple(columns), shown
        self.endResetModel()

    def update_texts(self) -> None:
        """Update the texts of all rows."""
        if self.rows and self.columns:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, len(self.columns) - 1))

    def set_filter(self, text: str, keeps: Callable[[Row], bool] | None) -> None:
        """Keep the rows that have every word of the text, in any case, and for which `keeps` returns True."""
        self.beginResetModel()
        self._words, self._keeps = text.lower().split(), keeps
        self.rows = self._in_order(self.columns)
        self.endResetModel()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column. -1 restores the original order."""
        self.layoutAboutToBeChanged.emit()
        before = [self.key(self.rows[index.row()]) for index in self.persistentIndexList()]
        self._sorted_by = self.columns[column].key if 0 <= column < len(self.columns) else None
        self._descends = order == Qt.SortOrder.DescendingOrder
        self.rows = self._in_order(self.columns)
        places = {self.key(row): place for place, row in enumerate(self.rows)} if before else {}
        for old, key in zip(self.persistentIndexList(), before, strict=True):
            self.changePersistentIndex(old, self.index(places[key], old.column()))
        self.layoutChanged.emit()

    def sorted_column(self) -> int:
        """Return the index of the column that the rows are sorted by, or -1."""
        places = (place for place, column in enumerate(self.columns) if column.key == self._sorted_by)
        return next(places, _NONE)

    def line(self, row: Row) -> list[str]:
        """Return a row as text, without the columns that have no title."""
        return [" ".join(column.text(row).split("\n")) for column in self.columns if column.title]

    def titles(self) -> list[str]:
        """Return the headings of a `line`."""
        return [column.whole_title for column in self.columns if column.title]

    def rowCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.rows[index.row()], self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.text(row)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._words_about(row, column))
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                words = self._words_about(row, column)
                return words if words != column.text(row) else ""
            case Qt.ItemDataRole.TextAlignmentRole:
                return column.alignment
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return "" if column.paint_heading else column.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return column.whole_title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(column.tip)
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                return column.tip
            case Qt.ItemDataRole.TextAlignmentRole:
                # below the name of a group, or an axis
                is_high = any(other.group or other.paint_heading for other in self.columns)
                side = column.alignment & Qt.AlignmentFlag.AlignHorizontal_Mask
                return side | Qt.AlignmentFlag.AlignBottom if is_high else column.alignment
            case Qt.ItemDataRole.InitialSortOrderRole if column.is_number:
                return Qt.SortOrder.DescendingOrder
        return None

    def _words_about(self, row: Row, column: Column[Row]) -> str:
        return (column.about or self._about or column.text)(row)

    def _in_order(self, columns: Sequence[Column[Row]]) -> Sequence[Row]:
        rows = self.given
        if self._words:
            if self._texts is None:
                self._texts = [self._text_of(row, columns).lower() for row in rows]
            found = zip(rows, self._texts, strict=True)
            rows = [row for row, text in found if all(word in text for word in self._words)]
        if self._keeps is not None:
            rows = list(filter(self._keeps, rows))
        column = next((column for column in columns if column.key == self._sorted_by), None)
        if column is None or self._sorted_by is None:
            return rows
        pinned = self._pinned or (lambda _row: False)
        on_top = [row for row in rows if pinned(row)]
        return on_top + in_order(
            [row for row in rows if not pinned(row)], column.sorted_by, descends=self._descends
        )

    def _text_of(self, row: Row, columns: Sequence[Column[Row]]) -> str:
        if self._found_by is not None:
            return self._found_by(row)
        return " ".join(column.text(row) for column in columns)
