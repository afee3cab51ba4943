"""The ranking of a comparison of three or more sides: a table with a side per row and a bar for its speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen, QResizeEvent

from engine.compare.comparison import Comparison
from engine.compare.metrics import LOSS, SPEED, MetricRow
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

_ROW_HEIGHT, _HEADING_HEIGHT, _SIZE, _HEADING = 32, 36, 13, 11
_RANK, _LEAST_BAR, _BAR, _TAG = 30, 64, 14, 16
_MARKER, _GAP, _EDGE, _TAG_PADDING, _WHISKER = 8, 6, 4, 5, 1.5
_MOST_NAME = 170
_STRONG = ("worse", "better")
_FULL, _BRIEF, _BARE = 0, 1, 2
"""Levels of detail: all, without the intervals, and without ratios and units too. Tooltips have the rest."""


@dataclass(frozen=True)
class _Row:
    ranked: RankedSide
    fill: MarkFill
    texts: dict[str, MetricText]

    @property
    def ink(self) -> str:
        return "text" if self.ranked.place is not None else "text3"


class SidesTable(ResultTable[_Row]):
    """A table of metrics with a side per row. In little room intervals and ratios are in tooltips only."""

    def __init__(self, name: str) -> None:
        self._comparison: Comparison | None = None
        self._metrics: tuple[RankingColumn, ...] = ()
        self._headline: str | None = None
        self._level, self._has_bars, self._names = _FULL, False, 0
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
        self._has_bars = True
        self._show(comparison, ranking_columns(comparison, ranking(comparison)))

    def show_further(self, comparison: Comparison) -> None:
        """Show the metrics that are not in the ranking."""
        self._show(comparison, further_columns(comparison, ranking(comparison)))

    def set_headline(self, side_id: str | None) -> None:
        """Shade the row of this side only."""
        self._headline = side_id
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        level = self._fitting_level(event.size().width())
        if level != self._level:
            self._level = level
            self.show_rows(self.row_model.given, self._made_columns())
        super().resizeEvent(event)

    def _show(self, comparison: Comparison, metrics: tuple[RankingColumn, ...]) -> None:
        self._comparison, self._metrics = comparison, metrics
        fills, sides = side_fills(comparison.sides), ranking(comparison)
        rows = [
            _Row(side, fills[side.side.id], {metric.key: metric.texts[place] for metric in metrics})
            for place, side in enumerate(sides)
        ]
        self._names = max(map(_name_width, rows))
        self._level = self._fitting_level(self.viewport().width())
        self.show_rows(rows, self._made_columns())

    def _fitting_level(self, room: int) -> int:
        least = _RANK + self._names + _LEAST_BAR * self._has_bars

        def fits(level: int) -> bool:
            return least + sum(_width(metric, level, self._has_bars) for metric in self._metrics) <= room

        return next(filter(fits, (_FULL, _BRIEF)), _BARE)

    def _made_columns(self) -> list[Column[_Row]]:
        comparison = self._comparison
        if comparison is None:
            return []
        rank = Column[_Row](
            "Rank",
            lambda row: str(row.ranked.place or NONE),
            lambda row: row.ranked.place,
            width=_RANK,
            is_number=True,
            look=lambda row: Look(ink="text3"),
            paint_heading=lambda painter, room: None,
        )
        name = Column[_Row](
            "Side",
            lambda row: " ".join((row.ranked.side.title, *row.ranked.tags)),
            paint=_paint_name,
            width=self._names,
            widest=0 if self._has_bars else GROWS,
            about=lambda row: heading_tip(row.ranked.report),
            paint_heading=partial(_paint_heading, title="Side", units=(), is_right=False),
        )
        bars = [self._bars(comparison)] if self._has_bars else []
        metrics = (self._metric(comparison, metric) for metric in self._metrics)
        return [rank, name, *bars, *metrics]

    def _bars(self, comparison: Comparison) -> Column[_Row]:
        speed = next(row for row in comparison.metrics if row.metric.name == SPEED.name)
        sides = ranking(comparison)
        known = [(side.cells[SPEED.name].value, side.cells[SPEED.name].interval) for side in sides]
        longest = longest_bar(known)
        base = next(side.cells[SPEED.name].value for side in sides if side.report.is_baseline)
        note = ", ".join(filter(None, (speed.metric.unit, speed_note(speed))))
        return Column[_Row](
            "Throughput",
            lambda row: "",
            lambda row: row.ranked.cells[SPEED.name].value,
            note,
            partial(_paint_bar, longest=longest, base=base),
            width=_LEAST_BAR,
            widest=GROWS,
            paint_heading=partial(
                _paint_heading,
                # in little room the unit says what the bars are
                title=speed.metric.unit if self._level == _BARE else "Throughput",
                units=() if self._level == _BARE else (note, speed.metric.unit),
                is_right=False,
            ),
        )

    def _metric(self, comparison: Comparison, metric: RankingColumn) -> Column[_Row]:
        note = _note_width(metric, self._level)
        name = SPEED.name if metric.key == "ratio" else metric.key
        found = {row.metric.name: row for row in comparison.metrics}
        is_speed = metric.key == SPEED.name and self._has_bars

        def sort_value(row: _Row) -> float | None:
            cell = row.ranked.cells[name]
            return cell.ratio if metric.key == "ratio" else cell.value

        return Column[_Row](
            metric.title if not is_speed else metric.unit,
            lambda row: f"{row.texts[metric.key]} {_note(row.texts[metric.key])}".strip(),
            sort_value,
            ", ".join(filter(None, (metric.title, metric.unit))),
            partial(_paint_metric, key=metric.key, note=note),
            width=_width(metric, self._level, self._has_bars),
            is_number=True,
            about=partial(_tip, rows=found, name=name),
            paint_heading=partial(
                _paint_heading,
                title="" if is_speed else metric.title,
                units=() if is_speed or self._level == _BARE else _units(metric),
                is_right=True,
            ),
        )


def _tip(row: _Row, rows: dict[str, MetricRow], name: str) -> str:
    report = row.ranked.report
    return metric_tip(rows[name].metric, row.ranked.cells[name], report)


def _units(metric: RankingColumn) -> tuple[str, ...]:
    """Return the unit in full, and shorter for a narrow column."""
    return metric.unit, metric.unit.removesuffix(" samples")


def _note(text: MetricText) -> str:
    return " ".join(filter(None, (text.relation, text.interval)))


def _note_width(metric: RankingColumn, level: int) -> int:
    is_kept = level == _FULL or metric.key == LOSS.name
    if not is_kept and (level == _BARE or metric.key in (SPEED.name, "ratio")):
        return 0
    return max(text_width(note, 600) if (note := _note(text)) else 0 for text in metric.texts)


def _width(metric: RankingColumn, level: int, has_bars: bool) -> int:
    value = max(text_width(str(text), 600, _SIZE) for text in metric.texts)
    note = _note_width(metric, level)
    titled = 0
    if metric.key != SPEED.name or not has_bars:
        unit = "" if level == _BARE else _units(metric)[level]
        titled = text_width(metric.title, 500, _HEADING)
        titled += text_width(unit, 400, _HEADING) + _GAP if unit else 0
    return max(value + (note + _GAP if note else 0), titled) + 2 * (PADDING + _EDGE)


def _name_width(row: _Row) -> int:
    tags = sum(text_width(tag, 500, _HEADING) + 2 * _TAG_PADDING + _GAP for tag in row.ranked.tags)
    title = min(_MOST_NAME, text_width(row.ranked.side.title, 600, _SIZE))
    return title + _MARKER + 2 * _GAP + tags + 2 * PADDING + _EDGE


def _paint_heading(painter: QPainter, room: QRectF, title: str, units: Sequence[str], is_right: bool) -> None:
    words, end = text_width(title, 500, _HEADING), room.right() - _EDGE
    widths = {unit: text_width(unit, 400, _HEADING) + _GAP for unit in units if unit}
    unit = next((unit for unit, width in widths.items() if words + width <= end - room.left()), "")
    left = max(room.left(), end - words - widths.get(unit, 0)) if is_right else room.left()
    for text, start, look in (
        (title, left, Look(500, "text2", size=_HEADING)),
        (unit, left + words + _GAP, Look(400, "text3", size=_HEADING)),
    ):
        paint_words(painter, QRectF(start, room.top(), end - start + 1, room.height()), text, look)


def _paint_name(painter: QPainter, room: QRectF, row: _Row) -> None:
    palette, middle, side = theme().palette, room.center().y(), row.ranked.side
    draw_marker(painter, QPointF(room.left() + _MARKER / 2, middle), side.precision, _MARKER, fill=row.fill)
    left = room.left() + _MARKER + 2 * _GAP - 2
    width = min(_MOST_NAME, text_width(side.title, 600, _SIZE), int(room.right() - left))
    look = Look(600, row.ink, size=_SIZE)
    paint_words(painter, QRectF(left, room.top(), width + 1, room.height()), side.title, look)
    left += width + _GAP + 2
    for tag in row.ranked.tags:
        inside = text_width(tag, 500, _HEADING)
        box = QRectF(round(left) + 0.5, round(middle - _TAG / 2) + 0.5, inside + 2 * _TAG_PADDING, _TAG - 1)
        if box.right() > room.right():
            return
        is_first = tag == "fastest"
        pen = QPen(QColor(palette.text if is_first else palette.line2), 1)
        if tag not in ("fastest", "baseline"):
            pen.setDashPattern([2, 2])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 4, 4)
        words = QRectF(box.left() + _TAG_PADDING, room.top(), inside + 1, room.height())
        paint_words(painter, words, tag, Look(500, "text" if is_first else "text2", size=_HEADING))
        left = box.right() + _GAP


def _paint_bar(painter: QPainter, room: QRectF, row: _Row, longest: float, base: float | None) -> None:
    cell, palette = row.ranked.cells[SPEED.name], theme().palette
    if cell.value is None or longest <= 0:
        paint_words(painter, room, "no throughput", Look(ink="text3"))
        return
    scale, middle = (room.width() - 2 * _EDGE) / longest, room.center().y()
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


def _paint_metric(painter: QPainter, room: QRectF, row: _Row, key: str, note: int) -> None:
    text = row.texts[key]
    right = room.right() - _EDGE
    ink = "text3" if not text.is_sound else row.ink
    is_pale = text.is_inconclusive or not text.is_sound
    if note:
        words = _note(text)
        is_strong = words in _STRONG and row.ranked.place is not None
        look = Look(600 if is_strong else 400, row.ink if is_strong else "text3")
        left = right - note
        paint_words(painter, QRectF(left, room.top(), note + 1, room.height()), words, look)
        right = left - _GAP
    value = QRectF(room.left(), room.top(), right - room.left(), room.height())
    paint_words(painter, value, str(text), Look(400 if is_pale else 600, ink, size=_SIZE), is_right=True)
