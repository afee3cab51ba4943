"""Where the ticks of a linear axis stand and what they say."""

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


def plain(value: float, decimals: int) -> str:
    """The number with thousands set off by commas; very large and very small ones in powers of ten."""
    if decimals > 6 or abs(value) >= 1e8:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e") if value else "0"
    return f"{value:,.{decimals}f}".replace("-", "−")
