"""The table of metrics of a comparison: a row per metric, columns for each side and its ratio, and a foot.

The foot has a field for a target accuracy, for which the table shows the time to reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.compare.comparison import Comparison, SideReport
from engine.compare.metrics import Metric, MetricCell, MetricRow
from engine.compare.ranking import MANY
from engine.drawing.looks import side_fills
from engine.export.document import MetricText
from engine.export.report.metrics import metric_text
from engine.words.numbers import times, unit_suffix
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import ElidedLabel, draw_marker, label, set_property
from gui.widgets.boxes import Surface, in_column, in_row, wide
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.painting import PADDING, paint_words, text_width
from resources.looks import MarkFill

_HEADING_HEIGHT, _ROW_HEIGHT, _SIZE = 40, 32, 13
_NAME, _FIGURE, _MOST_WORDS = 170, 92, 160
_MARKER, _GAP, _SIGN = 8, 6, 14
_VALUE, _NAMED = Look(600, size=_SIZE), Look(500, size=_SIZE)
_PLAINLY = {"repeats": "95% interval over repeats", "within run": "95% interval within the run"}


def _heading(report: SideReport, fill: MarkFill) -> tuple[int, Callable[[QPainter, QRectF], None]]:
    side = report.side
    texts = [(side.label, Look(600)), *([(side.note, Look(ink="text2"))] if side.note else [])]
    widths = [min(_MOST_WORDS, text_width(text, look.weight) + 1) for text, look in texts]
    before, after = (_SIGN + _GAP) * bool(report.doubts), (_SIGN + _GAP) * side.is_named_fast
    width = before + _MARKER + sum(widths) + _GAP * len(widths) + after + 2 * PADDING

    def paint(painter: QPainter, room: QRectF) -> None:
        palette, middle = theme().palette, room.center().y()
        left = room.right() - width + 2 * PADDING
        if report.doubts:
            draw_icon(painter, QRectF(left, middle - _SIGN / 2, _SIGN, _SIGN), "info", palette.text3)
        place = QPointF(left + before + _MARKER / 2, middle)
        draw_marker(painter, place, side.precision, _MARKER, fill=fill)
        left += before + _MARKER + _GAP
        for (text, look), needed in zip(texts, widths, strict=True):
            paint_words(painter, QRectF(left, room.top(), needed, room.height()), text, look)
            left += needed + _GAP
        if side.is_named_fast:
            draw_icon(painter, QRectF(left, middle - _SIGN / 2, _SIGN, _SIGN), "bolt", palette.text2)

    return width, paint


def _columns(comparison: Comparison, headline: str | None) -> list[Column[MetricRow]]:
    fills = side_fills(comparison.sides)
    heading = partial(_paint_heading, text="Metric", is_right=False)
    columns = [
        Column[MetricRow](
            "Metric", _name, width=_NAME, widest=GROWS, look=lambda row: _NAMED, paint_heading=heading
        )
    ]
    for place, report in enumerate(comparison.reports):
        is_shaded = report.side.id == headline
        columns.append(_value_column(place, report, fills[report.side.id], is_shaded=is_shaded))
        if not report.is_baseline:
            columns.append(_ratio_column(place, report, comparison.baseline.label, is_shaded=is_shaded))
    return columns


def _paint_heading(painter: QPainter, room: QRectF, text: str, is_right: bool) -> None:
    paint_words(painter, room, text, Look(ink="text2"), is_right=is_right)


def _name(row: MetricRow) -> str:
    return f"{row.metric.title}, {row.metric.unit}" if row.metric.unit else row.metric.title


def _value_column(place: int, report: SideReport, fill: MarkFill, *, is_shaded: bool) -> Column[MetricRow]:
    width, paint_heading = _heading(report, fill)
    return Column(
        " ".join(filter(None, (report.side.label, report.side.note))),
        lambda row: metric_text(row.metric, row.cells[place], report).value,
        tip=heading_tip(report),
        width=max(_FIGURE, width),
        widest=GROWS,
        is_number=True,
        is_shaded=is_shaded,
        look=lambda row: _VALUE,
        about=lambda row: metric_tip(row.metric, row.cells[place], report),
        paint_heading=paint_heading,
    )


def _ratio_column(place: int, report: SideReport, baseline: str, *, is_shaded: bool) -> Column[MetricRow]:
    def shown(row: MetricRow) -> MetricText:
        return metric_text(row.metric, row.cells[place], report)

    def look(row: MetricRow) -> Look:
        one = shown(row)
        mark = None if one.is_sound else "info"
        is_pale = one.relation == "same" or one.is_inconclusive or not one.is_sound
        return Look(400 if is_pale else 600, "text2" if is_pale else "text", mark, size=_SIZE)

    def text(row: MetricRow) -> str:
        one = shown(row)
        return one.relation if one.is_sound else f"{one.relation}, {one.interval}"

    def about(row: MetricRow) -> str:
        one, tip = shown(row), metric_tip(row.metric, row.cells[place], report)
        why = "" if one.is_sound else f"The ratio of {one.relation} is {one.interval}\n"
        return f"{why}{tip}".rstrip()

    return Column(
        f"vs. {baseline}",
        text,
        tip=heading_tip(report),
        short=lambda row: shown(row).relation,
        width=max(_FIGURE, text_width(f"vs. {baseline}", 400) + 4 * PADDING),
        widest=GROWS,
        is_number=True,
        is_shaded=is_shaded,
        look=look,
        about=about,
        paint_heading=partial(_paint_heading, text=f"vs. {baseline}", is_right=True),
    )


def metric_tip(metric: Metric, cell: MetricCell, report: SideReport) -> str:
    """Return the tooltip of a metric: its intervals, and the repeats that it is the mean of."""
    if cell.value is None:
        return ""
    lines = []
    unit = unit_suffix(metric.unit)
    if cell.ratio_interval is not None:
        low, high = cell.ratio_interval
        lines.append(f"Ratio: 95% interval {times(low)} to {times(high)}")
    if cell.interval is not None and cell.interval_kind is not None:
        low, high = cell.interval
        lines.append(f"{_PLAINLY[cell.interval_kind]}: {metric.text(low)} to {metric.text(high)}{unit}")
    shown = metric_text(metric, cell, report)
    if not metric.has_ratio and cell.difference and cell.within_spread is None:
        lines.append(f"Difference {shown.relation} may be chance: the variation between runs is unknown")
    elif not metric.has_ratio and cell.difference and cell.within_spread is False:
        lines.append("The difference is larger than between repeats of one side")
    if len(cell.values) > 1:
        average = "Mean" if metric.is_mean else "Geometric mean" if metric.has_ratio else "Median"
        lines.append(f"{average} of {', '.join(map(metric.text, cell.values))}{unit}")
    return "\n".join(lines)


def heading_tip(report: SideReport) -> str:
    """Return the tooltip of a side: its runs and the cautions about it."""
    doubts = dict.fromkeys(doubt.sentence for doubt in report.doubts)
    names = f"{report.side.title}: {', '.join(report.side.names)}"
    return "\n".join([names, *(f"Caution: {doubt}" for doubt in doubts)])


_HEIGHT = 40
_MOST = 100.0


class TargetRow(QWidget):
    """A field to enter a target accuracy. `changed` is emitted when its value changes."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(_HEIGHT)
        self._accuracy: float | None = None
        self.edit = QLineEdit()
        self.edit.setFixedWidth(64)
        self.edit.setProperty("small", "true")
        self.edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.edit.setAccessibleName("Target accuracy in percent")
        self.edit.setToolTip("Show the time and samples needed to reach this accuracy")
        self.edit.setPlaceholderText("none")
        self.edit.editingFinished.connect(self._notify_changed)
        self.edit.textEdited.connect(lambda _text: set_property(self.edit, "problem", "false"))
        self._words = label("Time and samples to reach an accuracy of", "body")
        self._note = ElidedLabel("", "unit")
        self._percent = label("%", "unit")
        row = in_row(self._words, self.edit, self._percent, parent=self, margins=(4, 0, 4, 0), spacing=8)
        self._note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._note, 1)

    def show_for(self, has_accuracy: bool, note: str) -> None:
        """Show the field if there is an accuracy, and `note`. Hide the row if there is neither."""
        for part in (self._words, self.edit, self._percent):
            part.setVisible(has_accuracy)
        self._note.set_whole_text(note)
        self.setVisible(has_accuracy or bool(note))

    def accuracy(self) -> float | None:
        """Return the typed accuracy as a fraction, or None if it is not valid."""
        try:
            percent = float(self.edit.text().strip().rstrip("%").replace(",", "."))
        except ValueError:
            return None
        return percent / 100 if 0 < percent <= _MOST else None

    def _notify_changed(self) -> None:
        accuracy = self.accuracy()
        is_wrong = accuracy is None and bool(self.edit.text().strip())
        set_property(self.edit, "problem", "true" if is_wrong else "false")
        if accuracy != self._accuracy:
            self._accuracy = accuracy
            self.changed.emit()


class MetricTable(Surface):
    """The metrics of one or two sides in columns, with the chosen side's column shaded, and a target
    accuracy. `further` is the table of more sides, placed above the target.
    """

    def __init__(self, *further: QWidget) -> None:
        super().__init__("panel", "Metrics of the compared runs")
        self.grid = ResultTable[MetricRow](
            "Metrics of the compared runs",
            key=lambda row: row.metric.name,
            whole=True,
            row_height=_ROW_HEIGHT,
            heading_height=_HEADING_HEIGHT,
            sorts=False,
        )
        self.target = TargetRow()
        self.same = ElidedLabel("", "unit")
        same = in_row(wide(self.same), margins=(4, 6, 4, 6))
        in_column(self.grid, *further, same, self.target, parent=self, margins=(8, 1, 8, 1), spacing=0)
        self._comparison: Comparison | None = None

    def show_comparison(self, comparison: Comparison) -> None:
        """Show the metrics, with no column shaded."""
        self._comparison = comparison
        self.grid.setVisible(len(comparison.sides) < MANY)
        self.target.show_for(_has_accuracy(comparison), _spread_note(comparison))
        self.same.set_whole_text(comparison.same)
        self.same.setVisible(bool(comparison.same))
        self.set_headline(None)

    def set_headline(self, side_id: str | None) -> None:
        """Shade the column of this side only."""
        if self._comparison is not None and len(self._comparison.sides) < MANY:
            is_script = self._comparison.baseline.is_script
            # a script has no accuracy, and often no loss scale
            known = [row for row in self._comparison.metrics if not is_script or _is_known(row)]
            rows = (*known, *self._comparison.observed)
            self.grid.show_rows(rows, _columns(self._comparison, side_id))

    def texts(self) -> list[list[str]]:
        """Return the texts of the rows: title, then value and ratio of each side."""
        return self.grid.lines()[1:]


def _is_known(row: MetricRow) -> bool:
    return any(cell.value is not None for cell in row.cells)


def _has_accuracy(comparison: Comparison) -> bool:
    return _is_known(next(row for row in comparison.metrics if row.metric.name == "accuracy"))


def _spread_note(comparison: Comparison) -> str:
    rows = [row for row in comparison.metrics if row.metric.is_mean]
    cells = [cell for row in rows for cell in row.cells if cell.difference]
    if not cells or any(cell.within_spread is not None for cell in cells):
        return ""
    return "The variation of accuracy and loss between runs is unknown"
