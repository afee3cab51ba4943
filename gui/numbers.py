"""Numbers as people read them: thousands set off by commas, one rounding for all of a quantity."""

from __future__ import annotations

import math
from collections.abc import Iterable

from engine.records.large_numbers import times


def decimals_for(values: Iterable[float | None]) -> int:
    """How many decimals show about three figures of the largest finite value."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return 0
    return min(max(0, 2 - math.floor(math.log10(largest))), 6)


def ratio(value: float | None, baseline: float | None) -> str:
    """`value` over `baseline` as "1.89×", or nothing where that makes no sense."""
    if value is None or not baseline or not (math.isfinite(value) and math.isfinite(baseline)):
        return ""
    return f"{times(value / baseline)}×"


def duration(seconds: float) -> str:
    """A span of time in one or two units: "3 s", "2 min 5 s", "1 h 4 min"."""
    whole = max(0, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def gib(mib: float) -> str:
    """MiB as GiB, to the tenth; small amounts finer."""
    value = mib / 1024
    return f"{value:,.1f}" if value >= 1 else f"{value:.2f}"
