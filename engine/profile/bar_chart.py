"""The bars of profiles, stacked on one scale, with a table of their parts below.

The color shows the precision and the fill shows the part. The table repeats each fill next to its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.drawing.looks import SideLook, mark_fills, precision_look
from engine.drawing.shapes import Box, Drawing, Shape, Stroke, Words, hatching, shortened, text_width
from engine.profile.names import part_title, side_names
from engine.protocol.profile import StepPart
from engine.protocol.profiles import Profiles, ProfileSide
from engine.words.numbers import number, share_text, three_figures

_BAR, _PITCH, _TOP = 26.0, 62.0, 22.0
_HEAD, _ROW = 30.0, 22.0
_BESIDE_NAME, _SWATCH = 36.0, 12.0
_MOST_COLUMN, _ROOM_FOR_SHARE = 190.0, 124.0
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
    """The rectangle of a side's step part in the chart, for tooltips: in its bar or in the table below."""

    side: int
    part: StepPart
    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


def bars_drawing(profiles: Profiles, width: float) -> Drawing:
    """Draw the chart, as high as its sides and their parts need. At least one side needs a profile."""
    return _Picture(profiles, width).drawing()


def part_places(profiles: Profiles, width: float) -> tuple[PartPlace, ...]:
    """Return the places of the parts in `bars_drawing` of this width."""
    picture = _Picture(profiles, width)
    return tuple(picture.bars()) + tuple(picture.cells())


class _Picture:
    def __init__(self, profiles: Profiles, width: float) -> None:
        self._sides = profiles.sides
        self._width = width
        self._names = side_names(profiles)
        self._looks = profile_looks(profiles)
        measured = profiles.measured()
        known = {entry.part for profile in measured for entry in profile.bar.parts}
        self._parts = [part for part in StepPart if part in known]
        self._titles = {part: part_title(part, measured[0]) for part in self._parts}
        longest = max(profile.bar.total_ms for profile in measured)
        self._digits = three_figures(longest)
        widest = max(text_width(name, 12, 600) for name in self._names)
        self._left = min(0.3 * width, _BESIDE_NAME + widest)
        room = 16 + text_width(self._ms(longest), 13, 600)
        self._scale = max(1.0, width - self._left - room) / (longest or 1.0)
        self._table = _TOP + _PITCH * len(profiles.sides)
        title = max((text_width(title, 12) for title in self._titles.values()), default=0.0)
        self._first = min(0.45 * width, max(title, text_width(_VALIDATION, 12)) + 16)
        self._column = min(_MOST_COLUMN, (width - self._first) / len(profiles.sides))

    def drawing(self) -> Drawing:
        shapes = [*self._rows(), *self._heads()]
        for place in self.bars():
            shapes += self._filled(place)
        for place in self.cells():
            shapes += self._cell(place)
        for row, part in enumerate(self._parts):
            shapes += self._line(row, self._titles[part])
        rows = len(self._parts)
        if any(side.profile is not None and side.profile.validation for side in self._sides):
            shapes += [*self._line(rows, _VALIDATION), *self._validation(rows)]
            rows += 1
        height = self._table + _HEAD + _ROW * rows + 4
        return Drawing(self._width, height, tuple(shapes), self._description())

    def bars(self) -> Iterator[PartPlace]:
        for number_, side in enumerate(self._sides):
            x = self._left
            for entry in side.profile.bar.parts if side.profile is not None else ():
                width = entry.ms * self._scale
                yield PartPlace(number_, entry.part, x, _TOP + _PITCH * number_, width, _BAR)
                x += width

    def cells(self) -> Iterator[PartPlace]:
        for number_, side in enumerate(self._sides):
            for row, part in enumerate(self._parts):
                if side.profile is not None and side.profile.bar.ms(part):
                    x, y = self._first + self._column * number_, self._table + _HEAD + _ROW * row
                    yield PartPlace(number_, part, x, y, self._column, _ROW)

    def _rows(self) -> Iterator[Shape]:
        for place, side in enumerate(self._sides):
            middle = _TOP + _PITCH * place + _BAR / 2
            yield from self._looks[place].mark(9, middle, 11)
            name = shortened(self._names[place], self._left - _BESIDE_NAME, 12, 600)
            yield Words(22, middle + 4, name, "text", 12, 600)
            if side.profile is None:
                words = side.problem.message if side.problem is not None else _NO_PROFILE
                words = shortened(words, self._width - self._left - 8, 12)
                yield Words(self._left, middle + 4, words, "text3", 12)
            else:
                total = side.profile.bar.total_ms
                end = self._left + total * self._scale + 8
                yield Words(end, middle + 5, self._ms(total), "text", 13, 600)

    def _filled(self, place: PartPlace) -> Iterator[Shape]:
        ink = self._looks[place.side].ink
        yield from _fill(place.part, ink, place.x, place.y, max(1.0, place.width - 1), place.height)
        title = self._titles[place.part]
        if text_width(title, 11) <= place.width - 6:
            yield Words(place.x, place.y + _BAR + 15, title, "text3", 11)

    def _heads(self) -> Iterator[Shape]:
        base = self._table + 14
        for place, name in enumerate(self._names):
            x = self._first + self._column * place
            yield from self._looks[place].mark(x + _SWATCH / 2, base - 4, 8)
            words = shortened(name, self._column - _SWATCH - 14, 11, 500)
            yield Words(x + _SWATCH + 6, base, words, "text2", 11, 500)
        bottom = self._table + _HEAD - 6
        yield Stroke(((0, bottom), (self._width, bottom)), "line")

    def _line(self, row: int, title: str) -> Iterator[Shape]:
        base = self._table + _HEAD + _ROW * row + 15
        yield Words(0, base, shortened(title, self._first - 12, 12), "text2", 12)

    def _cell(self, place: PartPlace) -> Iterator[Shape]:
        side = self._sides[place.side]
        assert side.profile is not None  # cells are of profiles
        top = place.y + (_ROW - _SWATCH) / 2 + 1
        yield from _fill(place.part, self._looks[place.side].ink, place.x, top, _SWATCH, _SWATCH)
        yield Words(
            place.x + 78, place.y + 15, self._ms(side.profile.bar.ms(place.part)), "text", 12, 500, "end"
        )
        if self._column >= _ROOM_FOR_SHARE:
            share = share_text(side.profile.bar.fraction(place.part))
            yield Words(place.x + 122, place.y + 15, share, "text3", 12, anchor="end")

    def _validation(self, row: int) -> Iterator[Shape]:
        base = self._table + _HEAD + _ROW * row + 15
        for place, side in enumerate(self._sides):
            if side.profile is not None and side.profile.validation is not None:
                x = self._first + self._column * place + 78
                words = self._ms(side.profile.validation.total_ms)
                yield Words(x, base, words, "text2", 12, anchor="end")

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
_VALIDATION = "Validation batch (separate)"


def profile_looks(profiles: Profiles) -> tuple[SideLook, ...]:
    """Return the looks of the sides. Sides of one precision differ in the fill of their marks."""
    precisions = [side.experiment.precision for side in profiles.sides]
    return tuple(map(precision_look, precisions, mark_fills(precisions)))


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
