"""The lines that a comparison lays over one another: each side's own, and its repeats behind it. No Qt."""

from __future__ import annotations

from collections import Counter

from engine.exports.side_looks import side_fills
from gui.compared import Compared
from gui.plots.overlay_lines import Line, Quantity


def lines_of(compared: Compared) -> tuple[Line, ...]:
    """A line a run; the oldest run of a side stands for it, and the others are drawn behind it."""
    sides = compared.comparison.sides
    counts = Counter(side.precision for side in sides)
    fills = side_fills(sides)
    lines = []
    for side in sides:
        _precision, _comma, rest = side.title.partition(", ")
        for repeat, run in enumerate(side.runs):
            note = rest if counts[side.precision] > 1 else ""
            traces = compared.runs[run.id].traces
            lines.append(Line(run.id, side.precision, side.title, traces, note, repeat > 0, fills[side.id]))
    return tuple(lines)


def units_of(compared: Compared) -> dict[Quantity, str]:
    """The units of the y axis; "" for the loss where the runs do not share one."""
    units = {run.loss_unit for run in compared.runs.values()} - {""}
    return {"loss": units.pop() if len(units) == 1 else "", "accuracy": "%"}
