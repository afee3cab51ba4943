"""Settings, ratios and measured numbers in words."""

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










