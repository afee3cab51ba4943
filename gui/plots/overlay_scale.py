"""The axes of an overlay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gui.plots.smoothing import Values
from gui.plots.ticks import Tick, linear_ticks
from gui.plots.trace import By

_FAR_OFF = 2.0
"""How far above its start a loss may rise, in its own fall, before the rest counts for more."""
_UNITS: dict[By, str] = {"step": "steps", "seconds": "s", "samples": "samples"}


def y_range(pieces: Iterable[Values]) -> tuple[float, float] | None:
    """The range that shows these, from zero where that is near; None where there is nothing.

    A curve that shot up out of all proportion leaves through the top, or it would flatten all the rest.
    """
    finite = [known for piece in pieces if len(known := piece[np.isfinite(piece)])]
    if not finite:
        return None
    values = np.concatenate(finite)
    low, high = float(values.min()), float(values.max())
    usual = max(float(np.quantile(values, 0.9)), *(float(known[0]) for known in finite))
    if high - low > _FAR_OFF * (usual - low) > 0:
        high = low + _FAR_OFF * (usual - low)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (0.0 if 0 <= low < 0.35 * high else low - margin), high + margin


def x_ticks(x_range: tuple[float, float], most: int, by: By) -> tuple[Tick, ...]:
    """Ticks of which the last carries the unit."""
    ticks = linear_ticks(*x_range, most, whole=by != "seconds")
    if not ticks:
        return ()
    last = ticks[-1]
    unit = "step" if by == "step" and last.text == "1" else _UNITS[by]
    return (*ticks[:-1], replace(last, text=f"{last.text} {unit}"))


def place_words(place: float | None, by: By) -> str:
    """Where the values of the legend were read off."""
    if place is None:
        return "at the end"
    if by == "seconds":
        return f"{place:,.1f} s"
    return f"step {place:,.0f}" if by == "step" else f"{place:,.0f} samples"
