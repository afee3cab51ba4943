"""A race on a card: lanes, ratio and memory; one that stands alone also says what was measured, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.drawing.blocks import Blocks, grid_for
from engine.drawing.shapes import Drawing, Shape, Words, shortened, text_width, wrapped, wrapped_evenly
from engine.race import words as race_words
from engine.race.memory import ROOM_FOR_ACTIVITY, activity_bars, bars, tanks
from engine.race.parts import CARD, Part, Sizes, lane_heading, ratio, still
from engine.race.race import LANES, Moment, Race, Which

_MOST_DOUBTS = 2


@dataclass(frozen=True, eq=False)
class Card:
    """A race's card, on the ground of ink `ground`; `parts` are drawn from their shapes of a moment."""

    race: Race
    sizes: Sizes
    ground: str
    height: float
    parts: tuple[Part, ...]
    lanes: tuple[Blocks, Blocks]

    def still(self) -> Drawing:
        """The shapes that are the same at every moment."""
        return self._drawing([shape for part in self.parts for shape in part.still])

    def moving(self, moment: Moment) -> Drawing:
        """The shapes of this moment."""
        return self._drawing([shape for part in self.parts for shape in part.moving(moment)])

    def drawing(self, moment: Moment) -> Drawing:
        """Both; the blocks come on top of it."""
        shapes = [shape for part in self.parts for shape in (*part.still, *part.moving(moment))]
        return self._drawing(shapes, _description(self.race, moment))

    def blocks(self, moment: Moment) -> tuple[Blocks, Blocks]:
        """The blocks of both lanes, lit as far as each has come."""
        full, mixed = self.lanes
        return full.with_lit(moment.full.blocks), mixed.with_lit(moment.mixed.blocks)

    def _drawing(self, shapes: list[Shape], description: str = "") -> Drawing:
        return Drawing(self.sizes.width, self.height, tuple(shapes), description)


def race_card(race: Race, tiles: NDArray[np.uint8], facts: Sequence[str]) -> Card:
    """The card that stands alone, 1,280 by 720: with title, doubts, and `facts` in lines at its foot."""
    has_memory = any(peak is not None for peak in race.peaks_mib)
    sizes = CARD if has_memory else replace(CARD, panel=0)
    foot = _foot(race, facts, sizes)
    head = _head(race, sizes)
    floor = foot.bottom - 18
    full, full_blocks = _lane(race, "full", tiles, sizes, head.bottom)
    mixed_height = full.bottom - head.bottom
    mixed, mixed_blocks = _lane(race, "mixed", tiles, sizes, floor - mixed_height)
    between = floor - mixed_height - full.bottom
    number = ratio(race, sizes, sizes.margin, full.bottom, between)
    parts: tuple[Part, ...] = (head, full, number, mixed, foot)
    if has_memory:
        left = sizes.margin + sizes.lanes + sizes.gap
        parts += (tanks(race, sizes, left, sizes.margin, floor - sizes.margin),)
    return Card(race, sizes, "bg0", sizes.height, parts, (full_blocks, mixed_blocks))


def page_card(race: Race, tiles: NDArray[np.uint8], sizes: Sizes) -> Card:
    """The card within a page that says the rest itself."""
    gap = 1.1 * sizes.caption
    full, full_blocks = _lane(race, "full", tiles, sizes, 0)
    number = ratio(race, sizes, 0, full.bottom + gap, 0)
    mixed, mixed_blocks = _lane(race, "mixed", tiles, sizes, number.bottom + gap)
    if sizes.panel:
        memory = tanks(race, sizes, sizes.lanes + sizes.gap, 0, mixed.bottom)
        is_told = mixed.bottom >= ROOM_FOR_ACTIVITY
    else:
        memory, is_told = bars(race, sizes, 0, mixed.bottom + 0.6 * gap), False
    activity = still((), memory.bottom) if is_told else activity_bars(race, sizes, 0, memory.bottom)
    parts = (full, number, mixed, memory, activity, _playback_rate(race, sizes, activity.bottom))
    return Card(race, sizes, "bg1", parts[-1].bottom, parts, (full_blocks, mixed_blocks))


def _lane(
    race: Race, which: Which, tiles: NDArray[np.uint8], sizes: Sizes, top: float
) -> tuple[Part, Blocks]:
    heading = lane_heading(race, which, sizes, sizes.margin, top)
    grid = grid_for(race.blocks, sizes.lanes, sizes.lane)
    ink = race.lane(which).side.precision.value
    blocks = Blocks(sizes.margin, heading.bottom, grid, 0, ink, tiles)
    return replace(heading, bottom=heading.bottom + grid.height), blocks


def _head(race: Race, sizes: Sizes) -> Part:
    top = sizes.margin + 0.75 * sizes.title
    title = race_words.title(race)
    size = max(0.75, min(1.0, sizes.lanes / text_width(title, sizes.title, 600))) * sizes.title
    text = shortened(title, sizes.lanes + 1, size, 600)
    shapes: list[Shape] = [Words(sizes.margin, top, text, "text", size, 600)]
    down = top + 0.5 * sizes.sentence
    for line in wrapped_evenly(race_words.sentence(race), sizes.lanes, sizes.sentence, most=3):
        down += 1.4 * sizes.sentence
        shapes.append(Words(sizes.margin, down, line, "text2", sizes.sentence))
    return still(tuple(shapes), down + 2.0 * sizes.sentence)


def _foot(race: Race, facts: Sequence[str], sizes: Sizes) -> Part:
    """Doubts and facts, at the lower edge; its `bottom` is its upper edge."""
    size, room = sizes.small, sizes.inner
    pitch = 1.45 * size
    lines = [shortened(line, room, size) for line in (*facts, *_shown(race)) if line]
    begin = f"{race_words.caution(race)}: "
    aside = text_width(begin, size, 600) + 4
    doubts = _doubt_lines(race, room - aside, size)
    baseline = sizes.height - 0.6 * sizes.margin
    top = baseline - pitch * (len(lines) + len(doubts) - 1)
    shapes: list[Shape] = []
    if doubts:
        shapes.append(Words(sizes.margin, top, begin.strip(), "text", size, 600))
        shapes += [
            Words(sizes.margin + aside, top + place * pitch, line, "text", size)
            for place, line in enumerate(doubts)
        ]
    first = top + pitch * len(doubts)
    shapes += [
        Words(sizes.margin, first + place * pitch, line, "text3", size) for place, line in enumerate(lines)
    ]
    return still(tuple(shapes), top - size)


def _doubt_lines(race: Race, room: float, size: float) -> tuple[str, ...]:
    doubts = race_words.doubt_words(race)
    return wrapped(" ".join(doubts), room, size, most=_MOST_DOUBTS) if doubts else ()


def _shown(race: Race) -> tuple[str, ...]:
    words = race_words.playback_rate_words(race)
    return (words,) if words else ()


def _playback_rate(race: Race, sizes: Sizes, top: float) -> Part:
    lines = _shown(race)
    shapes = tuple(Words(0, top + 1.8 * sizes.small, line, "text3", sizes.small) for line in lines)
    return still(shapes, top + (2.2 * sizes.small if lines else 2))


def _description(race: Race, moment: Moment) -> str:
    """The card in up to three sentences, for screen readers."""
    lanes = []
    for which in LANES:
        named = filter(None, (race_words.lane_name(race, which), race_words.lane_detail(race, which)))
        counted = f"{moment.lane(which).samples:,} {race_words.counter_words(race, which, moment)}"
        lanes.append(f"{', '.join(named)}: {counted}")
    return f"{'. '.join(lanes)}. {race_words.spoken(race, moment)}."
