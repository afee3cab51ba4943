"""Where the ticks of an axis stand and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """A tick at `position` in the view's coordinates, with its text."""

    position: float
    text: str


def linear_ticks(low: float, high: float, most: int, *, whole: bool = False) -> tuple[Tick, ...]:
    """At most `most` + 1 ticks at multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    step = nice_step(high - low, most)
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple(Tick(k * step, plain(k * step, decimals)) for k in range(first, last + 1))


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 5 times a power of ten that fits `span` into at most `most` parts."""
    if not (math.isfinite(span) and span > 0):
        return 1.0
    rough = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


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


def plain(value: float, decimals: int) -> str:
    """The number with thousands set off by commas; very large and very small ones in powers of ten."""
    if decimals > 6 or abs(value) >= 1e8:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e") if value else "0"
    return f"{value:,.{decimals}f}".replace("-", "−")


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
