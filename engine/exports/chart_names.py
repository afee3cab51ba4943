"""What can be drawn of runs, and what their curves can be laid over."""

from __future__ import annotations

from typing import Literal, get_args

ChartName = Literal["throughput", "loss", "accuracy", "memory"]
CHART_NAMES: tuple[ChartName, ...] = get_args(ChartName)

By = Literal["step", "seconds", "samples"]
BYS: tuple[By, ...] = get_args(By)
