"""The view of ranges: exponents of activations, gradients and weights, compared with the dtypes' ranges."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from engine.drawing.shapes import Drawing
from engine.numerics.range_histogram import ExponentAxis, histogram, histogram_area
from engine.numerics.range_words import content_sentence, fate_sentence, own_loss, power_text
from engine.protocol.numerics import Numerics
from engine.protocol.ranges import (
    FP16,
    QUANTITIES,
    SMALL_FORMATS,
    Exponents,
    NumberFormat,
    Quantity,
    Ranges,
    merge_exponents,
    module_title,
)
from engine.words.numbers import share_text
from gui.charts.painter import DrawingView
from gui.numerics.range_table import LossScale, RangeRow, RangeTable
from gui.widgets import ElidedLabel, Segmented, label, set_property, set_text
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

_QUANTITIES: tuple[tuple[str, str], ...] = (
    ("activation", "Activations"),
    ("gradient", "Gradients"),
    ("weight", "Weights"),
)
_POINT = "Hover over a bar to read it. Click a module to enlarge it."
_NARROW_DETAIL, _WIDE_DETAIL, _NARROW, _LEAST_HEIGHT = 250, 348, 860, 320


class RangeView(QWidget):
    """Shows the magnitudes of activations, gradients and weights in one step, relative to each dtype's range.

    `changes_wanted` carries settings for the form.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self._ranges = Ranges()
        self._axis = ExponentAxis()
        self.loss_scale, self.table = LossScale(), RangeTable()
        self.quantity = Segmented(_QUANTITIES, "Values of", "Choose which module values to show")
        self.format = Segmented(
            [(form.name, form.label) for form in SMALL_FORMATS],
            "Dtype",
            "Choose a dtype. Values in its hatched range are lost.",
        )
        self.format.set_value(FP16.name)
        self.detail, self.readout = RangeDetail(), ElidedLabel(_POINT, "hint")
        self._connect()
        self._lay_out()
        self.table.set_form(self._form())

    def show_answer(self, numerics: Numerics) -> None:
        """Show the ranges of a numerics study. Nothing is filled again unless they have changed."""
        ranges = numerics.results.range
        self.loss_scale.set_uses_scaler(numerics.experiment.uses_scaler)
        if ranges is None or ranges is self._ranges:
            return
        self._ranges = ranges
        known = [quantity for quantity in QUANTITIES if ranges.of(quantity)]
        for quantity in QUANTITIES:
            self.quantity.button(quantity).setEnabled(quantity in known)
        if known and self.quantity.value() not in known:
            self.quantity.set_value(known[0])
        self._show_quantity()

    def sizeHint(self) -> QSize:
        # a lower page scrolls
        return QSize(640, _LEAST_HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.detail.setFixedWidth(_NARROW_DETAIL if event.size().width() < _NARROW else _WIDE_DETAIL)

    def _connect(self) -> None:
        self.quantity.changed.connect(self._show_quantity)
        self.format.changed.connect(self._show_format)
        self.loss_scale.slider.valueChanged.connect(self._rescale)
        self.loss_scale.changes_wanted.connect(self.changes_wanted)
        self.table.selected.connect(self._show_detail)
        self.table.hovered.connect(self._read_row)
        self.detail.histogram.hovered.connect(self._read_chosen)

    def _lay_out(self) -> None:
        panel, line = Surface("chip"), Surface("vdivider")
        choices = in_row(self.quantity, Stretch(1), label("Lost in", "label"), self.format, spacing=8)
        table = in_column(wide(self.table), self.readout, margins=(1, 1, 1, 6), spacing=6)
        self.readout.setContentsMargins(8, 0, 8, 0)
        in_row(wide(table), line, self.detail, parent=panel, margins=1, spacing=0)
        in_column(choices, self.loss_scale, wide(panel), parent=self, spacing=8)

    def _form(self) -> NumberFormat:
        return next(form for form in SMALL_FORMATS if form.name == self.format.value())

    def _show_quantity(self) -> None:
        quantity = cast(Quantity, self.quantity.value())
        rows = self._ranges.of(quantity)
        together = merge_exponents(tuple(row.exponents for row in rows))
        exponent, is_gradient = 0, quantity == "gradient"
        self.loss_scale.setVisible(is_gradient)
        if is_gradient:
            self.loss_scale.show_gradients(rows, together, self._ranges.scale)
            exponent = self.loss_scale.slider.value()
        self._axis = ExponentAxis.of((together, together.shifted(exponent)))
        everything = RangeRow(f"All modules ({len(rows):,})", together, own_loss(rows), is_all=True)
        modules = (RangeRow(module_title(row.module), row.exponents, own_loss([row])) for row in rows)
        self.table.show_ranges((everything, *modules), self._axis, exponent)
        self._show_detail()

    def _show_format(self) -> None:
        self.table.set_form(self._form())
        self.loss_scale.set_form(self._form())
        self._show_detail()

    def _rescale(self, exponent: int) -> None:
        self.table.set_exponent(exponent)
        self._show_detail()

    def _show_detail(self) -> None:
        row = self.table.chosen()
        if row is not None:
            self.detail.show_row(row, self.table.scaled(row), self._axis, self._form())

    def _read_chosen(self, exponent: int | None) -> None:
        row = self.table.chosen()
        self._read_row(None if exponent is None or row is None else (row, exponent))

    def _read_row(self, place: tuple[RangeRow, int] | None) -> None:
        if place is None:
            self.readout.set_whole_text(_POINT)
            return
        row, exponent = place
        share = share_text(self._axis.shares(self.table.scaled(row))[exponent - self._axis.low])
        # the outermost bars gather all beyond the axis: "less" or "more"
        edge, power = self._axis.edge(exponent), power_text(exponent)
        reach = f"{power} or {edge}" if edge else f"from {power} up to twice that"
        self.readout.set_whole_text(f"{row.name}: {share} of the values are {reach}")


class RangeDetail(QScrollArea):
    """One module's histogram, enlarged, with the share of its values that each dtype loses."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setAccessibleName("Range of the selected module")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._title = ElidedLabel("", "panelTitle", mode=Qt.TextElideMode.ElideMiddle)
        self._content = label("", "hint", wraps=True)
        self.histogram, inner = Histogram(), QWidget()
        self.fates = {form: label("", "body", wraps=True) for form in SMALL_FORMATS}
        shown = in_column(wide(self.histogram), *self.fates.values(), spacing=4)
        in_column(
            self._title, self._content, 6, wide(shown), parent=inner, margins=(12, 10, 12, 10), spacing=4
        )
        self.setWidget(inner)

    def show_row(self, row: RangeRow, exponents: Exponents, axis: ExponentAxis, form: NumberFormat) -> None:
        """Show a module's values and emphasize those that `form` would lose."""
        self._title.set_whole_text(row.name)
        set_text(self._content, f"{content_sentence(exponents)}. {row.own_loss}")
        for each, fate in self.fates.items():
            set_text(fate, f"{each.label}: {fate_sentence(exponents, each)}.")
            set_property(fate, "role", "strong" if each == form else "body")
        self.histogram.show_exponents(exponents, axis, form, f"{row.name}. {self.fates[form].text()}")


class Histogram(DrawingView):
    """A histogram of exponents that fills the widget. `hovered` carries an exponent, or None."""

    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exponents, self._axis, self._form = Exponents(), ExponentAxis(), SMALL_FORMATS[0]
        self.setMouseTracking(True)
        self.setMinimumSize(200, 128)

    def show_exponents(
        self, exponents: Exponents, axis: ExponentAxis, form: NumberFormat, words: str
    ) -> None:
        """Show a histogram and emphasize the values that `form` would lose. `words` describe it."""
        self._exponents, self._axis, self._form = exponents, axis, form
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(320, 128)

    def drawing(self) -> Drawing:
        size = (self.width(), self.height())
        return histogram(self._exponents, self._axis, self._form, size, self.accessibleName())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        area = histogram_area((self.width(), self.height()))
        self.hovered.emit(self._axis.exponent_at(event.position().x(), area))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)
