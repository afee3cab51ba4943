"""What can be drawn of runs, and how the sides of a comparison look.

A side has the colour, symbol and dash of its precision; sides of the same precision differ in the fill of
their marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.compare.sides import Side
from engine.drawing.shapes import Shape, Stroke, marker
from engine.experiment.experiment import Precision
from resources.looks import LIGHT, MARK_FILLS, MarkFill

ChartName = Literal["throughput", "loss", "accuracy", "memory"]
CHART_NAMES: tuple[ChartName, ...] = get_args(ChartName)

RACE = "race"
"""The name under which the card of a race is asked for beside the charts."""

By = Literal["step", "seconds", "samples"]
BYS: tuple[By, ...] = get_args(By)

ThemeName = Literal["dark", "light"]
THEME_NAMES: tuple[ThemeName, ...] = get_args(ThemeName)


@dataclass(frozen=True)
class SideLook:
    """`ink`, `symbol` and `dash` are the precision's; sides of one precision differ in their marks' fill."""

    ink: str
    symbol: str
    dash: tuple[float, ...]
    fill: MarkFill

    def mark(self, x: float, y: float, size: float) -> tuple[Shape, ...]:
        return marker(self.symbol, x, y, size, self.ink, self.fill)

    def sample(self, x: float, y: float) -> tuple[Shape, ...]:
        """A short piece of the line with its mark, as a legend has it, 24 pixels wide."""
        return Stroke(((x, y), (x + 24, y)), self.ink, 1.5, self.dash), *self.mark(x + 12, y, 8)


def precision_look(precision: Precision, fill: MarkFill = "full") -> SideLook:
    """The look of a side in that precision."""
    look = LIGHT.look(precision)
    return SideLook(precision.value, look.symbol, look.dash, fill)


def side_looks(sides: Sequence[Side]) -> dict[str, SideLook]:
    """The look of each side by its id."""
    fills = side_fills(sides)
    return {side.id: precision_look(side.precision, fills[side.id]) for side in sides}


def side_fills(sides: Sequence[Side]) -> dict[str, MarkFill]:
    """How each side's mark is filled, by its id; of one precision the first is full, the fourth again."""
    seen: Counter[Precision] = Counter()
    fills = {}
    for side in sides:
        fills[side.id] = MARK_FILLS[seen[side.precision] % len(MARK_FILLS)]
        seen[side.precision] += 1
    return fills
