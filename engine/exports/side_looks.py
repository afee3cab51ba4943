"""How each side of a comparison looks in every chart: by its precision, and hollow where two share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.exports.drawing import Shape, Stroke, marker
from engine.records.sides import Side
from resources.looks import LIGHT


@dataclass(frozen=True)
class SideLook:
    """`ink` is the precision's; of two sides of one precision the second has hollow marks."""

    ink: str
    symbol: str
    dash: tuple[float, ...]
    hollow: bool

    def mark(self, x: float, y: float, size: float) -> Shape:
        return marker(self.symbol, x, y, size, self.ink, hollow=self.hollow)

    def sample(self, x: float, y: float) -> tuple[Shape, ...]:
        """A short piece of the line with its mark, as a legend has it, 24 pixels wide."""
        return Stroke(((x, y), (x + 24, y)), self.ink, 1.5, self.dash), self.mark(x + 12, y, 8)


def side_looks(sides: Sequence[Side]) -> dict[str, SideLook]:
    """The look of each side by its id."""
    looks: dict[str, SideLook] = {}
    for place, side in enumerate(sides):
        earlier = sum(other.precision is side.precision for other in sides[:place])
        look = LIGHT.look(side.precision)
        looks[side.id] = SideLook(side.precision.value, look.symbol, look.dash, hollow=earlier % 2 == 1)
    return looks
