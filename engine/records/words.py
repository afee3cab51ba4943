"""Settings and ratios in a sentence."""

from __future__ import annotations

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


def times(ratio: float) -> str:
    """A ratio with two digits after the point, or as many as say something where it is small or large."""
    if ratio >= _LARGE:
        return (
            f"{ratio:,.0f}" if ratio < _BEYOND_ALL else f"{ratio:.0e}".replace("e+0", "e").replace("e+", "e")
        )
    return f"{ratio:.2f}" if ratio >= 0.1 or ratio == 0 else f"{ratio:.2g}"


_LARGE, _BEYOND_ALL = 100.0, 1e6


def shortened(name: str) -> str:
    """A name that anyone may have given, as long as a sentence bears."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


_LONGEST_NAME = 60
