"""The table of the workspace Compare: a figure a row, a run a column, each with its ratio to the baseline."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from engine.records.comparison import Cell, Comparison, Figure
from engine.records.record import RunRecord
from gui.panels.run_words import recipe_notes
from gui.widgets import ElidedLabel, Marker, label

_HEADING_HEIGHT, _ROW_HEIGHT = 40, 32
_EDGES = 4
"""The border and the margin within it, both sides together."""


class FigureTable(QFrame):
    """Shows a `Comparison`; the run that the headline speaks of has its column shaded."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAccessibleName("Figures of the compared runs")
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.addWidget(self._scroll)
        self._texts: list[list[str]] = []
        self._needed = (0, 0)

    def show_comparison(self, comparison: Comparison, headline: str | None) -> None:
        """Builds the table anew."""
        inner = QWidget()
        grid = QGridLayout(inner)
        grid.setSpacing(0)
        grid.setContentsMargins(0, 0, 0, 0)
        self._texts = []
        grid.addWidget(_heading_text("Metric"), 0, 0)
        grid.setColumnStretch(0, 4)
        last = len(comparison.figures)
        recipes = recipe_notes(comparison.runs)
        for number, run in enumerate(comparison.runs):
            grid.addWidget(_heading(run, recipes[run.id], run.id == headline), 0, 1 + 2 * number, 1, 2)
            grid.setColumnStretch(1 + 2 * number, 3)
            grid.setColumnStretch(2 + 2 * number, 2)
        for row, line in enumerate(comparison.figures, start=1):
            grid.addWidget(_name(line.figure, row == last), row, 0)
            texts = [line.figure.title]
            for number, (run, cell) in enumerate(zip(comparison.runs, line.cells, strict=True)):
                shaded, place = run.id == headline, 1 + 2 * number
                shown = line.figure.text(cell.value)
                if run.id == comparison.baseline.id:
                    grid.addWidget(_value(shown, shaded, row == last), row, place, 1, 2)
                    texts.append(shown)
                    continue
                ratio = _against(line.figure, cell)
                grid.addWidget(_value(shown, shaded, row == last), row, place)
                grid.addWidget(_value(ratio, shaded, row == last), row, place + 1)
                texts += [shown, ratio]
            self._texts.append(texts)
        height = _HEADING_HEIGHT + _ROW_HEIGHT * last
        # made while the window shows something else, the rows would ask for a pixel more for their border
        inner.setFixedHeight(height)
        self._scroll.setWidget(inner)
        self._needed = (inner.minimumSizeHint().width(), height)
        self._fit_height()

    def texts(self) -> list[list[str]]:
        """The rows as shown: title, then value and ratio of each run."""
        return self._texts

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        """All rows, and the scroll bar below them where the columns do not fit."""
        width, height = self._needed
        is_scrolled = width > self.width() - _EDGES
        bar = self._scroll.horizontalScrollBar().sizeHint().height() if is_scrolled else 0
        self.setFixedHeight(height + _EDGES + bar)


def _against(figure: Figure, cell: Cell) -> str:
    """The ratio, or the difference where a ratio means nothing."""
    if cell.ratio is not None:
        return f"{cell.ratio:,.2f}×"
    if cell.difference is None or not math.isfinite(cell.difference):
        return ""
    if float(f"{cell.difference:.{figure.digits}f}") == 0:
        return "same"
    return ("+" if cell.difference > 0 else "") + figure.text(cell.difference)


def _heading_text(text: str) -> QLabel:
    result = label(text, "body")
    result.setProperty("cell", "heading")
    result.setIndent(12)
    result.setFixedHeight(_HEADING_HEIGHT)
    return result


def _heading(run: RunRecord, recipe: str, shaded: bool) -> QWidget:
    holder = QFrame()
    holder.setProperty("cell", "shadedHeading" if shaded else "heading")
    holder.setFixedHeight(_HEADING_HEIGHT)
    row = QHBoxLayout(holder)
    row.setContentsMargins(12, 0, 12, 0)
    row.setSpacing(6)
    row.addStretch(1)
    row.addWidget(Marker(run.experiment.precision))
    row.addWidget(label(run.experiment.precision.label, "strong"))
    name = ElidedLabel(f"{recipe}, {run.name}" if recipe else run.name, "unit")
    name.setMaximumWidth(120)
    row.addWidget(name)
    return holder


def _name(figure: Figure, is_last: bool) -> QWidget:
    holder = QFrame()
    holder.setProperty("cell", "last" if is_last else "plain")
    holder.setFixedHeight(_ROW_HEIGHT)
    row = QHBoxLayout(holder)
    row.setContentsMargins(12, 0, 0, 0)
    row.setSpacing(6)
    row.addWidget(label(figure.title, "figureName"))
    row.addWidget(label(figure.unit, "unit"))
    row.addStretch(1)
    return holder


def _value(text: str, shaded: bool, is_last: bool) -> QLabel:
    result = label(text, "figure")
    result.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    kinds = ("shadedLast" if is_last else "shaded") if shaded else ("last" if is_last else "plain")
    result.setProperty("cell", kinds)
    result.setFixedHeight(_ROW_HEIGHT)
    return result
