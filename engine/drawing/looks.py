"""The names of the charts, and the look of the sides of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.compare.sides import Side
from engine.drawing.shapes import Shape, Stroke, marker
from engine.experiment.experiment import Precision
from resources.looks import LIGHT, MARK_FILLS, MarkFill

ChartName = Literal["throughput", "loss", "accuracy", "memory", "difference"]
CHART_NAMES: tuple[ChartName, ...] = get_args(ChartName)

RACE = "race"  # the name of a race's card, beside those of the charts
By = Literal["step", "seconds", "samples"]
BYS: tuple[By, ...] = get_args(By)

ThemeName = Literal["dark", "light"]
THEME_NAMES: tuple[ThemeName, ...] = get_args(ThemeName)


@dataclass(frozen=True)
class SideLook:
    """The look of a side in every chart: color, symbol and dash of its precision.

    Sides of one precision differ in `fill`.
    """

    ink: str
    symbol: str
    dash: tuple[float, ...]
    fill: MarkFill

    def mark(self, x: float, y: float, size: float) -> tuple[Shape, ...]:
        return marker(self.symbol, x, y, size, self.ink, self.fill)

    def sample(self, x: float, y: float) -> tuple[Shape, ...]:
        """Return a short line with its mark for a legend, 24 pixels wide."""
        return Stroke(((x, y), (x + 24, y)), self.ink, 1.5, self.dash), *self.mark(x + 12, y, 8)


def precision_look(precision: Precision, fill: MarkFill = "full") -> SideLook:
    """Return the look of a precision."""
    look = LIGHT.look(precision)
    return SideLook(precision.value, look.symbol, look.dash, fill)


def side_looks(sides: Sequence[Side]) -> dict[str, SideLook]:
    """Return the look of each side by its id."""
    fills = side_fills(sides)
    return {side.id: precision_look(side.precision, fills[side.id]) for side in sides}


def side_fills(sides: Sequence[Side]) -> dict[str, MarkFill]:
    """Return the fill of each side's mark by its id. Fills alternate among sides of one precision."""
    fills = mark_fills([side.precision for side in sides])
    return {side.id: fill for side, fill in zip(sides, fills, strict=True)}


def mark_fills(precisions: Sequence[Precision]) -> tuple[MarkFill, ...]:
    """Return the fills of sides in these precisions, alternating among equal precisions."""
    seen: Counter[Precision] = Counter()
    fills = []
    for precision in precisions:
        fills.append(MARK_FILLS[seen[precision] % len(MARK_FILLS)])
        seen[precision] += 1
    return tuple(fills)
