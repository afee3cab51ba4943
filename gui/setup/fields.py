"""The settings under "More options" in their groups, and the text of a value in a field. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.experiment.experiment import all_settings, setting_help
from engine.experiment.setting import Entry, Group, Setting


def _settings_in(group: Group) -> tuple[Setting, ...]:
    own = (setting for setting in all_settings().values() if setting.group is group)
    return tuple(sorted(own, key=lambda setting: setting.place))


GROUPS = {group: _settings_in(group) for group in Group}
OPTIONS = {setting.key: setting for settings in GROUPS.values() for setting in settings}
NUMBER_KEYS = {
    "repeat",
    "within",
    "hours",
    *(key for key, setting in all_settings().items() if setting.entry is Entry.NUMBER),
}
TEXT_KEYS = {key for key, setting in all_settings().items() if setting.entry is Entry.TEXT}
"""Settings that are typed, in which a comma may be part of a value."""

TIPS = {
    "preset": "A ready-made experiment to begin with. Everything below can still be changed, and saved as "
    "your own preset, which then appears here too (Ctrl+S).",
    "model": f"{setting_help('model')} Type parts of a name to search, or open a Python file of your own; "
    "it can also be dropped on the window.",
    "check": "Looks for mistakes with mixed precision in the model without training it, and shows its "
    "modules.",
    "repeat": "How many times each precision is trained: in turns, in fresh processes, each time with the "
    "next seed. A useful interval for the speed-up takes 3 or more.",
    "within": "How exactly each cell's ratio to its baseline is to be known: the cells with the widest "
    "intervals are repeated until none reaches further than this. Left empty, each is trained as often as "
    "Repeat says.",
    "hours": "Nothing new begins once the sweep has taken this long. Left empty, it goes on to its end.",
    "length": "How long each run trains, in epochs or in steps.",
    "name": "The name of the new runs in the table. Left empty, they are numbered.",
}
"""Tooltips of the fields that are not settings of a run, or say more."""


def words_of(key: str, value: Any) -> str:
    """A value as the text in a field: thousands with commas, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    return str(value) if key == "seed" else f"{value:,}"
