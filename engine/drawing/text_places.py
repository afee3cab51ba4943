"""Finds room for words on a chart, clear of other words, markers and curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Point

_NEAR = 2.0
"""Pixels that are kept between words and what they stand beside."""


class TextPlaces:
    """The taken parts of the rectangle `area`, in pixels."""

    def __init__(self, area: Rect) -> None:
        self._area = area
        self._taken: list[Rect] = []
        self._strokes: list[tuple[Point, Point]] = []

    def take(self, rect: Rect) -> None:
        """Keeps words out of a rectangle."""
        self._taken.append(rect)

    def take_around(self, center: Point, size: float) -> None:
        """Keeps words away from a marker."""
        x, y = center
        self.take(Rect(x - size / 2, y - size / 2, x + size / 2, y + size / 2))

    def cross_not(self, points: Sequence[Point]) -> None:
        """Keeps words off a curve."""
        self._strokes.extend(pairwise(points))

    def is_free(self, rect: Rect) -> bool:
        """Whether words may stand there."""
        room = Rect(rect.left - _NEAR, rect.top - _NEAR, rect.right + _NEAR, rect.bottom + _NEAR)
        return (
            self._area.contains(rect)
            and not any(room.meets(other) for other in self._taken)
            and not any(_crosses(*stroke, room) for stroke in self._strokes)
        )

    def first_free(self, wanted: Iterable[Rect]) -> Rect | None:
        """Takes the first free rectangle; None if there is none."""
        free = next((rect for rect in wanted if self.is_free(rect)), None)
        if free is not None:
            self.take(free)
        return free


def _crosses(start: Point, end: Point, rect: Rect) -> bool:
    """Whether a part of the line from `start` to `end` is within the rectangle (Liang and Barsky)."""
    first, last = 0.0, 1.0
    edges = ((rect.left, rect.right), (rect.top, rect.bottom))
    for begin, stop, (low, high) in zip(start, end, edges, strict=True):
        run = stop - begin
        if not run:
            if not low <= begin <= high:
                return False
            continue
        enters, leaves = sorted(((low - begin) / run, (high - begin) / run))
        first, last = max(first, enters), min(last, leaves)
    return first <= last
