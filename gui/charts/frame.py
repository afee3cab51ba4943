"""The frame of a plot: axes, marks and words, and how they are painted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from engine.drawing.chart_parts import Rect, TextPlaces
from engine.words.numbers import Tick
from gui.theme.fonts import font
from gui.theme.stylesheet import Palette

_SKIP_WIDTH, _SKIP_HEIGHT = 2.0, 10.0
_LEAST_HEIGHT_FOR_WORDS = 60.0
_BETWEEN_TEXTS = 6.0


@dataclass(frozen=True)
class Capacity:
    """A horizontal line for a limit, such as a GPU's memory, at `position` in view coordinates.

    For None it is drawn at the top edge.
    """

    text: str
    position: float | None = None


@dataclass(frozen=True)
class Note:
    """A text next to the point (`x`, `y`), in view coordinates. It is omitted if there is no room."""

    x: float
    y: float
    text: str
    color: str


@dataclass(frozen=True)
class Mark:
    """A labeled vertical line at one x of a plot."""

    x: float
    text: str
    color: str


@dataclass(frozen=True)
class Frame:
    """Everything in a plot except the curves: axes, ticks, limits, marks and notes, in view coordinates.

    The warm-up is shaded up to `shade_until`. `skips` are the x and the color of each skipped step. `hint` is
    shown in the middle of an empty plot.
    """

    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    shade_until: float | None = None
    shade_text: str = ""
    skips: tuple[tuple[float, str], ...] = ()
    capacity: Capacity | None = None
    notes: tuple[Note, ...] = ()
    marks: tuple[Mark, ...] = ()
    hint: str = ""


def dashed(color: str, pattern: tuple[float, ...]) -> QPen:
    """Return a pen one pixel wide with dash lengths in pixels."""
    pen = QPen(QColor(color), 1)
    pen.setDashPattern(list(pattern))
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


Trace = tuple[NDArray[np.float64], NDArray[np.float64]]
"""x, rising, and y of the drawn lines, in the view's coordinates, with NaN for gaps."""


class FramePainter:
    """Paints a `Frame` around the rectangle `area` (in pixels) that holds the curves.

    Its texts do not cover the lines in `traces`.
    """

    def __init__(
        self, painter: QPainter, frame: Frame, area: QRectF, palette: Palette, traces: Sequence[Trace] = ()
    ) -> None:
        self._painter, self._frame, self._area, self._palette = painter, frame, area, palette
        self._room = Rect(area.left(), area.top(), area.right(), area.bottom())
        self._traces = traces
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setFont(font(11))
        self._metrics = QFontMetricsF(painter.font())

    def x(self, position: float) -> float:
        low, high = self._frame.x_range
        return self._area.left() + (position - low) / (high - low) * self._area.width()

    def y(self, position: float) -> float:
        low, high = self._frame.y_range
        return self._area.bottom() - (position - low) / (high - low) * self._area.height()

    def paint_behind(self) -> None:
        """Paint everything below the curves: warm-up shade, grid, axis line and tick texts."""
        self._paint_shade()
        painter, area, frame = self._painter, self._area, self._frame
        painter.setPen(QPen(QColor(self._palette.grid), 1))
        for tick in frame.y_ticks:
            level = round(self.y(tick.position)) + 0.5
            if level < area.bottom() - 1:
                self._draw_across(level)
        painter.setPen(QPen(QColor(self._palette.line2), 1))
        self._draw_across(round(area.bottom()) + 0.5)
        painter.setPen(QColor(self._palette.text3))
        for tick in frame.y_ticks:
            level = self.y(tick.position)
            if area.top() - 4 <= level <= area.bottom() + 1:
                left = max(0.0, area.left() - 8 - self._width(tick.text))
                painter.drawText(QPointF(left, level + self._metrics.capHeight() / 2), tick.text)
        for text, left in x_texts(frame.x_ticks, self.x, area.right(), self._metrics):
            painter.drawText(QPointF(left, area.bottom() + 15), text)
        if frame.hint:
            painter.setFont(font(12))
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, frame.hint)

    def paint_before(self, crosshair: float | None) -> None:
        """Paint everything above the curves: skipped steps, the capacity, marks and the crosshair."""
        area = self._area
        for position, color in self._frame.skips:
            place = self.x(position)
            if area.left() <= place <= area.right():
                mark = QRectF(round(place) - 1, area.bottom() - _SKIP_HEIGHT - 1, _SKIP_WIDTH, _SKIP_HEIGHT)
                self._painter.fillRect(mark, QColor(color))
        self._paint_capacity()
        self._paint_notes()
        self._paint_marks()
        place = -1.0 if crosshair is None else round(self.x(crosshair)) + 0.5
        if area.left() <= place <= area.right() + 1:
            self._painter.setPen(dashed(self._palette.text3, (2, 3)))
            self._draw_down(place)

    def _draw_across(self, level: float) -> None:
        self._painter.drawLine(QPointF(self._area.left(), level), QPointF(self._area.right(), level))

    def _draw_down(self, place: float) -> None:
        self._painter.drawLine(QPointF(place, self._area.top()), QPointF(place, self._area.bottom()))

    def _width(self, text: str) -> float:
        return self._metrics.horizontalAdvance(text)

    def _paint_shade(self) -> None:
        frame, area = self._frame, self._area
        right = area.left() if frame.shade_until is None else min(self.x(frame.shade_until), area.right())
        if right <= area.left():
            return
        shade = QRectF(area.left(), area.top(), right - area.left(), area.height())
        self._painter.fillRect(shade, QColor(self._palette.shade))
        self._painter.setPen(QPen(QColor(self._palette.line2), 1))
        self._draw_down(round(right) + 0.5)
        if frame.shade_text and area.height() >= _LEAST_HEIGHT_FOR_WORDS:
            self._painter.setPen(QColor(self._palette.text3))
            width = self._width(frame.shade_text)
            # beside the shade, or within it where all or nearly all is warm-up
            left = right + 6 if right + 6 + width <= area.right() else right - 6 - width
            # further away nothing would tell what they are about
            self._write(frame.shade_text, [QPointF(left, area.bottom() - 6), QPointF(left, area.top() + 14)])

    def _paint_notes(self) -> None:
        self._painter.setFont(font(12, 600))
        metrics = QFontMetricsF(self._painter.font())
        places = TextPlaces(self._room)
        for note in self._frame.notes:
            places.reserve_marker((self.x(note.x), self.y(note.y)), 8)
        for note in self._frame.notes:
            x, y = self.x(note.x), self.y(note.y)
            width, height = metrics.horizontalAdvance(note.text), metrics.capHeight() + 2
            left = min(x - width / 2, self._area.right() - width - 1)
            above, below = y - 8 - height, y + 8
            beside = ((left, below), (x + 2, below), (x - width - 8, below))
            further = ((left, above), (left, below + 14), (left, above - 14))
            wanted = (Rect(left, top, left + width, top + height) for left, top in (*beside, *further))
            room = places.first_free(rect for rect in wanted if self._is_clear(rect))
            if room is not None:
                self._painter.setPen(QColor(note.color))
                self._painter.drawText(QPointF(room.left, room.bottom - 1), note.text)
        self._painter.setFont(font(11))

    def _paint_marks(self) -> None:
        places = TextPlaces(self._room)
        for mark in self._frame.marks:
            place = round(self.x(mark.x)) + 0.5
            if not self._area.left() <= place <= self._area.right():
                continue
            self._painter.setPen(dashed(mark.color, (6, 4)))
            self._draw_down(place)
            width, height = self._width(mark.text), self._metrics.capHeight() + 4
            levels = np.arange(self._area.top() + 4, self._area.bottom() - 2 * height, height + 4).tolist()
            rects = [
                Rect(left, level, left + width, level + height)
                for level in levels
                for left in (place + 5, place - 5 - width)
            ]
            room = places.first_free(rect for rect in rects if self._is_clear(rect))
            if room is not None:
                self._painter.setPen(QColor(mark.color))
                self._painter.drawText(QPointF(room.left, room.bottom - 2), mark.text)

    def _paint_capacity(self) -> None:
        capacity = self._frame.capacity
        if capacity is None:
            return
        pinned = capacity.position is None
        level = round(self._area.top() if capacity.position is None else self.y(capacity.position)) + 0.5
        self._painter.setPen(dashed(self._palette.text2, (6, 4)))
        self._draw_across(level)
        self._painter.setPen(QColor(self._palette.text2))
        if self._area.height() < _LEAST_HEIGHT_FOR_WORDS:
            return
        text = f"{capacity.text}, off scale ↑" if pinned else capacity.text
        width = self._width(text)
        right = max(self._area.right() - width - 28, self._area.left() + 4)
        lefts = (right, self._area.left() + 4, (self._area.left() + right) / 2)
        levels = (level + 14,) if pinned else (level + 14, level - 5)
        self._write(text, [QPointF(x, y) for y in levels for x in lefts])

    def _write(self, words: str, wanted: Sequence[QPointF]) -> None:
        width, ascent = self._width(words), self._metrics.capHeight() + 2
        for at in wanted:
            rect = Rect(at.x(), at.y() - ascent, at.x() + width, at.y() + 2)
            if self._room.contains(rect) and self._is_clear(rect):
                self._painter.drawText(at, words)
                return

    def _is_clear(self, rect: Rect) -> bool:
        (low, high), (least, most) = self._frame.x_range, self._frame.y_range
        across, up = (high - low) / self._area.width(), (most - least) / self._area.height()
        edges = low + (np.array([rect.left - 3, rect.right + 3]) - self._area.left()) * across
        bottom, top = (
            least + (self._area.bottom() - level) * up for level in (rect.bottom + 3, rect.top - 3)
        )
        for x, y in self._traces:
            first, last = np.searchsorted(x, edges)
            ends = np.interp(edges, x, y, left=np.nan, right=np.nan) if len(x) else y
            seen = np.append(y[first:last], ends)
            seen = seen[np.isfinite(seen)]
            if len(seen) and seen.min() <= top and seen.max() >= bottom:
                return False
        return True


def x_texts(
    ticks: Sequence[Tick], place: Callable[[float], float], right: float, metrics: QFontMetricsF
) -> list[tuple[str, float]]:
    """Return the tick labels below an x axis, each with its left edge in pixels. The axis ends at `right`.

    The last tick, with the unit, is always included. Ticks that it would cover are omitted.
    """
    texts: list[tuple[str, float]] = []
    free = math.inf
    for tick in reversed(ticks):
        width = metrics.horizontalAdvance(tick.text)
        left = min(place(tick.position) - width / 2, right - width)
        if left + width + _BETWEEN_TEXTS <= free:
            texts.append((tick.text, left))
            free = left
    return texts
