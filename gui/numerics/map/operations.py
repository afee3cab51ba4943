"""The table of a module's operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableView

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics.formats import dtype_label
from engine.protocol.numerics.precision_map import Operation, module_title
from engine.words.numbers import memory_text, number
from gui.numerics.map.look import MOVED_TIP, TIME_TIP
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, set_up

_HEADINGS = ("Operation", "Module", "Direction", "Formats", "Count", "Time ms", "Moved", "Cast")
_NAME, _MODULE, _DIRECTION, _FORMATS, _COUNT, _TIME, _MOVED, _CAST = range(8)
_NUMBERS = (_COUNT, _TIME, _MOVED)
_FIGURES: Mapping[int, Callable[[Operation], float]] = {
    _COUNT: lambda operation: operation.count,
    _TIME: lambda operation: operation.seconds,
    _MOVED: lambda operation: operation.moved_bytes,
}
_TIPS = {
    _FORMATS: "What went in, and what came out",
    _TIME: TIME_TIP,
    _MOVED: MOVED_TIP,
    _CAST: "Whether it only changes the number format, and whether autocast put it in",
}
_WIDTHS = (132, 96, 74, 116, 48, 70, 74, 92)
_WIDEST_NAME = 240
_ROW_HEIGHT = 28


def formats_text(operation: Operation) -> str:
    """What went in and what came out: "FP16, FP32 → FP16"."""
    sides = (dict.fromkeys(map(dtype_label, dtypes)) for dtypes in (operation.inputs, operation.outputs))
    return " → ".join(", ".join(side) or "–" for side in sides)


class OperationModel(TableModel):
    """A row for each operation. It sorts by itself: a proxy would ask for each pair of rows."""

    headings, tips, right = _HEADINGS, _TIPS, _NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self._given: Sequence[Operation] = ()
        self._rows: Sequence[Operation] = ()
        self._sorted_by, self._order = -1, Qt.SortOrder.AscendingOrder

    def rows(self) -> Sequence[Operation]:
        return self._rows

    def show_operations(self, operations: Sequence[Operation]) -> None:
        """Shows these in the place of others."""
        self.beginResetModel()
        self._given = operations
        self._rows = self._in_order()
        self.endResetModel()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column; -1 brings back the order of the step."""
        self.layoutAboutToBeChanged.emit()
        self._sorted_by, self._order = column, order
        self._rows = self._in_order()
        self.layoutChanged.emit()

    def _in_order(self) -> Sequence[Operation]:
        if self._sorted_by < 0:
            return self._given
        descends = self._order == Qt.SortOrder.DescendingOrder
        figure = _FIGURES.get(self._sorted_by)
        if figure is not None:
            return sorted(self._given, key=figure, reverse=descends)
        return sorted(self._given, key=lambda row: _texts(row)[self._sorted_by], reverse=descends)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        operation, column = self._rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _texts(operation)[column]
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(_texts(operation)[column])
        return None


class OperationTable(QTableView):
    """Sorted by a click on a heading; a third click brings back the order of the step."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = OperationModel()
        self.setModel(self.operations)
        set_up(self, "Operations", "All operations", _ROW_HEIGHT)
        self.setProperty("kind", "tight")
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = self.horizontalHeader()
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
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Gives the names of operations and modules what the other columns leave."""
        others = sum(self.columnWidth(column) for column in range(_DIRECTION, _CAST)) + _WIDTHS[_CAST]
        rest = self.viewport().width() - others
        if not self.isColumnHidden(_MODULE):
            # the names of operations are short
            module = max(_WIDTHS[_MODULE], rest - _WIDEST_NAME)
            self.setColumnWidth(_MODULE, module)
            rest -= module
        self.setColumnWidth(_NAME, max(_WIDTHS[_NAME], rest))


def _texts(operation: Operation) -> tuple[str, ...]:
    cast = "by autocast" if operation.by_autocast else "yes" if operation.is_cast else ""
    return (
        operation.name,
        module_title(operation.module),
        operation.direction.capitalize(),
        formats_text(operation),
        f"{operation.count:,}",
        number(operation.seconds * 1_000),
        memory_text(operation.moved_bytes / BYTES_PER_MIB),
        cast,
    )
