"""The charts of a diagnosis: exponents against the number formats, and the losses of the ladder's rungs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.drawing.curve_chart import Frame, axes
from engine.drawing.looks import precision_look
from engine.drawing.shapes import Box, Drawing, Fill, Point, Shape, Stroke, Words, text_width
from engine.protocol.numerics.formats import E4M3, FP16, Exponents, NumberFormat, merged
from engine.protocol.numerics.ladder import Ladder, Losses
from engine.protocol.numerics.ranges import QUANTITIES, Quantity, Ranges
from engine.words.numbers import linear_ticks

_SIDE, _TOP, _BOTTOM, _HEIGHT = 8.0, 34.0, 24.0, 190.0
_LEAST_EXPONENT, _MOST_EXPONENT = -60, 20
_MARKED: tuple[NumberFormat, ...] = (FP16, E4M3)


def range_charts(ranges: Ranges, width: float) -> dict[Quantity, Drawing]:
    """A histogram of the exponents of each quantity, of all modules together; gradients at the loss scale."""
    charts = {}
    for quantity in QUANTITIES:
        whole = merged(tuple(row.exponents for row in ranges.of(quantity)))
        if quantity == "gradient":
            whole = whole.shifted(ranges.scale_exponent)
        if whole.finite:
            charts[quantity] = _histogram(whole, quantity, width)
    return charts


def _histogram(exponents: Exponents, quantity: Quantity, width: float) -> Drawing:
    end = exponents.first + len(exponents.counts)
    low = max(_LEAST_EXPONENT, min(exponents.first, FP16.subnormal_exponent - 2))
    high = min(_MOST_EXPONENT, max(end, FP16.top_exponent + 2))
    frame = Frame(_SIDE, width - _SIDE, _TOP, _HEIGHT - _BOTTOM, low, high, 0, max(exponents.counts))
    shapes: list[Shape] = []
    for exponent, count in enumerate(exponents.counts, exponents.first):
        if count and low <= exponent < high:
            left, top = frame.x(exponent), frame.y(count)
            shapes.append(Box(left, top, frame.x(exponent + 1) - left - 1, frame.bottom - top, "text2"))
    shapes += [*_format_marks(frame), *_exponent_axis(frame)]
    share = f"{100 * exponents.underflow_fraction(FP16):.1f} %"
    description = f"Exponents of all {quantity}s: {share} of them would underflow to zero in FP16."
    return Drawing(width, _HEIGHT, tuple(shapes), description)


def _format_marks(frame: Frame) -> list[Shape]:
    """The formats' ranges, from the smallest subnormal to the largest number."""
    shapes: list[Shape] = []
    for row, form in enumerate(_MARKED):
        y = 10.0 + 14 * row
        left = max(frame.left, frame.x(form.subnormal_exponent))
        right = min(frame.right, frame.x(form.top_exponent + 1))
        shapes.append(Stroke(((left, y), (right, y)), "text3", 1.0))
        shapes += [Stroke(((x, y - 4), (x, frame.bottom)), "line2", 1.0, (2.0, 3.0)) for x in (left, right)]
        name = form.label
        middle = (left + right) / 2
        half = text_width(name, 11) / 2 + 4
        shapes.append(Box(middle - half, y - 6, 2 * half, 12, "bg1"))
        shapes.append(Words(middle, y + 4, name, "text2", 11, anchor="middle"))
    return shapes


def _exponent_axis(frame: Frame) -> list[Shape]:
    shapes: list[Shape] = [Stroke(((frame.left, frame.bottom), (frame.right, frame.bottom)), "line2")]
    for tick in linear_ticks(
        frame.x_low, frame.x_high, max(2, int((frame.right - frame.left) / 60)), whole=True
    ):
        x = frame.x(tick.position)
        shapes.append(Words(x, frame.bottom + 17, f"2^{tick.position:.0f}", "text3", 11, anchor="middle"))
    return shapes


def ladder_chart(ladder: Ladder, width: float) -> Drawing | None:
    """The losses of the rungs over FP32's band; None without a finite loss."""
    lines = [rung.losses for rung in ladder.rungs]
    values = [loss for losses in (*lines, ladder.band_low, ladder.band_high) for loss in losses]
    finite = [value for value in values if math.isfinite(value)]
    if not finite or ladder.steps < 2:
        return None
    frame = _loss_frame(ladder, finite, width)
    shapes = axes(frame, "step")
    band = [*_points(ladder.band_high, frame), *reversed(_points(ladder.band_low, frame))]
    if len(band) > 3:
        shapes.append(Fill(tuple(band), "fp32", opacity=0.25))
    for rung in ladder.rungs:
        look = precision_look(rung.precision)
        points = _points(rung.losses, frame)
        if len(points) > 1:
            shapes.append(Stroke(tuple(points), look.ink, 1.5, look.dash))
        if points:
            shapes += look.mark(*points[-1], 8)
    description = f"Losses of {len(ladder.rungs):,} rungs over {ladder.steps:,} steps, with the band of FP32."
    return Drawing(width, _HEIGHT + _BOTTOM, tuple(shapes), description)


def _loss_frame(ladder: Ladder, finite: Sequence[float], width: float) -> Frame:
    # the band and what is near it stays readable beside a loss that explodes
    known = [value for value in (*ladder.band_low, *ladder.band_high) if math.isfinite(value)] or finite
    low, high = min(known), max(known)
    room = 0.5 * (high - low) or 0.5 * abs(high) or 0.5
    low, high = max(min(finite), low - room), min(max(finite), high + room)
    high = high if high > low else low + 1
    left = 12 + max(text_width(tick.text, 11) for tick in linear_ticks(low, high, 5))
    return Frame(left, width - _SIDE, _SIDE, _HEIGHT, 0, ladder.steps, low, high)


def _points(losses: Losses, frame: Frame) -> list[Point]:
    return [(frame.x(step), frame.y(loss)) for step, loss in enumerate(losses, 1) if math.isfinite(loss)]
