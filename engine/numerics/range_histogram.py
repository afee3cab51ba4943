"""A chart of exponents as a histogram, compared with the ranges of the dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Box, Drawing, Shape, Stroke, TextLine, hatching, text_width
from engine.protocol.ranges import BF16, FP16, SMALL_FORMATS, Exponents, NumberFormat
from engine.words.numbers import linear_ticks, power_of_two

_LEAST, _MOST = -64, 40
"""Exponents beyond these are gathered in the bars at the edges."""
_LOW, _HIGH = -27, 19
"""Always in view: the range of FP16 with room on both sides."""
_TICK_STEPS = (2, 4, 8, 16, 32)
_TICK_PITCH = 40.0
_HATCH_PITCH = 8.0
_LEFT, _RIGHT, _BOTTOM, _BRACKET_PITCH = 60.0, 8.0, 20.0, 14.0
_TOP = _BRACKET_PITCH * len(SMALL_FORMATS) + 6.0
_INKS = {FP16: ("fp16", "fp16-dim"), BF16: ("bf16", "bf16-dim")}
"""The inks of values that are normal in a dtype, and of subnormal ones."""
_OTHER_INKS = ("text3", "off")


@dataclass(frozen=True)
class ExponentAxis:
    """The x axis of a histogram of binary exponents, from `low` up to but without `end`."""

    low: int = _LOW
    end: int = _HIGH

    @classmethod
    def of(cls, histograms: Iterable[Exponents]) -> ExponentAxis:
        """Return the axis that shows all of these histograms, up to a maximum length."""
        filled = [histogram for histogram in histograms if histogram.finite]
        low = min((h.first for h in filled), default=_LOW) - 1
        end = max((h.first + len(h.counts) for h in filled), default=_HIGH) + 1
        return cls(max(_LEAST, min(_LOW, low)), min(_MOST, max(_HIGH, end)))

    def x(self, exponent: int, area: Rect) -> float:
        """Return the left edge of an exponent's bar, on a full pixel within the area."""
        return self.edges(area)[min(max(exponent, self.low), self.end) - self.low]

    def edges(self, area: Rect) -> tuple[float, ...]:
        """Return the left edges of all bars, and the right edge of the last."""
        return _edges(area.left, area.width, self.end - self.low)

    def exponent_at(self, x: float, area: Rect) -> int | None:
        """Return the exponent at `x`. None outside of the area."""
        if not area.left <= x < area.right:
            return None
        return self.low + int((x - area.left) / area.width * (self.end - self.low))

    def shares(self, exponents: Exponents) -> tuple[float, ...]:
        """Return the share of finite values per exponent in view. The outermost gather all beyond."""
        counts = [0] * (self.end - self.low)
        for exponent, count in enumerate(exponents.counts, exponents.first):
            counts[min(max(exponent - self.low, 0), len(counts) - 1)] += count
        return tuple(count / (exponents.finite or 1) for count in counts)

    def edge(self, exponent: int) -> str:
        """Return "less" or "more" for a bar that gathers all exponents beyond it, otherwise ""."""
        return "less" if exponent == self.low else "more" if exponent == self.end - 1 else ""

    def ticks(self, width: float) -> range:
        """Return the exponents to label under an area of this width."""
        pitch = width / (self.end - self.low)
        step = next((step for step in _TICK_STEPS if step * pitch >= _TICK_PITCH), _TICK_STEPS[-1])
        return range(math.ceil(self.low / step) * step, self.end, step)


@lru_cache(maxsize=16)
def _edges(left: float, width: float, bars: int) -> tuple[float, ...]:
    return tuple(left + round(place / bars * width) for place in range(bars + 1))


def histogram_area(size: tuple[float, float]) -> Rect:
    """Return the area of the bars in a chart of this size."""
    return Rect(_LEFT, _TOP, size[0] - _RIGHT, size[1] - _BOTTOM)


def histogram(
    exponents: Exponents, axis: ExponentAxis, form: NumberFormat, size: tuple[float, float], description: str
) -> Drawing:
    """Draw the exponents with a bracket for each dtype's range. Emphasize values that `form` would lose."""
    area, shares = histogram_area(size), axis.shares(exponents)
    highest = max(shares, default=0.0) or 1.0
    bottom = area.bottom + 0.5
    shapes = (
        *lost_range(area, axis, form),
        *_grid(area, highest),
        *bars(area, axis, shares, highest * 1.05, form),
        Stroke(((area.left, bottom), (area.right, bottom)), "line2"),
        *exponent_ticks(area, axis, area.bottom + 15),
        *_brackets(area, axis, form),
    )
    return Drawing(*size, shapes, description)


@lru_cache(maxsize=256)
def lost_range(area: Rect, axis: ExponentAxis, form: NumberFormat) -> tuple[Shape, ...]:
    """Hatch the exponents beyond a dtype's range, and mark where its subnormal range ends."""
    least, normal, end = _format_edges(form, axis, area)
    shapes: list[Shape] = []
    for left, right in ((area.left, least), (end, area.right)):
        if left < right:
            outline = ((left, area.top), (right, area.top), (right, area.bottom), (left, area.bottom))
            shapes += hatching(outline, (0.0, 0.0), "hatch", _HATCH_PITCH)
    if least < normal:
        shapes.append(Stroke(((normal, area.top), (normal, area.bottom)), "text3", dash=(1.0, 2.0)))
    return tuple(shapes)


def bars(
    area: Rect, axis: ExponentAxis, shares: Sequence[float], highest: float, form: NumberFormat
) -> Iterator[Shape]:
    """Draw the bars in the dtype's colors. Lost values are black or white. `highest` fills the height.

    Every bar that is not empty is at least a pixel high.
    """
    full, dim = _INKS.get(form, _OTHER_INKS)
    least, normal, end = _format_edges(form, axis, area)
    edges, whole = axis.edges(area), area.height
    gap = 1.0 if edges[1] - edges[0] > 3 else 0.0
    for left, right, share in zip(edges, edges[1:], shares, strict=False):
        if share:
            height = min(whole, max(1.0, round(share / highest * whole)))
            ink = "text" if left < least or left >= end else dim if left < normal else full
            yield Box(left, area.bottom - height, right - left - gap, height, ink)


def bracket(
    area: Rect, axis: ExponentAxis, form: NumberFormat, level: float, thickness: float = 4.0
) -> tuple[Shape, ...]:
    """Draw a bar at the height `level` over the range of a dtype, lighter over its subnormal range."""
    full, dim = _INKS.get(form, _OTHER_INKS)
    least, normal, end = _format_edges(form, axis, area)
    return Box(least, level, normal - least, thickness, dim), Box(
        normal, level, end - normal, thickness, full
    )


def exponent_ticks(area: Rect, axis: ExponentAxis, baseline: float) -> Iterator[Shape]:
    """Draw the exponents along the axis."""
    for exponent in axis.ticks(area.width):
        text = "1" if exponent == 0 else power_of_two(exponent)
        middle, half = axis.x(exponent, area), text_width(text, 11) / 2
        if middle - half >= area.left - 8 and middle + half <= area.right + 4:
            yield TextLine(middle, baseline, text, "text3", 11, anchor="middle")


def _brackets(area: Rect, axis: ExponentAxis, chosen: NumberFormat) -> Iterator[Shape]:
    for row, form in enumerate(SMALL_FORMATS):
        level = row * _BRACKET_PITCH + 5
        is_chosen = form == chosen
        yield from bracket(area, axis, form, level, 5.0 if is_chosen else 3.0)
        yield TextLine(0, level + 6, form.label, *(("text", 11, 600) if is_chosen else ("text3", 11, 400)))


def _format_edges(form: NumberFormat, axis: ExponentAxis, area: Rect) -> tuple[float, float, float]:
    # what is at least half of the smallest number is rounded up to it
    bounds = (form.subnormal_exponent - 1, form.normal_exponent, form.top_exponent + 1)
    least, normal, end = (axis.x(bound, area) for bound in bounds)
    return least, normal, end


def _grid(area: Rect, highest: float) -> Iterator[Shape]:
    for tick in linear_ticks(0.0, 100 * highest, max(2, int(area.height / 36))):
        level = round(area.bottom - tick.position / (105 * highest) * area.height) + 0.5
        if tick.position:
            yield Stroke(((area.left, level), (area.right, level)), "grid")
        yield TextLine(area.left - 8, level + 4, f"{tick.text}%", "text3", 11, anchor="end")
