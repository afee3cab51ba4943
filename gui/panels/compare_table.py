"""The table of the workspace Compare: a figure a row, a side a column with its ratios to the baseline."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from engine.exports.report_tables import figure_text
from engine.exports.side_looks import side_fills
from engine.records.comparison import Comparison
from gui.panels.compare_cells import (
    HEADING_HEIGHT,
    ROW_HEIGHT,
    figure_beside,
    figure_name,
    figure_tip,
    figure_value,
    heading_text,
    shade,
    side_heading,
)
from gui.panels.compare_target import TargetRow

_EDGES = 4
"""The border and the margin within it, both sides together."""


class FigureTable(QFrame):
    """Shows a `Comparison`; the side that the headline speaks of has its column shaded.

    `target_chosen` says that another accuracy to reach was asked for.
    """

    target_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAccessibleName("Figures of the compared runs")
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setAccessibleName("Figures of the compared runs")
        self._scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.target = TargetRow()
        self.target.changed.connect(self.target_chosen)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(0)
        column.addWidget(self._scroll)
        column.addWidget(self.target)
        self._texts: list[list[str]] = []
        self._cells: dict[str, list[QWidget]] = {}
        self._headline: str | None = None
        self._needed = (0, 0)

    def show_comparison(self, comparison: Comparison) -> None:
        """Builds the table anew; no column is shaded."""
        inner = QWidget()
        grid = QGridLayout(inner)
        grid.setSpacing(0)
        grid.setContentsMargins(0, 0, 0, 0)
        self._texts, self._headline = [], None
        fills = side_fills(comparison.sides)
        self._cells = {
            report.side.id: [side_heading(report, fills[report.side.id])] for report in comparison.reports
        }
        grid.addWidget(heading_text("Metric"), 0, 0)
        grid.setColumnStretch(0, 4)
        for number, cells in enumerate(self._cells.values()):
            grid.addWidget(cells[0], 0, 1 + 2 * number, 1, 2)
            grid.setColumnStretch(1 + 2 * number, 3)
            grid.setColumnStretch(2 + 2 * number, 2)
        self.target.show_for(_has_accuracy(comparison), _spread_note(comparison))
        for number in range(len(comparison.figures)):
            is_last = number == len(comparison.figures) - 1 and self.target.isHidden()
            self._add_row(grid, comparison, number, is_last)
        height = HEADING_HEIGHT + ROW_HEIGHT * len(comparison.figures)
        # made while the window shows something else, the rows would ask for a pixel more for their border
        inner.setFixedHeight(height)
        self._scroll.setWidget(inner)
        self._needed = (inner.minimumSizeHint().width(), height)
        self._fit_height()

    def set_headline(self, side_id: str | None) -> None:
        """Shades the column of the side that the headline speaks of, and no other."""
        for wanted, is_shaded in ((self._headline, False), (side_id, True)):
            for cell in self._cells.get(wanted or "", ()):
                shade(cell, is_shaded=is_shaded)
        self._headline = side_id

    def texts(self) -> list[list[str]]:
        """The rows as shown: title, then value and ratio of each side."""
        return self._texts

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def _add_row(self, grid: QGridLayout, comparison: Comparison, number: int, is_last: bool) -> None:
        row = comparison.figures[number]
        grid.addWidget(figure_name(row, is_last), number + 1, 0)
        texts = [row.figure.title]
        for place, (report, cell) in enumerate(zip(comparison.reports, row.cells, strict=True)):
            column, tip = 1 + 2 * place, figure_tip(row.figure, cell, report)
            shown = figure_text(row.figure, cell, report)
            widgets = [figure_value(shown.value, tip, is_last)]
            if not report.is_baseline:
                widgets.append(figure_beside(shown, tip, is_last))
            for offset, widget in enumerate(widgets):
                grid.addWidget(widget, number + 1, column + offset, 1, 3 - len(widgets))
                texts.append(widget.accessibleName())
            self._cells[report.side.id] += widgets
        self._texts.append(texts)

    def _fit_height(self) -> None:
        """All rows, and the scroll bar below them where the columns do not fit."""
        width, height = self._needed
        is_scrolled = width > self.width() - _EDGES
        # the arrows move it, where there is anything to move
        self._scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus if is_scrolled else Qt.FocusPolicy.NoFocus)
        bar = self._scroll.horizontalScrollBar().sizeHint().height() if is_scrolled else 0
        below = self.target.height() if not self.target.isHidden() else 0
        self._scroll.setFixedHeight(height + bar + 2)
        self.setFixedHeight(height + _EDGES + bar + below)


def _has_accuracy(comparison: Comparison) -> bool:
    row = next(row for row in comparison.figures if row.figure.name == "accuracy")
    return any(cell.value is not None for cell in row.cells)


def _spread_note(comparison: Comparison) -> str:
    """What nobody can say of the differences of accuracy and loss."""
    rows = [row for row in comparison.figures if row.figure.is_mean]
    cells = [cell for row in rows for cell in row.cells if cell.difference]
    if not cells or any(cell.within_spread is not None for cell in cells):
        return ""
    return "Accuracy and loss: no spread known, which takes repeats"
