"""The table of ranges with the share that each dtype would lose, and the sliders below and above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from PySide6.QtCore import QEvent, QPointF, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSlider, QWidget

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing
from engine.numerics.range_histogram import ExponentAxis, bars, bracket, exponent_ticks, lost_range
from engine.numerics.range_words import fate_sentence, scale_sentence, scale_text
from engine.protocol.ranges import (
    FP16,
    SCALE_EXPONENTS,
    SMALL_FORMATS,
    Exponents,
    ModuleRange,
    NumberFormat,
    best_scale_exponent,
    lost_fraction,
)
from engine.words.numbers import NONE, NOTHING, power_of_two, share_text
from gui.charts.painter import paint
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.result_table import ROW_HEIGHT

_PICTURE = 1
_HEADER_HEIGHT, _FORMAT_WIDTH = 44, 72
_LEAST_PICTURE, _LEAST_NAME, _MOST_NAME = 150, 90, 220
_MODULE_TIP = "Sort by name. A third click restores the model's order."
_PICTURE_TIP = "Sort by mean exponent. A third click restores the model's order."


@dataclass(frozen=True, eq=False)
class RangeRow:
    """A row of the table of value ranges: the exponents of one module's values.

    `own_loss` is a text on underflow and overflow in the experiment's precision. The row with `is_all`
    combines all modules and stays on top.
    """

    name: str
    exponents: Exponents
    own_loss: str = ""
    is_all: bool = False

    @property
    def mean_exponent(self) -> float:
        """The mean exponent of the finite values."""
        exponents = self.exponents
        weighted = sum(place * count for place, count in enumerate(exponents.counts, exponents.first))
        return weighted / (exponents.finite or 1)


class RangeTable(ResultTable[RangeRow]):
    """A table of modules with histograms of their values' exponents, of which one row is selected.

    `hovered` carries the row and the exponent below the pointer, or None.
    """

    hovered = Signal(object)

    def __init__(self) -> None:
        self.axis, self._exponent, self._form = ExponentAxis(), 0, SMALL_FORMATS[0]
        super().__init__(
            "Ranges by module",
            self._columns_now(),
            key=lambda row: (row.name, row.is_all),
            pinned=lambda row: row.is_all,
            selects_one=True,
            heading_height=_HEADER_HEIGHT,
        )
        self.setMouseTracking(True)
        self.setMinimumSize(240, _HEADER_HEIGHT + 2 * ROW_HEIGHT)

    def show_ranges(self, rows: Sequence[RangeRow], axis: ExponentAxis, exponent: int) -> None:
        """Show rows times 2**`exponent`. Keep the selected module if it is among them."""
        self.axis, self._exponent = axis, exponent
        self.show_rows(rows, self._columns_now())
        if rows and not self.selected_rows():
            self.select_keys([self.row_model.key(self.rows()[0])])

    def set_exponent(self, exponent: int) -> None:
        """Scale all values by 2**`exponent`. The row order stays, so no row jumps away."""
        self._exponent = exponent
        self.row_model.update_texts()

    def set_form(self, form: NumberFormat) -> None:
        """Emphasize a dtype. Its column is never hidden."""
        self._form = form
        self.show_rows(self.row_model.given, self._columns_now())
        self.horizontalHeader().viewport().update()

    def chosen(self) -> RangeRow | None:
        return next(iter(self.selected_rows()), None)

    def scaled(self, row: RangeRow) -> Exponents:
        """Return a row's histogram at the selected scale."""
        return row.exponents.shifted(self._exponent)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        index, place = self.indexAt(event.position().toPoint()), None
        if index.isValid() and index.column() == _PICTURE:
            exponent = self.axis.exponent_at(event.position().x(), self.picture_area(index.row()))
            place = None if exponent is None else (self.rows()[index.row()], exponent)
        self.hovered.emit(place)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def picture_area(self, number: int) -> Rect:
        """Return the area of a row's histogram."""
        return _area(self.cell_room(number, _PICTURE))

    def _columns_now(self) -> list[Column[RangeRow]]:
        return [
            Column(
                "Module",
                lambda row: row.name,
                tip=_MODULE_TIP,
                width=_LEAST_NAME,
                widest=_MOST_NAME,
                look=lambda row: Look(600 if row.is_all else 400),
            ),
            Column(
                "",
                lambda row: "",
                lambda row: row.mean_exponent,
                _PICTURE_TIP,
                self._paint_histogram,
                width=_LEAST_PICTURE,
                widest=GROWS,
                paint_heading=self._paint_axis,
            ),
            *map(self._column_of, SMALL_FORMATS),
        ]

    def _column_of(self, form: NumberFormat) -> Column[RangeRow]:
        def share(row: RangeRow) -> float:
            exponents, scale = row.exponents, self._exponent
            return exponents.underflow_fraction(form, scale) + exponents.overflow_fraction(form, scale)

        def text(row: RangeRow) -> str:
            return share_text(share(row)) if row.exponents.finite else NONE

        def look(row: RangeRow) -> Look:
            ink = "text3" if text(row) in (NOTHING, NONE) else "text"
            return Look(600 if form == self._form else 400, ink)

        return Column(
            form.label,
            text,
            share,
            f"Share of a module's values that would underflow or overflow in {form.label}",
            width=_FORMAT_WIDTH,
            is_number=True,
            is_dispensable=form != self._form,
            look=look,
            about=lambda row: f"{form.label}: {fate_sentence(self.scaled(row), form)}",
        )

    def _paint_histogram(self, painter: QPainter, room: QRectF, row: RangeRow) -> None:
        area, axis, form = _area(room), self.axis, self._form
        shares = axis.shares(self.scaled(row))
        below = Rect(area.left, area.top + 3, area.right, area.bottom)
        shown = bars(below, axis, shares, max(shares, default=0.0) or 1.0, form)
        paint(painter, Drawing(0, 0, (*lost_range(area, axis, form), *shown)))

    def _paint_axis(self, painter: QPainter, room: QRectF) -> None:
        area = _area(room)
        bar = bracket(area, self.axis, self._form, area.top + 10)
        paint(painter, Drawing(0, 0, (*bar, *exponent_ticks(area, self.axis, area.bottom - 9))))


def _area(room: QRectF) -> Rect:
    return Rect(room.left(), room.top(), room.right(), room.bottom())


_HANDLE, _VALUE_WIDTH = 12, 86
_SCALE_TIP = "Multiplies the loss, and so all gradients. The left and right arrow keys halve and double it."


class _Slider(QSlider):
    """A slider with a tick at `marked`, the value that is in use."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setProperty("kind", "plain")
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.marked: int | None = None
        theme().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.marked is None:
            return
        palette, painter = theme().palette, QPainter(self)
        share = (self.marked - self.minimum()) / (self.maximum() - self.minimum())
        place = round(_HANDLE / 2 + share * (self.width() - _HANDLE))
        painter.fillRect(QRectF(place - 1, self.height() / 2 + 5, 2, 5), QColor(palette.text2))
        painter.setFont(font(11))
        painter.setPen(QColor(palette.text3))
        width = QFontMetricsF(painter.font()).horizontalAdvance("now")
        left = min(max(0.0, place - width / 2), self.width() - width)
        painter.drawText(QPointF(left, self.height() - 1), "now")
        painter.end()


class LossScale(QWidget):
    """A slider to try loss scales: for each, it shows how many gradients would underflow and overflow.

    `changes_wanted` carries the setting of the best loss scale.
    """

    changes_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[ModuleRange, ...] = ()
        self._all, self._form = Exponents(), FP16
        self._best, self._least = 0, 0.0
        self._uses_scaler, self._gains = True, False
        self.slider = _Slider("Loss scale, as a power of two", _SCALE_TIP)
        self.slider.setRange(SCALE_EXPONENTS.start, SCALE_EXPONENTS.stop - 1)
        self.slider.setPageStep(4)
        self.slider.setFixedHeight(40)
        self.slider.setMinimumWidth(120)
        self.slider.valueChanged.connect(self._say)
        self._value = label("", "value")
        self._value.setMinimumWidth(_VALUE_WIDTH)
        self.sentence = label("", "body", wraps=True)
        self.use = Button("Use this scale", "strip", "Set this initial loss scale in the form")
        self.use.clicked.connect(
            lambda: self.changes_wanted.emit((("scaler.init_scale", f"{2.0**self._best:.12g}"),))
        )
        head = in_row(label("Loss scale", "label"), wide(self.slider), self._value, self.use, spacing=12)
        in_column(head, self.sentence, parent=self, spacing=2)

    def show_gradients(self, rows: Sequence[ModuleRange], together: Exponents, scale: float) -> None:
        """Show gradients by module, and merged as `together`, at the `scale` of their loss."""
        self._rows, self._all = tuple(rows), together
        self.slider.marked = min(max(round(log2(scale)), self.slider.minimum()), self.slider.maximum())
        with QSignalBlocker(self.slider):
            self.slider.setValue(self.slider.marked)
        self.slider.update()
        self.set_form(self._form)

    def set_form(self, form: NumberFormat) -> None:
        """Find the best loss scale for another dtype."""
        self._form, self._best = form, best_scale_exponent(self._rows, form)
        self._least = lost_fraction(self._rows, form, self._best)
        marked = self.slider.marked
        self._gains = marked is not None and lost_fraction(self._rows, form, marked) > self._least
        self._say()

    def set_uses_scaler(self, uses_scaler: bool) -> None:
        """Set whether the experiment has a loss scaler, whose scale can be set."""
        if uses_scaler != self._uses_scaler:
            self._uses_scaler = uses_scaler
            self._say()

    def _say(self) -> None:
        exponent, form = self.slider.value(), self._form
        factor = 2.0**exponent
        overflowing = sum((row.exponents.largest or 0.0) * factor > form.largest for row in self._rows)
        is_best = lost_fraction(self._rows, form, exponent) <= self._least
        power = power_of_two(self._best)
        best = "No other scale loses less." if is_best else f"{power} would lose the least."
        set_text(self._value, scale_text(exponent))
        set_text(self.sentence, f"{scale_sentence(self._all, overflowing, form, exponent)} {best}")
        self.use.setText(f"Use {power}")
        self.use.setAccessibleName(self.use.text())
        self.use.setToolTip(f"Set the initial loss scale to {scale_text(self._best)} in the form")
        self.use.setVisible(self._uses_scaler and form == FP16 and self._gains)
