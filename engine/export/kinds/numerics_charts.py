"""The charts of a diagnosis: exponents against the number formats, and the losses of the ladder's rungs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.drawing.curve_chart import Frame, axes
from engine.drawing.looks import precision_look
from engine.drawing.shapes import Drawing, Fill, Point, Stroke, text_width
from engine.numerics.range_histogram import Axis, histogram
from engine.protocol.numerics.formats import FP16, merged
from engine.protocol.numerics.ladder import Ladder, Losses
from engine.protocol.numerics.ranges import QUANTITIES, Quantity, Ranges
from engine.words.numbers import linear_ticks

_SIDE, _BOTTOM, _HEIGHT = 8.0, 24.0, 190.0


def range_charts(ranges: Ranges, width: float) -> dict[Quantity, Drawing]:
    """A histogram of the exponents of each quantity, of all modules together; gradients at the loss scale."""
    charts = {}
    for quantity in QUANTITIES:
        whole = merged(tuple(row.exponents for row in ranges.of(quantity)))
        if quantity == "gradient":
            whole = whole.shifted(ranges.scale_exponent)
        if whole.finite:
            share = f"{100 * whole.underflow_fraction(FP16):.1f} %"
            words = f"Exponents of all {quantity}s: {share} of them would underflow to zero in FP16."
            charts[quantity] = histogram(whole, Axis.of((whole,)), FP16, (width, _HEIGHT), words)
    return charts


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
