"""The table of figures in Compare: a row per figure, a column per side with its ratios, and a foot.

The foot takes an accuracy, for which the table shows the time to reach it.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QWidget,
)

from engine.compare.comparison import Comparison, SideReport
from engine.compare.figures import Cell, Figure, FigureRow
from engine.drawing.looks import side_fills
from engine.export.report.tables import FigureText, figure_text
from engine.words.numbers import times
from gui.compare.headline import Sign
from gui.widgets import ElidedLabel, Marker, label, set_property
from gui.widgets.boxes import Stretch, in_column, in_row
from gui.widgets.labels import plain_tip
from resources.looks import MarkFill

HEADING_HEIGHT, ROW_HEIGHT = 40, 32
_SHADED = {"heading": "shadedHeading", "plain": "shaded", "last": "shadedLast"}
_PLAIN = {shaded: plain for plain, shaded in _SHADED.items()}
_MOST_WORDS = 120
_PLAINLY = {
    "repeats": "95 % interval over repeats",
    "within run": "95 % interval within the only run",
}


def heading_text(text: str) -> QLabel:
    """The heading of the column of names."""
    result = label(text, "body")
    result.setProperty("cell", "heading")
    result.setIndent(12)
    result.setFixedHeight(HEADING_HEIGHT)
    return result


def shade(cell: QWidget, *, is_shaded: bool) -> None:
    """Shades or unshades a cell: the column of the headline's side is shaded."""
    kind = str(cell.property("cell"))
    wanted = _SHADED.get(kind, kind) if is_shaded else _PLAIN.get(kind, kind)
    set_property(cell, "cell", wanted)


def side_heading(report: SideReport, fill: MarkFill) -> QWidget:
    """The heading of a side's two columns; a side with doubts has an icon."""
    side = report.side
    holder = QFrame()
    holder.setProperty("cell", "heading")
    holder.setFixedHeight(HEADING_HEIGHT)
    holder.setToolTip(plain_tip(_heading_tip(report)))
    row = in_row(Stretch(1), parent=holder, margins=(12, 0, 12, 0), spacing=6)
    if report.doubts:
        row.addWidget(Sign("info"))
    row.addWidget(Marker(side.precision, fill=fill, colour=side.colour))
    row.addWidget(label(side.label, "strong"))
    if side.note:
        more = ElidedLabel(side.note, "unit")
        more.setFixedWidth(min(_MOST_WORDS, more.sizeHint().width()))
        row.addWidget(more)
    if side.is_named_fast:
        row.addWidget(Sign("bolt"))
    return holder


def figure_name(row: FigureRow, is_last: bool) -> QWidget:
    """A figure's title and unit."""
    figure = row.figure
    holder = QFrame()
    holder.setProperty("cell", "last" if is_last else "plain")
    holder.setFixedHeight(ROW_HEIGHT)
    line = in_row(label(figure.title, "figureName"), parent=holder, margins=(12, 0, 0, 0), spacing=6)
    if figure.unit:
        line.addWidget(label(figure.unit, "unit"))
    line.addStretch(1)
    return holder


def figure_value(text: str, tip: str, is_last: bool) -> QWidget:
    """A cell with a side's value."""
    return _cell(text, "figure", tip, is_last)


def figure_beside(shown: FigureText, tip: str, is_last: bool) -> QWidget:
    """A cell with a ratio or difference: pale if it shows none, with an icon if nothing follows from it."""
    role = "same" if shown.beside == "same" or shown.is_open or not shown.is_sound else "figure"
    if shown.is_sound:
        return _cell(shown.beside, role, tip, is_last)
    holder = QFrame()
    holder.setProperty("cell", "last" if is_last else "plain")
    holder.setFixedHeight(ROW_HEIGHT)
    why = f"{shown.interval.capitalize()}: nothing follows from this ratio\n{tip}"
    holder.setToolTip(plain_tip(why.rstrip()))
    holder.setAccessibleName(f"{shown.beside}, {shown.interval}")
    in_row(Stretch(1), Sign("info"), label(shown.beside, role), parent=holder, spacing=4)
    return holder


def _cell(text: str, role: str, tip: str, is_last: bool) -> QLabel:
    result = label(text, role)
    result.setAccessibleName(text)
    result.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    result.setProperty("cell", "last" if is_last else "plain")
    result.setFixedHeight(ROW_HEIGHT)
    result.setToolTip(plain_tip(tip))
    return result


def figure_tip(figure: Figure, cell: Cell, report: SideReport) -> str:
    """A cell's tooltip: intervals, and the values of the repeats."""
    if cell.value is None:
        return ""
    lines = []
    unit = f" {figure.unit}" if figure.unit else ""
    if cell.ratio_interval is not None:
        low, high = cell.ratio_interval
        lines.append(f"Ratio: 95 % interval {times(low)} to {times(high)}")
    if cell.interval is not None and cell.interval_kind is not None:
        low, high = cell.interval
        lines.append(f"{_PLAINLY[cell.interval_kind]}: {figure.text(low)} to {figure.text(high)}{unit}")
    beside = figure_text(figure, cell, report)
    if not figure.has_ratio and cell.difference and cell.within_spread is None:
        lines.append(f"Difference {beside.beside}: no spread known, so it may or may not mean anything")
    elif not figure.has_ratio and cell.difference and cell.within_spread is False:
        lines.append("A larger difference than between repeats of one side")
    if len(cell.values) > 1:
        average = "Mean" if figure.is_mean else "Geometric mean" if figure.has_ratio else "Median"
        lines.append(f"{average} of {', '.join(map(figure.text, cell.values))}{unit}")
    return "\n".join(lines)


def _heading_tip(report: SideReport) -> str:
    doubts = dict.fromkeys(doubt.sentence for doubt in report.doubts)
    names = f"{report.side.title}: {', '.join(report.side.names)}"
    return "\n".join([names, *(f"With caution: {doubt}" for doubt in doubts)])


_HEIGHT = 40
_MOST = 100.0


class TargetRow(QWidget):
    """`changed` when another accuracy was typed, or none."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(_HEIGHT)
        self._accuracy: float | None = None
        self.edit = QLineEdit()
        self.edit.setFixedWidth(64)
        self.edit.setProperty("small", "true")
        self.edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.edit.setAccessibleName("Accuracy to reach, in per cent")
        self.edit.setToolTip("An accuracy in per cent: the table then shows when each side first reached it")
        self.edit.setPlaceholderText("none")
        self.edit.editingFinished.connect(self._tell)
        self.edit.textEdited.connect(lambda _text: set_property(self.edit, "problem", "false"))
        self._words = label("Time and samples to reach an accuracy of", "body")
        self._note = ElidedLabel("", "unit")
        self._percent = label("%", "unit")
        row = in_row(self._words, self.edit, self._percent, parent=self, margins=(12, 0, 12, 0), spacing=8)
        self._note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._note, 1)

    def show_for(self, has_accuracy: bool, note: str) -> None:
        """Shows the field if there is an accuracy, and `note`; hidden if there is neither."""
        for part in (self._words, self.edit, self._percent):
            part.setVisible(has_accuracy)
        self._note.set_whole_text(note)
        self.setVisible(has_accuracy or bool(note))

    def accuracy(self) -> float | None:
        """The typed accuracy, as a fraction; None if there is no valid one."""
        try:
            percent = float(self.edit.text().strip().rstrip("%").replace(",", "."))
        except ValueError:
            return None
        return percent / 100 if 0 < percent <= _MOST else None

    def _tell(self) -> None:
        accuracy = self.accuracy()
        is_wrong = accuracy is None and bool(self.edit.text().strip())
        set_property(self.edit, "problem", "true" if is_wrong else "false")
        if accuracy != self._accuracy:
            self._accuracy = accuracy
            self.changed.emit()


_EDGES = 4
"""Pixels of the borders and margins of both sides."""


class FigureTable(QFrame):
    """Shows a `Comparison`, with the column of the headline's side shaded.

    `target_chosen` when another accuracy to reach was typed.
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
        in_column(self._scroll, self.target, parent=self, margins=1, spacing=0)
        self._texts: list[list[str]] = []
        self._cells: dict[str, list[QWidget]] = {}
        self._headline: str | None = None
        self._needed = (0, 0)

    def show_comparison(self, comparison: Comparison) -> None:
        """Rebuilds the table, with no column shaded."""
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
        # rows made while hidden would ask for a pixel more for their border
        inner.setFixedHeight(height)
        self._scroll.setWidget(inner)
        self._needed = (inner.minimumSizeHint().width(), height)
        self._fit_height()

    def set_headline(self, side_id: str | None) -> None:
        """Shades the column of this side only."""
        for wanted, is_shaded in ((self._headline, False), (side_id, True)):
            for cell in self._cells.get(wanted or "", ()):
                shade(cell, is_shaded=is_shaded)
        self._headline = side_id

    def texts(self) -> list[list[str]]:
        """The rows' texts: title, then value and ratio of each side."""
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
        """Fits the height to the rows, and to the scroll bar if the columns do not fit."""
        width, height = self._needed
        is_scrolled = width > self.width() - _EDGES
        # focusable only when the arrow keys have something to scroll
        self._scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus if is_scrolled else Qt.FocusPolicy.NoFocus)
        bar = self._scroll.horizontalScrollBar().sizeHint().height() if is_scrolled else 0
        self._scroll.setFixedHeight(height + bar + 2)
        foot = 0 if self.target.isHidden() else self.target.height()
        self.setFixedHeight(height + _EDGES + bar + foot)


def _has_accuracy(comparison: Comparison) -> bool:
    row = next(row for row in comparison.figures if row.figure.name == "accuracy")
    return any(cell.value is not None for cell in row.cells)


def _spread_note(comparison: Comparison) -> str:
    """Says that the spread of accuracy and loss is unknown, if it is."""
    rows = [row for row in comparison.figures if row.figure.is_mean]
    cells = [cell for row in rows for cell in row.cells if cell.difference]
    if not cells or any(cell.within_spread is not None for cell in cells):
        return ""
    return "Accuracy and loss: no spread known without repeats"
