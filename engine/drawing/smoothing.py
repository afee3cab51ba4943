"""Noisy curves thinned, and smoothed by a local line fit, which does not lag as averages do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from engine import Later

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = Later("numpy")


Values: TypeAlias = "NDArray[np.float64]"


def local_line(values: Values, window: int) -> Values:
    """Each value replaced by a line fitted to the `window` values around it (Savitzky and Golay, 1964).

    The window is cut off at the ends of the data. Values that are not finite stay and are left out of the
    fits; a window with fewer than two finite values gives the value itself.
    """
    half = window // 2
    if half < 1 or len(values) < 3:
        return values
    finite = np.isfinite(values)
    if len(values) >= 2 * half + 1 and bool(finite.all()):
        return _smooth_finite(values, half)
    return _smooth_with_gaps(values, finite, half)


def extended(smoothed: Values, values: Values, window: int) -> Values:
    """The smoothed `values`, given the `smoothed` beginning of them.

    Only what new values can have changed is fitted again, so a long run costs no more than a short one.
    """
    settled = len(smoothed) - window
    if settled < window:
        return local_line(values, window)
    tail = local_line(values[settled - window :], window)
    return np.concatenate((smoothed[:settled], tail[window:]))


def thinned(places: Sequence[Values], values: Values, rows: int) -> tuple[tuple[Values, ...], Values]:
    """Means over blocks of `rows`, of the finite ones of `values`; the last block may be shorter.

    A block without finite values is NaN.
    """
    if rows <= 1:
        return tuple(places), values
    first = np.arange(0, len(values), rows)
    lengths = np.diff(np.append(first, len(values)))
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite.astype(np.float64), first)
    sums = np.add.reduceat(np.where(finite, values, 0.0), first)
    means = np.divide(sums, counts, out=np.full(len(first), np.nan), where=counts > 0)
    return tuple(np.add.reduceat(place, first) / lengths for place in places), means


def _smooth_finite(values: Values, half: int) -> Values:
    # if nothing is missing, the line's value at the centre of a whole window is the window's mean
    window = 2 * half + 1
    result = np.empty_like(values)
    result[half:-half] = np.convolve(values, np.full(window, 1.0 / window), mode="valid")
    edge = _edge_weights(half)
    backwards = values[::-1]
    result[:half] = _within(edge @ values[: 2 * half], values, half)
    result[-half:] = _within(edge @ backwards[: 2 * half], backwards, half)[::-1]
    return result


def _within(fitted: Values, values: Values, half: int) -> Values:
    """The cut-off fits, clipped to the range of their windows, since a line overshoots a bending curve."""
    lowest = np.minimum.accumulate(values[: 2 * half])[half:]
    highest = np.maximum.accumulate(values[: 2 * half])[half:]
    return np.clip(fitted, lowest, highest)


@lru_cache(maxsize=8)
def _edge_weights(half: int) -> Values:
    """The weight of each of the first 2 `half` values in each of the first `half` fits."""
    weights = np.zeros((half, 2 * half))
    for row in range(half):
        offsets = np.arange(row + half + 1, dtype=np.float64) - row
        spread = offsets - offsets.mean()
        weights[row, : len(offsets)] = 1.0 / len(offsets) - offsets.mean() * spread / (spread**2).sum()
    return weights


def _smooth_with_gaps(values: Values, finite: NDArray[np.bool_], half: int) -> Values:
    offsets = np.arange(-half, half + 1, dtype=np.float64)
    weights, known = finite.astype(np.float64), np.where(finite, values, 0.0)
    # moments of each window about its centre; np.convolve reverses the kernel, hence the sign
    count, first = _windowed(weights, np.ones_like(offsets)), _windowed(weights, -offsets)
    second = _windowed(weights, offsets**2)
    total, slanted = _windowed(known, np.ones_like(offsets)), _windowed(known, -offsets)
    determinant = count * second - first**2
    usable = finite & (determinant > 0.5)
    result = values.copy()
    np.divide(second * total - first * slanted, determinant, out=result, where=usable)
    # each to its own window: what lies further off must not change it
    lowest = _sliding(np.where(finite, values, np.inf), half, np.inf).min(axis=1)
    highest = _sliding(np.where(finite, values, -np.inf), half, -np.inf).max(axis=1)
    return np.where(usable, np.clip(result, lowest, highest), result)


def _sliding(values: Values, half: int, beyond: float) -> Values:
    """The window around each value, one a row; `beyond` stands for what the ends cut off."""
    padded = np.pad(values, half, constant_values=beyond)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)


def _windowed(values: Values, kernel: Values) -> Values:
    half = len(kernel) // 2
    return np.convolve(values, kernel, mode="full")[half : half + len(values)]
