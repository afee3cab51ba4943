"""Trees of modules: the item model, the view, and the tree of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtWidgets import QHeaderView, QTreeView

from engine.protocol.advice import ModuleRow
from gui.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex
_INVALID = QModelIndex()
SORTED_BY, FILTERED_BY = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TreeRow(Protocol):
    """The interface of a row in a tree of modules. `depth` is its nesting level."""

    @property
    def depth(self) -> int: ...


Row = TypeVar("Row", bound=TreeRow)


@dataclass(eq=False)
class _Node(Generic[Row]):
    row: Row | None
    parent: _Node[Row] | None
    place: int
    children: list[_Node[Row]] = field(default_factory=list)


class TreeModel(QAbstractItemModel, Generic[Row]):
    """A Qt model of a tree, from rows in depth-first order. The view reads only unfolded rows.

    Subclasses override `cell`, which returns the data of a row in a column and role. `numbers` are the
    right-aligned columns, and `tips` the tooltips of headings.
    """

    headings: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    tips: Mapping[int, str] = {}

    def __init__(self, rows: Sequence[Row], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._root: _Node[Row] = _Node(None, None, 0)
        path = [self._root]
        for row in rows:
            # a module may be missing between a row and those around it
            del path[row.depth + 1 :]
            node = _Node(row, path[-1], len(path[-1].children))
            path[-1].children.append(node)
            path.append(node)

    def cell(self, row: Row, column: int, role: int) -> Any:
        raise NotImplementedError

    def row_of(self, index: Index) -> Row | None:
        """Return the row of an index. None for an invalid index."""
        return self._node(index).row

    def index(self, row: int, column: int, parent: Index = _INVALID) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, self._node(parent).children[row])

    def parent(self, index: Index = _INVALID) -> QModelIndex:  # type: ignore[override]
        above = self._node(index).parent
        if above is None or above.row is None:
            return QModelIndex()
        return self.createIndex(above.place, 0, above)

    def rowCount(self, parent: Index = _INVALID) -> int:
        return len(self._node(parent).children) if parent.column() <= 0 else 0

    def columnCount(self, parent: Index = _INVALID) -> int:
        return len(self.headings)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self.headings[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.tips.get(section)
        if role == Qt.ItemDataRole.TextAlignmentRole and section in self.numbers:
            return _RIGHT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._node(index).row
        if row is None:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if index.column() in self.numbers else None
        return self.cell(row, index.column(), role)

    def _node(self, index: Index) -> _Node[Row]:
        if not index.isValid():
            return self._root
        node = index.internalPointer()
        assert isinstance(node, _Node)
        return node


class _Sorted(QSortFilterProxyModel):
    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        # a descending order would turn even the model's own order round
        super().sort(column, order if column >= 0 else Qt.SortOrder.AscendingOrder)


class TreeView(QTreeView):
    """A view of a tree. A click on a heading sorts by it. A third click restores the original order."""

    widths: tuple[int, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("The model's modules")
        self.setUniformRowHeights(True)
        self.setSortingEnabled(True)
        self.proxy = _Sorted(self)
        self.proxy.setSortRole(SORTED_BY)
        self.setModel(self.proxy)
        header = self.header()
        header.setSortIndicatorClearable(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)

    def show_tree(self, tree: QAbstractItemModel) -> None:
        """Show a tree of modules, in the model's order or in the order selected in the header."""
        old = self.proxy.sourceModel()
        self.proxy.setSourceModel(tree)
        if isinstance(old, TreeModel):
            old.deleteLater()
        self.expandToDepth(0)
        for column, width in enumerate(self.widths):
            self.setColumnWidth(column, width)


PARAMETERS = 2


class ModuleTree(TreeModel[ModuleRow]):
    """The Qt model of a checked model's modules, with their parameters, output shapes and dtypes."""

    headings = ("Module", "Class", "Parameters", "Output", "Dtype")
    numbers = (PARAMETERS,)

    def cell(self, row: ModuleRow, column: int, role: int) -> Any:
        texts = (short_name(row.name), row.class_name, f"{row.parameters:,}", row.output, row.dtype)
        if role == Qt.ItemDataRole.DisplayRole:
            return texts[column]
        if role == SORTED_BY:
            return row.parameters if column == PARAMETERS else texts[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join((row.name or "The model", *row.own)))
        return None


def short_name(name: str) -> str:
    """Return a module's name within its parent module."""
    return name.rpartition(".")[2] or "the model"


class ModuleView(TreeView):
    """The tree of a checked model's modules."""

    widths = (240, 170, 110, 160, 80)

    def show_rows(self, rows: Sequence[ModuleRow]) -> None:
        """Show a model's modules in their order, or as sorted by the header."""
        self.show_tree(ModuleTree(rows, self))
