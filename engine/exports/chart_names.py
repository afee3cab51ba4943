"""What can be drawn of runs, what their curves can be laid over, and in which theme."""

from __future__ import annotations

from typing import Literal, get_args

ChartName = Literal["throughput", "loss", "accuracy", "memory"]
CHART_NAMES: tuple[ChartName, ...] = get_args(ChartName)

RACE = "race"
"""The name under which the card of a race is asked for beside the charts."""

By = Literal["step", "seconds", "samples"]
BYS: tuple[By, ...] = get_args(By)

ThemeName = Literal["dark", "light"]
THEME_NAMES: tuple[ThemeName, ...] = get_args(ThemeName)
