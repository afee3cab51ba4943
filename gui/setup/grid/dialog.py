"""The window with all cells of the form's sweep: their values, their memory, and why some are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QDialog, QTableView, QWidget

from engine.words.numbers import NONE, memory_text
from gui.setup.grid.survey import Survey
from gui.setup.grid.words import left_out_words, plan_words
from gui.theme.theme import theme
from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, cell_font, set_up

_SIZE, _ROW = (720, 520), 28


class CellsModel(TableModel):
    """A row for each cell; those left out are struck out."""

    def __init__(self, survey: Survey) -> None:
        super().__init__()
        assert survey.grid is not None
        self._grid, self._fit = survey.grid, survey.fit
        self._axes = len(survey.grid.axes)
        self.headings = (*(axis.title for axis in survey.grid.axes), "Memory", "Left out because")
        self.right = (self._axes,)
        self._struck = QFont(cell_font(400))
        self._struck.setStrikeOut(True)

    def rows(self) -> Sequence[object]:
        return self._grid.cells

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = index.row(), index.column()
        is_left_out = row in self._fit.why
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self._text(row, column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._text(row, column))
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
            case Qt.ItemDataRole.FontRole:
                return self._struck if is_left_out and column < self._axes else cell_font(400)
            case Qt.ItemDataRole.ForegroundRole if is_left_out:
                return QColor(theme().palette.text3)
        return None

    def _text(self, row: int, column: int) -> str:
        if column < self._axes:
            return self._grid.axes[column].text(self._grid.cells[row].places[column])
        if column == self._axes:
            needed = self._fit.needed_mib.get(row)
            return NONE if needed is None else memory_text(needed)
        return self._fit.why.get(row, "")


class GridDialog(QDialog):
    """All cells of a sweep in a table."""

    def __init__(self, survey: Survey, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Cells of the sweep")
        self.resize(*_SIZE)
        self.table = QTableView()
        set_up(self.table, "Cells of the sweep", "All cells", _ROW)
        self.table.setModel(CellsModel(survey))
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        about = label("\n".join(filter(None, (plan_words(survey), left_out_words(survey)))), "hint")
        about.setWordWrap(True)
        close = Button("Close", "secondary", "Close this window (Escape)")
        close.clicked.connect(self.close)
        in_column(about, wide(self.table), in_row(Stretch(), close), parent=self, margins=16, spacing=12)
