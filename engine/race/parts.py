"""The parts of a race's card: lane headings, the large ratio with its caption, and all sizes.

A card has its own sizes when it stands alone, within a page, and on a narrow page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.drawing.shapes import CAPITAL, Shape, Words, shortened, text_width, wrapped_evenly
from engine.race import words as race_words
from engine.race.number import laid_out
from engine.race.race import LANES, Moment, Race, Which


@dataclass(frozen=True)
class Sizes:
    """Lengths and sizes of type in pixels.

    `height` is 0 for as much as it needs. `panel` is the width of the tanks' panel beside the lanes, and 0
    where the memory stands below them. `lane` is the largest height of a lane's blocks, and `number` the size
    of the huge ratio.
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
        """The width within the margins."""
        return self.width - 2 * self.margin

    @property
    def lanes(self) -> float:
        """The width of the lanes."""
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


_MARK = 0.66
_APART = 0.5
_CLEAR = 26.0
"""Above and below the number."""


@dataclass(frozen=True, eq=False)
class Part:
    """Shapes that stay, and shapes of a moment; what comes below may begin at `bottom`."""

    still: tuple[Shape, ...]
    moving: Callable[[Moment], tuple[Shape, ...]]
    bottom: float


def still(shapes: tuple[Shape, ...], bottom: float) -> Part:
    """A part in which nothing moves."""
    return Part(shapes, lambda moment: (), bottom)


def lane_heading(race: Race, which: Which, sizes: Sizes, x: float, top: float) -> Part:
    """Mark, name and detail at the left, the counter at the right; on two rows where one is too short."""
    side = race.lane(which).side
    look = race.looks[side.id]
    baseline = top + CAPITAL * sizes.name
    name = race_words.lane_name(race, which)
    name_x = x + 1.1 * sizes.name
    needed = text_width(name, sizes.name, 600) + 1.1 * sizes.name + 24
    # on a narrow page the count has no more than its unit beside it: the detail says how the lane ended
    is_brief = needed + _widest_counter(race, which, sizes) > sizes.lanes
    room = sizes.lanes - 24 - _widest_counter(race, which, sizes, is_brief=is_brief)
    name = shortened(name, room - 1.1 * sizes.name, sizes.name, 600)
    detail = race_words.lane_detail(race, which)
    beside = name_x + text_width(name, sizes.name, 600) + 0.6 * sizes.name
    rows = heading_rows(race, sizes)
    at = (beside, baseline) if rows == 1 else (x, baseline + 1.6 * sizes.detail)
    detail = shortened(detail, sizes.lanes - (0 if rows == 2 else at[0] - x), sizes.detail)
    shapes = (
        *look.mark(x + _MARK * sizes.name / 2, baseline - CAPITAL * sizes.name / 2, _MARK * sizes.name),
        Words(name_x, baseline, name, "text", sizes.name, 600),
        Words(*at, detail, "text2", sizes.detail),
    )

    def counter(moment: Moment) -> tuple[Shape, ...]:
        words = race_words.counter_words(race, which, moment, is_brief=is_brief)
        right = x + sizes.lanes
        before = right - text_width(words, sizes.detail) - _APART * sizes.name
        count = _count(moment, which)
        return (
            Words(right, baseline, words, "text2", sizes.detail, anchor="end"),
            Words(before, baseline, count, look.ink, sizes.name, 600, "end"),
        )

    return Part(shapes, counter, at[1] + 0.55 * sizes.name)


def heading_rows(race: Race, sizes: Sizes) -> int:
    """The number of rows of a heading, the same for both lanes."""
    return max(_rows(race, which, sizes) for which in LANES)


def _rows(race: Race, which: Which, sizes: Sizes) -> int:
    counter = _widest_counter(race, which, sizes)
    name = text_width(race_words.lane_name(race, which), sizes.name, 600)
    detail = text_width(race_words.lane_detail(race, which), sizes.detail)
    needed = 1.7 * sizes.name + name + detail + 24 + counter
    return 1 if needed <= sizes.lanes else 2


def _count(moment: Moment, which: Which) -> str:
    return f"{moment.lane(which).samples:,}"


def _widest_counter(race: Race, which: Which, sizes: Sizes, *, is_brief: bool = False) -> float:
    return max(
        text_width(race_words.counter_words(race, which, moment, is_brief=is_brief), sizes.detail)
        + _APART * sizes.name
        + text_width(_count(moment, which), sizes.name, 600)
        for moment in race.telling_moments
    )


def ratio(race: Race, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """The ratio, its caption and how sure it is; it is centred in `height` where that is more than it needs.

    The caption stands beside the number, or below where there is no room.
    """
    moments = race.telling_moments
    words = [line for moment in moments for line in race_words.caption(race, moment)]
    widest = max(text_width(word, sizes.caption, 600) for word in words)
    texts = [text for moment in moments if (text := race_words.counted_text(race, moment))]
    final = race_words.counted_text(race, race.at(race.seconds)) or ""
    widest_number = max((laid_out(text, final).width for text in texts), default=0.0)
    gap = 0.35 * sizes.caption + 16
    beside_most = sizes.lanes - gap - min(widest, 0.55 * sizes.lanes)
    is_beside = not texts or height > 0 or widest_number * sizes.number <= beside_most
    size = min(sizes.number, (height - 2 * _CLEAR) / CAPITAL) if height > 0 else sizes.number
    if texts:
        size = min(size, (beside_most if is_beside else sizes.lanes) / widest_number)
    number_height = CAPITAL * size if texts else 0.0
    left = x + widest_number * size + gap if is_beside and texts else x
    room = x + sizes.lanes - left
    block = _Caption(race, sizes, left, room)
    if is_beside:
        needed = max(number_height, block.height)
        middle = top + max(height, needed) / 2
        number_base, caption_top = middle + number_height / 2, middle - block.height / 2
    else:
        needed = number_height + 0.8 * sizes.caption + block.height
        number_base = top + number_height
        caption_top = number_base + 0.8 * sizes.caption

    def moving(moment: Moment) -> tuple[Shape, ...]:
        text = race_words.counted_text(race, moment)
        shown = laid_out(text, final).shapes(x, number_base, size) if text else ()
        return *shown, *block.shapes(moment, caption_top)

    return Part((), moving, top + max(height, needed))


class _Caption:
    """What the number counts, and at the end how sure it is."""

    def __init__(self, race: Race, sizes: Sizes, x: float, room: float) -> None:
        self._race, self._sizes, self._x, self._room = race, sizes, x, room
        lines = max(len(self._lines(moment)) for moment in race.telling_moments)
        self.height = (1 + 1.25 * lines) * sizes.caption + 1.5 * sizes.small * len(self._sure())

    def shapes(self, moment: Moment, top: float) -> tuple[Shape, ...]:
        size, x = self._sizes.caption, self._x
        strong = shortened(race_words.caption(self._race, moment)[0], self._room, size, 600)
        down = top + 0.85 * size
        shown: list[Shape] = [Words(x, down, strong, "text", size, 600)]
        for line in self._lines(moment):
            down += 1.25 * size
            shown.append(Words(x, down, line, "text2", size))
        small = self._sizes.small
        down += 0.5 * small + 2
        for line in self._sure() if moment.is_over else ():
            down += 1.4 * small
            shown.append(Words(x, down, line, "text3", small))
        return tuple(shown)

    def _lines(self, moment: Moment) -> tuple[str, ...]:
        return wrapped_evenly(
            race_words.caption(self._race, moment)[1], self._room, self._sizes.caption, most=3
        )

    def _sure(self) -> tuple[str, ...]:
        # without a ratio the caption says why
        words = "" if self._race.ratio is None else race_words.sure_words(self._race)
        return wrapped_evenly(words, self._room, self._sizes.small, most=3) if words else ()
