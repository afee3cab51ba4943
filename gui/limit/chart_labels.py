"""The labels on the chart of the memory limit: the limit, the answers, their ratio, the curves' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen

from engine.protocol.trials import LimitSide
from gui.charts.frame import dashed
from gui.charts.text_places import TextPlaces
from gui.limit.chart_content import MemoryContent
from gui.theme.fonts import font
from gui.theme.stylesheet import Palette

_NAME_SHARES = (0.6, 0.5, 0.7, 0.4, 0.8, 0.3, 0.9, 0.2)
"""Where along its line a name may stand, best first: further out the lines are further apart."""
_GAP = 10.0
_RATIO_ROOM, _RATIO_LEVEL, _ANSWER_LEVEL = 56.0, 0.075, 9.0


class MemoryLabels:
    """Writes where `places` has room; `place` maps a batch and GiB to a point of the picture."""

    def __init__(
        self,
        painter: QPainter,
        content: MemoryContent,
        area: QRectF,
        palette: Palette,
        place: Callable[[float, float], QPointF],
        places: TextPlaces,
    ) -> None:
        self._painter, self._content, self._area = painter, content, area
        self._palette, self._place, self._places = palette, place, places

    def paint(self) -> None:
        """Paints all labels, the indispensable ones first."""
        if self._content.capacity_gib:
            self._write("does not fit", [QPointF(self._area.left() + 9, self._area.top() + 16)], 12, 400)
        for side in self._content.sides:
            if side.answer:
                self._paint_answer(side, side.answer)
        if self._content.ratio is not None:
            self._paint_ratio(*self._content.ratio)
        if self._content.capacity_gib:
            self._paint_capacity(*self._content.capacity_words, self._content.capacity_gib)
        for side in self._content.sides:
            self._paint_name(side)

    def _paint_answer(self, side: LimitSide, answer: int) -> None:
        level = next((gib for batch, gib in side.passed if batch == answer), 0.0)
        top = self._place(answer, level)
        place = round(top.x()) + 0.5
        ends = [QPointF(place, top.y()), QPointF(place, self._area.bottom())]
        self._painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        self._painter.setPen(dashed(self._palette.text2, (2, 3)))
        self._painter.drawLine(*ends)
        words, base = f"{answer:,}", self._area.bottom() - _ANSWER_LEVEL
        left = max(self._area.left() + 4, place - _width(words, 13) - 6)
        self._write(words, [QPointF(left, base)], 13, 600, side, stays=True)
        self._places.cross_not(ends)

    def _paint_ratio(self, low: int, high: int, words: str) -> None:
        left, right = self._place(min(low, high), 0).x(), self._place(max(low, high), 0).x()
        width = _width(words, 13)
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
        self._write(words, [QPointF(middle - width / 2, level + 5)], 13, 600, stays=True)
        self._places.take(QRectF(left, level - 8, right - left, 16))

    def _paint_capacity(self, name: str, more: str, capacity_gib: float) -> None:
        level = round(self._place(0, capacity_gib).y())
        # above the line where no trial is in the way, else below it, else shorter
        for text in dict.fromkeys((name + more, name)):
            left, right = self._area.left() + 9, self._area.right() - 9 - _width(text, 12)
            wanted = [QPointF(x, y) for y in (level - 8, level + 17) for x in (left, right)]
            if self._write(text, wanted, 12, 600, stays=text == name):
                return

    def _paint_name(self, side: LimitSide) -> None:
        """Writes the precision's name beside its line, which colour alone must not identify."""
        if len(side.passed) > 1:
            self._write(side.label, list(self._beside(side)), 12, 600, side)

    def _beside(self, side: LimitSide) -> Iterator[QPointF]:
        (low, less), (high, more) = side.passed[0], side.passed[-1]
        width = _width(side.label, 12)
        for share in _NAME_SHARES:
            on_line = self._place(low + share * (high - low), less + share * (more - less))
            yield on_line + QPointF(-width - _GAP, -8)
            yield on_line + QPointF(_GAP, 18)

    def _write(
        self,
        words: str,
        wanted: list[QPointF],
        size: int,
        weight: int,
        side: LimitSide | None = None,
        *,
        stays: bool = False,
    ) -> bool:
        """Writes at the first baseline with room, or, if it `stays`, at the first; whether it was written.

        A rim in the ground's colour keeps hatch and lines away from the text.
        """
        metrics = QFontMetricsF(font(size, weight))
        height, width = metrics.capHeight() + 6, metrics.horizontalAdvance(words)
        rects = [QRectF(at.x(), at.y() - height + 3, width, height) for at in wanted]
        free = self._places.first_free(rects)
        if free is None and not stays:
            return False
        rect = free or rects[0]
        self._places.take(rect)
        at = QPointF(rect.left(), rect.bottom() - 3)
        painter, rim = self._painter, QPainterPath()
        rim.addText(at, font(size, weight), words)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.strokePath(rim, QPen(QColor(self._palette.bg1), 5, j=Qt.PenJoinStyle.RoundJoin))
        painter.setFont(font(size, weight))
        quiet = self._palette.text if weight >= 600 else self._palette.text2
        painter.setPen(QColor(self._palette.look(side.precision).color if side is not None else quiet))
        painter.drawText(at, words)
        return True


def _width(words: str, size: int) -> float:
    return QFontMetricsF(font(size, 600)).horizontalAdvance(words)
