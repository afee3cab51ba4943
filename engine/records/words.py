"""Settings, ratios and measured numbers in words."""

from __future__ import annotations

import math

_AMBIGUOUS = ("name", "mode", "every", "limit")
"""Their last part alone does not say what they are a setting of."""


_OWN_WORDS = {
    "measure.warmup_steps": "Warm-up steps left out of the speed",
    "measure.block_steps": "Steps of a measured block",
    "schedule.warmup_steps": "Warm-up steps of the learning rate",
}


def setting_words(key: str) -> str:
    """What a dotted key is called at the head of a sentence: "Learning rate", "Optimizer name"."""
    if key in _OWN_WORDS:
        return _OWN_WORDS[key]
    table, _, name = key.rpartition(".")
    words = f"{table} {name}" if table and name in _AMBIGUOUS else name
    words = words.replace("_", " ")
    return words[:1].upper() + words[1:]


def setting_value(value: object) -> str:
    """A setting's value as a person writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return (
        f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def number(value: float, digits: int | None = None) -> str:
    """A number with `digits` after the point, or by itself with three figures: "0.438", "43.8", "1,663".

    What diverged is shown as NaN, ∞ or a power of ten.
    """
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
