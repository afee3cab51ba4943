"""The chart of the memory limit: peak memory by batch size, with a point for each trial."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.protocol.trials import LimitSide
from engine.words.numbers import linear_ticks
from gui.charts.frame import dashed
from gui.charts.text_places import TextPlaces
from gui.limit.chart_content import MemoryContent, failed_place, forecast_points, memory_range
from gui.limit.chart_labels import MemoryLabels
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.stylesheet import Palette
from gui.theme.theme import theme
from gui.widgets import draw_marker, precision_pen

_HATCH_PITCH = 8
_CROSS, _MARKER = 14.0, 12.0
_FORECAST_DASH = (1.0, 2.5)
"""Dots of 2 px, 5 px apart, in widths of the 2 px pen."""


class MemoryPainter:
    """Paints `content` once, with the axes' origin in the lower left corner of `area`."""

    def __init__(self, painter: QPainter, content: MemoryContent, area: QRectF, palette: Palette) -> None:
        self._painter, self._content, self._area, self._palette = painter, content, area, palette
        self._reach = memory_range(content)
        self._places = TextPlaces(area)

    def paint(self) -> None:
        """Paints everything, from back to front."""
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
        crosses = self.crosses()
        for _, _, center in crosses:
            self._places.take_around(center, _CROSS)
        for side in self._content.sides:
            for trial in side.passed:
                self._places.take_around(self.place(*trial), _MARKER)
        MemoryLabels(painter, self._content, self._area, self._palette, self.place, self._places).paint()
        for side in self._content.sides:
            self._paint_passed(side)
        for side, batch, center in crosses:
            self._paint_cross(side, batch, center)

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
        # the pitch is perpendicular to the strokes
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

    def _paint_capacity(self, capacity_gib: float) -> None:
        level = round(self.place(0, capacity_gib).y())
        self._painter.setPen(QPen(QColor(self._palette.text), 2))
        ends = [QPointF(self._area.left(), level), QPointF(self._area.right(), level)]
        self._painter.drawLine(*ends)
        self._places.cross_not(ends)

    def _paint_lines(self, side: LimitSide) -> None:
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
            # between trials there is a line, which the forecast would only blur
            for part in ([p for p in points if p[0] <= first], [p for p in points if p[0] >= last]):
                self._draw_curve(part)
        painter.setPen(precision_pen(side.precision, 2.0))
        self._draw_curve(list(side.passed))

    def _draw_curve(self, points: list[tuple[float, float]]) -> None:
        places = [self.place(*point) for point in points]
        self._painter.drawPolyline(QPolygonF(places))
        self._places.cross_not(places)

    def crosses(self) -> list[tuple[LimitSide, int, QPointF]]:
        """The places of the failed trials; one that would hide another is moved above it."""
        crosses: list[tuple[LimitSide, int, QPointF]] = []
        for side in self._content.sides:
            for batch in sorted(set(side.failed)):
                level = failed_place(batch, side, self._content, self._reach)
                center = self.place(min(batch, self._reach.batches * 0.985), level)
                while any(_hides(center, other) for _, _, other in crosses) and center.y() > self._area.top():
                    center -= QPointF(0, _CROSS)
                crosses.append((side, batch, center))
        return crosses

    def _paint_passed(self, side: LimitSide) -> None:
        painter = self._painter
        for batch, gib in side.passed:
            center = self.place(batch, gib)
            draw_marker(painter, center, side.precision, 12, color=self._palette.bg1)
            draw_marker(painter, center, side.precision, 10)
        if side.trying is not None and side.trying <= self._reach.batches:
            place = round(self.place(side.trying, 0).x()) + 0.5
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            painter.setPen(dashed(self._palette.look(side.precision).color, (2, 3)))
            painter.drawLine(QPointF(place, self._area.top()), QPointF(place, self._area.bottom()))

    def _paint_cross(self, side: LimitSide, batch: int, center: QPointF) -> None:
        painter, color = self._painter, self._palette.look(side.precision).color
        square = QRectF(center.x() - _CROSS / 2, center.y() - _CROSS / 2, _CROSS, _CROSS)
        painter.fillRect(square.adjusted(3, 3, -3, -3), QColor(self._palette.bg1))
        draw_icon(painter, square, "cross-outline", color)
        if batch > self._reach.batches:
            text = f"{batch:,} →"
            painter.setFont(font(11, 500))
            painter.setPen(QColor(color))
            width = QFontMetricsF(painter.font()).horizontalAdvance(text)
            painter.drawText(center + QPointF(-width - 10, 4), text)


def _hides(center: QPointF, other: QPointF) -> bool:
    return abs(center.x() - other.x()) < _CROSS - 1 and abs(center.y() - other.y()) < _CROSS - 1


_LEFT, _RIGHT, _TOP, _BOTTOM, _X_TITLE = 44.0, 10.0, 32.0, 26.0, 24.0
_LEGEND_BASELINE, _LEGEND_MIDDLE, _SAMPLE = 14.0, 10.0, 28.0
_GAP, _TIGHT_GAP, _NARROW = 24.0, 8.0, 480
_LOW = 260


class MemoryChart(QWidget):
    """The chart with its legend and axis title."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = MemoryContent()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(220, 160)
        theme().changed.connect(self.update)

    def show_content(self, content: MemoryContent, description: str) -> None:
        """Shows these trials; `description` is the same in words, for screen readers."""
        self.setAccessibleName(description or "Peak memory by batch size")
        if content != self._content:
            self._content = content
            self.update()

    def content(self) -> MemoryContent:
        return self._content

    def sizeHint(self) -> QSize:
        return QSize(680, 480)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette = QPainter(self), theme().palette
        if not self._content.sides:
            painter.end()
            return
        self._paint_legend(painter)
        title = _X_TITLE if self.height() >= _LOW else 8.0
        area = QRectF(_LEFT, _TOP, self.width() - _LEFT - _RIGHT, self.height() - _TOP - _BOTTOM - title)
        MemoryPainter(painter, self._content, area, palette).paint()
        if title == _X_TITLE:
            words = "batch size, in samples"
            painter.setFont(font(11))
            painter.setPen(QColor(palette.text3))
            width = QFontMetricsF(painter.font()).horizontalAdvance(words)
            painter.drawText(QPointF(area.right() - width, self.height() - 8), words)
        painter.end()

    def _paint_legend(self, painter: QPainter) -> None:
        palette, left = theme().palette, 0.0
        painter.setFont(font(12))
        for side in self._content.sides:
            painter.setPen(precision_pen(side.precision))
            painter.drawLine(QPointF(left, _LEGEND_MIDDLE), QPointF(left + _SAMPLE, _LEGEND_MIDDLE))
            draw_marker(painter, QPointF(left + _SAMPLE / 2, _LEGEND_MIDDLE), side.precision, 8)
            left = self._word(painter, left + _SAMPLE + 8, side.label)
        if self._content.shows_forecast and any(side.lines for side in self._content.sides):
            pen = QPen(QColor(palette.text2), 2, c=Qt.PenCapStyle.FlatCap)
            pen.setDashPattern([1.0, 2.5])
            painter.setPen(pen)
            painter.drawLine(QPointF(left, _LEGEND_MIDDLE), QPointF(left + _SAMPLE, _LEGEND_MIDDLE))
            left = self._word(painter, left + _SAMPLE + 8, "forecast")
        if any(side.failed for side in self._content.sides):
            draw_icon(painter, QRectF(left, 3, 14, 14), "cross-outline", palette.text2)
            self._word(painter, left + 20, "did not fit")

    def _word(self, painter: QPainter, left: float, text: str) -> float:
        gap = _TIGHT_GAP if self.width() < _NARROW else _GAP
        painter.setPen(QColor(theme().palette.text2))
        painter.drawText(QPointF(left, _LEGEND_BASELINE), text)
        return left + QFontMetricsF(painter.font()).horizontalAdvance(text) + gap
