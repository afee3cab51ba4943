"""How steady a single run was: the interval of its median speed, from its own blocks of steps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

_NORMAL = 1.959964


def steadiness(block_speeds: NDArray[np.float64]) -> Interval | None:
    """The interval of one run's median speed from its blocks: how steady that run was, and no more.

    It lies between two of the blocks by rank (the sign test's interval), further apart by what neighbouring
    blocks have in common: the sum of the autocorrelations until they vanish (Geyer, Statistical Science 7,
    1992). None with fewer than two blocks.
    """
    count = len(block_speeds)
    if count < 2:
        return None
    ordered = np.sort(block_speeds)
    is_high = (block_speeds > ordered[(count - 1) // 2]).astype(np.float64)
    reach = _NORMAL / 2 * math.sqrt(count * _correlation_time(is_high))
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    return float(ordered[max(0, low)]), float(ordered[min(count - 1, high)])


def _correlation_time(values: NDArray[np.float64]) -> float:
    """How many successive values say as much as one independent one; at least 1."""
    count = len(values)
    away = values - values.mean()
    if not away.any():
        return 1.0
    spectrum = np.fft.rfft(away, 2 * count)
    correlation = np.fft.irfft(spectrum * spectrum.conj())[:count]
    correlation = correlation / correlation[0]
    # Geyer's initial sequence: sums of neighbouring pairs are positive as long as they are not noise
    pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return max(1.0, 2.0 * float(pairs[: ends[0] if len(ends) else None].sum()) - 1.0)
