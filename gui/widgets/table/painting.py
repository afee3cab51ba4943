"""Painting of table cells and headings, several times as fast as by a style sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPixmap, QStaticText
from PySide6.QtWidgets import (
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets.markers import draw_marker
from gui.widgets.table.columns import Column, Look
from gui.widgets.table.model import Index, RowModel

PADDING, MARK = 4, 12
"""Pixels beside the text of a cell, and of the mark before it."""
_MARKER, _MARK_GAP, _CHOSEN = 8, 4, 2
_HEADING, _HIGH_HEADING, _GROUP_MIDDLE = 28, 46, 13.0


@lru_cache(maxsize=16)
def cell_font(weight: int, size: int = 12, is_struck: bool = False) -> QFont:
    """Return the font of a cell's text."""
    face = font(size, weight)
    face.setStrikeOut(is_struck)
    return face


@lru_cache(maxsize=4_096)
def _laid_out(text: str, width: int, weight: int, size: int, is_struck: bool) -> QStaticText:
    face = cell_font(weight, size, is_struck)
    words = QStaticText(QFontMetrics(face).elidedText(text, Qt.TextElideMode.ElideMiddle, width))
    words.setTextFormat(Qt.TextFormat.PlainText)
    words.prepare(font=face)
    return words


@lru_cache(maxsize=4_096)
def text_width(text: str, weight: int, size: int = 12) -> int:
    """Return the width of a cell's text."""
    return QFontMetrics(cell_font(weight, size)).horizontalAdvance(text) + 1


@lru_cache(maxsize=64)
def _icon(name: str, color: str, ratio: float) -> QPixmap:
    return pixmap(name, color, MARK, ratio)


def cell_width(column: Column[Any], row: Any) -> int:
    """Return the width of a cell with its text, mark and padding, in pixels."""
    look = column.look(row)
    return (
        text_width(column.text(row), look.weight, look.size)
        + (MARK + _MARK_GAP if look.mark else 0)
        + 2 * PADDING
        + column.gap
    )


def paint_words(painter: QPainter, room: QRectF, text: str, look: Look, *, is_right: bool = False) -> None:
    """Paint a text with its mark, elided where there is no room."""
    ink = QColor(getattr(theme().palette, look.ink))
    indent = MARK + _MARK_GAP if look.mark else 0
    words = _laid_out(text, int(room.width()) - indent, look.weight, look.size, look.is_struck)
    left = room.right() - words.size().width() if is_right else room.left() + indent
    middle = room.center().y()
    if isinstance(look.mark, Precision):
        draw_marker(painter, QPointF(left - indent + MARK / 2, middle), look.mark, _MARKER)
    elif look.mark:
        mark = _icon(look.mark, theme().palette.text2, painter.device().devicePixelRatio())
        painter.drawPixmap(QPointF(left - indent, middle - MARK / 2 + 0.5), mark)
    painter.setFont(cell_font(look.weight, look.size, look.is_struck))
    painter.setPen(ink)
    painter.drawStaticText(QPointF(left, middle - words.size().height() / 2), words)


class CellPainter(QStyledItemDelegate):
    """Paints the cells of a table as its columns define. Rows that are `shaded` have another background."""

    def __init__(self, table: QTableView, model: RowModel[Any], shaded: Callable[[Any], bool] | None) -> None:
        super().__init__(table)
        self._model, self._shaded = model, shaded

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette, rect = theme().palette, option.rect
        row, column = self._model.rows[index.row()], self._model.columns[index.column()]
        is_selected = QStyle.StateFlag.State_Selected in option.state
        painter.save()
        if is_selected or column.is_shaded or (self._shaded is not None and self._shaded(row)):
            painter.fillRect(rect, QColor(palette.bg2))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        if is_selected and not index.column():
            painter.fillRect(QRect(rect.left(), rect.top(), _CHOSEN, rect.height()), QColor(palette.pri))
        room = QRectF(rect).adjusted(PADDING + column.gap, 0, -PADDING, 0)
        if column.paint is not None:
            column.paint(painter, room, row)
        elif text := column.text(row):
            if column.short is not None and cell_width(column, row) > rect.width():
                text = column.short(row)
            paint_words(painter, room, text, column.look(row), is_right=column.is_number)
        painter.restore()


class HasColumns(Protocol):
    """A model whose sections are columns."""

    @property
    def columns(self) -> Sequence[Column[Any]]: ...


class TableHeader(QHeaderView):
    """The header of a table: headings below the names of their groups. A click sorts by a column.

    A third click restores the original order.
    """

    def __init__(self, table: QWidget, model: HasColumns) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self._model = model
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setSortIndicatorClearable(True)
        self.setMinimumSectionSize(24)
        self.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)

    def fit_height(self, least: int = 0) -> None:
        """Adjust the height to the names of groups, if any."""
        is_grouped = any(column.group for column in self._model.columns)
        self.setFixedHeight(max(least, _HIGH_HEADING if is_grouped else _HEADING))

    def show_order(self, column: int) -> None:
        """Mark the column that the rows are sorted by, without sorting them again."""
        self.blockSignals(True)
        self.setSortIndicator(column, self.sortIndicatorOrder())
        self.blockSignals(False)

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        column, palette = self._model.columns[section], theme().palette
        painter.save()
        super().paintSection(painter, rect.adjusted(column.gap, 0, 0, 0), section)
        painter.restore()
        painter.save()
        if column.gap:
            before = QRect(rect.left(), rect.top(), column.gap, rect.height())
            painter.fillRect(before, QColor(palette.bg1))
            painter.setPen(QColor(palette.line))
            painter.drawLine(before.bottomLeft(), before.bottomRight())
        if column.group is not None:
            self._paint_group(painter, rect, column)
        if column.is_shaded:
            painter.fillRect(rect.adjusted(0, 0, 0, -1), QColor(palette.bg2))
        if column.paint_heading is not None:
            column.paint_heading(painter, QRectF(rect).adjusted(PADDING, 0, -PADDING, 0))
        painter.restore()

    def _paint_group(self, painter: QPainter, rect: QRect, column: Column[Any]) -> None:
        group, palette = column.group, theme().palette
        assert group is not None
        places = [place for place, other in enumerate(self._model.columns) if other.group == group]
        left = self.sectionViewportPosition(places[0]) + PADDING
        room = sum(map(self.sectionSize, places)) - 2 * PADDING
        # the name goes over the columns of its group, of which this paints a part
        painter.setClipRect(rect)
        middle = rect.top() + _GROUP_MIDDLE
        paint_words(
            painter,
            QRectF(left, middle - _GROUP_MIDDLE, room, 2 * _GROUP_MIDDLE),
            group.title,
            Look(600, mark=group.precision),
        )
        below = rect.top() + 24.5
        painter.setPen(QColor(palette.line))
        painter.drawLine(QPointF(left, below), QPointF(left + room, below))
