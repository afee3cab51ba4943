"""The view Divergence: losses by step, where precisions diverge from FP32, and their errors by module."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from engine.experiment.catalog import Precision
from engine.protocol.numerics import DivergenceTest, ModuleError, PrecisionRun
from engine.protocol.ranges import module_title
from engine.words.numbers import NONE
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import ElidedLabel, draw_marker, label, set_text
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.labels import breakable
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import FAINT, GROWS, PLAIN, number_column
from gui.widgets.table.result_table import ROW_HEIGHT

if TYPE_CHECKING:
    from gui.numerics.divergence_plot import DivergencePlot

_ABOUT = "Each run trains from the same weights on the same batches. Only the precision differs."
_NARROW_SIDE, _WIDE_SIDE, _NARROW = 264, 372, 860
_COLUMNS: tuple[Column[PrecisionRun], ...] = (
    Column(
        "Precision",
        lambda run: run.label,
        tip="Trained from the same weights and on the same batches as FP32",
        width=140,
        look=lambda run: Look(mark=run.precision),
    ),
    number_column(
        "Diverges at step",
        lambda run: run.diverges_at,
        "{:,}".format,
        "The step from which the loss stays outside FP32's band",
        width=110,
        absent="never",
        look=lambda run: FAINT if run.diverges_at is None else Look(600),
    ),
    Column(
        "First module",
        lambda run: NONE if run.first_module is None else module_title(run.first_module),
        tip="First module of the forward pass whose output diverges from FP32, with equal weights",
        widest=GROWS,
        look=lambda run: FAINT if run.first_module is None else PLAIN,
    ),
    number_column(
        "Skipped",
        lambda run: run.skipped,
        "{:,}".format,
        "Steps that the loss scaler skipped and repeated at a lower scale",
        width=66,
    ),
)


class DivergenceView(OfferedView):
    """Shows where the loss of each precision diverges from that of FP32. `wanted` asks to run this test."""

    def __init__(self) -> None:
        super().__init__(
            "At which step does a precision diverge from FP32?",
            "Trains FP32 several times, FP16 with and without a loss scaler, BF16 and pure BF16. All use the "
            "same weights and batches. Shows where the losses diverge, and at which module.",
            "Run the divergence test",
            "Train some steps of the form's experiment in each precision",
        )
        self.sentence, self.notes, self.run_sentence = (
            label("", role, wraps=True) for role in ("strong", "hint", "body")
        )
        self.errors = ErrorTable()
        self.precisions = ResultTable[PrecisionRun](
            "Precisions",
            _COLUMNS,
            key=lambda run: run.label,
            about=lambda run: run.sentence or run.label,
            selects_one=True,
            whole=True,
        )
        self.precisions.selected.connect(self._show_run)
        self._errors_of = ElidedLabel("", "unit")
        self._side, body, runs = self._make_side(), QWidget(), QFrame()
        runs.setProperty("surface", "panel")
        in_column(self.precisions, parent=runs, margins=1)
        self._left = in_column(runs, spacing=8)
        head = in_column(self.sentence, ElidedLabel(_ABOUT, "hint"), spacing=2)
        below = in_row(wide(self._left), self._side, spacing=8)
        in_column(head, wide(below), parent=body, margins=(0, 8, 0, 0), spacing=8)
        self.addWidget(body)
        self.show_divergence(None)

    @cached_property
    def plot(self) -> DivergencePlot:
        """The plot, created only with the first result, since it would slow the start of the window."""
        from gui.numerics.divergence_plot import DivergencePlot

        plot = DivergencePlot()
        self._left.insertWidget(0, plot, 1)
        tab_after(self.empty, plot)
        return plot

    def show_divergence(self, divergence: DivergenceTest | None) -> None:
        """Show all precisions and select the first that diverges. For None, show the empty state."""
        self.show_page(is_known=divergence is not None)
        if divergence is None:
            return
        set_text(self.sentence, divergence.sentence)
        set_text(self.notes, breakable("\n".join(divergence.notes)))
        self.notes.setVisible(bool(divergence.notes))
        self._side.setVisible(bool(divergence.runs))
        self.plot.show_divergence(divergence)
        self.precisions.show_rows(divergence.runs)
        parted = (place for place, run in enumerate(self.precisions.rows()) if run.diverges_at is not None)
        self.precisions.clearSelection()
        self.precisions.selectRow(next(parted, 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._side.setFixedWidth(_NARROW_SIDE if event.size().width() < _NARROW else _WIDE_SIDE)

    def _make_side(self) -> QWidget:
        side = QFrame()
        side.setProperty("surface", "panel")
        head = in_row(
            label("Errors by module", "panelTitle"), wide(self._errors_of), margins=(11, 10, 11, 0), spacing=8
        )
        inner, words = QWidget(), QScrollArea()
        in_column(self.run_sentence, self.notes, Stretch(1), parent=inner, margins=(11, 0, 11, 8), spacing=6)
        words.setWidgetResizable(True)
        words.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        words.setAccessibleName("The selected precision in words")
        words.setWidget(inner)
        in_column(head, Placed(self.errors, 3), Placed(words, 2), parent=side, margins=1, spacing=8)
        return side

    def _show_run(self, runs: tuple[PrecisionRun, ...]) -> None:
        for run in runs:
            self._errors_of.set_whole_text(f"{run.label}, first step")
            set_text(self.run_sentence, breakable(run.sentence))
            self.errors.show_run(run)
            self.plot.show_band(run)


_PICTURE_TIP = (
    "Relative error of the module's output against FP32, in one step with equal weights. "
    "The thin line is the error expected from rounding."
)
_PADDING = 10
_USUAL = (-6, 0)
"""Powers of ten in view where no error is known."""


def error_text(error: float) -> str:
    """Format an error in percent: "0.04%", "12%". Very small ones are powers of ten."""
    percent = 100 * error
    if not math.isfinite(percent):
        return "∞" if math.isinf(percent) else "NaN"
    if percent and percent < 0.001:
        return f"{percent:.0e}%".replace("e-0", "e-")
    return f"{percent:.2g}%" if percent < 100 else f"{percent:,.0f}%"


class _Error(NamedTuple):
    """A module's error and place in the forward pass. `is_first` marks the first that diverges from FP32."""

    place: int
    error: ModuleError
    is_first: bool

    @property
    def name(self) -> str:
        return module_title(self.error.module)

    def words(self) -> str:
        explained = self.error.explained_error
        own = "" if explained is None else f", with {error_text(explained)} expected from rounding"
        first = ". The first module that diverges from FP32" if self.is_first else ""
        return f"{self.name}: {error_text(self.error.relative_error)}{own}{first}"

    def look(self) -> Look:
        return Look(600) if self.is_first else Look(ink="text2")


class ErrorTable(ResultTable[_Error]):
    """The error of each module in one precision relative to FP32, drawn as dots on a logarithmic scale.

    Modules are in the order of the forward pass. The table scrolls to the first one that diverges.
    """

    def __init__(self) -> None:
        super().__init__("Errors by module", about=_Error.words, key=lambda row: row.error.module)
        self.setMinimumHeight(3 * ROW_HEIGHT)

    def show_run(self, run: PrecisionRun) -> None:
        """Show the errors of the modules in a precision."""
        rows = [
            _Error(place, error, error.module == run.first_module) for place, error in enumerate(run.errors)
        ]
        axis, order = _Axis.of(run), "In the order of the forward pass"
        dots = Column[_Error]("", lambda row: "", lambda row: row.place, _PICTURE_TIP, axis.paint_dot)
        self.show_rows(
            rows,
            (
                Column("Module", lambda row: row.name, tip=order, width=80, widest=150, look=_Error.look),
                replace(dots, width=80, widest=GROWS, paint_heading=axis.paint_heading),
                number_column(
                    "Error",
                    lambda row: row.error.relative_error,
                    error_text,
                    "Relative error of the output",
                    look=_Error.look,
                ),
            ),
        )
        first = next((place for place, row in enumerate(self.rows()) if row.is_first), None)
        if first is not None:
            self.scrollTo(self.model().index(first, 0), self.ScrollHint.PositionAtCenter)


class _Axis(NamedTuple):
    """Powers of ten from `low` to `high`, and the precision whose errors are painted."""

    low: int
    high: int
    precision: Precision

    @classmethod
    def of(cls, run: PrecisionRun) -> _Axis:
        known = [
            math.log10(error)
            for row in run.errors
            for error in (row.relative_error, row.explained_error)
            if error and math.isfinite(error)
        ]
        if not known:
            return cls(*_USUAL, run.precision)
        low = math.floor(min(known))
        return cls(low, max(math.ceil(max(known)), low + 1), run.precision)

    def place(self, error: float, room: QRectF) -> float:
        """Return the x of an error, on half a pixel. Errors off the scale are at its edges."""
        if math.isnan(error) or error > 10.0**self.high:
            power: float = self.high
        else:
            power = max(self.low, math.log10(error)) if error > 0 else self.low
        share = (power - self.low) / (self.high - self.low)
        return round(room.left() + _PADDING + share * (room.width() - 2 * _PADDING)) + 0.5

    def powers(self, room: QRectF) -> list[tuple[float, float]]:
        """Return each power of ten with its x."""
        errors = [10.0**power for power in range(self.low, self.high + 1)]
        return [(error, self.place(error, room)) for error in errors]

    def paint_dot(self, painter: QPainter, room: QRectF, row: _Error) -> None:
        """Paint an error as the precision's marker."""
        palette, middle, explained = theme().palette, room.center().y(), row.error.explained_error
        lines = [(place, palette.grid, room.height() / 2) for _, place in self.powers(room)]
        if explained is not None:
            lines.append((self.place(explained, room), palette.text3, 6.0))
        for place, ink, reach in lines:
            painter.setPen(QPen(QColor(ink), 1))
            painter.drawLine(QPointF(place, middle - reach), QPointF(place, middle + reach))
        center = QPointF(self.place(row.error.relative_error, room), middle)
        if row.is_first:
            draw_marker(painter, center, self.precision, 11)
        else:
            draw_marker(painter, center, self.precision, 8, fill="hollow")

    def paint_heading(self, painter: QPainter, room: QRectF) -> None:
        """Paint the axis above the errors, with as many powers of ten as fit."""
        painter.setFont(font(11))
        painter.setPen(QColor(theme().palette.text3))
        metrics, free = QFontMetricsF(painter.font()), -math.inf
        for error, middle in self.powers(room):
            text = error_text(error)
            width = metrics.horizontalAdvance(text)
            left = min(max(room.left(), middle - width / 2), room.right() - width)
            if left >= free:
                painter.drawText(QPointF(left, room.bottom() - 8), text)
                free = left + width + 8
