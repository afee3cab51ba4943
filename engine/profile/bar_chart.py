"""The bars of profiles on one scale, stacked from the parts of a step.

The color shows the precision and the fill shows the part. Lines join a part with itself in the next bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.drawing.looks import SideLook, mark_fills, precision_look
from engine.drawing.shapes import Box, Drawing, Shape, Stroke, Words, hatching, shortened, text_width
from engine.profile.names import part_title, side_names
from engine.protocol.profile import StepPart
from engine.protocol.profiles import Profiles, ProfileSide
from engine.words.numbers import number, share_text, three_figures

_BAR, _PITCH, _TOP = 40.0, 98.0, 8.0
_BESIDE_NAME, _INSIDE, _PLATE, _LEAST_SAVED = 36.0, 10.0, 5.0, 120.0
_SOLID = {
    StepPart.MATRIX_UNITS: "{}",
    StepPart.MATRIX: "{}-dim",
    StepPart.MEMORY: "{}-dim",
    StepPart.SCALING: "{}",
    StepPart.COPIES: "text3",
    StepPart.OPTIMIZER: "line2",
    StepPart.OTHER: "bg3",
    StepPart.COMMUNICATION: "bg3",
}
"""The fill of a part by the precision's ink. Parts without one are waits."""
_HATCHING = {
    StepPart.MATRIX: "{}",
    StepPart.SCALING: "bg1",
    StepPart.COMMUNICATION: "{}",
    StepPart.HOST: "text3",
    StepPart.DATA: "text3",
}
_HATCH_PITCH = 6.0


@dataclass(frozen=True)
class PartPlace:
    """The rectangle of a part of a side's step in its bar."""

    side: int
    part: StepPart
    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


def bars_drawing(profiles: Profiles, width: float) -> Drawing:
    """Draw the chart, as high as its sides need. At least one side needs a profile."""
    return _Picture(profiles, width).drawing()


def part_places(profiles: Profiles, width: float) -> tuple[PartPlace, ...]:
    """Return the places of the parts in `bars_drawing` of this width."""
    return tuple(_Picture(profiles, width).places())


class _Picture:
    def __init__(self, profiles: Profiles, width: float) -> None:
        self._sides = profiles.sides
        self._width = width
        self._names = side_names(profiles)
        self._looks = profile_looks(profiles)
        measured = profiles.measured()
        longest = max(profile.bar.total_ms for profile in measured)
        self._digits = three_figures(longest)
        widest = max(text_width(name, 13, 600) for name in self._names)
        self._left = min(0.3 * width, _BESIDE_NAME + widest)
        room = 24 + text_width(self._ms(longest), 18, 600)
        self._longest, self._scale = longest, max(1.0, width - self._left - room) / (longest or 1.0)

    def drawing(self) -> Drawing:
        places = tuple(self.places())
        shapes = [*self._joints(places)]
        for place in places:
            shapes += self._filled(place)
        for number_ in range(len(self._sides)):
            shapes += self._beside(number_)
        height = _TOP + _PITCH * (len(self._sides) - 1) + _BAR + 8
        return Drawing(self._width, height, tuple(shapes), self._description())

    def places(self) -> Iterator[PartPlace]:
        """Yield the rectangle of every part, bar by bar."""
        for number_, side in enumerate(self._sides):
            x = self._left
            for entry in side.profile.bar.parts if side.profile is not None else ():
                width = entry.ms * self._scale
                yield PartPlace(number_, entry.part, x, _TOP + _PITCH * number_, width, _BAR)
                x += width

    def _joints(self, places: Sequence[PartPlace]) -> Iterator[Shape]:
        ends = {(place.side, _kind_of(place.part)): place for place in places}
        for place in places:
            below = ends.get((place.side + 1, _kind_of(place.part)))
            if below is not None:
                top, bottom = (place.x + place.width, place.y + _BAR), (below.x + below.width, below.y)
                yield Stroke((top, bottom), "line")

    def _filled(self, place: PartPlace) -> Iterator[Shape]:
        ink, profile = self._looks[place.side].ink, self._sides[place.side].profile
        assert profile is not None  # only profiles have parts
        yield from _fill(place.part, ink, place.x, place.y, max(1.0, place.width - 1), place.height)
        name, ms = part_title(place.part, profile), number(profile.bar.ms(place.part), self._digits)
        for words in (f"{name} {ms}", ms):
            if text_width(words, 12, 600) <= place.width - 2 * _INSIDE:
                above = "bg0" if _SOLID.get(place.part) == "{}" else "text"
                if place.part in _HATCHING:
                    width = text_width(words, 12, 600) + 2 * _PLATE
                    left, top = place.x + _INSIDE - _PLATE, place.y + _BAR / 2 - 9
                    yield Box(left, top, width, 18, "bg1")
                yield Words(place.x + _INSIDE, place.y + _BAR / 2 + 4, words, above, 12, 600)
                return

    def _beside(self, number_: int) -> Iterator[Shape]:
        side, middle = self._sides[number_], _TOP + _PITCH * number_ + _BAR / 2
        yield from self._looks[number_].mark(9, middle, 11)
        name = shortened(self._names[number_], self._left - _BESIDE_NAME, 13, 600)
        yield Words(22, middle + 5, name, "text", 13, 600)
        if side.profile is None:
            words = side.problem.message if side.problem is not None else _NO_PROFILE
            words = shortened(words, self._width - self._left - 8, 12)
            yield Words(self._left, middle + 4, words, "text3", 12)
            return
        total = side.profile.bar.total_ms
        end = self._left + total * self._scale + 10
        ink = self._looks[number_].ink
        yield Words(end, middle + 6, self._ms(total), ink, 18, 600)
        yield from self._saved(number_, end + text_width(self._ms(total), 18, 600) + 16, middle)

    def _saved(self, number_: int, left: float, middle: float) -> Iterator[Shape]:
        first, side = self._sides[0].profile, self._sides[number_].profile
        right = self._left + self._longest * self._scale
        is_shorter = number_ > 0 and first is not None and side is not None and first.samples == side.samples
        if not is_shorter or first is None or side is None or first.bar.total_ms < self._longest:
            return
        words = f"{self._ms(first.bar.total_ms - side.bar.total_ms)} saved"
        width = text_width(words, 12, 600)
        if right - left < max(_LEAST_SAVED, width + 2 * 24) or side.bar.total_ms >= first.bar.total_ms:
            return
        center = (left + right) / 2
        yield Words(center, middle + 4, words, "text", 12, 600, "middle")
        for begin, end in ((left, center - width / 2 - 10), (center + width / 2 + 10, right)):
            yield Stroke(((begin, middle), (end, middle)), "line2")
        yield Stroke(((right, middle - 10), (right, middle + 10)), "line2")

    def _description(self) -> str:
        return " ".join(
            f"{name}: {self._spoken(side)}." for name, side in zip(self._names, self._sides, strict=True)
        )

    def _spoken(self, side: ProfileSide) -> str:
        if side.profile is None:
            return side.problem.message.removesuffix(".") if side.problem is not None else _NO_PROFILE
        bar = side.profile.bar
        parts = (
            f"{part_title(entry.part, side.profile)} {self._ms(entry.ms)}"
            f" ({share_text(bar.fraction(entry.part))})"
            for entry in bar.parts
        )
        return f"{self._ms(bar.total_ms)} per step: {', '.join(parts)}"

    def _ms(self, ms: float) -> str:
        least = 10.0**-self._digits
        if 0 < ms < least / 2:
            return f"< {number(least, self._digits)} ms"
        return f"{number(ms, self._digits)} ms"


_NO_PROFILE = "no profile yet"


def profile_looks(profiles: Profiles) -> tuple[SideLook, ...]:
    """Return the looks of the sides. Sides of one precision differ in the fill of their marks."""
    precisions = [side.experiment.precision for side in profiles.sides]
    return tuple(map(precision_look, precisions, mark_fills(precisions)))


def _kind_of(part: StepPart) -> StepPart:
    # matmuls move from ordinary units to Tensor Cores
    return StepPart.MATRIX if part is StepPart.MATRIX_UNITS else part


def _fill(part: StepPart, ink: str, x: float, y: float, width: float, height: float) -> Iterator[Shape]:
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    solid = _SOLID.get(part)
    if solid is not None:
        yield Box(x, y, width, height, solid.format(ink))
    if part in _HATCHING:
        lines = _HATCHING[part].format(ink)
        yield from hatching(corners, corners[0], lines, _HATCH_PITCH, rises=part is not StepPart.DATA)
    if solid is None:
        yield Stroke((*corners, corners[0]), "text3")
