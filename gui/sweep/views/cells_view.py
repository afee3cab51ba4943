"""The table of a sweep's cells, with a filter."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHeaderView, QStackedLayout, QTableView, QWidget

from engine.sweep.results import Results
from engine.words.numbers import counted
from gui.sweep.views.cells_model import CellsModel
from gui.theme.theme import theme
from gui.widgets import label, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.filter_edit import FilterEdit
from gui.widgets.tables import PlainCells, set_up

_ROW_HEIGHT, _PADDING = 28, 24
_LEAST_COLUMN, _MOST_COLUMN, _MEASURED = 56, 240, 60
_FILTER_TIP = "Shows only the cells that have all of these words in any column, such as: bf16 64 done"


class CellsTable(QTableView):
    """Sorted by a click on a heading; a third click brings back the grid's order. Ctrl+C copies rows."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = CellsModel()
        self.setModel(self.cells)
        set_up(self, "Cells of the sweep", "All cells", _ROW_HEIGHT)
        self.setProperty("kind", "tight")
        self.setItemDelegate(PlainCells(self))
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = self.horizontalHeader()
        header.setSortIndicatorClearable(True)
        header.setMinimumSectionSize(_LEAST_COLUMN)
        header.setStretchLastSection(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        theme().changed.connect(self.viewport().update)

    def show_results(self, results: Results | None) -> None:
        """Shows the cells of these results; widths change only with the columns."""
        headings = self.cells.headings
        self.cells.show_results(results)
        header = self.horizontalHeader()
        # the columns may be others: the mark stays with its own, and is not to sort again
        header.blockSignals(True)
        header.setSortIndicator(self.cells.sorted_column(), header.sortIndicatorOrder())
        header.blockSignals(False)
        if headings != self.cells.headings:
            self._fit()

    def copy_rows(self) -> None:
        """Puts the selected rows on the clipboard for a spreadsheet, below their headings."""
        rows = sorted(index.row() for index in self.selectionModel().selectedRows())
        lines = [self.cells.headings, *(self.cells.line(row) for row in rows)]
        QGuiApplication.clipboard().setText("\n".join("\t".join(line) for line in lines))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_rows()
            return
        super().keyPressEvent(event)

    def _fit(self) -> None:
        count = len(self.cells.rows())
        metrics, rows = self.fontMetrics(), range(0, count, max(1, count // _MEASURED))
        for place, heading in enumerate(self.cells.headings):
            texts = [heading, *(self.cells.columns[place].text(self.cells.rows()[row]) for row in rows)]
            width = max(map(metrics.horizontalAdvance, texts)) + _PADDING
            self.setColumnWidth(place, min(max(width, _LEAST_COLUMN), _MOST_COLUMN))


class CellsView(QWidget):
    """The table with its filter. `cells_chosen` carries the indexes of the selected cells."""

    cells_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.filter = FilterEdit("Filter cells", _FILTER_TIP)
        self.table = CellsTable()
        self._count = label("", "legend")
        self._none = label("", "empty")
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.filter.textChanged.connect(self._filter)
        self.table.selectionModel().selectionChanged.connect(self._choose)
        self._below = QStackedLayout()
        head = in_row(self.filter, Stretch(1), self._count, spacing=12)
        in_column(head, wide(self._below), parent=self, margins=(0, 8, 0, 0), spacing=8)
        self._below.addWidget(self.table)
        self._below.addWidget(self._none)
        self.show_results(None)

    def show_results(self, results: Results | None) -> None:
        """Shows the cells of these results, filtered and sorted as before; None for none."""
        chosen = self.chosen()
        self.table.show_results(results)
        self._filter()
        self.mark_cells(chosen)

    def chosen(self) -> tuple[int, ...]:
        """The indexes of the selected cells."""
        rows = self.table.cells.rows()
        return tuple(rows[index.row()].index for index in self.table.selectionModel().selectedRows())

    def mark_cells(self, cells: Iterable[int]) -> None:
        """Selects cells that were chosen elsewhere, without `cells_chosen`."""
        model, selection = self.table.cells, QItemSelection()
        last = max(0, len(model.columns) - 1)
        for row in model.rows_of(cells):
            selection.select(model.index(row, 0), model.index(row, last))
        selecting = self.table.selectionModel()
        selecting.blockSignals(True)
        selecting.select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        selecting.blockSignals(False)
        self.table.viewport().update()

    def _choose(self) -> None:
        self.cells_chosen.emit(self.chosen())

    def _filter(self) -> None:
        model = self.table.cells
        model.set_filter(self.filter.text())
        shown, count = len(model.rows()), 0 if model.results is None else len(model.results.cells)
        set_text(self._count, counted(count, "cell") if shown == count else f"{shown:,} of {count:,} cells")
        set_text(self._none, "No cell passes the filter." if count else "There are no cells yet.")
        self._below.setCurrentWidget(self.table if shown else self._none)
