"""A rung's errors by module, in the order of the forward pass: dots on a logarithmic scale."""

from __future__ import annotations

import math
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from engine.experiment.catalog import Precision
from engine.protocol.numerics.nonfinite import module_title
from engine.protocol.numerics.numerics import ModuleError, Rung
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import draw_marker
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS, number_column
from gui.widgets.table.result_table import ROW_HEIGHT

_PICTURE_TIP = (
    "How far the module's output is from FP32's, as a part of it, in one step from equal weights; "
    "the thin line is what rounding explains"
)
_PADDING = 10
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


class _Error(NamedTuple):
    """A module's error, and its place in the forward pass. `is_first`: the first that parts from FP32."""

    place: int
    error: ModuleError
    is_first: bool

    @property
    def name(self) -> str:
        return module_title(self.error.module)

    def words(self) -> str:
        explained = self.error.explained_error
        own = "" if explained is None else f", of which rounding explains {error_text(explained)}"
        first = ". The first module that parts from FP32" if self.is_first else ""
        return f"{self.name}: {error_text(self.error.relative_error)}{own}{first}"

    def look(self) -> Look:
        return Look(600) if self.is_first else Look(ink="text2")


class _Axis(NamedTuple):
    """Powers of ten from `low` to `high`, and the precision whose errors are painted."""

    low: int
    high: int
    precision: Precision

    @classmethod
    def of(cls, rung: Rung) -> _Axis:
        known = [
            math.log10(error)
            for row in rung.errors
            for error in (row.relative_error, row.explained_error)
            if error and math.isfinite(error)
        ]
        if not known:
            return cls(*_USUAL, rung.precision)
        low = math.floor(min(known))
        return cls(low, max(math.ceil(max(known)), low + 1), rung.precision)

    def place(self, error: float, area: QRectF) -> float:
        """Where an error stands, on half a pixel; at the edges where it has no place."""
        if math.isnan(error) or error > 10.0**self.high:
            power: float = self.high
        else:
            power = max(self.low, math.log10(error)) if error > 0 else self.low
        return round(area.left() + (power - self.low) / (self.high - self.low) * area.width()) + 0.5

    def powers(self, area: QRectF) -> list[tuple[float, float]]:
        """Each power of ten with its place."""
        errors = [10.0**power for power in range(self.low, self.high + 1)]
        return [(error, self.place(error, area)) for error in errors]

    def paint_dot(self, painter: QPainter, room: QRectF, row: _Error) -> None:
        """Paints an error as the precision's marker."""
        area, palette, middle = _area(room), theme().palette, room.center().y()
        painter.setPen(QPen(QColor(palette.grid), 1))
        for _, place in self.powers(area):
            painter.drawLine(QPointF(place, room.top()), QPointF(place, room.bottom()))
        if row.error.explained_error is not None:
            place = self.place(row.error.explained_error, area)
            painter.setPen(QPen(QColor(palette.text3), 1))
            painter.drawLine(QPointF(place, middle - 6), QPointF(place, middle + 6))
        center = QPointF(self.place(row.error.relative_error, area), middle)
        if row.is_first:
            draw_marker(painter, center, self.precision, 11)
        else:
            draw_marker(painter, center, self.precision, 8, fill="hollow")

    def paint_heading(self, painter: QPainter, room: QRectF) -> None:
        """Paints the axis over the errors, as many of its powers as there is room for."""
        painter.setFont(font(11))
        painter.setPen(QColor(theme().palette.text3))
        metrics, free = QFontMetricsF(painter.font()), -math.inf
        for error, middle in self.powers(_area(room)):
            text = error_text(error)
            width = metrics.horizontalAdvance(text)
            left = min(max(room.left(), middle - width / 2), room.right() - width)
            if left >= free:
                painter.drawText(QPointF(left, room.bottom() - 8), text)
                free = left + width + 8


def _area(room: QRectF) -> QRectF:
    return room.adjusted(_PADDING, 0, -_PADDING, 0)


class ErrorTable(ResultTable[_Error]):
    """The modules of one rung with their errors, scrolled to the first that parts from FP32."""

    def __init__(self) -> None:
        super().__init__("Errors by module", about=_Error.words, key=lambda row: row.error.module)
        self.setMinimumHeight(3 * ROW_HEIGHT)

    def show_rung(self, rung: Rung) -> None:
        """Shows the errors of a rung's modules."""
        rows = [
            _Error(place, error, error.module == rung.first_module) for place, error in enumerate(rung.errors)
        ]
        self.show_rows(rows, _columns(_Axis.of(rung)))
        first = next((place for place, row in enumerate(self.rows()) if row.is_first), None)
        if first is not None:
            self.scrollTo(self.model().index(first, 0), self.ScrollHint.PositionAtCenter)


def _columns(axis: _Axis) -> tuple[Column[_Error], ...]:
    return (
        Column(
            "Module",
            lambda row: row.name,
            tip="In the order of the forward pass",
            width=80,
            widest=150,
            look=_Error.look,
        ),
        Column(
            "",
            lambda row: "",
            lambda row: row.place,
            _PICTURE_TIP,
            axis.paint_dot,
            width=80,
            widest=GROWS,
            paint_heading=axis.paint_heading,
        ),
        number_column(
            "Error",
            lambda row: row.error.relative_error,
            error_text,
            "The error in per cent of the output",
            look=_Error.look,
        ),
    )
