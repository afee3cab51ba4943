"""The view of ranges: exponents of activations, gradients and weights, compared with the dtypes' ranges."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from engine.drawing.shapes import Drawing
from engine.numerics.range_histogram import Axis, histogram, histogram_area
from engine.protocol.ranges import (
    FP16,
    QUANTITIES,
    SMALL_FORMATS,
    Exponents,
    LayerCast,
    ModuleRange,
    NumberFormat,
    Quantity,
    Ranges,
    merge_exponents,
    module_title,
)
from engine.words.numbers import share_text
from gui.charts.painter import DrawingView
from gui.numerics.range_table import (
    LossScale,
    RangeRow,
    RangeTable,
    content_sentence,
    fate_sentence,
    power_text,
)
from gui.widgets import ElidedLabel, Segmented, label, set_property, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import breakable
from gui.widgets.messages import OfferedView

_QUANTITIES: tuple[tuple[str, str], ...] = (
    ("activation", "Activations"),
    ("gradient", "Gradients"),
    ("weight", "Weights"),
)
_CASTS = "cast"
_POINT = "Hover over a bar to read it. Click a module to enlarge it."
_NARROW_DETAIL, _WIDE_DETAIL, _NARROW = 250, 348, 860
_LOW = 420


class RangeView(OfferedView):
    """Shows the magnitudes of activations, gradients and weights in one step, relative to each dtype's range.

    `wanted` asks to measure them, and `changes_wanted` carries settings for the form.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__(
            "Which values would a lower-precision dtype lose?",
            "Compares the exponents of activations, gradients and weights with the ranges of FP16, BF16 and "
            "FP8, module by module. Also finds the loss scale with the least underflow and overflow.",
            "Measure ranges",
            "Train one step with the form's settings and count exponents",
        )
        self._ranges: Ranges | None = None
        self._axis = Axis()
        self.loss_scale, self.table = LossScale(), RangeTable()
        self.headline, self._lost_in = label("", "strong", wraps=True), label("Lost in", "label")
        choices = (*_QUANTITIES, (_CASTS, "FP8 scaling"))
        self.quantity = Segmented(choices, "Values of", "Choose which module values to show")
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
        self.show_ranges(None)

    def show_ranges(self, ranges: Ranges | None) -> None:
        """Show the ranges of a step. For None, show the empty state."""
        self._ranges = ranges
        known: list[str] = [quantity for quantity in QUANTITIES if ranges is not None and ranges.of(quantity)]
        has_casts = ranges is not None and bool(ranges.casts)
        self.quantity.button(_CASTS).setVisible(has_casts)
        known += [_CASTS] * has_casts
        self.show_page(is_known=bool(known))
        if not known:
            return
        for quantity in QUANTITIES:
            self.quantity.button(quantity).setEnabled(quantity in known)
        if self.quantity.value() not in known:
            self.quantity.set_value(known[0])
        self._show_notes()
        self._show_quantity()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_notes()
        self.detail.setFixedWidth(_NARROW_DETAIL if event.size().width() < _NARROW else _WIDE_DETAIL)

    def _show_notes(self) -> None:
        notes = self._ranges.notes if self._ranges is not None else ()
        leads = bool(notes) and self.height() >= _LOW
        set_text(self.headline, notes[0] if notes else "")
        self.headline.setVisible(leads)
        self.detail.show_notes(notes[1:] if leads else notes)

    def _connect(self) -> None:
        self.quantity.changed.connect(self._show_quantity)
        self.format.changed.connect(self._show_format)
        self.loss_scale.slider.valueChanged.connect(self._rescale)
        self.loss_scale.changes_wanted.connect(self.changes_wanted)
        self.table.selected.connect(self._show_detail)
        self.table.hovered.connect(self._read_row)
        self.detail.histogram.hovered.connect(self._read_chosen)

    def _lay_out(self) -> None:
        body, panel, line = QWidget(), QFrame(), QFrame()
        choices = in_row(self.quantity, Stretch(1), self._lost_in, self.format, spacing=8)
        panel.setProperty("surface", "panel")
        table = in_column(wide(self.table), self.readout, margins=(1, 1, 1, 6), spacing=6)
        self.readout.setContentsMargins(8, 0, 8, 0)
        line.setProperty("surface", "vdivider")
        in_row(wide(table), line, self.detail, parent=panel, margins=1, spacing=0)
        parts = (self.headline, choices, self.loss_scale, wide(panel))
        in_column(*parts, parent=body, margins=(0, 8, 0, 0), spacing=8)
        self.addWidget(body)

    def _form(self) -> NumberFormat:
        return next(form for form in SMALL_FORMATS if form.name == self.format.value())

    def _show_quantity(self) -> None:
        if self._ranges is None:
            return
        shows_casts = self.quantity.value() == _CASTS
        self._lost_in.setVisible(not shows_casts)
        self.format.setVisible(not shows_casts)
        if shows_casts:
            self._show_casts(self._ranges.casts)
            return
        quantity = cast(Quantity, self.quantity.value())
        rows = self._ranges.of(quantity)
        together = merge_exponents(tuple(row.exponents for row in rows))
        exponent, is_gradient = 0, quantity == "gradient"
        self.loss_scale.setVisible(is_gradient)
        if is_gradient:
            self.loss_scale.show_gradients(rows, together, self._ranges.scale)
            exponent = self.loss_scale.slider.value()
        self._axis = Axis.of((together, together.shifted(exponent)))
        everything = RangeRow(f"All modules ({len(rows):,})", together, _own_loss(rows), is_all=True)
        modules = (RangeRow(module_title(row.module), row.exponents, _own_loss([row])) for row in rows)
        self.table.show_ranges((everything, *modules), self._axis, exponent)
        self._show_detail()

    def _show_casts(self, casts: tuple[LayerCast, ...]) -> None:
        self.loss_scale.setVisible(False)
        self._axis = Axis.of(each.exponents for each in casts)
        rows = [
            RangeRow(f"{module_title(each.module)}: {each.title}", each.exponents, cast=each)
            for each in casts
        ]
        self.table.show_ranges(rows, self._axis, 0)
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


def _own_loss(rows: list[ModuleRange] | tuple[ModuleRange, ...]) -> str:
    counts = (
        (sum(row.became_zero for row in rows), "underflowed to 0"),
        (sum(row.became_nonfinite for row in rows), "became infinite or NaN"),
    )
    lost = " and ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"In the experiment's precision, {lost}." if lost else ""


class RangeDetail(QScrollArea):
    """One module's histogram, enlarged, with the share of its values that each dtype loses."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setAccessibleName("Range of the selected module")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._title = ElidedLabel("", "panelTitle", mode=Qt.TextElideMode.ElideMiddle)
        self._content, self._notes = (label("", "hint", wraps=True) for _ in range(2))
        self.histogram, inner = Histogram(), QWidget()
        self.fates = {form: label("", "body", wraps=True) for form in SMALL_FORMATS}
        shown = in_column(wide(self.histogram), *self.fates.values(), spacing=4)
        parts = (self._title, self._content, 6, wide(shown), 4, self._notes)
        in_column(*parts, parent=inner, margins=(12, 10, 12, 10), spacing=4)
        self.setWidget(inner)

    def show_row(self, row: RangeRow, exponents: Exponents, axis: Axis, form: NumberFormat) -> None:
        """Show a module's values and emphasize those that `form` would lose."""
        self._title.set_whole_text(row.name)
        form = row.cast.form if row.cast else form
        set_text(self._content, f"{content_sentence(exponents)}. {row.own_loss}")
        for each, fate in self.fates.items():
            words = row.cast.sentence if row.cast else f"{each.label}: {fate_sentence(exponents, each)}."
            set_text(fate, words)
            fate.setVisible(row.cast is None or each == form)
            set_property(fate, "role", "strong" if each == form else "body")
        self.histogram.show_exponents(exponents, axis, form, f"{row.name}. {self.fates[form].text()}")

    def show_notes(self, notes: tuple[str, ...]) -> None:
        """Show notes on all ranges."""
        set_text(self._notes, breakable("\n".join(notes)))
        self._notes.setVisible(bool(notes))


class Histogram(DrawingView):
    """A histogram of exponents that fills the widget. `hovered` carries an exponent, or None."""

    hovered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exponents, self._axis, self._form = Exponents(), Axis(), SMALL_FORMATS[0]
        self.setMouseTracking(True)
        self.setMinimumSize(200, 128)

    def show_exponents(self, exponents: Exponents, axis: Axis, form: NumberFormat, words: str) -> None:
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
