"""A lane's blocks. Each represents some samples, is lit once they are trained, and shows a small image."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.drawing.shapes import Point
from resources.looks import MarkFill

UNLIT = "unlit"
ROUND = 3 / 23  # the radius of a block's corners, as a fraction of its shorter side
_GAP = 3 / 26  # the gap, as a fraction of the way from one block to the next
_MOST_STRETCH = 1.5  # the most that a block may be stretched to fill the lane


@dataclass(frozen=True)
class Grid:
    """The layout of the blocks that show a run's progress in a replay, in columns filled from the top.

    `across` and `down` are the distances from one block to the next, including an empty `gap`.
    """

    count: int
    columns: int
    rows: int
    across: float
    down: float
    gap: float

    @property
    def block_width(self) -> float:
        return self.across - self.gap

    @property
    def block_height(self) -> float:
        return self.down - self.gap

    @property
    def width(self) -> float:
        return self.columns * self.across - self.gap

    @property
    def height(self) -> float:
        return self.rows * self.down - self.gap


def grid_for(count: int, width: float, height: float) -> Grid:
    """Return the grid with the largest blocks that fit, stretched to fill the space."""

    def pitch(rows: int) -> float:
        return min(width / (-(-count // rows) - _GAP), height / (rows - _GAP))

    rows = max(range(1, count + 1), key=pitch)
    columns, gap = -(-count // rows), _GAP * pitch(rows)
    side = pitch(rows) - gap
    most = _MOST_STRETCH * side + gap
    across, down = min((width + gap) / columns, most), min((height + gap) / rows, most)
    return Grid(count, columns, rows, across, down, gap)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks, from (x, y) on, that show a run's progress in a replay. The first `lit` are filled.

    A lit block shows one of the gray `tiles` (count, side, side), tinted with the precision's color `ink`.
    Unless `fill` is "full", lit blocks get a rim, to distinguish two runs of one precision.
    """

    x: float
    y: float
    grid: Grid
    lit: int
    ink: str
    tiles: NDArray[np.uint8]
    fill: MarkFill = "full"

    @property
    def bottom(self) -> float:
        return self.y + self.grid.height

    @property
    def radius(self) -> float:
        return min(self.grid.block_width, self.grid.block_height) * ROUND

    def corner(self, number: int) -> Point:
        """Return the top left corner of a block."""
        column, row = divmod(number, self.grid.rows)
        return self.x + column * self.grid.across, self.y + row * self.grid.down

    def rect(self, number: int, scale: float) -> tuple[int, int, int, int]:
        """Return left, top, width and height of a block in whole pixels, with equal gaps."""
        (x, y), grid = self.corner(number), self.grid
        gap = round(grid.gap * scale)
        if min(grid.block_width, grid.block_height) * scale > 2:
            gap = max(gap, 1)
        left, top = round(x * scale), round(y * scale)
        right, bottom = round((x + grid.across) * scale) - gap, round((y + grid.down) * scale) - gap
        return left, top, max(right - left, 1), max(bottom - top, 1)

    def tile(self, number: int) -> NDArray[np.uint8]:
        """Return the image of a block. Images repeat if there are fewer than blocks."""
        tile: NDArray[np.uint8] = self.tiles[number % len(self.tiles)]
        return tile

    def with_lit(self, lit: int) -> Blocks:
        return replace(self, lit=lit)
