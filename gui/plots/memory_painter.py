"""Paints the chart of the memory limit into a rectangle: hatch, limit, lines, trials and what was found."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF

from gui.fonts import font
from gui.icons import draw_icon
from gui.plots.frame import dashed
from gui.plots.memory_scale import (
    MemoryContent,
    MemorySide,
    failed_place,
    forecast_points,
    memory_range,
)
from gui.plots.ticks import linear_ticks
from gui.tokens import Palette
from gui.widgets import draw_marker, precision_pen

_HATCH_PITCH = 8
_CROSS = 14.0
_FORECAST_DASH = (1.0, 2.5)
"""Dots of 2 px, 5 px apart, counted in widths of the 2 px pen."""
_NAME_SHARE = 0.6
"""How far along its line a name stands: further out the lines are further apart."""
_RATIO_ROOM, _RATIO_LEVEL, _ANSWER_LEVEL = 56.0, 0.075, 9.0


class MemoryPainter:
    """One picture of `content`, its axes beginning at the lower left corner of `area`."""

    def __init__(self, painter: QPainter, content: MemoryContent, area: QRectF, palette: Palette) -> None:
        self._painter, self._content, self._area, self._palette = painter, content, area, palette
        self._reach = memory_range(content)

    def paint(self) -> None:
        """Everything, from behind to the front."""
        self._paint_grid()
        if self._content.capacity_gib:
            self._paint_hatch(self._content.capacity_gib)
        painter = self._painter
        painter.save()
        painter.setClipRect(self._area.adjusted(0, 0, 1, 0))
        for side in self._content.sides:
            self._paint_lines(side)
        painter.restore()
        if self._content.capacity_gib:
            self._paint_capacity(self._content.capacity_gib)
        self._paint_answers()
        for side in self._content.sides:
            self._paint_trials(side)
        self._paint_names()

    def place(self, batch: float, gib: float) -> QPointF:
        """A point of the chart in pixels."""
        x = self._area.left() + batch / self._reach.batches * self._area.width()
        return QPointF(x, self._area.bottom() - gib / self._reach.gib * self._area.height())

    def _paint_grid(self) -> None:
        painter, area = self._painter, self._area
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setFont(font(11))
        metrics = QFontMetricsF(painter.font())
        for tick in linear_ticks(0.0, self._reach.gib, max(2, int(area.height() / 52))):
            level = round(self.place(0, tick.position).y()) + 0.5
            if level < area.bottom() - 1:
                painter.setPen(QPen(QColor(self._palette.grid), 1))
                painter.drawLine(QPointF(area.left(), level), QPointF(area.right(), level))
            painter.setPen(QColor(self._palette.text3))
            left = area.left() - 9 - metrics.horizontalAdvance(tick.text)
            painter.drawText(QPointF(left, level + 4), tick.text)
        painter.setPen(QPen(QColor(self._palette.line2), 1))
        bottom = round(area.bottom()) + 0.5
        painter.drawLine(QPointF(area.left(), bottom), QPointF(area.right(), bottom))
        painter.setPen(QColor(self._palette.text3))
        widest = metrics.horizontalAdvance(f"{self._reach.batches:,.0f}") + 32
        for tick in linear_ticks(0.0, self._reach.batches, max(1, int(area.width() / widest)), whole=True):
            place = self.place(tick.position, 0).x()
            half = metrics.horizontalAdvance(tick.text) / 2
            painter.drawText(
                QPointF(min(place - half, area.right() - 2 * half), area.bottom() + 17), tick.text
            )

    def _paint_hatch(self, capacity_gib: float) -> None:
        level = self.place(0, capacity_gib).y()
        room = QRectF(self._area.left(), self._area.top(), self._area.width(), level - self._area.top())
        painter = self._painter
        painter.save()
        painter.setClipRect(room)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._palette.hatch), 1))
        # the pitch is measured across the strokes
        pitch = _HATCH_PITCH * 2**0.5 / 2
        count = int((room.width() + room.height()) / pitch) + 1
        strokes = [
            QLineF(
                room.left() + number * pitch, room.top(), room.left() + number * pitch - room.height(), level
            )
            for number in range(count)
        ]
        painter.drawLines(strokes)
        painter.restore()
        self._write_on(
            QPointF(room.left() + 9, room.top() + 16), "does not fit", 12, 400, self._palette.text2
        )

    def _paint_capacity(self, capacity_gib: float) -> None:
        level = round(self.place(0, capacity_gib).y())
        self._painter.setPen(QPen(QColor(self._palette.text), 2))
        self._painter.drawLine(QPointF(self._area.left(), level), QPointF(self._area.right(), level))
        text = self._content.capacity_text
        width = QFontMetricsF(font(12, 600)).horizontalAdvance(text)
        left, right = self._area.left() + 9, self._area.right() - 9 - width
        # over the line, where no trial that failed stands in the way; else under it
        failed = self._failed_places()
        free = [
            start
            for start in (left, right)
            if not any(start - _CROSS < place < start + width + _CROSS for place in failed)
        ]
        at = QPointF(free[0], level - 8) if free else QPointF(left, level + 17)
        self._write_on(at, text, 12, 600, self._palette.text)

    def _failed_places(self) -> list[float]:
        return [self.place(batch, 0).x() for side in self._content.sides for batch in side.failed]

    def _paint_lines(self, side: MemorySide) -> None:
        painter = self._painter
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        color = QColor(self._palette.look(side.precision).color)
        last = side.passed[-1][0] if side.passed else 0
        if self._content.shows_forecast:
            pen = QPen(color, 2, c=Qt.PenCapStyle.FlatCap)
            pen.setDashPattern(list(_FORECAST_DASH))
            painter.setPen(pen)
            first = side.passed[0][0] if side.passed else 0
            points = forecast_points(side, self._reach)
            # where trials are joined by a line, the forecast would only blur it
            for part in ([p for p in points if p[0] <= first], [p for p in points if p[0] >= last]):
                painter.drawPolyline(QPolygonF([self.place(*point) for point in part]))
        painter.setPen(precision_pen(side.precision, 2.0))
        painter.drawPolyline(QPolygonF([self.place(*point) for point in side.passed]))

    def _paint_trials(self, side: MemorySide) -> None:
        painter, look = self._painter, self._palette.look(side.precision)
        for batch, gib in side.passed:
            center = self.place(batch, gib)
            draw_marker(painter, center, side.precision, 12, color=self._palette.bg1)
            draw_marker(painter, center, side.precision, 10)
        for batch in side.failed:
            level = failed_place(batch, side, self._content, self._reach)
            center = self.place(min(batch, self._reach.batches * 0.985), level)
            square = QRectF(center.x() - _CROSS / 2, center.y() - _CROSS / 2, _CROSS, _CROSS)
            painter.fillRect(square.adjusted(3, 3, -3, -3), QColor(self._palette.bg1))
            draw_icon(painter, square, "cross-outline", look.color)
            if batch > self._reach.batches:
                text = f"{batch:,} →"
                width = QFontMetricsF(font(11)).horizontalAdvance(text)
                self._write_on(center + QPointF(-width - 10, 4), text, 11, 500, look.color)
        if side.trying is not None and side.trying <= self._reach.batches:
            place = round(self.place(side.trying, 0).x()) + 0.5
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            painter.setPen(dashed(look.color, (2, 3)))
            painter.drawLine(QPointF(place, self._area.top()), QPointF(place, self._area.bottom()))

    def _paint_answers(self) -> None:
        painter = self._painter
        for side in self._content.sides:
            if not side.answer:
                continue
            level = next((gib for batch, gib in side.passed if batch == side.answer), 0.0)
            top = self.place(side.answer, level)
            place = round(top.x()) + 0.5
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            painter.setPen(dashed(self._palette.text2, (2, 3)))
            painter.drawLine(QPointF(place, top.y()), QPointF(place, self._area.bottom()))
            text = f"{side.answer:,}"
            width = QFontMetricsF(font(13, 600)).horizontalAdvance(text)
            left = QPointF(max(self._area.left() + 4, place - width - 6), self._area.bottom() - _ANSWER_LEVEL)
            self._write_on(left, text, 13, 600, self._palette.look(side.precision).color)
        if self._content.ratio is not None:
            self._paint_ratio(*self._content.ratio)

    def _paint_ratio(self, low: int, high: int, words: str) -> None:
        left, right = self.place(min(low, high), 0).x(), self.place(max(low, high), 0).x()
        width = QFontMetricsF(font(13, 600)).horizontalAdvance(words)
        if right - left < width + _RATIO_ROOM:
            return
        level = round(self._area.bottom() - max(40.0, _RATIO_LEVEL * self._area.height())) + 0.5
        middle = (left + right) / 2
        painter = self._painter
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self._palette.text2), 1))
        painter.drawLine(QPointF(left, level), QPointF(middle - width / 2 - 8, level))
        painter.drawLine(QPointF(middle + width / 2 + 8, level), QPointF(right, level))
        for edge in (left, right):
            painter.drawLine(QPointF(round(edge) + 0.5, level - 4), QPointF(round(edge) + 0.5, level + 4))
        self._write(QPointF(middle - width / 2, level + 5), words, 13, 600, self._palette.text)

    def _paint_names(self) -> None:
        """Each precision's name beside its line, which colour alone must not tell."""
        for side in self._content.sides:
            if len(side.passed) < 2:
                continue
            (low, less), (high, more) = side.passed[0], side.passed[-1]
            share = _NAME_SHARE
            middle = self.place(low + share * (high - low), less + share * (more - less))
            width = QFontMetricsF(font(12, 600)).horizontalAdvance(side.label)
            left = max(self._area.left() + 4, middle.x() - width - 12)
            color = self._palette.look(side.precision).color
            self._write_on(QPointF(left, middle.y() - 8), side.label, 12, 600, color)

    def _write(self, at: QPointF, text: str, size: int, weight: int, color: str) -> None:
        self._painter.setFont(font(size, weight))
        self._painter.setPen(QColor(color))
        self._painter.drawText(at, text)

    def _write_on(self, at: QPointF, text: str, size: int, weight: int, color: str) -> None:
        """The text with a rim of the ground, so that neither hatch nor line runs through it."""
        rim = QPainterPath()
        rim.addText(at, font(size, weight), text)
        self._painter.save()
        self._painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._painter.strokePath(rim, QPen(QColor(self._palette.bg1), 5, j=Qt.PenJoinStyle.RoundJoin))
        self._painter.restore()
        self._write(at, text, size, weight, color)
