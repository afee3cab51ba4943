"""The charts of profiles: stacked bars of the parts of a step, and the roofline of its kernels.

In the bars, the color shows the precision and the fill shows the part. Lines join a part with itself in the
next bar.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.drawing.chart_parts import AxisScale, Rect, place_label
from engine.drawing.looks import SideLook, mark_fills, precision_look
from engine.drawing.shapes import (
    Box,
    Drawing,
    Point,
    Shape,
    Stroke,
    TextLine,
    hatching,
    shortened,
    text_width,
)
from engine.experiment.experiment import Precision
from engine.profile.names import part_title, side_names
from engine.protocol.profile import Limits, Profiles, ProfileSide, StepPart, TimeRow
from engine.words.numbers import number, share_text, three_figures, throughput_text

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
    return _Bars(profiles, width).drawing()


def part_places(profiles: Profiles, width: float) -> tuple[PartPlace, ...]:
    """Return the places of the parts in `bars_drawing` of this width."""
    return tuple(_Bars(profiles, width).places())


class _Bars:
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
                yield TextLine(place.x + _INSIDE, place.y + _BAR / 2 + 4, words, above, 12, 600)
                return

    def _beside(self, number_: int) -> Iterator[Shape]:
        side, middle = self._sides[number_], _TOP + _PITCH * number_ + _BAR / 2
        yield from self._looks[number_].mark(9, middle, 11)
        name = shortened(self._names[number_], self._left - _BESIDE_NAME, 13, 600)
        yield TextLine(22, middle + 5, name, "text", 13, 600)
        if side.profile is None:
            words = side.problem.message if side.problem is not None else _NO_PROFILE
            words = shortened(words, self._width - self._left - 8, 12)
            yield TextLine(self._left, middle + 4, words, "text3", 12)
            return
        total = side.profile.bar.total_ms
        end = self._left + total * self._scale + 10
        ink = self._looks[number_].ink
        yield TextLine(end, middle + 6, self._ms(total), ink, 18, 600)
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
        yield TextLine(center, middle + 4, words, "text", 12, 600, "middle")
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


_HEAD, _BOTTOM, _RIGHT = 26.0, 40.0, 10.0
_MOST_MARKS = 60
_NAMED, _LONGEST_NAME = 6, 150.0
_LEAST_MARK, _MOST_MARK = 6.0, 22.0
_LINE, _SAME_LINE = 13.0, 4.0
_TEMPLATE = re.compile(r"<.*|\(.*")


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel or operation as a point in the roofline chart, for hit tests. `size` is its diameter.

    `place` is the index of its side, the profiled experiment.
    """

    place: int
    row: TimeRow
    x: float
    y: float
    size: float

    def holds(self, x: float, y: float) -> bool:
        return math.hypot(x - self.x, y - self.y) <= max(self.size, _LEAST_MARK) / 2 + 1


def roofline_drawing(profiles: Profiles, width: float, height: float) -> Drawing:
    """Draw FLOP/byte across and TFLOP/s upwards, both logarithmic. Kernels that take longer are larger.

    Without limits there are no roofs, and without countable kernels no points.
    """
    return _Picture(profiles, width, height).drawing()


def roofline_points(profiles: Profiles, width: float, height: float) -> tuple[RooflinePoint, ...]:
    """Return the points of `roofline_drawing` of this size, the topmost last."""
    return _Picture(profiles, width, height).marks


def _countable(profiles: Profiles) -> list[tuple[int, TimeRow]]:
    tables: list[list[tuple[int, TimeRow]]] = [[], []]
    for place, side in enumerate(profiles.sides):
        if side.profile is None:
            continue
        for table, rows in zip(tables, (side.profile.kernels, side.profile.operations), strict=True):
            table += [(place, row) for row in rows if row.flops and row.moved_bytes and row.ms]
    return max(tables, key=lambda table: sum(row.ms for _, row in table))


class _Picture:
    def __init__(self, profiles: Profiles, width: float, height: float) -> None:
        self._width, self._height = width, height
        self._looks = profile_looks(profiles)
        self._names = side_names(profiles)
        self._limits = next(filter(None, (profile.limits for profile in profiles.measured())), None)
        rows = sorted(_countable(profiles), key=lambda entry: entry[1].ms, reverse=True)[:_MOST_MARKS]
        self._scale(rows)
        longest = rows[0][1].ms if rows else 1.0
        self.marks = tuple(
            RooflinePoint(
                place,
                row,
                self._across.place(_intensity(row)),
                self._up.place(row.tflops or 0.0),
                max(_LEAST_MARK, _MOST_MARK * math.sqrt(row.ms / longest)),
            )
            for place, row in rows
        )

    def _scale(self, rows: Sequence[tuple[int, TimeRow]]) -> None:
        across = [_intensity(row) for _, row in rows]
        up = [row.tflops or 0.0 for _, row in rows]
        if self._limits is not None:
            up += [peak.tflops for peak in self._limits.peaks]
            across += [self._limits.ridge(peak.format) or 1.0 for peak in self._limits.peaks]
        low, high = _ends(up)
        # what a CPU reaches is read more easily in GFLOP/s
        self._unit, shift = ("TFLOP/s", 0) if max(up, default=1.0) >= 1 else ("GFLOP/s", 3)
        self._upright = {10.0**power: _power(power + shift) for power in _powers(low, high)}
        self._left = 14 + max(text_width(text, 11) for text in self._upright.values())
        self._right, self._top, self._bottom = self._width - _RIGHT, _HEAD + 10, self._height - _BOTTOM
        self._up = AxisScale(low, high, self._bottom, self._top, is_log=True)
        low, high = _ends(across)
        # with room for the names of the roofs
        self._across = AxisScale(low, high * 10**0.4, self._left, self._right, is_log=True)

    def drawing(self) -> Drawing:
        shapes = [*self._head(), *self._axes()]
        taken = [_rect_of(mark) for mark in self.marks]
        if self._limits is not None:
            shapes += self._roofs(self._limits, taken)
        else:
            shapes.append(TextLine(self._left + 8, self._top + 16, "No limits were measured.", "text3", 12))
        for mark in self.marks:
            shapes += self._looks[mark.place].mark(mark.x, mark.y, mark.size)
        if not self.marks:
            words = "The FLOPs and bytes of these kernels cannot be counted."
            shapes.append(
                TextLine((self._left + self._right) / 2, self._bottom - 24, words, "text3", 12, 400, "middle")
            )
        shapes += self._labels(taken)
        return Drawing(self._width, self._height, tuple(shapes), self._description())

    def _head(self) -> Iterator[Shape]:
        yield TextLine(0, 15, self._unit, "text3", 11)
        x = self._left + 60
        for look, name in zip(self._looks, self._names, strict=True):
            shown = shortened(name, max(40.0, self._width - x - 30), 12, 500)
            step = 18 + text_width(shown, 12, 500) + 20
            if x + step - 20 > self._width:
                return
            yield from look.mark(x + 5, 11, 9)
            yield TextLine(x + 16, 15, shown, "text2", 12, 500)
            x += step

    def _axes(self) -> Iterator[Shape]:
        for tflops, text in self._upright.items():
            y = round(self._up.place(tflops)) + 0.5
            yield Stroke(((self._left, y), (self._right, y)), "grid")
            yield TextLine(self._left - 8, y + 4, text, "text3", 11, anchor="end")
        for power in _powers(self._across.low, self._across.high):
            x = round(self._across.place(10.0**power)) + 0.5
            yield Stroke(((x, self._top), (x, self._bottom)), "grid")
            yield TextLine(x, self._bottom + 17, _power(power), "text3", 11, anchor="middle")
        yield Stroke(((self._left, self._bottom), (self._right, self._bottom)), "line2")
        words = "Arithmetic intensity, FLOP/byte"
        yield TextLine(self._right, self._bottom + 33, words, "text3", 11, anchor="end")

    def _roofs(self, limits: Limits, taken: list[Rect]) -> Iterator[Shape]:
        ridges = [ridge for peak in limits.peaks if (ridge := limits.ridge(peak.format))]
        start = max(self._across.low, 1e3 * self._up.low / limits.gb_per_second)
        end = max(ridges, default=self._across.high)
        per_flop = limits.gb_per_second / 1e3
        foot, top = ((self._across.place(at), self._up.place(at * per_flop)) for at in (start, end))
        yield Stroke((foot, top), "text2", 1.5)
        taken += _along(foot, top)
        yield from self._bandwidth_label(limits, foot, top, taken)
        lines: list[Rect] = []
        down = -5.0
        for peak in sorted(limits.peaks, key=lambda peak: peak.tflops, reverse=True):
            look = _format_look(peak.format)
            y, ridge = self._up.place(peak.tflops), limits.ridge(peak.format) or 1.0
            yield Stroke(((self._across.place(ridge), y), (self._right, y)), look.ink, 1.5, look.dash)
            gap = y - lines[-1].top - 2 if lines else math.inf
            if gap > _SAME_LINE:
                # below its line where the one above it is near
                down = _LINE if gap < _LINE + 3 else -5.0
            base = y + down
            lines.append(Rect(self._across.place(ridge), y - 2, self._right, y + 2))
            text = f"{peak.format.upper()} {throughput_text(peak.tflops)}"
            width = text_width(text, 11)
            right = self._right
            box = Rect(right - width - 12, base - _LINE + 3, right, base + 3)
            while any(box.meets(other) for other in taken) and right - width > self._left:
                right -= 8
                box = Rect(right - width - 12, box.top, right, box.bottom)
            taken.append(box)
            yield TextLine(right, base, text, "text2", 11, anchor="end")
        taken += lines  # now that the roofs' own names, which may be near another's, have their places

    def _bandwidth_label(
        self, limits: Limits, start: Point, end: Point, taken: list[Rect]
    ) -> Iterator[Shape]:
        text = f"{number(limits.gb_per_second)} GB/s"
        width = text_width(text, 11)
        for part in (0.4, 0.5, 0.6, 0.7, 0.8):
            x, y = (begin + part * (stop - begin) for begin, stop in zip(start, end, strict=True))
            if x - width - 8 >= self._left:
                taken.append(Rect(x - width - 8, y - _LINE, x - 4, y + 2))
                yield TextLine(x - 8, y - 2, text, "text2", 11, anchor="end")
                return

    def _labels(self, taken: list[Rect]) -> Iterator[Shape]:
        area = Rect(self._left, self._top, self._right, self._bottom)
        named: set[str] = set()
        for mark in self.marks:
            name = shortened(short_name(mark.row.name), _LONGEST_NAME, 11)
            if name in named or len(named) == _NAMED:
                continue
            words = place_label(name, mark.x, mark.y, mark.size / 2 + 5, area, taken)
            if words:
                named.add(name)
                yield from words

    def _description(self) -> str:
        limits = self._limits
        roofs = (
            "No limits were measured."
            if limits is None
            else f"Memory roof: {number(limits.gb_per_second)} GB/s. Compute ceilings: "
            + ", ".join(f"{peak.format.upper()} {throughput_text(peak.tflops)}" for peak in limits.peaks)
            + "."
        )
        reached = [
            f"{self._names[mark.place]}: {short_name(mark.row.name)} reaches "
            f"{throughput_text(mark.row.tflops or 0.0)} at {number(_intensity(mark.row))} FLOP/byte."
            for mark in self.marks[:_NAMED]
        ]
        return " ".join([roofs, *reached])


def _along(start: Point, end: Point) -> list[Rect]:
    count = max(1, int((end[0] - start[0]) / 6))
    points = [
        tuple(a + part / count * (b - a) for a, b in zip(start, end, strict=True)) for part in range(count)
    ]
    return [Rect(x, y - 4, x + 6, y + 4) for x, y in points]


def short_name(name: str) -> str:
    """Return the name of a kernel or operation without namespaces and template arguments."""
    bare = _TEMPLATE.sub("", name.removeprefix("void ").replace("(anonymous namespace)::", "")).strip()
    return bare.rpartition("::")[2] or name


def _intensity(row: TimeRow) -> float:
    return (row.flops or 0.0) / (row.moved_bytes or 1.0)


def _format_look(name: str) -> SideLook:
    return precision_look(Precision(name) if name in set(Precision) else Precision.FP32)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    # with half a decade of room
    return min(values, default=1.0) / 10**0.5, max(values, default=1.0) * 10**0.5


def _powers(low: float, high: float) -> range:
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)


def _rect_of(mark: RooflinePoint) -> Rect:
    half = mark.size / 2
    return Rect(mark.x - half, mark.y - half, mark.x + half, mark.y + half)


def _power(power: int) -> str:
    return number(10.0**power, max(0, -power))
