"""The order of the lines of the runs table. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gui.panels.runs_columns import Column
from gui.panels.runs_figures import sorter
from gui.panels.runs_line import Baselines, Line


def ordered(lines: Iterable[Line], column: Column, is_descending: bool, baselines: Baselines) -> list[Line]:
    """The lines by what they say in a column; those that say nothing last, the newest first among equals."""
    value_of, sign = sorter(column, baselines), 1 if is_descending else -1
    valued: list[tuple[Any, int, Line]] = []
    silent: list[Line] = []
    for line in lines:
        value = value_of(line)
        if value is None:
            silent.append(line)
        else:
            # no two runs have the same number, so that lines themselves are never compared
            valued.append((value, sign * line.run.number, line))
    valued.sort(reverse=is_descending)
    silent.sort(key=lambda line: -line.run.number)
    return [line for _, _, line in valued] + silent


def comes_before(one: Line, other: Line, column: Column, is_descending: bool, baselines: Baselines) -> bool:
    """Whether the first of two lines stands above the other in that order."""
    first, _ = ordered((one, other), column, is_descending, baselines)
    return first is one
