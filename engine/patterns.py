"""Soft patterns in place of pictures, for text, drawn data, and runs whose pictures are not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIDE = 24
_LEAST_CORNERS, _KINDS = 2, 3
_SEED = 20_260_101
_DARKEST, _BRIGHTEST = 20, 245


def patterns(count: int, side: int = _SIDE) -> NDArray[np.uint8]:
    """Grey patterns (count, side, side), each another; the first of them are the same for any `count`.

    Each is a grid of 2 to 4 random greys a side, blended smoothly. Raises ValueError for a negative count or
    a side below 1.
    """
    if count < 0 or side < 1:
        raise ValueError(f"there are no {count} patterns of {side} pixels")
    drawn = [_pattern(number, side) for number in range(count)]
    return np.stack(drawn) if drawn else np.empty((0, side, side), np.uint8)


def _pattern(number: int, side: int) -> NDArray[np.uint8]:
    generator = np.random.default_rng((_SEED, number))
    corners = _LEAST_CORNERS + int(generator.integers(_KINDS))
    weights = _blending(corners, side)
    blended = weights @ generator.random((corners, corners)) @ weights.T
    low, high = blended.min(), blended.max()
    # stretched: a blend of many greys would be a dull one
    stretched = (blended - low) / (high - low) if high > low else blended
    return (_DARKEST + stretched * (_BRIGHTEST - _DARKEST)).astype(np.uint8)


def _blending(corners: int, side: int) -> NDArray[np.float64]:
    """How much of each corner is in each pixel of a row, (side, corners)."""
    places = np.linspace(0, corners - 1, side)[:, None]
    near: NDArray[np.float64] = np.clip(1 - np.abs(places - np.arange(corners)), 0, 1)
    return np.asarray(near * near * (3 - 2 * near))
