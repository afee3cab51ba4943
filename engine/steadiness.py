"""How steady a single run was, from its own blocks of steps: the interval of its median speed, its drift."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

_NORMAL = 1.959964
_LEAST_DRIFT = 0.05
_LEAST_END_BLOCKS = 5


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


def drift(block_speeds: NDArray[np.float64]) -> float | None:
    """How much faster a run was at its end than at its beginning, as a fraction; None where that was steady.

    -0.2 is a fifth slower. Beginning and end are the median blocks of the first and the last third, of five
    blocks or more: a run of fewer than ten shows no drift. They count as different where they are 5 % or more
    apart and their intervals (`steadiness`, for blocks that hang together) do not meet. In simulations
    (tests/benchmarks/interval_coverage.py, blocks of 20 steps) a slide of 30 % over 20 blocks or more is seen
    in 96 of 100 runs where steps vary by 10 %, in all where by 5 %; a step down in mid-run no less. Steady
    runs are taken for drifting in under 0.5 of 100 where steps vary by 10 % and hang together over a few
    (AR(1), 0.7); over some twenty (0.95), in 4 of 100 of 10 to 20 blocks and in 0.3 of longer ones. A wander
    over hundreds of steps (0.99) is a drift to a run of a few hundred: 20 of 100 such are called so.
    """
    reach = max(_LEAST_END_BLOCKS, len(block_speeds) // 3)
    if 2 * reach > len(block_speeds):
        return None
    begin, end = block_speeds[:reach], block_speeds[-reach:]
    change = float(np.median(end) / np.median(begin)) - 1.0
    about_begin, about_end = steadiness(begin), steadiness(end)
    assert about_begin is not None and about_end is not None
    do_meet = about_begin[0] <= about_end[1] and about_end[0] <= about_begin[1]
    return None if do_meet or abs(change) < _LEAST_DRIFT else change


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
