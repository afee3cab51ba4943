"""A lane's blocks: one for so many samples, lit when they have been trained, each with a small picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.exports.drawing import Point

UNLIT = "line"
_FILLED, _ROUND = 23 / 26, 3 / 23
"""Of the way from one block to the next, and of a block's side."""


@dataclass(frozen=True)
class Grid:
    """Where blocks stand: column after column, each from the top. `pitch` is from one block to the next."""

    count: int
    columns: int
    rows: int
    pitch: float

    @property
    def side(self) -> float:
        """How wide and high a block is."""
        return self.pitch * _FILLED

    @property
    def width(self) -> float:
        return self.columns * self.pitch - self._gap

    @property
    def height(self) -> float:
        return self.rows * self.pitch - self._gap

    @property
    def _gap(self) -> float:
        return self.pitch * (1 - _FILLED)


def grid_for(count: int, width: float, height: float) -> Grid:
    """The grid whose blocks are the largest of those that take the whole width."""

    def with_rows(rows: int) -> Grid:
        columns = -(-count // rows)
        pitch = min(width / (columns - 1 + _FILLED), height / (rows - 1 + _FILLED))
        return Grid(count, columns, rows, pitch)

    grids = [with_rows(rows) for rows in range(1, max(2, count))]
    return max(grids, key=lambda one: (min(one.width / width, 0.98), one.pitch))


def brightened(tiles: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The tiles with one gamma for all that brings dark pictures up: a lit block is to be seen as lit."""
    mean = float(tiles.mean()) / 255
    if not 0 < mean < 1:
        return tiles
    gamma = min(max(math.log(_MIDDLE) / math.log(mean), _GAMMAS[0]), _GAMMAS[1])
    table = (255 * (np.arange(256) / 255) ** gamma).round().astype(np.uint8)
    return np.asarray(table[tiles], np.uint8)


_MIDDLE, _GAMMAS = 0.45, (0.45, 1.4)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of one lane from (x, y); the first `lit` of them show `tiles` (count, side, side), grey.

    Lit ones are in the shades of the precision `ink`.
    """

    x: float
    y: float
    grid: Grid
    lit: int
    ink: str
    tiles: NDArray[np.uint8]

    @property
    def radius(self) -> float:
        return self.grid.side * _ROUND

    def corner(self, number: int) -> Point:
        """The top left of a block."""
        column, row = divmod(number, self.grid.rows)
        return self.x + column * self.grid.pitch, self.y + row * self.grid.pitch

    def tile(self, number: int) -> NDArray[np.uint8]:
        """The picture of a block; where there are fewer pictures than blocks they come again."""
        chosen: NDArray[np.uint8] = self.tiles[number % len(self.tiles)]
        return chosen

    def with_lit(self, lit: int) -> Blocks:
        return replace(self, lit=lit)
