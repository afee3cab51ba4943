"""The chart of the memory limit: batch size against peak memory, each trial a point."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.fonts import font
from gui.icons import draw_icon
from gui.plots.memory_painter import MemoryPainter
from gui.plots.memory_scale import MemoryContent
from gui.theme import theme
from gui.widgets import draw_marker, precision_pen

_LEFT, _RIGHT, _TOP, _BOTTOM, _X_TITLE = 44.0, 10.0, 32.0, 26.0, 24.0
_LEGEND_BASELINE, _LEGEND_MIDDLE, _SAMPLE = 14.0, 10.0, 28.0
_GAP, _TIGHT_GAP, _NARROW = 24.0, 8.0, 480
_LOW = 260


class MemoryChart(QWidget):
    """Painted whole whenever its content changes, which a trial takes seconds to do."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = MemoryContent()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(220, 160)
        theme().changed.connect(self.update)

    def show_content(self, content: MemoryContent, spoken: str) -> None:
        """Shows these trials; `spoken` says the same in words, for those who do not see it."""
        self.setAccessibleName(spoken or "Peak memory by batch size")
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
            words = "batch size, samples at once"
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
