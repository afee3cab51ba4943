"""Overlaid curves: smoothed lines in pale bands from the lowest to the highest value.

A run's curve is reduced to as many points as a page can show. The bands keep the extremes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from engine.compare.sides import Side
from engine.drawing.chart_parts import LARGEST
from engine.drawing.looks import By, SideLook
from engine.drawing.shapes import Drawing, Fill, Point, Shape, Stroke, TextLine, text_width
from engine.lazy_imports import np
from engine.store.record import RunRecord
from engine.words.numbers import linear_ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray


Values: TypeAlias = "NDArray[np.float64]"


def local_line(values: Values, window: int) -> Values:
    """Return each value replaced by a line through the `window` values around it (Savitzky and Golay, 1964).

    The window is cut at the ends of the data. Values that are not finite stay and are excluded from the fits.
    A window with fewer than two finite values returns the value itself.
    """
    half = window // 2
    if half < 1 or len(values) < 3:
        return values
    finite, values = np.isfinite(values), _clip_values(values)
    if len(values) >= 2 * half + 1 and bool(finite.all()):
        return _smooth_finite(values, half)
    return _smooth_with_gaps(values, finite, half)


def _clip_values(values: Values) -> Values:
    # a sum of a diverged run's last losses would be infinite
    return np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), values)


def extend_smoothed(smoothed: Values, values: Values, window: int) -> Values:
    """Return the smoothed `values`, given their `smoothed` start, by fitting only where new values matter."""
    settled = len(smoothed) - window
    if settled < window:
        return local_line(values, window)
    tail = local_line(values[settled - window :], window)
    return np.concatenate((smoothed[:settled], tail[window:]))


def block_means(places: Sequence[Values], values: Values, rows: int) -> tuple[tuple[Values, ...], Values]:
    """Return means of finite `values` over blocks of `rows`, NaN without any. The last may be shorter."""
    if rows <= 1:
        return tuple(places), values
    first = np.arange(0, len(values), rows)
    lengths = np.diff(np.append(first, len(values)))
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite.astype(np.float64), first)
    sums = np.add.reduceat(np.where(finite, _clip_values(values), 0.0), first)
    means = np.divide(sums, counts, out=np.full(len(first), np.nan), where=counts > 0)
    return tuple(np.add.reduceat(place, first) / lengths for place in places), means


def _smooth_finite(values: Values, half: int) -> Values:
    # if nothing is missing, the line's value at the centre of a whole window is the window's mean
    window = 2 * half + 1
    result = np.empty_like(values)
    result[half:-half] = np.convolve(values, np.full(window, 1.0 / window), mode="valid")
    edge = _edge_weights(half)
    backwards = values[::-1]
    result[:half] = _clip_to_window(edge @ values[: 2 * half], values, half)
    result[-half:] = _clip_to_window(edge @ backwards[: 2 * half], backwards, half)[::-1]
    return result


def _clip_to_window(fitted: Values, values: Values, half: int) -> Values:
    # a line overshoots a bending curve
    lowest = np.minimum.accumulate(values[: 2 * half])[half:]
    highest = np.maximum.accumulate(values[: 2 * half])[half:]
    return np.clip(fitted, lowest, highest)


@lru_cache(maxsize=8)
def _edge_weights(half: int) -> Values:
    weights = np.zeros((half, 2 * half))
    for row in range(half):
        offsets = np.arange(row + half + 1, dtype=np.float64) - row
        spread = offsets - offsets.mean()
        weights[row, : len(offsets)] = 1.0 / len(offsets) - offsets.mean() * spread / (spread**2).sum()
    return weights


def _smooth_with_gaps(values: Values, finite: NDArray[np.bool_], half: int) -> Values:
    offsets = np.arange(-half, half + 1, dtype=np.float64)
    weights, known = finite.astype(np.float64), np.where(finite, values, 0.0)
    # moments of each window about its centre; np.convolve reverses the kernel, hence the sign
    count, first = _windowed_sums(weights, np.ones_like(offsets)), _windowed_sums(weights, -offsets)
    second = _windowed_sums(weights, offsets**2)
    total, slanted = _windowed_sums(known, np.ones_like(offsets)), _windowed_sums(known, -offsets)
    determinant = count * second - first**2
    usable = finite & (determinant > 0.5)
    result = values.copy()
    np.divide(second * total - first * slanted, determinant, out=result, where=usable)
    # each to its own window: what lies further off must not change it
    lowest = _sliding(np.where(finite, values, np.inf), half, np.inf).min(axis=1)
    highest = _sliding(np.where(finite, values, -np.inf), half, -np.inf).max(axis=1)
    return np.where(usable, np.clip(result, lowest, highest), result)


def _sliding(values: Values, half: int, beyond: float) -> Values:
    padded = np.pad(values, half, constant_values=beyond)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)


def _windowed_sums(values: Values, kernel: Values) -> Values:
    half = len(kernel) // 2
    return np.convolve(values, kernel, mode="full")[half : half + len(values)]


_LINE_POINTS = 160
_COLUMNS = 300
_WINDOWS_A_RUN, _LEAST_WINDOW = 40, 15
_MOST_BLOCKS = 1_600


@dataclass(frozen=True)
class Points:
    """A curve's values and when each was recorded: step, seconds and samples. NaN: nothing to draw."""

    steps: Values
    seconds: Values
    samples: Values
    values: Values

    def x(self, by: By) -> Values:
        return {"step": self.steps, "seconds": self.seconds, "samples": self.samples}[by]


@dataclass(frozen=True)
class RunCurve:
    """One run's curve, numbered by `repeat` within its side. `line` may be smoothed.

    `low` and `high` bound the values that were recorded.
    """

    run: RunRecord
    side: Side
    repeat: int
    line: Points
    low: Points
    high: Points


def smoothed(points: Points) -> Points:
    """Return the points smoothed by local lines. A long run is first reduced to means of short blocks."""
    if not len(points.values):
        return points
    axes = (points.steps, points.seconds, points.samples)
    places, values = block_means(axes, points.values, -(-len(points.values) // _MOST_BLOCKS))
    count = len(values)
    fitted = local_line(values, max(min(_LEAST_WINDOW, count // 4), count // _WINDOWS_A_RUN))
    rows = np.unique(np.linspace(0, len(fitted) - 1, _LINE_POINTS).astype(int))
    return Points(*(column[rows] for column in (*places, fitted)))


def bounds(points: Points) -> tuple[Points, Points]:
    """Return the lowest and highest finite value in each column of the page."""
    count = max(1, min(_COLUMNS, len(points.values) // 3))
    first = np.linspace(0, len(points.values), count, endpoint=False).astype(int)
    finite = np.isfinite(points.values)
    lowest = np.minimum.reduceat(np.where(finite, points.values, np.inf), first)
    highest = np.maximum.reduceat(np.where(finite, points.values, -np.inf), first)
    places = (points.steps[first], points.seconds[first], points.samples[first])
    low, high = (np.where(np.isfinite(edge), edge, np.nan) for edge in (lowest, highest))
    return Points(*places, low), Points(*places, high)


_TOP, _BOTTOM = 8.0, 26.0
_BAND_OPACITY, _MOST_BANDS = 0.2, 6
_MARKS = 5
_FAR_OFF = 4.0


@dataclass(frozen=True)
class PlotArea:
    """The plot area of a chart: its edges in pixels, and the values at these edges."""

    left: float
    right: float
    top: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (self.right - self.left)

    def y(self, value: float) -> float:
        held = min(max(value, self.y_low), self.y_high)
        return self.bottom - (held - self.y_low) / (self.y_high - self.y_low) * (self.bottom - self.top)


def curve_chart(
    curves: Sequence[RunCurve],
    looks: Mapping[str, SideLook],
    by: By,
    size: tuple[float, float],
    room: float,
    x_end: float,
    description: str,
) -> tuple[Drawing, PlotArea]:
    """Draw the curves from 0 to `x_end` with clipped outliers, pale repeats, and `room` for y labels."""
    low, high = bounds_of(curves)
    frame = PlotArea(room, size[0] - 8, _TOP, size[1] - _BOTTOM, 0.0, x_end, low, high)
    shapes = [*draw_axes(frame, by)]
    if len(curves) <= _MOST_BANDS and all(curve.repeat == 0 for curve in curves):
        for curve in curves:
            shapes += _band(curve, looks[curve.side.id], by, frame)
    places = {side: place for place, side in enumerate(dict.fromkeys(curve.side.id for curve in curves))}
    # repeats first, so that they are below the main lines of all sides
    for curve in sorted(curves, key=lambda curve: curve.repeat == 0):
        shapes += draw_line(curve, looks[curve.side.id], by, frame, places[curve.side.id] / len(places))
    return Drawing(*size, tuple(shapes), description), frame


def label_room(low: float, high: float) -> float:
    """Return the width of the labels in pixels on a y axis from `low` to `high`."""
    return 12 + max(text_width(tick.text, 11) for tick in linear_ticks(low, high, 5))


def last_x(curves: Sequence[RunCurve], by: By) -> float:
    """Return the x value at which the longest curve ends."""
    ends = [float(x[-1]) for curve in curves if len(x := curve.line.x(by)) and np.isfinite(x[-1])]
    return max(ends, default=0.0) or 1.0


def bounds_of(curves: Sequence[RunCurve]) -> tuple[float, float]:
    """Return the lowest and highest value on the y axis. It cuts off a single spike."""
    values = np.concatenate([curve.line.values for curve in curves] or [np.empty(0)])
    finite = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    # a single spike must not flatten all the rest
    usual = float(np.quantile(finite, 0.9))
    if high - low > _FAR_OFF * max(usual - low, 1e-12) and usual > low:
        high = low + _FAR_OFF * (usual - low)
    if high - low < 1e-9 * max(1.0, abs(high)):
        return low - 0.5, high + 0.5
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def draw_axes(frame: PlotArea, by: By, *, is_signed: bool = False) -> list[Shape]:
    """Draw the frame's grid and ticks. The x axis starts at 0. Values have a sign if they are differences."""
    shapes: list[Shape] = []
    for tick in linear_ticks(frame.y_low, frame.y_high, 5):
        y = round(frame.y(tick.position)) + 0.5
        shapes.append(Stroke(((frame.left, y), (frame.right, y)), "grid"))
        sign = "+" if is_signed and tick.position > 0 and tick.text.strip("0.") else ""
        shapes.append(TextLine(frame.left - 8, y + 4, sign + tick.text, "text3", 11, anchor="end"))
    shapes.append(Stroke(((frame.left, frame.bottom), (frame.right, frame.bottom)), "line2"))
    ticks = linear_ticks(
        0.0, frame.x_high, max(2, int((frame.right - frame.left) / 90)), whole=by != "seconds"
    )
    unit = {"step": "steps", "seconds": "s", "samples": "samples"}[by]
    for place, tick in enumerate(ticks):
        is_last = place == len(ticks) - 1
        x, text = frame.x(tick.position), f"{tick.text} {unit}" if is_last else tick.text
        if is_last and place:
            # the number stays centred, and the unit follows it
            x = min(x - text_width(tick.text, 11) / 2, frame.right + 6 - text_width(text, 11))
            shapes.append(TextLine(x, frame.bottom + 17, text, "text3", 11))
        else:
            shapes.append(TextLine(x, frame.bottom + 17, text, "text3", 11, anchor="middle"))
    return shapes


def _band(curve: RunCurve, look: SideLook, by: By, frame: PlotArea) -> list[Shape]:
    shapes: list[Shape] = []
    for upper, lower in zip(_pieces(curve.high, by, frame), _pieces(curve.low, by, frame), strict=True):
        if len(upper) > 1:
            shapes.append(Fill((*upper, *reversed(lower)), look.ink, opacity=_BAND_OPACITY))
    return shapes


def draw_line(
    curve: RunCurve, look: SideLook, by: By, frame: PlotArea, stagger: float = 0.0, marks: int = _MARKS
) -> list[Shape]:
    """Draw a curve with a mark at its end. `stagger` shifts the other marks by a part of their distance."""
    pieces = _pieces(curve.line, by, frame)
    if curve.repeat:
        return [Stroke(piece, f"{look.ink}-dim", 1.0) for piece in pieces if len(piece) > 1]
    shapes: list[Shape] = [Stroke(piece, look.ink, 2.0, look.dash) for piece in pieces if len(piece) > 1]
    points = [point for piece in pieces for point in piece]
    fractions = (*((np.arange(marks - 1) + stagger) / (marks - 1)), 1.0)
    places = np.unique((np.array(fractions) * (len(points) - 1)).astype(int)) if points else ()
    marked = [points[place] for place in places]
    for place, (x, y) in enumerate(marked, start=1):
        shapes += look.mark(x, y, 10 if place == len(marked) else 8)
    return shapes


def _pieces(points: Points, by: By, frame: PlotArea) -> list[tuple[Point, ...]]:
    pieces: list[list[Point]] = [[]]
    for x, value in zip(points.x(by), points.values, strict=True):
        if np.isfinite(value) and np.isfinite(x):
            pieces[-1].append((frame.x(float(x)), frame.y(float(value))))
        elif pieces[-1]:
            pieces.append([])
    return [tuple(piece) for piece in pieces if piece]
