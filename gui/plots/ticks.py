"""Where the ticks of an axis stand and what they say."""

from __future__ import annotations

import math

from engine.exports.ticks import Tick, linear_ticks, nice_step, plain

__all__ = ["Tick", "linear_ticks", "log2_ticks", "log10_ticks", "nice_step", "plain"]


def log10_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """Ticks for a view whose coordinates are powers of ten; 1, 2, 5 in between where there is room."""
    first, last = math.ceil(low), math.floor(high)
    factors = (1, 2, 5) if (last - first + 1) * 3 <= 2 * most else (1,)
    stride = max(1, -(-(last - first) // max(1, most)))
    found = [
        Tick(exponent + math.log10(factor), _power_text(factor, exponent))
        for exponent in range(first - stride, last + 1, stride)
        for factor in factors
        if low <= exponent + math.log10(factor) <= high
    ]
    return tuple(found) if len(found) > 1 else _between(low, high, most)


def _between(low: float, high: float, most: int) -> tuple[Tick, ...]:
    # less than a decade in view: linear steps, placed at their logarithms
    bottom, top = 10.0**low, 10.0**high
    ticks = linear_ticks(bottom, top, most)
    return tuple(Tick(math.log10(tick.position), tick.text) for tick in ticks if tick.position > 0)


def log2_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """Ticks for a view whose coordinates are powers of two, labelled with the true numbers."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    stride = max(1, -(-(last - first) // max(1, most)))
    return tuple(Tick(float(k), _power_of_two(k)) for k in range(first, last + 1, stride))


def _power_text(factor: int, exponent: int) -> str:
    if -4 <= exponent <= 6:
        return plain(factor * 10.0**exponent, max(0, -exponent))
    return f"{factor}e{exponent}"


def _power_of_two(exponent: int) -> str:
    if 0 <= exponent <= 26:
        return f"{2**exponent:,}"
    if -4 <= exponent < 0:
        return f"{2.0**exponent:g}"
    return f"2^{exponent}"
