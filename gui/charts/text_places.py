"""Finds room for words on a chart, clear of other words, markers and curves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from PySide6.QtCore import QLineF, QPointF, QRectF

_NEAR = 2.0
"""Pixels that are kept between words and what they stand beside."""


class TextPlaces:
    """The taken parts of the rectangle `area`, in pixels."""

    def __init__(self, area: QRectF) -> None:
        self._area = area
        self._taken: list[QRectF] = []
        self._strokes: list[QLineF] = []

    def take(self, rect: QRectF) -> None:
        """Keeps words out of a rectangle."""
        self._taken.append(rect)

    def take_around(self, center: QPointF, size: float) -> None:
        """Keeps words away from a marker."""
        self.take(QRectF(center.x() - size / 2, center.y() - size / 2, size, size))

    def cross_not(self, points: list[QPointF]) -> None:
        """Keeps words off a curve."""
        self._strokes.extend(QLineF(one, other) for one, other in itertools.pairwise(points))

    def is_free(self, rect: QRectF) -> bool:
        """Whether words may stand there."""
        room = rect.adjusted(-_NEAR, -_NEAR, _NEAR, _NEAR)
        return (
            self._area.contains(rect)
            and not any(room.intersects(other) for other in self._taken)
            and not any(_crosses(stroke, room) for stroke in self._strokes)
        )

    def first_free(self, wanted: Iterable[QRectF]) -> QRectF | None:
        """Takes the first free rectangle; None if there is none."""
        free = next((rect for rect in wanted if self.is_free(rect)), None)
        if free is not None:
            self.take(free)
        return free


def _crosses(stroke: QLineF, rect: QRectF) -> bool:
    if rect.contains(stroke.p1()) or rect.contains(stroke.p2()):
        return True
    corners = (rect.topLeft(), rect.topRight(), rect.bottomRight(), rect.bottomLeft(), rect.topLeft())
    edges = (QLineF(one, other) for one, other in itertools.pairwise(corners))
    return any(_meet(stroke, edge) for edge in edges)


def _meet(one: QLineF, other: QLineF) -> bool:
    kind, _ = one.intersects(other)
    return kind == QLineF.IntersectionType.BoundedIntersection
