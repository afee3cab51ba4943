"""The card of a replay: lanes, ratio and memory, and on its own also the measurement and its date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.drawing.blocks import Blocks, grid_for
from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing, Shape, Words, wrapped
from engine.race.memory import ROOM_FOR_ACTIVITY, activity_bars, bars, gauges
from engine.race.parts import CARD, Part, Sizes, lane_heading, ratio
from engine.race.scene import Instant, Scene

_MOST_DOUBTS = 2


@dataclass(frozen=True, eq=False)
class Card:
    """The drawing of a replay, laid out for one size. `ground` is the background color.

    Its shapes are divided into the fixed ones and the moving ones at an instant.
    """

    scene: Scene
    sizes: Sizes
    ground: str
    height: float
    parts: tuple[Part, ...]
    lanes: tuple[Blocks, Blocks]

    def still(self) -> Drawing:
        """Return the shapes that stay the same."""
        return self._drawing([shape for part in self.parts for shape in part.still])

    def moving(self, instant: Instant) -> Drawing:
        """Return the shapes of an instant."""
        return self._drawing([shape for part in self.parts for shape in part.moving(instant)])

    def drawing(self, instant: Instant) -> Drawing:
        """Return all shapes at an instant, without the blocks, which go on top."""
        shapes = [shape for part in self.parts for shape in (*part.still, *part.moving(instant))]
        return self._drawing(shapes, _description(self.scene, instant))

    def blocks(self, instant: Instant) -> tuple[Blocks, Blocks]:
        """Return the blocks of both lanes, lit by each lane's progress."""
        full, mixed = self.lanes
        return full.with_lit(instant.counts[0].blocks), mixed.with_lit(instant.counts[1].blocks)

    def words(self, instant: Instant) -> str:
        return " ".join(filter(None, (part.words(instant) for part in self.parts)))

    def _drawing(self, shapes: list[Shape], description: str = "") -> Drawing:
        return Drawing(self.sizes.width, self.height, tuple(shapes), description)


def race_card(scene: Scene, facts: Sequence[str] = (), sizes: Sizes = CARD) -> Card:
    """Return a card on its own, with its title. Unless live it has doubts and `facts` at its foot."""
    if not scene.peaks:
        sizes = replace(sizes, panel=0)
    head = _head(scene, sizes)
    feet = () if sizes.is_live else (_foot(scene, facts, sizes),)
    floor = feet[0].area.top - 18 if feet else sizes.height - sizes.bottom
    full, full_blocks = _lane(scene, 0, sizes, head.bottom)
    mixed_top = floor - (full_blocks.bottom - head.bottom)
    mixed, mixed_blocks = _lane(scene, 1, sizes, mixed_top)
    number = ratio(scene, sizes, full_blocks.bottom, mixed_top - full_blocks.bottom)
    parts: tuple[Part, ...] = (head, full, number, mixed, *feet)
    if scene.peaks:
        left = sizes.margin + sizes.lanes + sizes.gap
        parts += (gauges(scene, sizes, left, sizes.top, floor - sizes.top),)
    return Card(scene, sizes, "bg0", sizes.height, parts, (full_blocks, mixed_blocks))


def page_card(scene: Scene, sizes: Sizes) -> Card:
    """Return the card for a page that has the title and the doubts itself."""
    gap = 1.1 * sizes.caption
    full, full_blocks = _lane(scene, 0, sizes, 0)
    number = ratio(scene, sizes, full_blocks.bottom + gap, 0)
    mixed, mixed_blocks = _lane(scene, 1, sizes, number.bottom + gap)
    bottom = mixed_blocks.bottom
    if sizes.panel:
        memory = gauges(scene, sizes, sizes.lanes + sizes.gap, 0, bottom)
    else:
        memory = bars(scene, sizes, bottom + 0.6 * gap)
    is_told = sizes.panel > 0 and bottom >= ROOM_FOR_ACTIVITY
    parts = (full, number, mixed, memory, *(() if is_told else activity_bars(scene, sizes, memory.bottom)))
    parts += (_pace(scene, sizes, parts[-1].bottom),)
    return Card(scene, sizes, "bg1", parts[-1].bottom, parts, (full_blocks, mixed_blocks))


def _lane(scene: Scene, which: int, sizes: Sizes, top: float) -> tuple[Part, Blocks]:
    heading, look = lane_heading(scene, which, sizes, top), scene.heads[which].look
    grid = grid_for(scene.blocks, sizes.lanes, sizes.lane)
    return heading, Blocks(sizes.margin, heading.bottom, grid, 0, look.ink, scene.tiles, look.fill)


def _head(scene: Scene, sizes: Sizes) -> Part:
    left, down = sizes.margin, sizes.top + (1.0 if sizes.is_live else 0.75) * sizes.title
    size = max(0.75, min(1.0, sizes.lanes / sizes.width_of(scene.title, sizes.title, 600))) * sizes.title
    text = sizes.cut(scene.title, sizes.lanes + 1, size, 600)
    shapes: list[Shape] = [Words(left, down, text, "text", size, 600)]
    down += 0.5 * sizes.sentence
    # without a foot the replay's pace stands here
    sentence = " ".join(filter(None, (scene.sentence, scene.pace if sizes.is_live else "")))
    for line in sizes.lines(sentence, sizes.lanes, sizes.sentence):
        down += 1.4 * sizes.sentence
        shapes.append(Words(left, down, line, "text2", sizes.sentence))
    words, places = (scene.title, sentence), {}
    if sizes.is_live and scene.doubts:
        line_top, down = down + 0.7 * sizes.detail, down + 2.9 * sizes.detail
        shown, right = _first_doubt(scene, sizes, down - 0.75 * sizes.detail)
        shapes += shown
        words += (*(() if scene.is_spoiled else (f"{scene.caution}:",)), scene.doubts[0])
        places["doubts"] = Rect(right, line_top, left + sizes.lanes, down)
    area = Rect(left, sizes.top, left + sizes.lanes, down + 2.2 * sizes.sentence)
    return Part(area, tuple(shapes), words=lambda instant: " ".join(filter(None, words)), places=places)


def _first_doubt(scene: Scene, sizes: Sizes, baseline: float) -> tuple[list[Shape], float]:
    size, x = sizes.detail, sizes.margin
    shapes: list[Shape] = []
    if not scene.is_spoiled:
        begin = f"{scene.caution}:"
        shapes.append(Words(x, baseline, begin, "text", size, 600))
        x += sizes.width_of(begin, size, 600) + 0.4 * size
    buttons = (17 if scene.is_spoiled else 7) * size
    text = sizes.cut(scene.doubts[0], sizes.margin + sizes.lanes - buttons - x, size)
    return [*shapes, Words(x, baseline, text, "text2", size)], x + sizes.width_of(text, size) + 0.8 * size


def _foot(scene: Scene, facts: Sequence[str], sizes: Sizes) -> Part:
    size, left, room = sizes.small, sizes.margin, sizes.inner
    pitch = 1.45 * size
    lines = [sizes.cut(line, room, size) for line in (*facts, scene.pace) if line]
    begin = f"{scene.caution}: "
    aside = sizes.width_of(begin, size, 600) + 4
    doubts = wrapped(" ".join(scene.doubts), room - aside, size, most=_MOST_DOUBTS) if scene.doubts else ()
    baseline = sizes.height - sizes.bottom
    top = baseline - pitch * (len(lines) + len(doubts) - 1)
    shapes: list[Shape] = []
    if doubts:
        shapes.append(Words(left, top, begin.strip(), "text", size, 600))
        shapes += [
            Words(left + aside, top + place * pitch, line, "text", size) for place, line in enumerate(doubts)
        ]
    first = top + pitch * len(doubts)
    shapes += [Words(left, first + place * pitch, line, "text3", size) for place, line in enumerate(lines)]
    return Part(Rect(left, top - size, left + room, sizes.height), tuple(shapes))


def _pace(scene: Scene, sizes: Sizes, top: float) -> Part:
    shapes = (Words(0, top + 1.8 * sizes.small, scene.pace, "text3", sizes.small),) if scene.pace else ()
    return Part(Rect(0, top, sizes.width, top + (2.2 * sizes.small if scene.pace else 2)), shapes)


def _description(scene: Scene, instant: Instant) -> str:
    lanes = [
        f"{', '.join(filter(None, (head.name, head.detail)))}: {count.samples} {count.words}"
        for head, count in zip(scene.heads, instant.counts, strict=True)
    ]
    return f"{'. '.join(lanes)}. {instant.spoken}."
