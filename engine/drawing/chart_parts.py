"""Parts that charts share: axes with their ticks, legends, and names that keep clear of each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.drawing.shapes import Box, Drawing, Point, Shape, TextLine, shortened, text_width
from engine.words.numbers import Tick, linear_ticks, tick_text

LARGEST = 1e150  # of what a chart's axis spans
_DECADE = 10.0 * (1 - 1e-9)
_LEGEND_ROW = 22.0


@dataclass(frozen=True)
class Rect:
    """A rectangle by the coordinates of its four edges."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> Point:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def corners(self) -> tuple[Point, ...]:
        """The four corners, clockwise from the upper left."""
        return (
            (self.left, self.top),
            (self.right, self.top),
            (self.right, self.bottom),
            (self.left, self.bottom),
        )

    def meets(self, other: Rect) -> bool:
        """Return True if the rectangles overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def contains(self, other: Rect) -> bool:
        """Return True if the other rectangle is inside this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


@dataclass(frozen=True)
class AxisScale:
    """A chart axis: maps values from `low` to `high` to pixels from `start` to `end`, linearly or by log."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value in pixels."""
        low, high = self._view(self.low), self._view(self.high)
        return self.start + (self._view(value) - low) / (high - low) * (self.end - self.start)

    def value(self, place: float) -> float:
        """Return the value at a position in pixels."""
        low, high = self._view(self.low), self._view(self.high)
        view = low + (place - self.start) / (self.end - self.start) * (high - low)
        return 10.0**view if self.is_log else view

    def ticks(self, most: int) -> tuple[Tick, ...]:
        """Return up to about `most` ticks with their positions in pixels."""
        if not self.is_log:
            ticks = linear_ticks(self.low, self.high, most)
            return tuple(Tick(self.place(tick.position), tick.text) for tick in ticks)
        ticks = log10_ticks(self._view(self.low), self._view(self.high), most)
        return tuple(Tick(self.place(10.0**tick.position), tick.text) for tick in ticks)

    def _view(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


def span_of(values: Iterable[float], start: float, end: float, room: float = 0.06) -> AxisScale:
    """Return an axis for these values, with free room of the fraction `room` at both ends.

    It is logarithmic if positive values span a decade or more. Values that are not finite are ignored, and
    very large values are reduced, so that all computed values are finite.
    """
    known = [max(-LARGEST, min(value, LARGEST)) for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if is_wide(known):
        reach = (high / low) ** room
        return AxisScale(low / reach, high * reach, start, end, is_log=True)
    margin = (
        room * (high - low)
        if high - low > 1e-9 * max(1.0, abs(high))
        else 0.5 * (abs(high) if abs(high) > 1 / LARGEST else 1.0)
    )
    return AxisScale(low - margin, high + margin, start, end)


def is_wide(values: Sequence[float]) -> bool:
    """Return True if values are positive and span a decade or more, so that a logarithmic axis fits."""
    return min(values) > 1 / LARGEST and max(values) / min(values) >= _DECADE


def log10_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """Return ticks for a view in powers of ten, with 1, 2, 5 in between if there is room."""
    first, last = math.ceil(low), math.floor(high)
    factors = (1, 2, 5) if (last - first + 1) * 3 <= 2 * most else (1,)
    stride = max(1, -(-(last - first) // max(1, most)))
    ticks = [
        Tick(exponent + math.log10(factor), _power_text(factor, exponent))
        for exponent in range(first - stride, last + 1, stride)
        for factor in factors
        if low <= exponent + math.log10(factor) <= high
    ]
    if len(ticks) < 2:
        # less than a decade in view: linear steps, placed at their logarithms
        linear = linear_ticks(10.0**low, 10.0**high, most)
        ticks = [Tick(math.log10(tick.position), tick.text) for tick in linear if tick.position > 0]
    return tuple(ticks)


def _power_text(factor: int, exponent: int) -> str:
    if -4 <= exponent <= 6:
        return tick_text(factor * 10.0**exponent, max(0, -exponent))
    return f"{factor}e{exponent}"


def place_label(
    text: str, x: float, y: float, away: float, area: Rect, taken: list[Rect]
) -> tuple[Shape, ...]:
    """Return a name next to a mark, inside `area` and clear of the rectangles `taken`, which it then joins.

    Without room, return nothing.
    """
    width = text_width(text, 11)
    for left, base in (
        (x + away, y + 4),
        (x - away - width, y + 4),
        (x - width / 2, y + away + 9),
        (x - width / 2, y - away),
        (x - away, y + away + 9),
        (x - away, y - away),
        (x + away - width, y - away),
    ):
        box = Rect(left - 2, base - 11, left + width + 2, base + 3)
        if area.contains(box) and not any(box.meets(rect) for rect in taken):
            taken.append(box)
            return Box(box.left, box.top, box.width, box.height, "bg1"), TextLine(
                left, base, text, "text", 11
            )
    return ()


@dataclass(frozen=True)
class LegendEntry:
    """A legend entry: a name, and the function that draws the sample (`width` pixels wide) in front of it."""

    sample: Callable[[float, float], tuple[Shape, ...]]
    width: float
    text: str


def legend(entries: Sequence[LegendEntry], width: float, most_rows: int | None = None) -> Drawing:
    """Draw the entries side by side in rows. Beyond `most_rows`, show only the number of further entries."""
    shapes: list[Shape] = []
    right, down = 0.0, 0.0
    for place, entry in enumerate(entries):
        title = shortened(entry.text, width - entry.width - 16, 12)
        needed = entry.width + 8 + text_width(title, 12) + 20
        rest = f"and {len(entries) - place:,} more"
        is_last_row = most_rows is not None and down + _LEGEND_ROW >= most_rows * _LEGEND_ROW
        room_for_rest = text_width(rest, 12) if is_last_row and place < len(entries) - 1 else 0.0
        if right and right + needed - 20 + room_for_rest > width:
            if is_last_row:
                shapes.append(TextLine(right, down + 13, rest, "text3", 12))
                break
            right, down = 0.0, down + _LEGEND_ROW
        shapes += entry.sample(right, down + 9)
        shapes.append(TextLine(right + entry.width + 8, down + 13, title, "text2", 12))
        right += needed
    return Drawing(width, down + _LEGEND_ROW if entries else 0.0, tuple(shapes))


_NEAR = 2.0  # pixels that are kept between words and what they stand beside


class TextPlaces:
    """Finds free places for labels in the rectangle `area`, clear of curves, markers and other text."""

    def __init__(self, area: Rect) -> None:
        self._area = area
        self._taken: list[Rect] = []
        self._strokes: list[tuple[Point, Point]] = []

    def reserve(self, rect: Rect) -> None:
        """Keep text out of a rectangle."""
        self._taken.append(rect)

    def reserve_marker(self, center: Point, size: float) -> None:
        """Keep text off a marker of that size."""
        x, y = center
        self.reserve(Rect(x - size / 2, y - size / 2, x + size / 2, y + size / 2))

    def avoid_curve(self, points: Sequence[Point]) -> None:
        """Keep text off a curve."""
        self._strokes.extend(pairwise(points))

    def is_free(self, rect: Rect) -> bool:
        """Return True if text in this rectangle would cover nothing."""
        room = Rect(rect.left - _NEAR, rect.top - _NEAR, rect.right + _NEAR, rect.bottom + _NEAR)
        return (
            self._area.contains(rect)
            and not any(room.meets(other) for other in self._taken)
            and not any(_crosses(*stroke, room) for stroke in self._strokes)
        )

    def first_free(self, wanted: Iterable[Rect]) -> Rect | None:
        """Reserve and return the first rectangle that is free, or return None if none is."""
        free = next((rect for rect in wanted if self.is_free(rect)), None)
        if free is not None:
            self.reserve(free)
        return free


def _crosses(start: Point, end: Point, rect: Rect) -> bool:
    # the algorithm of Liang and Barsky
    first, last = 0.0, 1.0
    edges = ((rect.left, rect.right), (rect.top, rect.bottom))
    for begin, stop, (low, high) in zip(start, end, edges, strict=True):
        run = stop - begin
        if not run:
            if not low <= begin <= high:
                return False
            continue
        enters, leaves = sorted(((low - begin) / run, (high - begin) / run))
        first, last = max(first, enters), min(last, leaves)
    return first <= last
