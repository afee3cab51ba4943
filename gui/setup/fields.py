"""The settings of the form in their groups, and the text of values in fields. Does not use Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.experiment.catalog import Catalog
from engine.experiment.experiment import all_settings, setting_help
from engine.experiment.setting import EntryKind, Group, Setting

ENOUGH_REPEATS = "Use 3 or more to get a useful confidence interval."
FORM_SETTINGS = {
    setting.key: setting
    for setting in (
        Setting(
            "Preset",
            "A ready-made experiment to start from. You can change everything below and save it as your "
            "own preset (Ctrl+S).",
            key="preset",
            entry=EntryKind.CHOICE,
        ),
        Setting("Length", "Length of each run, in epochs or in steps.", key="length", entry=EntryKind.NUMBER),
        Setting(
            "Repeats",
            f"Runs per precision. Runs alternate, each in a new process with the next seed. {ENOUGH_REPEATS}",
            key="repeat",
            entry=EntryKind.NUMBER,
        ),
        Setting(
            "To within",
            "Repeat the least certain combinations until every 95% interval is within this percentage. "
            "Empty: use Repeats.",
            unit="%",
            hint="any",
            key="within",
            entry=EntryKind.NUMBER,
        ),
        Setting(
            "Time limit",
            "Start no new runs after this many hours. Empty: no limit.",
            unit="h",
            hint="no limit",
            key="hours",
            entry=EntryKind.NUMBER,
        ),
        Setting(
            "Name",
            "Name of the new runs in the table. Empty: runs are numbered.",
            hint="numbered",
            key="name",
            group=Group.MACHINE,
            place=99,
        ),
    )
}
"""The fields of the form that are not settings of a run."""
SETTINGS = {**all_settings(), **FORM_SETTINGS}
_IN_ORDER = sorted(SETTINGS.values(), key=lambda setting: setting.place)
GROUPS = {group: tuple(setting for setting in _IN_ORDER if setting.group is group) for group in Group}
OPTIONS = {setting.key: setting for settings in GROUPS.values() for setting in settings}
NUMBER_KEYS = {key for key, setting in SETTINGS.items() if setting.entry is EntryKind.NUMBER}
TEXT_KEYS = {key for key, setting in SETTINGS.items() if setting.entry is EntryKind.TEXT}
"""Typed settings whose values may contain commas."""


def top_options(catalog: Catalog | None) -> tuple[str, ...]:
    """Return the options that are at the top of the form: the devices, on a machine with multiple GPUs."""
    return ("device", "devices") if catalog is not None and catalog.has_several_gpus else ()


MODEL_TIP = (
    f"{setting_help('model')} Type parts of a name to search, or open your own Python file. You "
    "can also drop it on the window."
)
CHECK_TIP = "Find mixed-precision mistakes in the model without training it, and show its modules."


def field_text(key: str, value: Any) -> str:
    """Return a value as text in a field, with thousands separators. "" for None."""
    if value is None:
        return ""
    if key == "devices" and value == 0:
        return "all"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    return str(value) if key == "seed" else f"{value:,}"


# a comma after a leading zero is a decimal comma, which the validation refuses
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([,\u00a0\u2009\u202f ]\d{3})+(\.\d*)?")
_DECIMAL_COMMA = re.compile(r"\s*\d+,\d+\s*")
NONE = "none"
"""An empty field, as one of several values."""


def clean(key: str, text: str) -> str:
    """Return a field's text as the experiment reads it, without thousands separators and outer spaces."""
    stripped = text.strip()
    if key in NUMBER_KEYS and _THOUSANDS.fullmatch(stripped):
        return re.sub(r"[^\d.]", "", stripped)
    return stripped


def same_value(key: str, text: str, other: str) -> bool:
    """Return True if two texts of a field mean the same, such as "0.10" and "0.1"."""
    mine, theirs = clean(key, text), clean(key, other)
    if mine == theirs:
        return True
    try:
        return key in NUMBER_KEYS and float(mine) == float(theirs)
    except ValueError:
        return False


def split_values(key: str, text: str) -> tuple[str, ...]:
    """Return the values of an axis in typed text: "32, 64, 128", or with semicolons.

    In texts, only semicolons separate values. A comma without a space may be a thousands separator ("1,024"),
    or a decimal comma, which validation rejects.
    """
    whole = text.strip()
    is_one = _THOUSANDS.fullmatch(whole) or (key in NUMBER_KEYS and _DECIMAL_COMMA.fullmatch(whole))
    mark = ";" if ";" in text or key in TEXT_KEYS else r",\s+" if re.search(r",\s", text) else ","
    parts = [whole] if is_one and mark == "," else [part.strip() for part in re.split(mark, text)]
    # what follows the last separator is still to be typed
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple("" if part.lower() == NONE else part for part in parts)


def join_values(key: str, values: Iterable[str]) -> str:
    """Return the values of an axis as typed text, the inverse of `split_values`."""
    return ("; " if key in TEXT_KEYS else ", ").join(value or NONE for value in values)
