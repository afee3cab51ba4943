"""The table of a sweep's cells, with a filter."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal

from engine.sweep.columns import columns_of
from engine.sweep.pictures.picture import cell_words, shown_figures
from engine.sweep.results import CellResult, Results
from gui.widgets.table import Column, FilteredTable, ResultTable
from gui.widgets.table.columns import GROWS

_LEAST_COLUMN, _MOST_COLUMN = 56, 240
_FILTER_TIP = "Shows only the cells that have all of these words in any column, such as: bf16 64 done"


class CellsView(FilteredTable[CellResult]):
    """A row for every cell of the grid. `cells_chosen` carries the indexes of the selected cells."""

    cells_chosen = Signal(object)

    def __init__(self) -> None:
        self._results: Results | None = None
        table = ResultTable[CellResult]("Cells of the sweep", key=lambda cell: cell.index, about=self._words)
        super().__init__(table, "cell", _FILTER_TIP)
        table.selected.connect(lambda: self.cells_chosen.emit(self.chosen()))
        self.show_results(None)

    def show_results(self, results: Results | None) -> None:
        """Shows the cells of these results, filtered and sorted as before; None for none."""
        self._results = results
        if results is None:
            self.table.show_rows((), ())
        else:
            self.table.show_rows(results.cells, _columns(results))
        self.tell("There are no cells yet.")

    def chosen(self) -> tuple[int, ...]:
        """The indexes of the selected cells."""
        return tuple(cell.index for cell in self.table.selected_rows())

    def mark_cells(self, cells: Iterable[int]) -> None:
        """Selects cells that were chosen elsewhere, without `cells_chosen`."""
        self.table.select_keys(cells)

    def _words(self, cell: CellResult) -> str:
        return cell_words(cell, shown_figures(self._results)) if self._results is not None else ""


def _columns(results: Results) -> list[Column[CellResult]]:
    columns = columns_of(results)
    return [
        Column(
            column.heading,
            column.text,
            column.value,
            column.tip,
            width=_LEAST_COLUMN,
            widest=GROWS if column is columns[-1] else _MOST_COLUMN,
            is_number=column.is_number,
        )
        for column in columns
    ]
