"""A model's modules as a tree, with their parameters, shapes and number formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtWidgets import QHeaderView, QTreeView

from engine.protocol.findings import ModuleRow
from gui.widgets.labels import plain_tip

_HEADINGS = ("Module", "Class", "Parameters", "Output", "Format")
PARAMETERS = 2
_Index = QModelIndex | QPersistentModelIndex
_INVALID = QModelIndex()
_SORTED_BY = Qt.ItemDataRole.UserRole
_WIDTHS = (240, 170, 110, 160, 80)


@dataclass(eq=False)
class _Node:
    row: ModuleRow | None
    parent: _Node | None
    place: int
    children: list[_Node] = field(default_factory=list)


class ModuleTree(QAbstractItemModel):
    """The rows of a check; the view asks only for what is unfolded."""

    def __init__(self, rows: Sequence[ModuleRow], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._root = _Node(None, None, 0)
        path = [self._root]
        for row in rows:
            # a module may be missing between a row and those around it
            del path[row.depth + 1 :]
            node = _Node(row, path[-1], len(path[-1].children))
            path[-1].children.append(node)
            path.append(node)

    def index(self, row: int, column: int, parent: _Index = _INVALID) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, self._node(parent).children[row])

    def parent(self, index: _Index = _INVALID) -> QModelIndex:  # type: ignore[override]
        above = self._node(index).parent
        if above is None or above.row is None:
            return QModelIndex()
        return self.createIndex(above.place, 0, above)

    def rowCount(self, parent: _Index = _INVALID) -> int:
        return len(self._node(parent).children) if parent.column() <= 0 else 0

    def columnCount(self, parent: _Index = _INVALID) -> int:
        return len(_HEADINGS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return _HEADINGS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section == PARAMETERS:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self._node(index).row, index.column()
        if row is None:
            return None
        texts = (_name(row), row.class_name, f"{row.parameters:,}", row.output, row.dtype)
        if role == Qt.ItemDataRole.DisplayRole:
            return texts[column]
        if role == _SORTED_BY:
            return row.parameters if column == PARAMETERS else texts[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join((row.name or "The model", *row.own)))
        if role == Qt.ItemDataRole.TextAlignmentRole and column == PARAMETERS:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def _node(self, index: _Index) -> _Node:
        if not index.isValid():
            return self._root
        node = index.internalPointer()
        assert isinstance(node, _Node)
        return node


def _name(row: ModuleRow) -> str:
    return row.name.rpartition(".")[2] or "the model"


class _Sorted(QSortFilterProxyModel):
    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        # a descending order would turn even the model's own order round
        super().sort(column, order if column >= 0 else Qt.SortOrder.AscendingOrder)


class ModuleView(QTreeView):
    """Shows the tree, the model itself unfolded. A click on a heading sorts, a third one unsorts."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("The model's modules")
        self.setUniformRowHeights(True)
        self.setSortingEnabled(True)
        self._proxy = _Sorted(self)
        self._proxy.setSortRole(_SORTED_BY)
        self.setModel(self._proxy)
        header = self.header()
        header.setSortIndicatorClearable(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)

    def show_rows(self, rows: Sequence[ModuleRow]) -> None:
        """Shows a model's modules in their order, as sorted by the header."""
        old = self._proxy.sourceModel()
        self._proxy.setSourceModel(ModuleTree(rows, self))
        if isinstance(old, ModuleTree):
            old.deleteLater()
        self.expandToDepth(0)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)
