"""How large everything on a race's card is: on a card of its own, within a page, and on a narrow page."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """Lengths and sizes of type in pixels.

    `height` 0: as high as it needs. `panel` is how wide the tanks' panel beside the lanes is, and 0 where the
    memory is told below them. `lane` is the most that the blocks of a lane take of the height, and `number`
    the size of the huge ratio.
    """

    width: float
    height: float
    margin: float
    gap: float
    panel: float
    lane: float
    number: float
    title: float
    sentence: float
    name: float
    detail: float
    caption: float
    small: float

    @property
    def inner(self) -> float:
        """What is left within the margins."""
        return self.width - 2 * self.margin

    @property
    def lanes(self) -> float:
        """How wide the lanes are."""
        return self.inner - (self.panel + self.gap if self.panel else 0)


CARD = Sizes(
    width=1280,
    height=720,
    margin=44,
    gap=36,
    panel=250,
    lane=117,
    number=160,
    title=30,
    sentence=16,
    name=25,
    detail=15,
    caption=32,
    small=14,
)
WIDE = Sizes(
    width=926,
    height=0,
    margin=0,
    gap=28,
    panel=200,
    lane=92,
    number=112,
    title=0,
    sentence=0,
    name=19,
    detail=13,
    caption=23,
    small=13,
)
MEDIUM = replace(WIDE, width=600, gap=20, panel=0, lane=78, number=96, name=18, caption=21)
NARROW = replace(MEDIUM, width=372, lane=80, number=84, name=17, caption=19)
