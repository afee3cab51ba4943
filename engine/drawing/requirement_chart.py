"""A requirement on a ratio: the bound, the refused side hatched, and the measured ratio with its interval."""

from __future__ import annotations

from engine.compare.requirement import Outcome
from engine.drawing.looks import SideLook
from engine.drawing.shapes import Box, Drawing, Point, Shape, Stroke, TextLine, hatching, text_width
from engine.words.numbers import linear_ticks, times

_AXIS, _WORDS, _MARK = 20.0, 36.0, 9.0
_PITCH, _CAP, _GAP = 7.0, 7.0, 7.0
_LEAST_HEIGHT = _AXIS + _WORDS
"""The height below which there are neither words nor an axis."""


def requirement_chart(outcome: Outcome, look: SideLook, width: float, height: float) -> Drawing:
    """Draw the ratio of an outcome with its interval, in pixels. Low charts have neither words nor axis."""
    cell, required = outcome.cell, outcome.requirement
    if cell is None or cell.ratio is None or width <= 0:
        return Drawing(width, height, (), outcome.sentence)
    low, high = cell.ratio_interval or (cell.ratio, cell.ratio)
    least, most = min(low, required.bound), max(high, required.bound)
    room = max(0.3 * (most - least), 0.02 * most)
    start, end = max(0.0, least - room), most + room
    has_words = height >= _LEAST_HEIGHT
    bottom = height - _AXIS if has_words else height
    scale = width / (end - start)
    limit, ratio = (round(scale * (value - start)) for value in (required.bound, cell.ratio))
    left, right = (0.0, float(limit)) if required.operator == ">=" else (float(limit), width)
    outline: tuple[Point, ...] = ((left, 0.0), (right, 0.0), (right, bottom), (left, bottom))
    shapes: list[Shape] = [*hatching(outline, (left, 0.0), "line2", _PITCH)]
    if has_words:
        shapes.append(Stroke(((0.0, bottom + 0.5), (width, bottom + 0.5)), "line2"))
        for tick in linear_ticks(start, end, 4):
            place = scale * (tick.position - start)
            if 12 < place < width - 12:
                shapes.append(TextLine(place, height - 4, f"{tick.text}×", "text3", 11, anchor="middle"))
    shapes.append(Box(limit - 1, 0.0, 2.0, bottom, "text"))
    middle = (bottom + (_WORDS if has_words else 0.0)) / 2
    ends = [scale * (value - start) for value in (low, high)]
    shapes.append(Stroke(((ends[0], middle), (ends[1], middle)), look.ink, 2))
    shapes += [Stroke(((x, middle - _CAP), (x, middle + _CAP)), look.ink, 2) for x in ends if low < high]
    shapes += look.mark(ratio, middle, _MARK)
    if has_words:
        shapes += _words(f"{required.bound:.10g} required", limit + _GAP, 12, "text", 500, width)
        half = text_width(f"{times(cell.ratio)}×", 12, 600) / 2
        shapes += _words(f"{times(cell.ratio)}×", ratio - half, 30, look.ink, 600, width)
    return Drawing(width, height, tuple(shapes), outcome.sentence)


def _words(text: str, left: float, baseline: float, ink: str, weight: int, width: float) -> list[Shape]:
    # on a plate, since the hatching or the bound may be behind them
    length = text_width(text, 12, weight)
    left = max(0.0, min(left, width - length))
    plate = Box(left - 2, baseline - 11, length + 4, 14.0, "bg1")
    return [plate, TextLine(left, baseline, text, ink, 12, weight)]
