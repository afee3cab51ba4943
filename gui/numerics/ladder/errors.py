"""A rung's errors by module, in the order of the forward pass: dots on a logarithmic scale."""

from __future__ import annotations

import math
from typing import Any

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.experiment.catalog import Precision
from engine.protocol.numerics.ladder import ModuleError, Rung
from engine.protocol.numerics.precision_map import module_title
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import draw_marker
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, set_up

_HEADINGS = ("Module", "", "Error")
_MODULE, _PICTURE, _ERROR = range(3)
_TIPS = {
    _MODULE: "In the order of the forward pass",
    _PICTURE: "How far the module's output is from FP32's, as a part of it, in one step from equal weights; "
    "the thin line is what rounding explains",
    _ERROR: "The error in per cent of the output",
}
_ROW_HEIGHT, _ERROR_WIDTH, _PADDING = 26, 84, 8
_USUAL = (-6, 0)
"""Powers of ten in view where no error is known."""


def error_text(error: float) -> str:
    """An error in per cent: "0.04 %", "12 %"; powers of ten where it is very small."""
    percent = 100 * error
    if not math.isfinite(percent):
        return "∞" if math.isinf(percent) else "NaN"
    if percent and percent < 0.001:
        return f"{percent:.0e} %".replace("e-0", "e-")
    return f"{percent:.2g} %" if percent < 100 else f"{percent:,.0f} %"


class ErrorModel(TableModel):
    """A row for each module of one rung."""

    headings, tips, right = _HEADINGS, _TIPS, (_ERROR,)

    def __init__(self) -> None:
        super().__init__()
        self.precision = Precision.FP16
        self.reach = _USUAL
        self._first: str | None = None
        self._errors: tuple[ModuleError, ...] = ()

    def show_rung(self, rung: Rung) -> None:
        """Shows a rung's errors."""
        self.beginResetModel()
        self.precision, self._first, self._errors = rung.precision, rung.first_module, rung.errors
        known = [
            math.log10(error)
            for row in rung.errors
            for error in (row.relative_error, row.explained_error)
            if error and math.isfinite(error)
        ]
        self.reach = (
            (math.floor(min(known)), max(math.ceil(max(known)), math.floor(min(known)) + 1))
            if known
            else _USUAL
        )
        self.endResetModel()

    def rows(self) -> tuple[ModuleError, ...]:
        return self._errors

    def error(self, number: int) -> ModuleError:
        return self._errors[number]

    def is_first(self, number: int) -> bool:
        """Whether it is the first module that parts from FP32."""
        return self._errors[number].module == self._first

    def first_row(self) -> int | None:
        """The row of the first module that parts from FP32."""
        return next((number for number in range(len(self._errors)) if self.is_first(number)), None)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self._errors[index.row()], index.column()
        name = module_title(row.module)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return (name, "", error_text(row.relative_error))[column]
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
            case Qt.ItemDataRole.FontRole:
                return font(12, 600 if self.is_first(index.row()) else 400)
            case Qt.ItemDataRole.ForegroundRole:
                palette = theme().palette
                return QBrush(QColor(palette.text if self.is_first(index.row()) else palette.text2))
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(index.row(), name))
        return None

    def _tip(self, number: int, name: str) -> str:
        row = self._errors[number]
        own = (
            ""
            if row.explained_error is None
            else f", of which rounding explains {error_text(row.explained_error)}"
        )
        first = ". The first module that parts from FP32" if self.is_first(number) else ""
        return f"{name}: {error_text(row.relative_error)}{own}{first}"


class _Dots(QStyledItemDelegate):
    """Paints an error as the precision's marker on a logarithmic axis."""

    def __init__(self, model: ErrorModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        area, palette, row = _area(option.rect), theme().palette, self._model.error(index.row())
        painter.save()
        painter.setPen(QPen(QColor(palette.grid), 1))
        low, high = self._model.reach
        for power in range(low, high + 1):
            place = _place(10.0**power, self._model.reach, area)
            painter.drawLine(QPointF(place, area.top()), QPointF(place, area.bottom()))
        middle = area.center().y()
        if row.explained_error is not None:
            place = _place(row.explained_error, self._model.reach, area)
            painter.setPen(QPen(QColor(palette.text3), 1))
            painter.drawLine(QPointF(place, middle - 6), QPointF(place, middle + 6))
        is_first = self._model.is_first(index.row())
        center = QPointF(_place(row.relative_error, self._model.reach, area), middle)
        draw_marker(
            painter,
            center,
            self._model.precision,
            11 if is_first else 8,
            fill="full" if is_first else "hollow",
        )
        painter.restore()


class _Header(QHeaderView):
    """Has the axis of the errors over their column."""

    def __init__(self, model: ErrorModel, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._model = model
        self.setHighlightSections(False)

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        painter.save()
        super().paintSection(painter, rect, section)
        painter.restore()
        if section != _PICTURE:
            return
        painter.save()
        painter.setFont(font(11))
        painter.setPen(QColor(theme().palette.text3))
        metrics, area = QFontMetricsF(painter.font()), _area(rect)
        free = -math.inf
        for power in range(self._model.reach[0], self._model.reach[1] + 1):
            text = error_text(10.0**power)
            width = metrics.horizontalAdvance(text)
            middle = _place(10.0**power, self._model.reach, area)
            left = min(max(rect.left(), middle - width / 2), rect.right() - width)
            if left >= free:
                painter.drawText(QPointF(left, rect.bottom() - 9), text)
                free = left + width + 8
        painter.restore()


def _area(rect: QRect) -> QRectF:
    return QRectF(rect.adjusted(_PADDING + 6, 0, -_PADDING - 6, 0))


def _place(error: float, reach: tuple[int, int], area: QRectF) -> float:
    """Where an error stands, on half a pixel; at the edges where it has no place."""
    low, high = reach
    if math.isnan(error) or error > 10.0**high:
        power: float = high
    else:
        power = max(low, math.log10(error)) if error > 0 else low
    return round(area.left() + (power - low) / (high - low) * area.width()) + 0.5


class ErrorTable(QTableView):
    """The modules of one rung with their errors, scrolled to the first that parts from FP32."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.errors = ErrorModel()
        self.setModel(self.errors)
        set_up(self, "Errors by module", "All modules", _ROW_HEIGHT)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMinimumHeight(3 * _ROW_HEIGHT)
        header = _Header(self.errors, self)
        self.setHorizontalHeader(header)
        self.setItemDelegateForColumn(_PICTURE, _Dots(self.errors, self))
        for column in (_MODULE, _ERROR):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(_PICTURE, QHeaderView.ResizeMode.Stretch)
        header.resizeSection(_ERROR, _ERROR_WIDTH)
        theme().changed.connect(self.viewport().update)

    def show_rung(self, rung: Rung) -> None:
        """Shows the errors of a rung's modules."""
        self.errors.show_rung(rung)
        first = self.errors.first_row()
        if first is not None:
            self.scrollTo(self.errors.index(first, 0), QTableView.ScrollHint.PositionAtCenter)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.horizontalHeader().resizeSection(_MODULE, event.size().width() * 2 // 5)
