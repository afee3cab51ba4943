"""The parts of a replay's card: lane headings, the large ratio with its caption, and all sizes.

A card has different sizes on its own, within a page, on a narrow page, and in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import (
    CAPITAL,
    Measure,
    Shape,
    Words,
    font_at,
    font_file,
    shortened,
    text_width,
    wrapped_evenly,
)
from engine.race.scene import Count, Instant, Scene

SIGN = "\N{MULTIPLICATION SIGN}"

_DESIGN = 208  # the size of type for which the lengths below were measured
_SPACING = -7 / _DESIGN
_LEAST_GAP, _MOST_GAP, _LAST_GAP = 0.038, 0.09, 0.066
"""Between the outlines of two digits; the most after a 1 that leads, which is narrow in its place; and what
stands after the last digit whichever it is."""

_SIGN_SIZE, _SIGN_GAP = 168 / _DESIGN, 9 / _DESIGN
_SIGN_RISE = 21 / _DESIGN  # how far the sign stands above the digits' baseline, so that their middles meet
DIGIT_WEIGHT, _SIGN_WEIGHT = 700, 600


@dataclass(frozen=True)
class Metrics:
    """Measures text: its width, and the left and right edge of a digit, in multiples of the font size."""

    width_of: Measure
    edges: Callable[[str], tuple[float, float]]

    def advance(self, letter: str, weight: int) -> float:
        """Return a letter's width in font sizes."""
        return self.width_of(letter, MEASURED_AT, weight) / MEASURED_AT


@dataclass(frozen=True)
class Number:
    """A number laid out for drawing: the offsets of its digits and of the ×, and the width.

    All are multiples of the font size.
    """

    digits: tuple[tuple[str, float], ...]
    sign: float
    width: float

    def shapes(self, x: float, baseline: float, size: float) -> tuple[Shape, ...]:
        raised = baseline - _SIGN_RISE * size
        return (
            *(
                Words(x + place * size, baseline, text, "text", size, DIGIT_WEIGHT)
                for text, place in self.digits
            ),
            Words(x + self.sign * size, raised, SIGN, "text", _SIGN_SIZE * size, _SIGN_WEIGHT),
        )


def _drawn_edges(digit: str) -> tuple[float, float]:
    mask, (begin, _) = font_at(font_file(DIGIT_WEIGHT), MEASURED_AT).getmask2(digit, anchor="ls")
    # the mask is as wide as the advance
    left, _, right, _ = mask.getbbox()
    return (begin + left) / MEASURED_AT, (begin + right) / MEASURED_AT


MEASURED_AT = 1024

DRAWN = Metrics(text_width, _drawn_edges)  # of the fonts of drawings


@lru_cache(maxsize=64)
def laid_out(text: str, room_for: str, metrics: Metrics = DRAWN) -> Number:
    """Lay out a number that counts up to `room_for`.

    Its digits have the positions of that number, so the point and the sign do not move, except by a full
    position when the number gains a digit.
    """
    # what is still shorter than what it comes to begins at the same edge
    like = room_for if len(room_for) == len(text) else text
    # whichever digit counts through a place has room; a leading 1 never changes
    like = like[:1] + like[1:].replace("1", "0")
    places = _places(like, metrics)
    digits: list[tuple[str, float]] = []
    for digit, (begin, advance) in zip(text, places, strict=True):
        x = begin + (advance - metrics.advance(digit, DIGIT_WEIGHT)) / 2
        # a digit wider than the first one it comes to is not cut off
        digits.append((digit, x if digits else max(x, -metrics.edges(digit)[0])))
    sign = 0.0
    if text:
        sign = places[-1][0] + metrics.edges(like[-1])[1] + _LAST_GAP + _SPACING + _SIGN_GAP
    return Number(tuple(digits), sign, sign + _SIGN_SIZE * metrics.advance(SIGN, _SIGN_WEIGHT))


def _places(text: str, metrics: Metrics) -> list[tuple[float, float]]:
    edges = [metrics.edges(character) for character in text]
    places: list[tuple[float, float]] = []
    for number, (character, (left, _)) in enumerate(zip(text, edges, strict=True)):
        place = -left
        if number:
            outline_end = places[-1][0] + edges[number - 1][1]
            place = max(sum(places[-1]) + _SPACING, outline_end + _LEAST_GAP - left)
            if number == 1 and text[0] == "1":
                place = min(place, outline_end + _MOST_GAP - left)
        places.append((place, metrics.advance(character, DIGIT_WEIGHT)))
    return places


@dataclass(frozen=True)
class Sizes:
    """The lengths and font sizes of a replay's drawing, in pixels.

    With `height` 0 the drawing is as high as needed. `panel` is the width of the memory panel next to the
    lanes, or 0 if the memory is below them. `lane` is the largest height of a lane's blocks, and `number` the
    font size of the ratio. With `is_live`, room is left for the window's buttons. `snap` aligns an edge with
    a pixel.
    """

    width: float
    height: float
    margin: float
    top: float
    bottom: float
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
    is_live: bool = False
    metrics: Metrics = DRAWN
    snap: Callable[[float], float] = round

    @property
    def inner(self) -> float:
        """The width within the margins."""
        return self.width - 2 * self.margin

    @property
    def lanes(self) -> float:
        """The width of the lanes."""
        return self.inner - (self.panel + self.gap if self.panel else 0)

    def width_of(self, text: str, size: float, weight: int = 400) -> float:
        return self.metrics.width_of(text, size, weight)

    def cut(self, text: str, room: float, size: float, weight: int = 400) -> str:
        """Return the text, shortened to the room."""
        return shortened(text, room, size, weight, width_of=self.metrics.width_of)

    def lines(self, text: str, room: float, size: float, weight: int = 400) -> tuple[str, ...]:
        """Return the text on up to three lines of about equal length, or none without text."""
        width_of = self.metrics.width_of
        return wrapped_evenly(text, room, size, weight, most=3, width_of=width_of) if text else ()


CARD = Sizes(
    width=1280,
    height=720,
    margin=44,
    top=44,
    bottom=26,
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
WIDE = replace(
    CARD,
    width=926,
    height=0,
    margin=0,
    gap=28,
    panel=200,
    lane=92,
    number=112,
    name=19,
    detail=13,
    caption=23,
    small=13,
)
MEDIUM = replace(WIDE, width=600, gap=20, panel=0, lane=78, number=96, name=18, caption=21)
NARROW = replace(MEDIUM, width=372, lane=80, number=84, name=17, caption=19)


_MARK = 0.66
_APART = 0.5
_CLEAR = 26.0  # above and below the number


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a replay's drawing: fixed shapes within `area`, and moving ones within `moves`.

    `words` is all its text. `places` are the rectangles of the window's buttons.
    """

    area: Rect
    still: tuple[Shape, ...] = ()
    moving: Callable[[Instant], tuple[Shape, ...]] = lambda instant: ()
    moves: Rect | None = None
    words: Callable[[Instant], str] = lambda instant: ""
    places: Mapping[str, Rect] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def bottom(self) -> float:
        return self.area.bottom


def lane_heading(scene: Scene, which: int, sizes: Sizes, top: float) -> Part:
    """Return a lane's heading: mark, name and detail left, the counter right, on one or two rows."""
    head, x, size = scene.heads[which], sizes.margin, sizes.name
    look, right = head.look, sizes.margin + sizes.lanes
    baseline = top + CAPITAL * size
    name_x = x + 1.1 * size
    needed = sizes.width_of(head.name, size, 600) + 1.1 * size + 24
    # on a narrow page the count has no more than its unit beside it: the detail says how the lane ended
    is_brief = needed + _widest_counter(scene, which, sizes) > sizes.lanes
    room = sizes.lanes - 24 - _widest_counter(scene, which, sizes, is_brief=is_brief)
    name = sizes.cut(head.name, room - 1.1 * size, size, 600)
    beside = name_x + sizes.width_of(name, size, 600) + 0.6 * size
    # the same for both lanes
    rows = max(_rows(scene, which, sizes) for which in (0, 1))
    at = (beside, baseline) if rows == 1 else (x, baseline + 1.6 * sizes.detail)
    detail = sizes.cut(head.detail, sizes.lanes - (0 if rows == 2 else at[0] - x), sizes.detail)
    shapes = (
        *look.mark(x + _MARK * size / 2, baseline - CAPITAL * size / 2, _MARK * size),
        Words(name_x, baseline, name, "text", size, 600),
        Words(*at, detail, "text2", sizes.detail),
    )

    def counter(instant: Instant) -> tuple[Shape, ...]:
        count = instant.counts[which]
        words = _counter_words(count, is_brief=is_brief)
        before = right - sizes.width_of(words, sizes.detail) - _APART * size
        return (
            Words(right, baseline, words, "text2", sizes.detail, anchor="end"),
            Words(before, baseline, count.samples, look.ink, size, 600, "end"),
        )

    def spoken(instant: Instant) -> str:
        count = instant.counts[which]
        return " ".join(filter(None, (head.name, head.detail, count.samples, count.words)))

    return Part(Rect(x, top, right, at[1] + 0.7 * size), shapes, counter, words=spoken)


def _rows(scene: Scene, which: int, sizes: Sizes) -> int:
    head, counter = scene.heads[which], _widest_counter(scene, which, sizes)
    name = sizes.width_of(head.name, sizes.name, 600)
    detail = sizes.width_of(head.detail, sizes.detail)
    needed = 1.7 * sizes.name + name + detail + 24 + counter
    return 1 if needed <= sizes.lanes else 2


def _counter_words(count: Count, *, is_brief: bool) -> str:
    return count.brief if is_brief else count.words


def _widest_counter(scene: Scene, which: int, sizes: Sizes, *, is_brief: bool = False) -> float:
    return max(
        sizes.width_of(_counter_words(count, is_brief=is_brief), sizes.detail)
        + _APART * sizes.name
        + sizes.width_of(count.samples, sizes.name, 600)
        for count in (instant.counts[which] for instant in scene.instants)
    )


def ratio(scene: Scene, sizes: Sizes, top: float, height: float) -> Part:
    """Return the ratio, its caption next to it or below, and its certainty, centered in `height`."""
    x, metrics = sizes.margin, sizes.metrics
    words = [line for instant in scene.instants for line in instant.caption]
    widest = max(sizes.width_of(word, sizes.caption, 600) for word in words)
    texts = [instant.number for instant in scene.instants if instant.number]
    final = scene.end.number or ""
    widest_number = max((laid_out(text, final, metrics).width for text in texts), default=0.0)
    gap = 0.35 * sizes.caption + 16
    beside_most = sizes.lanes - gap - min(widest, 0.55 * sizes.lanes)
    is_beside = not texts or height > 0 or widest_number * sizes.number <= beside_most
    size = min(sizes.number, (height - 2 * _CLEAR) / CAPITAL) if height > 0 else sizes.number
    if texts:
        # a window that is next to nothing has no room at all
        size = max(min(size, (beside_most if is_beside else sizes.lanes) / widest_number), 1.0)
    number_height = CAPITAL * size if texts else 0.0
    left = x + widest_number * size + gap if is_beside and texts else x
    block = _Caption(scene, sizes, left, x + sizes.lanes - left)
    if is_beside:
        needed = max(number_height, block.height)
        middle = top + max(height, needed) / 2
        number_base, caption_top = middle + number_height / 2, middle - block.height / 2
    else:
        needed = number_height + 0.8 * sizes.caption + block.height
        number_base = top + number_height
        caption_top = number_base + 0.8 * sizes.caption
    below = caption_top + block.height

    def moving(instant: Instant) -> tuple[Shape, ...]:
        text = instant.number
        shown = laid_out(text, final, metrics).shapes(x, number_base, size) if text else ()
        return *shown, *block.shapes(instant, caption_top)

    return Part(
        Rect(x, top, x + sizes.lanes, top + max(height, needed)),
        moving=moving,
        words=lambda instant: " ".join(filter(None, instant.caption)),
        places={
            "number": Rect(x, number_base - number_height, x + widest_number * size, number_base),
            "certainty": Rect(left, caption_top + block.text_height, x + sizes.lanes, below),
        },
    )


class _Caption:
    """The caption of the number, and at the end how sure it is."""

    def __init__(self, scene: Scene, sizes: Sizes, x: float, room: float) -> None:
        self._sizes, self._x, self._room = sizes, x, room
        lines = max(len(self._lines(instant)) for instant in scene.instants)
        self.text_height = (1 + 1.25 * lines) * sizes.caption
        below = 2.2 * sizes.small if sizes.is_live else 1.5 * sizes.small * len(self._sure(scene.end))
        self.height = self.text_height + below

    def shapes(self, instant: Instant, top: float) -> tuple[Shape, ...]:
        size, x = self._sizes.caption, self._x
        strong = self._sizes.cut(instant.caption[0], self._room, size, 600)
        down = top + 0.85 * size
        shown: list[Shape] = [Words(x, down, strong, "text", size, 600)]
        for line in self._lines(instant):
            down += 1.25 * size
            shown.append(Words(x, down, line, "text2", size))
        small = self._sizes.small
        down += 0.5 * small + 2
        for line in self._sure(instant):
            down += 1.4 * small
            shown.append(Words(x, down, line, "text3", small))
        return tuple(shown)

    def _lines(self, instant: Instant) -> tuple[str, ...]:
        return self._sizes.lines(instant.caption[1], self._room, self._sizes.caption)

    def _sure(self, instant: Instant) -> tuple[str, ...]:
        words = "" if self._sizes.is_live else instant.sure
        return self._sizes.lines(words, self._room, self._sizes.small)
