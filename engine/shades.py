"""Grey pictures in the shades of a colour: the same in the window and in what is written to a file."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_MIDDLE = 0.45
_GAMMAS = (0.45, 1.4)


def brightened(tiles: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The tiles with one gamma for all of them that brings dark ones up: a lit block is to be seen as lit."""
    mean = float(tiles.mean()) / 255 if tiles.size else 0.0
    if not 0 < mean < 1:
        return tiles
    gamma = min(max(math.log(_MIDDLE) / math.log(mean), _GAMMAS[0]), _GAMMAS[1])
    table = (255 * (np.arange(256) / 255) ** gamma).round().astype(np.uint8)
    return np.asarray(table[tiles], np.uint8)


def shades(black: str, white: str) -> NDArray[np.uint8]:
    """What each of the 256 greys becomes, (256, 3), where black and white become these colours, "#RRGGBB"."""
    low, high = (np.array(list(bytes.fromhex(color[1:])), float) for color in (black, white))
    share = np.linspace(0, 1, 256)[:, None]
    return np.asarray((low + share * (high - low)).round(), np.uint8)
