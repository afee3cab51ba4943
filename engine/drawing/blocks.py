"""Rows of blocks that show the progress of a training, each with a small image of its dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.looks import MarkFill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNLIT = "unlit"
RADIUS = 1 / 7  # of a block's corners, as a fraction of its shorter side


@dataclass(frozen=True, eq=False)
class Tiles:
    """Gray images for blocks, `gray` of shape (count, side, side). Equal only to itself."""

    gray: NDArray[np.uint8]

    def of_block(self, number: int) -> NDArray[np.uint8]:
        """Return the image of a block. Images repeat if there are fewer than blocks."""
        tile: NDArray[np.uint8] = self.gray[number % len(self.gray)]
        return tile


@dataclass(frozen=True)
class BlockGrid:
    """Blocks from (x, y) on, each `width` by `height` with `gap` between them, in columns filled downward.

    The first `lit` blocks show their tiles in the shades of the precision's color `ink`, the others have
    the ink `unlit`. Where a fraction of a block is lit, the window fills it from below; other formats leave
    it unlit. Unless `fill` is "full", lit blocks have a rim, to distinguish two runs of one precision.
    """

    x: float
    y: float
    columns: int
    rows: int
    width: float
    height: float
    gap: float
    ink: str
    tiles: Tiles
    lit: float = 0.0
    unlit: str = UNLIT
    fill: MarkFill = "full"

    @property
    def count(self) -> int:
        return self.columns * self.rows

    @property
    def size(self) -> tuple[float, float]:
        """The width and height of all blocks together."""
        return (
            self.columns * (self.width + self.gap) - self.gap,
            self.rows * (self.height + self.gap) - self.gap,
        )

    def corner(self, number: int) -> tuple[float, float]:
        """Return the top left corner of a block."""
        column, row = divmod(number, self.rows)
        return self.x + column * (self.width + self.gap), self.y + row * (self.height + self.gap)

    def rect(self, number: int, scale: float) -> tuple[int, int, int, int]:
        """Return left, top, width and height of a block in whole pixels at `scale`, with equal gaps."""
        x, y = self.corner(number)
        gap = round(self.gap * scale)
        if min(self.width, self.height) * scale > 2:
            gap = max(gap, 1)
        left, top = round(x * scale), round(y * scale)
        right = round((x + self.width + self.gap) * scale) - gap
        bottom = round((y + self.height + self.gap) * scale) - gap
        return left, top, max(right - left, 1), max(bottom - top, 1)
