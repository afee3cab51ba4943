"""The ranking of a comparison of three or more sides: a table with a side per row and a bar for its speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from engine.compare.comparison import Comparison
from engine.compare.metrics import SPEED
from engine.compare.ranking import RankedSide, ranking
from engine.drawing.bar_chart import longest_bar
from engine.drawing.looks import side_fills
from engine.export.document import MetricText
from engine.export.report.metrics import RankingColumn, further_columns, ranking_columns, speed_note
from engine.words.numbers import NONE
from gui.compare.table import heading_tip, metric_tip
from gui.theme.theme import theme
from gui.widgets import draw_marker
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.painting import PADDING, paint_words, text_width
from resources.looks import MarkFill

_ROW_HEIGHT, _HEADING_HEIGHT, _SIZE, _TAG_SIZE = 32, 36, 13, 11
_RANK, _LEAST_BAR, _BAR, _TAG = 30, 64, 14, 16
_MARKER, _GAP, _TAG_PADDING, _WHISKER = 8, 6, 5, 1.5
_MOST_NAME = 170
_STRONG = ("worse", "better")


@dataclass(frozen=True)
class _Row:
    ranked: RankedSide
    fill: MarkFill
    texts: dict[str, MetricText]

    @property
    def ink(self) -> str:
        return "text" if self.ranked.place is not None else "text3"


class SidesTable(ResultTable[_Row]):
    """A table of metrics with a side per row. In little room, intervals and ratios are in tooltips only."""

    def __init__(self, name: str) -> None:
        self._headline: str | None = None
        super().__init__(
            name,
            key=lambda row: row.ranked.side.id,
            shaded=lambda row: row.ranked.side.id == self._headline,
            whole=True,
            row_height=_ROW_HEIGHT,
            heading_height=_HEADING_HEIGHT,
        )

    def show_ranking(self, comparison: Comparison) -> None:
        """Show the sides by throughput, with a bar for each."""
        self._show(comparison, ranking_columns(comparison, ranking(comparison)), [_bars(comparison)])

    def show_further(self, comparison: Comparison) -> None:
        """Show the metrics that are not in the ranking."""
        self._show(comparison, further_columns(comparison, ranking(comparison)), [])

    def set_headline(self, side_id: str | None) -> None:
        """Shade the row of this side only."""
        self._headline = side_id
        self.viewport().update()

    def _show(
        self, comparison: Comparison, metrics: tuple[RankingColumn, ...], bars: list[Column[_Row]]
    ) -> None:
        fills = side_fills(comparison.sides)
        rows = [
            _Row(side, fills[side.side.id], {metric.key: metric.texts[place] for metric in metrics})
            for place, side in enumerate(ranking(comparison))
        ]
        rank = Column[_Row](
            "#",
            lambda row: str(row.ranked.place or NONE),
            lambda row: row.ranked.place,
            "Rank by throughput",
            width=_RANK,
            is_number=True,
            look=lambda row: Look(ink="text3"),
        )
        name = Column[_Row](
            "Side",
            lambda row: " ".join((row.ranked.side.title, *row.ranked.tags)),
            paint=_paint_name,
            width=max(map(_name_width, rows)),
            widest=0 if bars else GROWS,
            about=lambda row: heading_tip(row.ranked.report),
        )
        values = [column for metric in metrics for column in _metric(comparison, metric)]
        self.show_rows(rows, [rank, name, *bars, *values])


def _bars(comparison: Comparison) -> Column[_Row]:
    sides = [side.cells[SPEED.name] for side in ranking(comparison)]
    longest = longest_bar([(cell.value, cell.interval) for cell in sides])
    base = comparison.cells(comparison.baseline.id)[SPEED.name].value
    row = next(row for row in comparison.metrics if row.metric.name == SPEED.name)
    return Column(
        SPEED.title,
        lambda row: "",
        lambda row: row.ranked.cells[SPEED.name].value,
        speed_note(row),
        partial(_paint_bar, longest=longest, base=base),
        width=max(_LEAST_BAR, text_width(SPEED.title, 500, _TAG_SIZE) + 2 * PADDING),
        widest=GROWS,
    )


def _metric(comparison: Comparison, metric: RankingColumn) -> list[Column[_Row]]:
    """Return the column of a metric's values, and a column of its notes if there are any."""
    name = SPEED.name if metric.key == "ratio" else metric.key
    known = (*comparison.metrics, *comparison.observed)
    found = next(row.metric for row in known if row.metric.name == name)
    unit = metric.unit.removesuffix(" samples")
    # the bars have the title of the throughput
    title, note = (unit, "±") if metric.key == SPEED.name else (metric.title, unit)
    note = "95% interval" if metric.key == "ratio" else note
    values, notes = [str(text) for text in metric.texts], [_note(text) for text in metric.texts]

    def column(heading: str, texts: list[str], text: Callable[[_Row], str], **more: Any) -> Column[_Row]:
        return Column(
            heading,
            text,
            lambda row: _sort_value(row, metric.key),
            ", ".join(filter(None, (metric.title, metric.unit))),
            width=max(text_width(heading, 500, _TAG_SIZE), *(text_width(one, 600, _SIZE) for one in texts))
            + 2 * PADDING,
            about=lambda row: metric_tip(found, row.ranked.cells[name], row.ranked.report),
            **more,
        )

    if not any(notes):
        title = ", ".join(dict.fromkeys(filter(None, (title, unit))))
    look = partial(_value_look, key=metric.key)
    value = column(title, values, lambda row: str(row.texts[metric.key]), is_number=True, look=look)
    if not any(notes):
        return [value]
    look = partial(_note_look, key=metric.key)
    text = partial(_row_note, key=metric.key)
    is_dispensable = not any(one in _STRONG for one in notes)
    return [value, column(note, notes, text, is_dispensable=is_dispensable, look=look)]


def _sort_value(row: _Row, key: str) -> float | None:
    return row.ranked.cells[SPEED.name].ratio if key == "ratio" else row.ranked.cells[key].value


def _note(text: MetricText) -> str:
    return " ".join(filter(None, (text.relation, text.interval)))


def _row_note(row: _Row, key: str) -> str:
    return _note(row.texts[key])


def _value_look(row: _Row, key: str) -> Look:
    text = row.texts[key]
    is_pale = text.is_inconclusive or not text.is_sound
    return Look(400 if is_pale else 600, row.ink if text.is_sound else "text3", size=_SIZE)


def _note_look(row: _Row, key: str) -> Look:
    is_strong = _row_note(row, key) in _STRONG and row.ranked.place is not None
    return Look(600, row.ink) if is_strong else Look(ink="text3")


def _name_width(row: _Row) -> int:
    tags = sum(text_width(tag, 500, _TAG_SIZE) + 2 * _TAG_PADDING + _GAP for tag in row.ranked.tags)
    title = min(_MOST_NAME, text_width(row.ranked.side.title, 600, _SIZE))
    return title + _MARKER + 2 * _GAP + tags + 2 * PADDING


def _paint_name(painter: QPainter, room: QRectF, row: _Row) -> None:
    palette, middle, side = theme().palette, room.center().y(), row.ranked.side
    draw_marker(painter, QPointF(room.left() + _MARKER / 2, middle), side.precision, _MARKER, fill=row.fill)
    left = room.left() + _MARKER + _GAP
    width = min(_MOST_NAME, text_width(side.title, 600, _SIZE), int(room.right() - left))
    look = Look(600, row.ink, size=_SIZE)
    paint_words(painter, QRectF(left, room.top(), width + 1, room.height()), side.title, look)
    left += width + _GAP
    for tag in row.ranked.tags:
        inside = text_width(tag, 500, _TAG_SIZE)
        box = QRectF(round(left) + 0.5, round(middle - _TAG / 2) + 0.5, inside + 2 * _TAG_PADDING, _TAG - 1)
        is_first = tag == "fastest"
        pen = QPen(QColor(palette.text if is_first else palette.line2), 1)
        if row.ranked.place is None:
            pen.setDashPattern([2, 2])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 4, 4)
        words = QRectF(box.left() + _TAG_PADDING, room.top(), inside + 1, room.height())
        paint_words(painter, words, tag, Look(500, "text" if is_first else "text2", size=_TAG_SIZE))
        left = box.right() + _GAP


def _paint_bar(painter: QPainter, room: QRectF, row: _Row, longest: float, base: float | None) -> None:
    cell, palette = row.ranked.cells[SPEED.name], theme().palette
    if cell.value is None or longest <= 0:
        paint_words(painter, room, "no throughput", Look(ink="text3"))
        return
    scale, middle = (room.width() - _GAP) / longest, room.center().y()
    bar = QRectF(room.left(), middle - _BAR / 2, max(1.0, cell.value * scale), _BAR)
    ink = QColor(palette.look(row.ranked.side.precision).color)
    if row.ranked.is_disturbed:
        painter.setPen(QPen(ink, 1))
        painter.setBrush(QBrush(ink, Qt.BrushStyle.BDiagPattern))
        painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5))
    else:
        painter.fillRect(bar, ink)
    if base is not None:
        place = round(room.left() + base * scale) + 0.5
        pen = QPen(QColor(palette.text), 1)
        pen.setDashPattern([1, 3])
        painter.setPen(pen)
        painter.drawLine(QPointF(place, room.top()), QPointF(place, room.bottom()))
    if cell.interval is not None:
        low, high = (min(room.left() + edge * scale, room.right()) for edge in cell.interval)
        painter.setPen(QPen(QColor(palette.text), _WHISKER))
        painter.drawLine(QPointF(low, middle), QPointF(high, middle))
        for edge in (low, high):
            painter.drawLine(QPointF(edge, middle - 4), QPointF(edge, middle + 4))
