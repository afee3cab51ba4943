"""The cells of the table of figures: headings, names and values, and what their tooltips tell."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from engine.exports.report_tables import FigureText, figure_text
from engine.records.cells import Cell, FigureRow
from engine.records.comparison import SideReport
from engine.records.figures import Figure
from engine.records.large_numbers import times
from gui.panels.compare_sign import Sign, is_named_fast
from gui.tips import plain_tip
from gui.widgets import ElidedLabel, Marker, label, set_property
from resources.looks import MarkFill

HEADING_HEIGHT, ROW_HEIGHT = 40, 32
_SHADED = {"heading": "shadedHeading", "plain": "shaded", "last": "shadedLast"}
_PLAIN = {shaded: plain for plain, shaded in _SHADED.items()}
_MOST_WORDS = 120
_PLAINLY = {
    "repeats": "95 % interval over repeats",
    "within run": "95 % within the run, which was the only one",
}


def heading_text(text: str) -> QLabel:
    """The heading of the column of names."""
    result = label(text, "body")
    result.setProperty("cell", "heading")
    result.setIndent(12)
    result.setFixedHeight(HEADING_HEIGHT)
    return result


def shade(cell: QWidget, *, is_shaded: bool) -> None:
    """Shades a cell of the column that the headline speaks of, or no more."""
    kind = str(cell.property("cell"))
    wanted = _SHADED.get(kind, kind) if is_shaded else _PLAIN.get(kind, kind)
    set_property(cell, "cell", wanted)


def side_heading(report: SideReport, fill: MarkFill) -> QWidget:
    """The heading of a side's two columns; one that something speaks against has a sign."""
    side = report.side
    holder = QFrame()
    holder.setProperty("cell", "heading")
    holder.setFixedHeight(HEADING_HEIGHT)
    holder.setToolTip(plain_tip(_heading_tip(report)))
    row = QHBoxLayout(holder)
    row.setContentsMargins(12, 0, 12, 0)
    row.setSpacing(6)
    row.addStretch(1)
    if report.doubts:
        row.addWidget(Sign("info"))
    row.addWidget(Marker(side.precision, fill=fill))
    title, _comma, rest = side.title.partition(", ")
    row.addWidget(label(title, "strong"))
    if rest:
        more = ElidedLabel(rest, "unit")
        more.setFixedWidth(min(_MOST_WORDS, more.sizeHint().width()))
        row.addWidget(more)
    if is_named_fast(side):
        row.addWidget(Sign("bolt"))
    return holder


def figure_name(row: FigureRow, is_last: bool) -> QWidget:
    """A figure's title and unit."""
    figure = row.figure
    holder = QFrame()
    holder.setProperty("cell", "last" if is_last else "plain")
    holder.setFixedHeight(ROW_HEIGHT)
    line = QHBoxLayout(holder)
    line.setContentsMargins(12, 0, 0, 0)
    line.setSpacing(6)
    line.addWidget(label(figure.title, "figureName"))
    if figure.unit:
        line.addWidget(label(figure.unit, "unit"))
    line.addStretch(1)
    return holder


def figure_value(text: str, tip: str, is_last: bool) -> QWidget:
    """A side's own value."""
    return _cell(text, "figure", tip, is_last)


def figure_beside(shown: FigureText, tip: str, is_last: bool) -> QWidget:
    """What stands beside a value: pale where it shows nothing, with a sign where nothing follows."""
    role = "same" if shown.beside == "same" or shown.is_open or not shown.is_sound else "figure"
    if shown.is_sound:
        return _cell(shown.beside, role, tip, is_last)
    holder = QFrame()
    holder.setProperty("cell", "last" if is_last else "plain")
    holder.setFixedHeight(ROW_HEIGHT)
    holder.setToolTip(f"{shown.interval.capitalize()}: nothing follows from this ratio\n{tip}".rstrip())
    holder.setAccessibleName(f"{shown.beside}, {shown.interval}")
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(4)
    row.addStretch(1)
    row.addWidget(Sign("info"))
    row.addWidget(label(shown.beside, role))
    return holder


def _cell(text: str, role: str, tip: str, is_last: bool) -> QLabel:
    result = label(text, role)
    result.setAccessibleName(text)
    result.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    result.setProperty("cell", "last" if is_last else "plain")
    result.setFixedHeight(ROW_HEIGHT)
    result.setToolTip(tip)
    return result


def figure_tip(figure: Figure, cell: Cell, report: SideReport) -> str:
    """How sure a figure is, and what each repeat gave."""
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
        lines.append(
            f"Difference {beside.beside}: no spread known, so nobody can say whether it means anything"
        )
    elif not figure.has_ratio and cell.difference and cell.within_spread is False:
        lines.append("More apart than repeats of one side are")
    if len(cell.values) > 1:
        what = "Mean" if figure.is_mean else "Geometric mean" if figure.has_ratio else "Median"
        lines.append(f"{what} of {', '.join(map(figure.text, cell.values))}{unit}")
    return "\n".join(lines)


def _heading_tip(report: SideReport) -> str:
    doubts = dict.fromkeys(doubt.sentence for doubt in report.doubts)
    names = f"{report.side.title}: {', '.join(report.side.names)}"
    return "\n".join([names, *(f"With caution: {doubt}" for doubt in doubts)])
