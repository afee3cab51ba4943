"""The table of a module's operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtWidgets import QAbstractButton, QHeaderView, QTableView

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics.formats import dtype_label
from engine.protocol.numerics.precision_map import Operation, module_title
from engine.words.numbers import memory_text
from gui.setup.model.tree import SORTED_BY, Index
from gui.widgets.labels import plain_tip

_HEADINGS = ("Operation", "Module", "Direction", "Formats", "Count", "Time ms", "Moved", "Cast")
_NAME, _MODULE, _DIRECTION, _FORMATS, _COUNT, _TIME, _MOVED, _CAST = range(8)
_NUMBERS = (_COUNT, _TIME, _MOVED)
_WIDTHS = (156, 100, 66, 118, 48, 62, 74, 80)
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_ROW_HEIGHT = 28
_INVALID = QModelIndex()


def formats_text(operation: Operation) -> str:
    """What went in and what came out: "FP16, FP32 → FP16"."""
    sides = (dict.fromkeys(map(dtype_label, dtypes)) for dtypes in (operation.inputs, operation.outputs))
    return " → ".join(", ".join(side) or "–" for side in sides)


class OperationModel(QAbstractTableModel):
    """A row for each operation."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Operation] = ()

    def show_operations(self, operations: Sequence[Operation]) -> None:
        """Shows these in the place of others."""
        self.beginResetModel()
        self._rows = operations
        self.endResetModel()

    def rowCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(_HEADINGS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _HEADINGS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if section in _NUMBERS else _LEFT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        operation, column = self._rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _texts(operation)[column]
            case Qt.ItemDataRole.TextAlignmentRole:
                return _RIGHT if column in _NUMBERS else _LEFT
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(_texts(operation)[column])
            case _ if role == SORTED_BY:
                figures = {
                    _COUNT: operation.count,
                    _TIME: operation.seconds,
                    _MOVED: operation.moved_bytes,
                }
                return figures.get(column, _texts(operation)[column])
        return None


class OperationTable(QTableView):
    """Sorted by a click on a heading; a third click brings back the order of the step."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = OperationModel()
        proxy = QSortFilterProxyModel(self)
        proxy.setSortRole(SORTED_BY)
        proxy.setSourceModel(self.operations)
        self.setModel(proxy)
        self.setAccessibleName("Operations")
        self.setProperty("kind", "tight")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        for corner in self.findChildren(QAbstractButton):
            corner.setAccessibleName("All operations")
            corner.setToolTip("All operations")
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSortIndicatorClearable(True)
        header.setStretchLastSection(True)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)

    def show_operations(self, operations: Sequence[Operation]) -> None:
        """Shows the operations; their modules only where these differ."""
        self.operations.show_operations(operations)
        modules = {operation.module for operation in operations}
        self.setColumnHidden(_MODULE, len(modules) < 2)


def _texts(operation: Operation) -> tuple[str, ...]:
    cast = "by autocast" if operation.by_autocast else "yes" if operation.is_cast else ""
    return (
        operation.name,
        module_title(operation.module),
        operation.direction.capitalize(),
        formats_text(operation),
        f"{operation.count:,}",
        f"{operation.seconds * 1_000:,.3f}",
        memory_text(operation.moved_bytes / BYTES_PER_MIB),
        cast,
    )
