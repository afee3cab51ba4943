"""Horizontal bars, one per side: name, bar with a whisker for the interval, and value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.drawing.chart_parts import LARGEST
from engine.drawing.looks import SideLook
from engine.drawing.shapes import Box, Drawing, Fill, Shape, Stroke, TextLine, hatching, shortened, text_width
from engine.words.numbers import linear_ticks

_AXIS = 28.0
_BESIDE_NAME = 18.0 + 14.0  # in a name's column: the mark before the name, and the gap before the bar
_MANY = 8
_BOLT = 18.0
_LEAST_PITCH, _MOST_PITCH, _HIGHEST_BAR = 34.0, 64.0, 32.0  # for rows that share a given height
_LONGEST_WHISKER = 1.5
_HATCH_PITCH = 8.0


@dataclass(frozen=True)
class _Rows:
    """The heights of bars and rows, the first from `top`. With many bars, each name takes one line."""

    top: float
    pitch: float
    bar: float
    one_line: bool


@dataclass(frozen=True)
class ChartBar:
    """A bar of a chart, for one side of a comparison. `text` is its `value` as shown.

    With `is_fast`, a lightning bolt (all optimizations) follows `note`. A disturbed side's bar is hatched.
    """

    look: SideLook
    title: str
    note: str
    value: float | None
    text: str
    interval: tuple[float, float] | None = None
    is_fast: bool = False
    is_disturbed: bool = False


def bar_chart(
    bars: tuple[ChartBar, ...], width: float, description: str, height: float | None = None
) -> Drawing:
    """Draw bars on an axis that starts at zero, because a bar's length is its value.

    A whisker far longer than the bars is cut and ends in an arrow. The rows share the `height`, if there is
    one, which is at least `least_height`.
    """
    bars = tuple(map(_finite, bars))
    rows = _layout_rows(len(bars), height)
    names = min(0.42 * width, _BESIDE_NAME + max(_name_width(bar, rows) for bar in bars))
    room = 16 + max(text_width(bar.text, 13, 600) for bar in bars)
    highest = axis_end(bars)
    bottom = rows.pitch * len(bars) + 2 * rows.top
    scale = max(1.0, width - names - room) / highest if highest > 0 else 0.0
    shapes: list[Shape] = []
    if scale:
        shapes += _axis(names, names + highest * scale, bottom, highest)
    shapes.append(Stroke(((names, bottom), (width, bottom)), "line2"))
    for place, bar in enumerate(bars):
        middle = rows.top + rows.pitch * (place + 0.5)
        shapes += _name(bar, middle, names, rows)
        shapes += _bar(bar, names, middle, scale, rows.bar, names + highest * scale + 0.5)
    return Drawing(width, bottom + _AXIS, tuple(shapes), description)


def _finite(bar: ChartBar) -> ChartBar:
    if bar.value is None or not 0 <= bar.value <= LARGEST:
        return replace(bar, value=None, interval=None)
    if bar.interval is None or any(map(math.isnan, bar.interval)):
        return replace(bar, interval=None)
    return bar


def axis_end(bars: Sequence[ChartBar]) -> float:
    """Return the end of the axis, limited so that no whisker dwarfs the bars."""
    return longest_bar([(bar.value, bar.interval) for bar in bars])


def longest_bar(bars: Sequence[tuple[float | None, tuple[float, float] | None]]) -> float:
    """Return the end of the axis of bars by their values and intervals."""
    value = max((value or 0.0 for value, _ in bars), default=0.0)
    end = max((interval[1] for value, interval in bars if interval and value is not None), default=0.0)
    return max(value, min(end, _LONGEST_WHISKER * value))


def least_height(count: int) -> float:
    """Return the least height of a chart with that number of bars, in pixels."""
    return _AXIS + _LEAST_PITCH * max(2, count)


def most_height(count: int) -> float:
    """Return the height in pixels beyond which that number of bars only gains empty space."""
    return _AXIS + _MOST_PITCH * max(2, count)


def _layout_rows(count: int, height: float | None) -> _Rows:
    if height is None:
        return _Rows(2, 48, 26, False) if count <= _MANY else _Rows(2, 24, 14, True)
    room = height - _AXIS
    pitch = min(_MOST_PITCH, room / count)
    return _Rows((room - pitch * count) / 2, pitch, min(_HIGHEST_BAR, pitch - 8), False)


def _axis(left: float, right: float, bottom: float, highest: float) -> list[Shape]:
    shapes: list[Shape] = []
    widest = text_width(f"{highest:,.0f}", 11) + 28
    for tick in linear_ticks(0.0, highest, max(1, int((right - left) / widest))):
        x = round(left + tick.position / highest * (right - left)) + 0.5
        shapes.append(Stroke(((x, 0), (x, bottom)), "grid"))
        shapes.append(TextLine(x, bottom + 17, tick.text, "text3", 11, anchor="middle"))
    return shapes


def _name(bar: ChartBar, middle: float, room: float, rows: _Rows) -> list[Shape]:
    if rows.one_line or not bar.note:
        title = shortened(_whole_name(bar), room - _BESIDE_NAME, 12, 600)
        return [*bar.look.mark(6, middle, 9), TextLine(18, middle + 4, title, "text", 12, 600)]
    note = shortened(bar.note, room - _BESIDE_NAME - _BOLT * bar.is_fast, 12)
    bolt = [_bolt(20 + text_width(note, 12), middle + 1)] if bar.is_fast else []
    return [
        *bar.look.mark(6, middle - 8, 9),
        TextLine(18, middle - 4, shortened(bar.title, room - _BESIDE_NAME, 12, 600), "text", 12, 600),
        TextLine(18, middle + 12, note, "text2", 12),
        *bolt,
    ]


def _bolt(x: float, y: float) -> Shape:
    # the same shape as the window's icon, 14 pixels high
    corners = ((9, 1.8), (3.6, 9), (8, 9), (7, 14.2), (12.4, 7), (8, 7), (9, 1.8))
    return Stroke(tuple((x + 0.875 * right, y + 0.875 * down) for right, down in corners), "text2", 1.2)


def _bar(bar: ChartBar, left: float, middle: float, scale: float, height: float, right: float) -> list[Shape]:
    if bar.value is None:
        return [TextLine(left + 6, middle + 4, bar.text, "text3", 12)]
    end = left + bar.value * scale
    top, length = middle - height / 2, max(0.0, end - left)
    shapes: list[Shape] = [Box(left, top, length, height, bar.look.ink)]
    if bar.is_disturbed:
        outline = ((left, top), (left + length, top), (left + length, top + height), (left, top + height))
        lines = hatching(outline, (left, top), bar.look.ink, _HATCH_PITCH)
        shapes = [Fill(outline, "bg1", bar.look.ink), *lines]
    if bar.interval is not None:
        low, high = (left + max(0.0, edge) * scale for edge in bar.interval)
        ends = [edge for edge in (low, high) if edge <= right]
        low, high = min(low, right), min(high, right)
        shapes.append(Stroke(((low, middle), (high, middle)), "text", 2))
        shapes += [
            Stroke(((edge, middle - 0.35 * height), (edge, middle + 0.35 * height)), "text", 2)
            for edge in ends
        ]
        if len(ends) < 2:
            left, half = high - 0.35 * height, 0.175 * height
            shapes.append(Fill(((high, middle), (left, middle - half), (left, middle + half)), "text"))
        end = max(end, high)
    return [*shapes, TextLine(end + 8, middle + 5, bar.text, "text", 13, 600)]


def _name_width(bar: ChartBar, rows: _Rows) -> float:
    if rows.one_line:
        return text_width(_whole_name(bar), 12, 600)
    return max(text_width(bar.title, 12, 600), text_width(bar.note, 12) + _BOLT * bar.is_fast)


def _whole_name(bar: ChartBar) -> str:
    return f"{bar.title}, {bar.note}" if bar.note else bar.title
