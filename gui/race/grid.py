"""Where the blocks of a lane stand, in whole device pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QRect

GAP = 3 / 26
"""The gap between two blocks as a part of the way from one to the next."""
MOST_STRETCH = 1.5
"""How much wider than high, or higher than wide, a block may be so that the lane is filled."""


@dataclass(frozen=True)
class Grid:
    """`total` blocks in columns of `rows`, filled from the top of each column, within `width` x `height`.

    All in device pixels: edges are whole, so that no block is blurred, and gaps are all alike.
    """

    total: int
    columns: int
    rows: int
    gap: int
    width: float
    height: float

    @classmethod
    def fitted(cls, total: int, width: int, height: int) -> Grid:
        """The grid whose blocks are the largest that fit; nearly square ones."""
        total, width, height = max(total, 1), max(width, 1), max(height, 1)
        rows = max(range(1, min(total, height) + 1), key=lambda rows: _side(total, rows, width, height))
        columns = math.ceil(total / rows)
        side = _side(total, rows, width, height)
        gap = min(max(round(side * GAP / (1 - GAP)), 1), int(side)) if side > 2 else 0
        most = side * MOST_STRETCH + gap
        across = min((width + gap) / columns, most) * columns - gap
        down = min((height + gap) / rows, most) * rows - gap
        return cls(total, columns, rows, gap, across, down)

    def rect(self, index: int) -> QRect:
        """The block that is lit as number `index`, from 0."""
        column, row = divmod(index, self.rows)
        return self.span(column, column + 1, row, row + 1)

    def rects(self) -> Iterator[QRect]:
        return map(self.rect, range(self.total))

    def span(self, left: int, right: int, top: int, bottom: int) -> QRect:
        """All from column `left` to before `right` and likewise down, the gaps between included."""
        x, y = self._x(left), self._y(top)
        return QRect(x, y, self._x(right) - self.gap - x, self._y(bottom) - self.gap - y)

    def covered(self, first: int, end: int) -> list[QRect]:
        """The blocks from `first` to before `end` as at most three rectangles that hold no others."""
        found, rows = [], self.rows
        while first < end:
            column, row = divmod(first, rows)
            if row == 0 and end - first >= rows:
                last = end // rows
                found.append(self.span(column, last, 0, rows))
                first = last * rows
            else:
                count = min(end - first, rows - row)
                found.append(self.span(column, column + 1, row, row + count))
                first += count
        return found

    def _x(self, column: int) -> int:
        return round(column * (self.width + self.gap) / self.columns)

    def _y(self, row: int) -> int:
        return round(row * (self.height + self.gap) / self.rows)


def _side(total: int, rows: int, width: int, height: int) -> float:
    columns = math.ceil(total / rows)
    return min(width / (columns - GAP), height / (rows - GAP)) * (1 - GAP)
