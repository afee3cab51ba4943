"""The table of ranges: a row per module with its histogram, and the share that each format would lose."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QPointF, QRect, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing
from engine.numerics.range_histogram import Axis, bars, bracket, exponent_ticks, lost_range
from engine.protocol.numerics.formats import SMALL_FORMATS, NumberFormat
from engine.words.numbers import NONE, NOTHING
from gui.charts.painter import paint
from gui.numerics.ranges.model import FIRST_FORMAT, MODULE, PICTURE, RangeModel, RangeRow
from gui.theme.theme import theme
from gui.widgets.tables import Index, cell_font, cell_text, set_up

_HEADER_HEIGHT, _ROW_HEIGHT = 44, 28
_PADDING, _FORMAT_WIDTH = 8, 72
_LEAST_PICTURE, _LEAST_NAME, _MOST_NAME = 150, 90, 260


class _Header(QHeaderView):
    """Has the axis of the histograms over their column, with the bracket of the chosen format."""

    def __init__(self, owner: RangeTable) -> None:
        super().__init__(Qt.Orientation.Horizontal, owner)
        self._owner = owner
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setSortIndicatorClearable(True)
        self.setFixedHeight(_HEADER_HEIGHT)
        self.setMinimumSectionSize(44)

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        painter.save()
        super().paintSection(painter, rect, section)
        painter.restore()
        if section != PICTURE:
            return
        area, axis = picture_area(rect), self._owner.axis
        bar = bracket(area, axis, self._owner.model_.form, rect.top() + 10)
        paint(painter, Drawing(0, 0, (*bar, *exponent_ticks(area, axis, rect.bottom() - 8))))


class _Cells(QStyledItemDelegate):
    """Paints a name, a share or a histogram."""

    def __init__(self, owner: RangeTable) -> None:
        super().__init__(owner)
        self._owner = owner

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette, rect = theme().palette, option.rect
        painter.save()
        if self._owner.currentIndex().row() == index.row():
            painter.fillRect(rect, QColor(palette.bg2))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        if index.column() == PICTURE:
            self._paint_picture(painter, rect, index.row())
        else:
            self._paint_words(painter, rect.adjusted(_PADDING, 0, -_PADDING, 0), index)
        painter.restore()

    def _paint_words(self, painter: QPainter, room: QRect, index: Index) -> None:
        model, column, palette = self._owner.model_, index.column(), theme().palette
        text = model.text(index.row(), column)
        if column == MODULE:
            is_strong = model.row(index.row()).is_all
        else:
            is_strong = SMALL_FORMATS[column - FIRST_FORMAT] == model.form
        weight = 600 if is_strong else 400
        words = cell_text(text, weight, room.width())
        painter.setFont(cell_font(weight))
        painter.setPen(QColor(palette.text3 if text in (NOTHING, NONE) else palette.text))
        free = QSizeF(room.size()) - words.size()
        left = room.left() + (0.0 if column == MODULE else free.width())
        painter.drawStaticText(QPointF(left, room.top() + free.height() / 2), words)

    def _paint_picture(self, painter: QPainter, rect: QRect, number: int) -> None:
        axis, form, area = self._owner.axis, self._owner.model_.form, picture_area(rect)
        shares = axis.shares(self._owner.model_.exponents(number))
        room = Rect(area.left, area.top + 3, area.right, area.bottom)
        shown = bars(room, axis, shares, max(shares, default=0.0) or 1.0, form)
        paint(painter, Drawing(0, 0, (*lost_range(area, axis, form), *shown)))


def picture_area(rect: QRect) -> Rect:
    """The room of the histogram in its cell."""
    left, top = rect.left() + _PADDING, rect.top()
    return Rect(left, top, left + rect.width() - 2 * _PADDING, top + rect.height())


class RangeTable(QTableView):
    """Modules with their histograms. `chosen` when another row is; `hovered` a row and exponent, or None."""

    chosen = Signal()
    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.axis = Axis()
        self.model_ = RangeModel()
        self.setModel(self.model_)
        set_up(self, "Ranges by module", "All modules", _ROW_HEIGHT)
        self.setItemDelegate(_Cells(self))
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setEditTriggers(QTableView.EditTrigger.NoEditTriggers)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        header = _Header(self)
        self.setHorizontalHeader(header)
        for column in range(self.model_.columnCount()):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        header.setSortIndicatorShown(True)
        self.setMinimumSize(240, _HEADER_HEIGHT + 2 * _ROW_HEIGHT)
        self._chosen: tuple[str, bool] = ("", True)
        self.model_.modelReset.connect(self._choose_again)
        self.selectionModel().currentRowChanged.connect(self._tell_chosen)
        theme().changed.connect(self.viewport().update)

    def show_rows(self, rows: Sequence[RangeRow], axis: Axis, exponent: int) -> None:
        """Shows these, with the module chosen before if it is among them."""
        self.axis = axis
        self.model_.show_rows(rows, exponent)
        self._fit()

    def set_form(self, form: NumberFormat) -> None:
        """Emphasises a format."""
        self.model_.set_form(form)
        self._fit()
        self.horizontalHeader().viewport().update()

    def chosen_number(self) -> int:
        """The chosen row."""
        return max(0, self.currentIndex().row())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        index = self.indexAt(event.position().toPoint())
        if not index.isValid() or index.column() != PICTURE:
            self.hovered.emit(None)
            return
        exponent = self.axis.exponent_at(event.position().x(), picture_area(self.visualRect(index)))
        self.hovered.emit(None if exponent is None else (index.row(), exponent))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Names in full and all formats where there is room for them, else only the chosen format."""
        header, width = self.horizontalHeader(), self.viewport().width()
        rows = range(self.model_.rowCount())
        metrics = self.fontMetrics()
        widest = max((metrics.horizontalAdvance(self.model_.row(number).name) for number in rows), default=0)
        shows_all = width >= _LEAST_NAME + _LEAST_PICTURE + len(SMALL_FORMATS) * _FORMAT_WIDTH
        shown = [form for form in SMALL_FORMATS if shows_all or form == self.model_.form]
        for column, form in enumerate(SMALL_FORMATS, FIRST_FORMAT):
            header.setSectionHidden(column, form not in shown)
            header.resizeSection(column, _FORMAT_WIDTH)
        rest = width - _FORMAT_WIDTH * len(shown)
        name = min(widest + 2 * _PADDING + 4, _MOST_NAME, max(_LEAST_NAME, rest * 2 // 5))
        header.resizeSection(MODULE, max(name, _LEAST_NAME))
        header.resizeSection(PICTURE, max(_LEAST_PICTURE, rest - header.sectionSize(MODULE)))

    def _choose_again(self) -> None:
        name, is_all = self._chosen
        if self.model_.rowCount():
            self.setCurrentIndex(self.model_.index(self.model_.number_of(name, is_all=is_all), MODULE))

    def _tell_chosen(self, index: QModelIndex) -> None:
        if index.isValid():
            row = self.model_.row(index.row())
            self._chosen = (row.name, row.is_all)
            self.viewport().update()
            self.chosen.emit()
