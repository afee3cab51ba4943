"""The settings under "More options" in their groups, and the text of values in fields. Does not use Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.experiment.catalog import Catalog
from engine.experiment.experiment import all_settings, setting_help
from engine.experiment.own.library_models import ModelRef
from engine.experiment.setting import EntryKind, Group

_IN_ORDER = sorted(all_settings().values(), key=lambda setting: setting.place)
GROUPS = {group: tuple(setting for setting in _IN_ORDER if setting.group is group) for group in Group}
OPTIONS = {setting.key: setting for settings in GROUPS.values() for setting in settings}
NUMBER_KEYS = {
    "repeat",
    "within",
    "hours",
    *(key for key, setting in all_settings().items() if setting.entry is EntryKind.NUMBER),
}
TEXT_KEYS = {key for key, setting in all_settings().items() if setting.entry is EntryKind.TEXT}
"""Typed settings whose values may contain commas."""


def top_options(catalog: Catalog | None) -> tuple[str, ...]:
    """Return the options that are at the top of the form: the devices, on a machine with multiple GPUs."""
    return ("device", "devices") if catalog is not None and catalog.has_several_gpus else ()


TIPS = {
    "preset": "A ready-made experiment to start from. You can change everything below and save it as your "
    "own preset (Ctrl+S).",
    "model": f"{setting_help('model')} Type parts of a name to search, or open your own Python file. You "
    "can also drop it on the window.",
    "check": "Find mixed-precision mistakes in the model without training it, and show its modules.",
    "repeat": "Runs per precision. Runs alternate, each in a new process with the next seed. Use 3 or more "
    "to get a useful confidence interval.",
    "within": "Repeat the least certain combinations until every 95% interval is within this percentage. "
    "Empty: use Repeat.",
    "hours": "Start no new runs after this many hours. Empty: no limit.",
    "length": "Length of each run, in epochs or in steps.",
    "name": "Name of the new runs in the table. Empty: runs are numbered.",
}
"""Tooltips of fields that are not settings of a run, or whose tooltip is longer."""


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
_LIST_COMMA = re.compile(r",\s+")
_DECIMAL_COMMA = re.compile(r"\s*\d+,\d+\s*")
NONE = "none"
"""An empty field, as one of several values."""


def clean(key: str, text: str) -> str:
    """Return a field's text as the experiment reads it, without thousands separators and outer spaces."""
    stripped = text.strip()
    if key in NUMBER_KEYS and _THOUSANDS.fullmatch(stripped):
        return re.sub(r"[^\d.]", "", stripped)
    return stripped


def split_values(key: str, text: str) -> tuple[str, ...]:
    """Return the values in a field's text: "32, 64, 128", or with semicolons. There is at least one.

    In typed text and in file names, only semicolons separate values. A comma without a space is not a
    separator if it can be a thousands separator ("64,128") or a decimal comma, which validation rejects.
    """
    if key == "code" or not ("," in text or ";" in text):
        return (text,)
    if ";" in text:
        parts = text.split(";")
    elif key in TEXT_KEYS or ModelRef(text).file is not None:
        return (text,)
    elif _LIST_COMMA.search(text):
        parts = _LIST_COMMA.split(text)
    elif _THOUSANDS.fullmatch(text.strip()) or (key in NUMBER_KEYS and _DECIMAL_COMMA.fullmatch(text)):
        return (text,)
    else:
        parts = text.split(",")
    given = [part.strip() for part in parts]
    # what follows the last separator is still to be typed
    while len(given) > 1 and not given[-1]:
        given.pop()
    return tuple(given)


def join_values(key: str, values: Iterable[str]) -> str:
    given = list(values)
    if len(given) == 1:
        return given[0]
    return ("; " if key in TEXT_KEYS else ", ").join(value or NONE for value in given)
