"""The loss of many sides, directly labeled: against time, by step, and as the difference to the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.compare.comparison import Comparison, SideReport
from engine.compare.metrics import LOSS
from engine.compare.ranking import ranking
from engine.compare.sides import Side
from engine.drawing.curve_chart import (
    PlotArea,
    Points,
    RunCurve,
    Values,
    bounds_of,
    draw_axes,
    draw_line,
    label_room,
    last_x,
)
from engine.drawing.looks import By, SideLook, side_looks
from engine.drawing.shapes import Drawing, Fill, Shape, Stroke, TextLine, shortened, text_width
from engine.lazy_imports import np
from engine.words.names import listed
from engine.words.numbers import number

_TOP, _BOTTOM, _RIGHT = 12.0, 26.0, 12.0
_PITCH, _CASCADE, _MARK = 19.0, 23.0, 8.0
_LEADER, _NAME, _GAP, _SIGN = 22.0, 110.0, 8.0, 7.0
_MARKS, _WINDOWS = 3, 16
MOST_LABELS = 12
"""The sides that are labeled. More labels would leave no room for the curves."""


@dataclass(frozen=True)
class _Label:
    """A side's name and value, and the end of its curve in pixels."""

    side: Side
    text: str
    x: float
    y: float


def mean_curves(curves: Sequence[RunCurve]) -> tuple[RunCurve, ...]:
    """Return one curve per side: the mean of its repeats at each step of the first repeat, up to the
    shortest. Repeats without samples are ignored.
    """
    known = [curve for curve in curves if len(curve.line.steps)]
    ids = dict.fromkeys(curve.side.id for curve in known)
    return tuple(_mean([curve for curve in known if curve.side.id == side_id]) for side_id in ids)


def _mean(repeats: Sequence[RunCurve]) -> RunCurve:
    first, steps = repeats[0], repeats[0].line.steps
    values, seconds = (
        np.mean([_interpolate_column(steps, curve.line, column) for curve in repeats], axis=0)
        for column in ("values", "seconds")
    )
    known = np.isfinite(seconds)
    line = Points(steps[known], seconds[known], first.line.samples[known], values[known])
    return RunCurve(first.run, first.side, 0, line, line, line)


def _interpolate_column(steps: Values, points: Points, column: str) -> Values:
    # a point beyond the end of a curve is unknown
    return np.asarray(np.interp(steps, points.steps, getattr(points, column), right=np.nan), dtype=np.float64)


@dataclass(frozen=True)
class LossChart:
    """A chart of the loss of many sides: its title, a note, and its drawing for a width and a height."""

    title: str
    note: str
    draw: Callable[[float, float], Drawing]


def time_to_loss(
    comparison: Comparison, curves: Sequence[RunCurve], unit: str, by: By = "seconds"
) -> LossChart | None:
    """Draw the loss of each side over time or steps (`by`).

    Over time, a line is labeled with the time at its end, and disturbed sides are omitted. Over steps, it is
    labeled with its last loss. None if there is nothing to draw.
    """
    is_timed = by == "seconds"
    disturbed = [row.side for row in ranking(comparison) if is_timed and row.is_disturbed]
    means = [curve for curve in _ranked_means(comparison, curves) if curve.side not in disturbed]
    if not means:
        return None
    title = "Time to loss" if is_timed else "Training loss"
    without = listed([side.title for side in disturbed])
    left_out = f" · without {without}, disturbed" if disturbed else ""
    note = f"training loss{f', {unit}' if unit else ''}{left_out}"
    looks, against = side_looks(comparison.sides), "seconds" if is_timed else "training step"
    titles = ", ".join(curve.side.title for curve in means)
    description = f"Training loss against {against}: {titles}."
    texts = {curve.side.id: _end_text(curve.line, is_timed=is_timed) for curve in means}

    def draw(width: float, height: float) -> Drawing:
        room = _RIGHT if is_timed else _labels_room(means, texts)
        low, high = bounds_of(means)
        edges = (label_room(low, high), width - room, _TOP, height - _BOTTOM)
        frame = PlotArea(*edges, 0.0, last_x(means, by), low, high)
        labels = _curve_labels(means, texts, by, frame)
        beside = _cascade(labels, looks, frame) if is_timed else _label_column(labels, looks, frame, width)
        shapes = (*draw_axes(frame, by), *beside, *_curve_shapes(means, looks, by, frame))
        return Drawing(width, height, shapes, description)

    return LossChart(title, note, draw)


def difference_to_baseline(comparison: Comparison, curves: Sequence[RunCurve], unit: str) -> LossChart | None:
    """Return the loss of each side minus the baseline's at the same step, over the spread of its repeats.

    Sides that did another training are left out. None if there is nothing to draw.
    """
    baseline = comparison.baseline
    means = [
        curve
        for curve in _ranked_means(comparison, curves)
        if _does_same_steps(comparison.report(curve.side.id), baseline)
    ]
    base = next((curve.line for curve in means if curve.side is baseline), None)
    if base is None or len(means) < 2:
        return None
    differences = [_minus(curve, base) for curve in means]
    repeats = [curve for curve in curves if curve.side is baseline and len(curve.line.steps)]
    spread = [_interpolate_column(base.steps, _minus(curve, base).line, "values") for curve in repeats]
    texts = {curve.side.id: _final_difference(comparison, curve) for curve in differences}
    low, high = _spread_of([*(curve.line.values for curve in differences), *spread])
    shaded = f" · shaded: variation between runs of {baseline.title}" if len(spread) > 1 else ""
    note = f"training loss at the same step{f', {unit}' if unit else ''}{shaded}"
    ends = ", ".join(f"{curve.side.title} {texts[curve.side.id] or 0}" for curve in differences)
    looks = side_looks(comparison.sides)

    def draw(width: float, height: float) -> Drawing:
        left, right = label_room(low, high) + _SIGN, width - _labels_room(differences, texts)
        frame = PlotArea(left, right, _TOP, height - _BOTTOM, 0.0, last_x(differences, "step"), low, high)
        shapes = [*_band(base, spread, frame), *draw_axes(frame, "step", is_signed=True)]
        shapes += _label_column(_curve_labels(differences, texts, "step", frame), looks, frame, width)
        shapes += _curve_shapes(differences, looks, "step", frame)
        return Drawing(width, height, tuple(shapes), f"Training loss minus that of {baseline.title}: {ends}.")

    return LossChart(f"Difference to {baseline.title}", note, draw)


def _ranked_means(comparison: Comparison, curves: Sequence[RunCurve]) -> list[RunCurve]:
    by_side = {curve.side.id: curve for curve in mean_curves(curves)}
    ids = (row.side.id for row in ranking(comparison))
    return [by_side[side_id] for side_id in ids if side_id in by_side]


def _does_same_steps(report: SideReport, baseline: Side) -> bool:
    mine, theirs = (side.runs[0].experiment for side in (report.side, baseline))
    is_alike = mine.step_samples == theirs.step_samples and mine.label_smoothing == theirs.label_smoothing
    return is_alike and not any(doubt.kind == "workload" for doubt in report.doubts)


def _curve_shapes(
    curves: Sequence[RunCurve], looks: Mapping[str, SideLook], by: By, frame: PlotArea
) -> list[Shape]:
    shapes: list[Shape] = []
    # the best is drawn last, in front of all others
    for place, curve in reversed([*enumerate(curves)]):
        shapes += draw_line(curve, looks[curve.side.id], by, frame, (place + 1) / (len(curves) + 1), _MARKS)
    return shapes


def _minus(curve: RunCurve, base: Points) -> RunCurve:
    differences = _interpolate_column(base.steps, curve.line, "values") - base.values
    values = _smooth(differences)
    known = np.isfinite(_interpolate_column(base.steps, curve.line, "seconds"))
    line = Points(base.steps[known], base.seconds[known], base.samples[known], values[known])
    return replace(curve, line=line)


def _smooth(values: Values) -> Values:
    # means, since a line fitted at the end would exaggerate the last difference
    window, finite = np.ones(2 * (len(values) // _WINDOWS) + 1), np.isfinite(values)
    seen = slice(len(window) // 2, len(window) // 2 + len(values))
    sums = np.convolve(np.where(finite, values, 0.0), window)[seen]
    counts = np.convolve(finite, window)[seen]
    return np.where(finite, sums / np.maximum(counts, 1), np.nan)


def _spread_of(parts: Sequence[Values]) -> tuple[float, float]:
    # the first steps differ most, and a single spike must not flatten all the rest
    known = [part[np.isfinite(part)] for part in parts]
    values = np.concatenate([part for part in known if len(part)] or [np.zeros(1)])
    ends = [float(part[-1]) for part in known if len(part)]
    low = min(0.0, float(np.quantile(values, 0.02)), *ends)
    high = max(0.0, float(np.quantile(values, 0.98)), *ends)
    margin = 0.12 * (high - low) or 0.01
    return low - margin, high + margin


def _band(base: Points, spread: Sequence[Values], frame: PlotArea) -> list[Shape]:
    if len(spread) < 2:
        return []
    low, high = np.min(spread, axis=0), np.max(spread, axis=0)
    known = np.isfinite(low) & np.isfinite(high)
    columns = zip(base.steps[known], low[known], high[known], strict=True)
    edges = [
        (frame.x(float(step)), frame.y(float(least)), frame.y(float(most))) for step, least, most in columns
    ]
    upper, lower = [(x, top) for x, _, top in edges], [(x, bottom) for x, bottom, _ in reversed(edges)]
    return [Fill((*upper, *lower), "bg3")] if len(edges) > 1 else []


def _end_text(line: Points, *, is_timed: bool) -> str:
    last = _last_known_index(line)
    if last is None:
        return ""
    return f"{number(float(line.seconds[last]))} s" if is_timed else number(float(line.values[last]), 3)


def _final_difference(comparison: Comparison, curve: RunCurve) -> str:
    # as in the table, so that a side has one final difference and not two
    cell, last = comparison.cells(curve.side.id)[LOSS.name], _last_known_index(curve.line)
    if curve.side is comparison.baseline or last is None:
        return ""
    end = float(curve.line.values[last])
    if cell.value is None or cell.difference is None:
        return LOSS.difference_text(end, end)
    return LOSS.difference_text(cell.value, cell.difference)


def _last_known_index(line: Points) -> int | None:
    known = np.flatnonzero(np.isfinite(line.values))
    return int(known[-1]) if len(known) else None


def _curve_labels(
    curves: Sequence[RunCurve], texts: Mapping[str, str], by: By, frame: PlotArea
) -> list[_Label]:
    labels = []
    for curve in curves[:MOST_LABELS]:
        last = _last_known_index(curve.line)
        if last is not None:
            x, y = frame.x(float(curve.line.x(by)[last])), frame.y(float(curve.line.values[last]))
            labels.append(_Label(curve.side, texts[curve.side.id], x, y))
    return labels


def _labels_room(curves: Sequence[RunCurve], texts: Mapping[str, str]) -> float:
    names = max((min(_NAME, text_width(curve.side.title, 12)) for curve in curves), default=0.0)
    values = max((text_width(text, 12, 600) for text in texts.values()), default=0.0)
    return _LEADER + _MARK + _GAP + names + _GAP + values + 4


def _cascade(labels: Sequence[_Label], looks: Mapping[str, SideLook], frame: PlotArea) -> list[Shape]:
    """Return labels below one another, the first to end highest, each on a line to the end of its curve."""
    shapes: list[Shape] = []
    pitch = min(_CASCADE, 0.75 * (frame.bottom - frame.top) / max(1, len(labels)))
    lines: list[Shape] = []
    for row, label in enumerate(sorted(labels, key=lambda label: label.x)):
        look, y = looks[label.side.id], frame.top + 4 + row * pitch
        name = shortened(label.side.title, _NAME, 12)
        width = _MARK + _GAP + text_width(name, 12) + 6 + text_width(label.text, 12, 600)
        left = max(frame.left, min(label.x - _MARK / 2, frame.right + _RIGHT - 4 - width))
        lines.append(Stroke(((label.x, y + 7), (label.x, label.y)), "line2"))
        shapes += _label_shapes(look, name, label.text, left, y, left + width, is_right=False)
    return [*lines, *shapes]


def _label_column(
    labels: Sequence[_Label], looks: Mapping[str, SideLook], frame: PlotArea, width: float
) -> list[Shape]:
    """Return labels in a column at the right, in the order of their curves' ends, with lines to these."""
    ordered = sorted(labels, key=lambda label: label.y)
    pitch = min(_PITCH, (frame.bottom - frame.top) / max(1, len(ordered)))
    places = _spread_positions([label.y for label in ordered], pitch, frame.top, frame.bottom)
    shapes: list[Shape] = []
    left = frame.right + _LEADER
    for label, y in zip(ordered, places, strict=True):
        leader = ((label.x + 5, label.y), (left - 12, y), (left - 6, y))
        shapes.append(Stroke(leader, "line2"))
        name = shortened(label.side.title, _NAME, 12)
        shapes += _label_shapes(looks[label.side.id], name, label.text, left, y, width - 4, is_right=True)
    return shapes


def _label_shapes(
    look: SideLook, name: str, text: str, left: float, y: float, right: float, *, is_right: bool
) -> list[Shape]:
    start = left + _MARK + _GAP
    value = TextLine(right, y + 4, text, look.ink, 12, 600, anchor="end")
    if not is_right:
        value = replace(value, x=start + text_width(name, 12) + 6, anchor="start")
    return [*look.mark(left + _MARK / 2, y, _MARK), TextLine(start, y + 4, name, "text2", 12), value]


def _spread_positions(wanted: Sequence[float], pitch: float, low: float, high: float) -> list[float]:
    """Return ascending positions at least `pitch` apart, each as close to its wanted position as possible."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + pitch) if places else max(place, low + pitch / 2))
    limit = high - pitch / 2
    for row in range(len(places) - 1, -1, -1):
        places[row] = min(places[row], limit)
        limit = places[row] - pitch
    return places
