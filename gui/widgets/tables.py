"""What the window's tables of results have in common: headings, alignment, and a look without a grid."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPointF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QStaticText
from PySide6.QtWidgets import (
    QAbstractButton,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTableWidget,
    QTableWidgetItem,
)

from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip

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


_WHOLE_ROW = 28


def whole_table(
    name: str,
    tip: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Container[int] = (),
    widths: Mapping[int, int] = MappingProxyType({}),
    tips: Sequence[str] = (),
) -> QTableWidget:
    """A table of texts as high as its rows: the page scrolls, not the table.

    Columns without one of the `widths` share what is left; `tips` are those of the first column, by row.
    """
    table = QTableWidget(len(rows), len(headings))
    table.setAccessibleName(name)
    table.setToolTip(tip)
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    # arrow keys in it would not scroll the page
    table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    table.setSelectionMode(QTableWidget.SelectionMode.NoSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setProperty("kind", "tight")
    for policy in (table.setVerticalScrollBarPolicy, table.setHorizontalScrollBarPolicy):
        policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(_WHOLE_ROW)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    for column, width in widths.items():
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(column, width)
    for column, words in enumerate(headings):
        heading = QTableWidgetItem(words)
        heading.setTextAlignment(RIGHT if column in right else LEFT)
        table.setHorizontalHeaderItem(column, heading)
    for place, row in enumerate(rows):
        for column, text in enumerate(row):
            item = QTableWidgetItem(text)
            item.setTextAlignment(RIGHT if column in right else LEFT)
            item.setToolTip(plain_tip(tips[place] if tips and not column else text))
            table.setItem(place, column, item)
    table.setFixedHeight(header.sizeHint().height() + len(rows) * _WHOLE_ROW + 2)
    return table


class PlainCells(QStyledItemDelegate):
    """Paints texts as they are: a style sheet's way takes several times as long."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.paint_ground(painter, option)
        text = index.data()
        if not text:
            return
        rect = option.rect
        words = cell_text(text, 400, rect.width() - 2 * PADDING)
        left = float(rect.left() + PADDING)
        if index.data(Qt.ItemDataRole.TextAlignmentRole) == RIGHT:
            left = rect.right() - PADDING - words.size().width()
        painter.setFont(cell_font(400))
        painter.setPen(QColor(theme().palette.text))
        painter.drawStaticText(QPointF(left, rect.center().y() - words.size().height() / 2), words)

    def paint_ground(self, painter: QPainter, option: QStyleOptionViewItem) -> None:
        """The ground of a cell that is selected, and the line below it."""
        palette, rect = theme().palette, option.rect
        if QStyle.StateFlag.State_Selected in option.state:
            painter.fillRect(rect, QColor(palette.bg2))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())


PADDING = 4
"""Beside the text of a cell."""
