"""The huge number of a race, with its multiplication sign: where its figures stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from engine.drawing.fonts import font_file, sized
from engine.drawing.shapes import Measure, Shape, Words, text_width

SIGN = "\N{MULTIPLICATION SIGN}"

_DESIGN = 208
"""The size of type for which the lengths below were measured."""

_SPACING = -7 / _DESIGN
_LEAST_GAP, _MOST_GAP, _LAST_GAP = 0.038, 0.09, 0.066
"""Between the outlines of two figures; the most after a 1 that leads, which is narrow in its place; and what
stands after the last figure whichever it is."""

_SIGN_SIZE, _SIGN_GAP = 168 / _DESIGN, 9 / _DESIGN
_SIGN_RISE = 21 / _DESIGN
"""How far the sign stands above the figures' baseline, so that their middles meet."""

FIGURE_WEIGHT, _SIGN_WEIGHT = 700, 600


@dataclass(frozen=True)
class Metrics:
    """How a medium measures text: its width, and the left and right edge of a figure in sizes of type."""

    width_of: Measure
    edges: Callable[[str], tuple[float, float]]

    def advance(self, letter: str, weight: int) -> float:
        """A letter's width in sizes of type."""
        return self.width_of(letter, MEASURED_AT, weight) / MEASURED_AT


@dataclass(frozen=True)
class Number:
    """Figures with their places, the sign's place, and the width of all, in sizes of type."""

    figures: tuple[tuple[str, float], ...]
    sign: float
    width: float

    def shapes(self, x: float, baseline: float, size: float) -> tuple[Shape, ...]:
        raised = baseline - _SIGN_RISE * size
        return (
            *(
                Words(x + place * size, baseline, text, "text", size, FIGURE_WEIGHT)
                for text, place in self.figures
            ),
            Words(x + self.sign * size, raised, SIGN, "text", _SIGN_SIZE * size, _SIGN_WEIGHT),
        )


def _drawn_edges(figure: str) -> tuple[float, float]:
    mask, (begin, _) = sized(font_file(FIGURE_WEIGHT), MEASURED_AT).getmask2(figure, anchor="ls")
    # the mask is as wide as the advance
    left, _, right, _ = mask.getbbox()
    return (begin + left) / MEASURED_AT, (begin + right) / MEASURED_AT


MEASURED_AT = 1024

DRAWN = Metrics(text_width, _drawn_edges)
"""Of the fonts of drawings."""


@lru_cache(maxsize=64)
def laid_out(text: str, room_for: str, metrics: Metrics = DRAWN) -> Number:
    """The number while it counts up to `room_for`.

    Its figures stand in the places of that number, so that neither the point nor the sign moves, except by a
    whole place where it gains a figure.
    """
    # what is still shorter than what it comes to begins at the same edge
    like = _widened(room_for if len(room_for) == len(text) else text)
    places = _places(like, metrics)
    figures: list[tuple[str, float]] = []
    for figure, (begin, advance) in zip(text, places, strict=True):
        x = begin + (advance - metrics.advance(figure, FIGURE_WEIGHT)) / 2
        # a figure wider than the first one it comes to is not cut off
        figures.append((figure, x if figures else max(x, -metrics.edges(figure)[0])))
    sign = 0.0
    if text:
        sign = places[-1][0] + metrics.edges(like[-1])[1] + _LAST_GAP + _SPACING + _SIGN_GAP
    return Number(tuple(figures), sign, sign + _SIGN_SIZE * metrics.advance(SIGN, _SIGN_WEIGHT))


def _widened(text: str) -> str:
    """Has room in every place for whichever figure counts through it; a leading 1 never changes."""
    return text[:1] + text[1:].replace("1", "0")


def _places(text: str, metrics: Metrics) -> list[tuple[float, float]]:
    """Where a character begins, with the outline of the first at 0, and its advance."""
    edges = [metrics.edges(character) for character in text]
    places: list[tuple[float, float]] = []
    for number, (character, (left, _)) in enumerate(zip(text, edges, strict=True)):
        place = -left
        if number:
            outline_end = places[-1][0] + edges[number - 1][1]
            place = max(sum(places[-1]) + _SPACING, outline_end + _LEAST_GAP - left)
            if number == 1 and text[0] == "1":
                place = min(place, outline_end + _MOST_GAP - left)
        places.append((place, metrics.advance(character, FIGURE_WEIGHT)))
    return places
