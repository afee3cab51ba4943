"""What the window's tables of results have in common: headings, alignment, and a look without a grid."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QFont, QFontMetrics, QStaticText
from PySide6.QtWidgets import QAbstractButton, QTableView

from gui.theme.fonts import font

RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter

Index = QModelIndex | QPersistentModelIndex
_INVALID = QModelIndex()


class TableModel(QAbstractTableModel):
    """Rows below `headings`, some of them with `tips`; the columns in `right` are aligned to the right.

    A subclass gives the rows, and their cells in `data`.
    """

    headings: Sequence[str] = ()
    tips: Mapping[int, str] = {}
    right: Container[int] = ()

    def rows(self) -> Sequence[object]:
        """The rows in their order."""
        raise NotImplementedError

    def alignment(self, column: int) -> Qt.AlignmentFlag:
        """How a column and its heading are aligned."""
        return RIGHT if column in self.right else LEFT

    def rowCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self.rows())

    def columnCount(self, parent: Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self.headings)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.headings[section]
            case Qt.ItemDataRole.ToolTipRole:
                return self.tips.get(section)
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(section)
        return None


Row = TypeVar("Row")


def in_order(rows: Sequence[Row], value: Callable[[Row], Any], order: Qt.SortOrder) -> list[Row]:
    """The rows sorted by their values; those without any, which are neither least nor largest, come last."""
    values = list(map(value, rows))
    known = [place for place, own in enumerate(values) if own is not None]
    known.sort(key=values.__getitem__, reverse=order == Qt.SortOrder.DescendingOrder)
    return [rows[place] for place in known] + [
        row for row, own in zip(rows, values, strict=True) if own is None
    ]


def set_up(table: QTableView, name: str, rows: str, row_height: int) -> None:
    """Gives a table its accessible name and its plain look; `rows` names what its corner selects."""
    table.setAccessibleName(name)
    table.setShowGrid(False)
    table.setWordWrap(False)
    # else Tab would go from cell to cell and never leave the table
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(row_height)
    table.horizontalHeader().setHighlightSections(False)
    for corner in table.findChildren(QAbstractButton):
        corner.setAccessibleName(rows)
        corner.setToolTip(rows)


@lru_cache(maxsize=4)
def cell_font(weight: int) -> QFont:
    """The font of a table's cells."""
    return font(12, weight)


@lru_cache(maxsize=4_096)
def cell_text(text: str, weight: int, width: int) -> QStaticText:
    """The text of a cell `width` pixels wide, laid out once: scrolling paints hundreds at a time."""
    face = cell_font(weight)
    words = QStaticText(QFontMetrics(face).elidedText(text, Qt.TextElideMode.ElideMiddle, width))
    words.setTextFormat(Qt.TextFormat.PlainText)
    words.prepare(font=face)
    return words
