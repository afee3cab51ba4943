"""The charts of a numerics study: exponents, losses in each precision, and the size of a result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.drawing.curve_chart import PlotArea, draw_axes
from engine.drawing.looks import SideLook, mark_fills, precision_look
from engine.drawing.shapes import Box, Drawing, Fill, Point, Stroke, TextLine, text_width
from engine.numerics.range_histogram import ExponentAxis, histogram
from engine.protocol.numerics import DivergenceTest, FirstNonfinite, Losses
from engine.protocol.ranges import FORMATS, FP16, QUANTITIES, Quantity, Ranges, merge_exponents
from engine.words.numbers import linear_ticks, number

_SIDE, _BOTTOM, _HEIGHT, _LOSS_HEIGHT = 8.0, 24.0, 190.0, 240.0


def range_charts(ranges: Ranges, width: float) -> dict[Quantity, Drawing]:
    """Return a histogram of exponents per quantity, over all modules, with gradients at the loss scale."""
    charts = {}
    for quantity in QUANTITIES:
        whole = merge_exponents(tuple(row.exponents for row in ranges.of(quantity)))
        if quantity == "gradient":
            whole = whole.shifted(ranges.scale_exponent)
        if whole.finite:
            share = f"{100 * whole.underflow_fraction(FP16):.1f}%"
            words = f"Exponents of all {quantity}s. {share} would underflow to zero in FP16."
            charts[quantity] = histogram(whole, ExponentAxis.of((whole,)), FP16, (width, _HEIGHT), words)
    return charts


def divergence_chart(divergence: DivergenceTest, width: float) -> Drawing | None:
    """Return the losses of each precision over the band of FP32, or None without a finite loss.

    A line marks the step at which a precision diverges.
    """
    lines = [run.losses for run in divergence.runs]
    values = [loss for losses in (*lines, divergence.band_low, divergence.band_high) for loss in losses]
    finite = [value for value in values if math.isfinite(value)]
    if not finite or divergence.steps < 2:
        return None
    frame = _loss_frame(divergence, finite, width)
    shapes = draw_axes(frame, "step")
    band = [*_points(divergence.band_high, frame), *reversed(_points(divergence.band_low, frame))]
    if len(band) > 3:
        shapes.append(Fill(tuple(band), "fp32", opacity=0.25))
    for run, look in zip(divergence.runs, run_looks(divergence), strict=True):
        points = _points(run.losses, frame)
        if run.diverges_at is not None:
            x = round(frame.x(run.diverges_at)) + 0.5
            shapes.append(Stroke(((x, frame.top), (x, frame.bottom)), look.ink, dash=(2.0, 3.0)))
        if len(points) > 1:
            shapes.append(Stroke(tuple(points), look.ink, 1.5, look.dash))
        if points:
            shapes += look.mark(*points[-1], 8)
    description = (
        f"Losses of {len(divergence.runs):,} precisions over {divergence.steps:,} steps, with FP32's band."
    )
    return Drawing(width, _LOSS_HEIGHT + _BOTTOM, tuple(shapes), description)


def run_looks(divergence: DivergenceTest) -> tuple[SideLook, ...]:
    """Return the look of each precision's losses."""
    precisions = [run.precision for run in divergence.runs]
    return tuple(map(precision_look, precisions, mark_fills(precisions)))


def _loss_frame(divergence: DivergenceTest, finite: Sequence[float], width: float) -> PlotArea:
    # the band and what is near it stays readable beside a loss that explodes
    known = [
        value for value in (*divergence.band_low, *divergence.band_high) if math.isfinite(value)
    ] or finite
    low, high = min(known), max(known)
    room = 0.5 * (high - low) or 0.5 * abs(high) or 0.5
    low, high = max(min(finite), low - room), min(max(finite), high + room)
    high = high if high > low else low + 1
    left = 12 + max(text_width(tick.text, 11) for tick in linear_ticks(low, high, 5))
    return PlotArea(left, width - _SIDE, _SIDE, _LOSS_HEIGHT, 0, divergence.steps, low, high)


def _points(losses: Losses, frame: PlotArea) -> list[Point]:
    return [(frame.x(step), frame.y(loss)) for step, loss in enumerate(losses, 1) if math.isfinite(loss)]


_LOWEST, _LINE_HEIGHT, _TOP, _BAR = 1e-8, 48.0, 19.0, 10.0
"""The smallest magnitude that the line shows, and its pixels."""


def magnitude_line(first: FirstNonfinite, width: float) -> Drawing | None:
    """Draw an operation's result next to the largest number of its dtype, on a log axis of `width`.

    Without a result, its largest input is drawn. None if the dtype or the values are unknown.
    """
    form = next((form for form in FORMATS if form.name in first.outputs), None)
    if form is None or first.least is None or first.most is None:
        return None
    is_result = first.result is not None
    most = max(abs(first.least), abs(first.most)) if first.result is None else first.result
    # it ends a tenth of its length beyond the larger of its two marks
    end = math.log(max(most, form.largest) / _LOWEST) / 0.9
    reach, largest = (
        width * max(0.0, math.log(max(value, _LOWEST) / _LOWEST) / end) for value in (most, form.largest)
    )
    texts = (
        f"{'results' if is_result else 'inputs'} up to {number(most)}",
        f"{form.label} maximum {number(form.largest, 0)}",
    )
    places = ((texts[0], reach, _TOP - 7, "text"), (texts[1], largest, _LINE_HEIGHT - 4, "text2"))
    # words end there, unless they would start too far left
    words = (
        TextLine(max(right, text_width(text, 12)), baseline, text, ink, 12, anchor="end")
        for text, right, baseline, ink in places
    )
    bars = (
        Box(0, _TOP, largest, _BAR, "bg3"),
        Box(0, _TOP, reach, _BAR, "text2"),
        Box(largest, _TOP - 3, 1, _BAR + 6, "text"),
    )
    return Drawing(width, _LINE_HEIGHT, (*bars, *words), ", ".join(texts))
