"""Numbers as text."""

from __future__ import annotations

import math

NONE = "–"


def number(value: float | None, digits: int | None = None) -> str:
    """A number with `digits` after the point, or by itself with three figures: "0.438", "43.8", "1,663".

    What diverged is shown as NaN, ∞ or a power of ten, and None as a dash.
    """
    if value is None:
        return NONE
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= _TOO_LONG_TO_READ:
        shown = f"{value:.2e}"
    else:
        shown = f"{value:,.{three_figures(value) if digits is None else digits}f}"
    return shown.replace("-", "−").replace("e+", "e")


def three_figures(value: float) -> int:
    """How many digits after the point give a finite value three figures; 6 at the most."""
    rounded = abs(float(f"{value:.3g}"))
    return min(max(0, 2 - math.floor(math.log10(rounded))), 6) if rounded else 0


_TOO_LONG_TO_READ = 1e8


def times(ratio: float) -> str:
    """A ratio with two digits after the point, or as many as say something where it is small or large."""
    if ratio >= _LARGE:
        return (
            f"{ratio:,.0f}" if ratio < _BEYOND_ALL else f"{ratio:.0e}".replace("e+0", "e").replace("e+", "e")
        )
    return f"{ratio:.2f}" if ratio >= 0.1 or ratio == 0 else f"{ratio:.2g}"


_LARGE, _BEYOND_ALL = 100.0, 1e6

