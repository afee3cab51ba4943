"""The settings of a comparison's sides, and what of them differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiment import flattened
from engine.records.sides import Side

_MACHINE = ("device_name", "torch", "cuda", "driver")


@dataclass(frozen=True)
class SettingRow:
    """A setting of every side, in their order; None where a side does not have it."""

    key: str
    values: tuple[Any, ...]

    @property
    def differs(self) -> bool:
        return any(value != self.values[0] for value in self.values)


def setting_rows(sides: Sequence[Side]) -> tuple[SettingRow, ...]:
    """Every setting by its dotted key, and what it was measured on; seeds as a list where there are more."""
    settings = [settings_of(side) for side in sides]
    keys = dict.fromkeys(key for one in settings for key in one)
    return tuple(SettingRow(key, tuple(one.get(key) for one in settings)) for key in keys)


def settings_of(side: Side) -> dict[str, Any]:
    """What a side's repeats have in common, and their seeds."""
    run = side.runs[0]
    settings = flattened(run.experiment)
    if len(side.runs) > 1:
        settings["seed"] = [one.experiment.seed for one in side.runs]
    for name in _MACHINE:
        value = getattr(run.environment, name, None)
        if value is not None:
            settings[name] = value
    return settings
