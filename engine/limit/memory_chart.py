"""The chart of the largest batch: peak memory or throughput by batch size, with a mark for each trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.drawing.chart_parts import AxisScale, LegendEntry, Rect, TextPlaces, legend
from engine.drawing.looks import precision_look
from engine.drawing.shapes import (
    CAPITAL,
    Box,
    Drawing,
    Point,
    Shape,
    Stroke,
    TextLine,
    hatching,
    marker,
    text_width,
)
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.trials import LimitSide, MemoryLine, needed_mib
from engine.words.numbers import linear_ticks

_LEFT, _RIGHT, _BOTTOM, _TITLE, _LOW_FOOT = 44.0, 10.0, 26.0, 24.0, 8.0
_LOW = 260.0
"""The height in pixels below which a chart has no title below its axis."""
_BELOW_LEGEND = 10.0
_HATCH_PITCH = 11.3
_CROSS, _MARK = 14.0, 10.0
_FORECAST_DASH, _GUIDE_DASH = (2.0, 5.0), (2.0, 3.0)
_NAME_SHARES = (0.6, 0.5, 0.7, 0.4, 0.8, 0.3, 0.9, 0.2)
"""The shares of a line's length at which its name may stand, best first. Lines diverge further out."""
_GAP = 10.0
_RATIO_ROOM, _RATIO_LEVEL, _ANSWER_LEVEL = 56.0, 0.075, 9.0


def memory_chart(content: MemoryContent, size: tuple[float, float], description: str = "") -> Drawing:
    """Draw the chart in a size (width, height). `description` is its text for screen readers."""
    chart = _Chart(content, size)
    return Drawing(*size, tuple(chart.shapes()), description)


class _Chart:
    def __init__(self, content: MemoryContent, size: tuple[float, float]) -> None:
        self._content, self._size = content, size
        self._legend = legend(list(_legend_entries(content)), size[0])
        self._has_title = size[1] >= _LOW
        bottom = size[1] - _BOTTOM - (_TITLE if self._has_title else _LOW_FOOT)
        top = self._legend.height + _BELOW_LEGEND
        self._reach = memory_range(content)
        self._levels = linear_ticks(0.0, self._reach.top, max(2, int((bottom - top) / 52)))
        left = max([_LEFT, *(text_width(tick.text, 11) + 10 for tick in self._levels)])
        self._area = area = Rect(left, top, size[0] - _RIGHT, bottom)
        self._x = AxisScale(0.0, self._reach.batches, area.left, area.right)
        self._y = AxisScale(0.0, self._reach.top, area.bottom, area.top)
        self._crosses = self._failed_marks()
        self._places = TextPlaces(area)
        for _, _, center in self._crosses:
            self._places.reserve_marker(center, _CROSS)
        for side in content.sides:
            for trial in content.points(side):
                self._places.reserve_marker(self._place(*trial), _MARK + 2)

    def shapes(self) -> Iterator[Shape]:
        yield from self._legend.shapes
        yield from self._grid()
        capacity = self._content.capacity_gib
        if capacity:
            yield from self._hatch(capacity)
        for side in self._content.sides:
            yield from self._lines(side)
        if capacity:
            yield from self._capacity_line(capacity)
        yield from self._side_labels()
        for side in self._content.sides:
            yield from self._trial_marks(side)
        for side, batch, center in self._crosses:
            yield from self._cross(side, batch, center)

    def _place(self, batch: float, value: float) -> Point:
        return self._x.place(batch), self._y.place(value)

    def _grid(self) -> Iterator[Shape]:
        area = self._area
        for tick in self._levels:
            level = round(self._y.place(tick.position)) + 0.5
            if level < area.bottom - 1:
                yield Stroke(((area.left, level), (area.right, level)), "grid")
            yield TextLine(area.left - 9, level + 4, tick.text, "text3", 11, anchor="end")
        bottom = round(area.bottom) + 0.5
        yield Stroke(((area.left, bottom), (area.right, bottom)), "line2")
        widest = text_width(f"{self._reach.batches:,.0f}", 11) + 32
        for tick in linear_ticks(0.0, self._reach.batches, max(1, int(area.width / widest)), whole=True):
            middle = min(self._x.place(tick.position), area.right - text_width(tick.text, 11) / 2)
            yield TextLine(middle, area.bottom + 17, tick.text, "text3", 11, anchor="middle")
        if self._has_title:
            yield TextLine(area.right, self._size[1] - 8, "Batch size, samples", "text3", 11, anchor="end")

    def _hatch(self, capacity_gib: float) -> Iterator[Shape]:
        area, level = self._area, self._y.place(capacity_gib)
        corner = (area.left, area.top)
        outline = (corner, (area.right, area.top), (area.right, level), (area.left, level))
        yield from hatching(outline, corner, "hatch", _HATCH_PITCH)

    def _capacity_line(self, capacity_gib: float) -> Iterator[Shape]:
        level = float(round(self._y.place(capacity_gib)))
        ends = ((self._area.left, level), (self._area.right, level))
        self._places.avoid_curve(ends)
        yield Stroke(ends, "text", 2)

    def _lines(self, side: LimitSide) -> Iterator[Shape]:
        look = precision_look(side.precision)
        if self._content.shows_forecast:
            first, last = (side.passed[0][0], side.passed[-1][0]) if side.passed else (0, 0)
            points = forecast_points(side, self._reach)
            # between trials there is a line, which the forecast would only blur
            for part in ([p for p in points if p[0] <= first], [p for p in points if p[0] >= last]):
                yield from self._curve(part, look.ink, _FORECAST_DASH)
        yield from self._curve(self._content.points(side), look.ink, look.dash)

    def _curve(
        self, points: Sequence[tuple[float, float]], ink: str, dash: tuple[float, ...]
    ) -> Iterator[Shape]:
        places = tuple(self._place(*point) for point in points)
        self._places.avoid_curve(places)
        if len(places) > 1:
            yield Stroke(places, ink, 2, dash)

    def _failed_marks(self) -> list[tuple[LimitSide, int, Point]]:
        found: list[tuple[LimitSide, int, Point]] = []
        for side in self._content.sides:
            for batch in sorted(set(self._content.failed(side))):
                level = failed_place(batch, side, self._content, self._reach)
                x, y = self._place(min(batch, self._reach.batches * 0.985), level)
                while any(_hides((x, y), other) for _, _, other in found) and y > self._area.top:
                    y -= _CROSS
                found.append((side, batch, (x, y)))
        return found

    def _trial_marks(self, side: LimitSide) -> Iterator[Shape]:
        look = precision_look(side.precision)
        for trial in self._content.points(side):
            x, y = self._place(*trial)
            yield from marker(look.symbol, x, y, _MARK + 2, "bg1")
            yield from look.mark(x, y, _MARK)
        if side.trying is not None and side.trying <= self._reach.batches:
            x = round(self._x.place(side.trying)) + 0.5
            yield Stroke(((x, self._area.top), (x, self._area.bottom)), look.ink, dash=_GUIDE_DASH)

    def _cross(self, side: LimitSide, batch: int, center: Point) -> Iterator[Shape]:
        ink = precision_look(side.precision).ink
        yield from marker("x", *center, _CROSS, ink, "hollow")
        if batch > self._reach.batches:
            yield TextLine(center[0] - 10, center[1] + 4, f"{batch:,} →", ink, 11, 500, "end")

    def _side_labels(self) -> Iterator[Shape]:
        content, area = self._content, self._area
        if content.capacity_gib:
            corner = (area.left + 9, area.top + 16)
            yield from self._place_words("does not fit", [corner], 12, 400, "text2")
        for side in content.sides:
            if side.answer:
                yield from self._answer(side, side.answer)
        if content.ratio is not None:
            yield from self._draw_ratio(*content.ratio)
        if content.capacity_gib:
            yield from self._capacity(*content.capacity_words, content.capacity_gib)
        for side in content.sides:
            # colour alone must not identify it
            if len(content.points(side)) > 1:
                ink = precision_look(side.precision).ink
                yield from self._place_words(side.label, list(self._label_positions(side)), 12, 600, ink)

    def _answer(self, side: LimitSide, answer: int) -> Iterator[Shape]:
        level = next((value for batch, value in self._content.points(side) if batch == answer), 0.0)
        x = round(self._x.place(answer)) + 0.5
        ends = ((x, self._y.place(level)), (x, self._area.bottom))
        yield Stroke(ends, "text2", dash=_GUIDE_DASH)
        words, base = f"{answer:,}", self._area.bottom - _ANSWER_LEVEL
        left = max(self._area.left + 4, x - text_width(words, 13, 600) - 6)
        ink = precision_look(side.precision).ink
        # two answers may be close to each other
        wanted = [(left, base), (x + 6, base), (left, base - 18), (x + 6, base - 18)]
        yield from self._place_words(words, wanted, 13, 600, ink, stays=True)
        self._places.avoid_curve(ends)

    def _draw_ratio(self, low: int, high: int, words: str) -> Iterator[Shape]:
        left, right = self._x.place(min(low, high)), self._x.place(max(low, high))
        width = text_width(words, 13, 600)
        if right - left < width + _RATIO_ROOM:
            return
        level = round(self._area.bottom - max(40.0, _RATIO_LEVEL * self._area.height)) + 0.5
        middle = (left + right) / 2
        yield Stroke(((left, level), (middle - width / 2 - 8, level)), "text2")
        yield Stroke(((middle + width / 2 + 8, level), (right, level)), "text2")
        for edge in (round(left) + 0.5, round(right) + 0.5):
            yield Stroke(((edge, level - 4), (edge, level + 4)), "text2")
        yield from self._place_words(words, [(middle - width / 2, level + 5)], 13, 600, "text", stays=True)
        self._places.reserve(Rect(left, level - 8, right, level + 8))

    def _capacity(self, name: str, more: str, capacity_gib: float) -> Iterator[Shape]:
        level = round(self._y.place(capacity_gib))
        # above the line where no trial is in the way, else below it, else shorter
        for text in dict.fromkeys((name + more, name)):
            left, right = self._area.left + 9, self._area.right - 9 - text_width(text, 12, 600)
            wanted = [(x, y) for y in (level - 8.0, level + 17.0) for x in (left, right)]
            shapes = self._place_words(text, wanted, 12, 600, "text", stays=text == name)
            if shapes:
                yield from shapes
                return

    def _label_positions(self, side: LimitSide) -> Iterator[Point]:
        points = self._content.points(side)
        width = text_width(side.label, 12, 600)
        for share in _NAME_SHARES:
            batch = points[0][0] + share * (points[-1][0] - points[0][0])
            pairs = ((one, other) for one, other in pairwise(points) if one[0] <= batch < other[0])
            (low, less), (high, more) = next(pairs, ((0, 0.0), points[-1]))
            x, y = self._place(batch, less + (more - less) * (batch - low) / (high - low))
            yield x - width - _GAP, y - 8
            yield x + _GAP, y + 18

    def _place_words(
        self, words: str, wanted: Sequence[Point], size: float, weight: int, ink: str, *, stays: bool = False
    ) -> tuple[Shape, ...]:
        """Return the words at the first baseline with room. Without room, none, or with `stays` at the first.

        A box in the background color keeps hatching and lines away from them.
        """
        height, width = CAPITAL * size + 6, text_width(words, size, weight)
        rects = [Rect(x, y - height + 3, x + width, y + 3) for x, y in wanted]
        rect = self._places.first_free(rects)
        if rect is None:
            if not stays:
                return ()
            rect = rects[0]
            self._places.reserve(rect)
        ground = Box(rect.left - 3, rect.top, rect.width + 6, rect.height, "bg1")
        return ground, TextLine(rect.left, rect.bottom - 3, words, ink, size, weight)


def _hides(center: Point, other: Point) -> bool:
    return all(abs(one - two) < _CROSS - 1 for one, two in zip(center, other, strict=True))


def _legend_entries(content: MemoryContent) -> Iterator[LegendEntry]:
    for side in content.sides:
        yield LegendEntry(precision_look(side.precision).sample, 24, side.label)
    if content.shows_forecast and any(side.lines for side in content.sides):
        yield LegendEntry(
            lambda x, y: (Stroke(((x, y), (x + 24, y)), "text2", 2, _FORECAST_DASH),), 24, "forecast"
        )
    if any(map(content.failed, content.sides)):
        yield LegendEntry(lambda x, y: marker("x", x + 7, y, _CROSS, "text2", "hollow"), 14, "did not fit")


_HEADROOM = 1.28
"""The factor by which the axis exceeds the limit, to show trials that did not fit."""
_FURTHEST = 1.45
"""A trial that failed beyond this multiple of the largest passed batch is pinned to the edge, so that it does
not squeeze the rest of the chart."""
_SOON = 4.0
"""The axis includes the forecast's limit up to this multiple of the largest passed batch."""
_LEAST_OVER = 0.045
_PIECES = 48


@dataclass(frozen=True)
class MemoryContent:
    """The values of the chart by batch size, with one curve per side: its memory, or its throughput.

    `capacity_gib` is the memory limit, and `capacity_words` its label: a name and an optional addition.
    `ratio` is an annotation: the batches of two sides, and the text between them.
    """

    sides: tuple[LimitSide, ...] = ()
    capacity_gib: float | None = None
    capacity_words: tuple[str, str] = ("", "")
    ratio: tuple[int, int, str] | None = None
    shows_forecast: bool = True
    shows_throughput: bool = False

    def points(self, side: LimitSide) -> tuple[tuple[int, float], ...]:
        """Return a side's curve as (batch, GiB), or for its throughput as (batch, samples/s)."""
        return side.throughputs if self.shows_throughput else side.passed

    def failed(self, side: LimitSide) -> tuple[int, ...]:
        """Return the batches that did not fit. None has a throughput."""
        return () if self.shows_throughput else side.failed


@dataclass(frozen=True)
class MemoryRange:
    """The ends of the axes: batch size, and GiB or samples/s. Both axes start at zero."""

    batches: float
    top: float


def memory_range(content: MemoryContent) -> MemoryRange:
    """Return the ranges that show everything relevant."""
    points = [point for side in content.sides for point in content.points(side)]
    highest = max((value for _, value in points), default=0.0)
    reach = max((batch for batch, _ in points), default=0)
    failed = [batch for side in content.sides for batch in content.failed(side)]
    # the current trial is always in view
    tried = max((side.trying for side in content.sides if side.trying is not None), default=0)
    if not reach:
        furthest = min(failed, default=0)
    else:
        near = _FURTHEST * max(reach, tried)
        furthest = max([reach, *(batch for batch in failed if batch <= near)])
    batches: float = max(furthest, tried)
    if content.shows_forecast and content.capacity_gib:
        limits = [_batch_limit(side, content.capacity_gib) for side in content.sides]
        batches = max([batches, *(limit for limit in limits if not reach or limit <= _SOON * reach)])
    # above the curves of throughput there is nothing to show
    capacity = 0.0 if content.shows_throughput else content.capacity_gib or highest
    return MemoryRange(max(1.0, batches * 1.16), max(highest * 1.1, capacity * _HEADROOM) or 1.0)


def forecast_points(side: LimitSide, reach: MemoryRange) -> list[tuple[float, float]]:
    """Return the forecast line as points (batch, GiB), from zero to where it leaves the chart."""
    if not side.lines:
        return []
    points: list[tuple[float, float]] = []
    for piece in range(_PIECES + 1):
        batch = reach.batches * piece / _PIECES
        gib = _gib_at(side.lines, batch)
        if gib > reach.top:
            if points:
                points.append(_level_crossing(points[-1], (batch, gib), reach.top))
            break
        points.append((batch, max(0.0, gib)))
    return points


def failed_place(batch: int, side: LimitSide, content: MemoryContent, reach: MemoryRange) -> float:
    """Return the height in GiB of a batch that did not fit: on its line, but above the limit and in view."""
    least = (content.capacity_gib or 0.0) + _LEAST_OVER * reach.top
    wanted = _gib_at(side.lines, batch) if side.lines else least
    return min(max(wanted, least), reach.top * 0.97)


def _gib_at(lines: Sequence[MemoryLine], batch: float) -> float:
    low = int(batch)
    less, more = needed_mib(lines, low), needed_mib(lines, low + 1)
    return (less + (more - less) * (batch - low)) / MIB_PER_GIB


def _batch_limit(side: LimitSide, capacity_gib: float) -> float:
    rooms = (line.batch_at(capacity_gib * MIB_PER_GIB) for line in side.lines if line.per_sample_mib > 0)
    return max(0.0, min(rooms, default=0.0))


def _level_crossing(
    below: tuple[float, float], above: tuple[float, float], level: float
) -> tuple[float, float]:
    share = (level - below[1]) / (above[1] - below[1])
    return below[0] + share * (above[0] - below[0]), level
