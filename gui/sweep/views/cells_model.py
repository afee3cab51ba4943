"""The cells of a sweep as Qt's model, sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import Qt

from engine.sweep.columns import Column, columns_of
from engine.sweep.pictures.picture import cell_words, shown_figures
from engine.sweep.results import CellResult, Results
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, in_order


class CellsModel(TableModel):
    """A row for every cell. It sorts by itself: a proxy asks for pairs of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.results: Results | None = None
        self.columns: tuple[Column, ...] = ()
        self._rows: Sequence[CellResult] = ()
        self._words: Sequence[str] = ()
        self._text = ""
        self._sorted_by = ""
        self._order = Qt.SortOrder.AscendingOrder

    def rows(self) -> Sequence[CellResult]:
        return self._rows

    def show_results(self, results: Results | None) -> None:
        """Shows these cells, filtered and sorted as before."""
        self.beginResetModel()
        self.results = results
        self.columns = () if results is None else columns_of(results)
        self.headings = tuple(column.heading for column in self.columns)
        self.tips = {place: plain_tip(column.tip) for place, column in enumerate(self.columns) if column.tip}
        self.right = [place for place, column in enumerate(self.columns) if column.is_number]
        cells = () if results is None else results.cells
        self._words = [" ".join(column.text(cell) for column in self.columns).lower() for cell in cells]
        self._rows = self._in_order()
        self.endResetModel()

    def set_filter(self, text: str) -> None:
        """Keeps the cells that have every word of the text in any of their columns."""
        if text != self._text:
            self.beginResetModel()
            self._text = text
            self._rows = self._in_order()
            self.endResetModel()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column; -1 brings back the grid's order."""
        self.layoutAboutToBeChanged.emit()
        self._sorted_by = self.headings[column] if 0 <= column < len(self.headings) else ""
        self._order = order
        self._rows = self._in_order()
        self.layoutChanged.emit()

    def sorted_column(self) -> int:
        """The column that the rows are sorted by; -1 for none."""
        return list(self.headings).index(self._sorted_by) if self._sorted_by in self.headings else -1

    def rows_of(self, cells: Iterable[int]) -> list[int]:
        """The rows of these cells, as far as they pass the filter."""
        wanted = set(cells)
        return [row for row, cell in enumerate(self._rows) if cell.index in wanted]

    def line(self, row: int) -> tuple[str, ...]:
        """A row as text."""
        return tuple(column.text(self._rows[row]) for column in self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.columns[index.column()].text(cell)
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(index.column())
            case Qt.ItemDataRole.ToolTipRole if self.results is not None:
                return plain_tip(cell_words(cell, shown_figures(self.results)))
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.InitialSortOrderRole and self.columns[section].is_figure:
            return Qt.SortOrder.DescendingOrder
        return super().headerData(section, orientation, role)

    def _in_order(self) -> Sequence[CellResult]:
        rows: Sequence[CellResult] = () if self.results is None else self.results.cells
        if words := self._text.lower().split():
            rows = [
                row for row, own in zip(rows, self._words, strict=True) if all(word in own for word in words)
            ]
        column = self.sorted_column()
        return rows if column < 0 else in_order(rows, self.columns[column].value, self._order)
