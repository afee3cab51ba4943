"""What the pictures of a sweep share: where cells are drawn, figures to choose from, shades, and words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.compare.figures import ACCURACY, SPEED, Figure
from engine.drawing.chart_parts import Span, span_of
from engine.drawing.shapes import Box, Drawing, Shape, Words
from engine.experiment.sweep import Axis, Grid
from engine.statistics import Interval
from engine.sweep.results import RATIO, CellResult, Results
from engine.words.numbers import nice_step, times
from resources.looks import LIGHT

SHADES = len(LIGHT.heat)
RATIO_FIGURE = Figure(RATIO, "Ratio to the baseline", "×", 2, True, lambda run: None)
_HIGH_IS_BETTER = (SPEED.name, ACCURACY.name, RATIO)


@dataclass(frozen=True)
class CellSpot:
    """Where a cell is drawn."""

    cell: int
    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        """Whether the point is on it."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True)
class CellPicture:
    """A drawing, and where its cells are, the topmost first."""

    drawing: Drawing
    spots: tuple[CellSpot, ...]


def shown_figures(results: Results) -> tuple[Figure, ...]:
    """The figures to choose from: those of the results, and the ratio after the speed where it is known."""
    has_ratio = any(cell.ratio is not None for cell in results.cells)
    return (*results.figures[:1], *((RATIO_FIGURE,) if has_ratio else ()), *results.figures[1:])


def figure_text(figure: Figure, value: float | None) -> str:
    """The value with its unit: "1,663 images/s", "1.89×"."""
    if figure is not RATIO_FIGURE or value is None:
        return figure.text_with_unit(value)
    return f"{times(value)}×"


def bare_text(figure: Figure, value: float | None) -> str:
    """The value without its unit, but for the sign of a ratio."""
    return figure_text(figure, value) if figure is RATIO_FIGURE else figure.text(value)


def interval_of(cell: CellResult, figure: Figure) -> Interval | None:
    """The interval of the cell's figure, if it has one."""
    return cell.ratio_interval if figure is RATIO_FIGURE else (cell.intervals or {}).get(figure.name)


def is_higher_better(figure: Figure) -> bool:
    """Whether more of it is better; times, memory, energy and losses are to be low."""
    return figure.name in _HIGH_IS_BETTER


def finite(cell: CellResult, figure: Figure) -> float | None:
    """The cell's value, unless it is unknown or has diverged."""
    value = cell.value(figure.name)
    return value if value is not None and math.isfinite(value) else None


DISTURBED_MARK = "*"
MARK_WORDS = f"{DISTURBED_MARK} measured while the machine was disturbed: nothing follows from it"


def conclusive(cell: CellResult, figure: Figure) -> float | None:
    """The cell's value, unless it is unknown or the cell cannot be the best in it."""
    return finite(cell, figure) if cell.can_be_best(figure) else None


def best_of(cells: Sequence[CellResult], figure: Figure) -> CellResult | None:
    """The cell with the best value that is conclusive; None while there is none."""
    known = [cell for cell in cells if conclusive(cell, figure) is not None]
    sign = 1 if is_higher_better(figure) else -1
    return max(known, key=lambda cell: sign * (finite(cell, figure) or 0.0), default=None)


def usual_places(results: Results, figure: Figure) -> tuple[int, ...]:
    """A place on every axis: those of the best cell."""
    best = best_of(results.cells, figure)
    return best.places if best is not None else (0,) * len(results.grid.axes)


def usual_axes(grid: Grid) -> tuple[int, int | None]:
    """The axes of a heat map unless others are chosen: the longest across, the next longest downwards."""
    longest = sorted(range(len(grid.axes)), key=lambda axis: len(grid.axes[axis].values), reverse=True)
    several = [axis for axis in longest if len(grid.axes[axis].values) > 1]
    return (several or longest)[0], several[1] if len(several) > 1 else None


def usual_lines(grid: Grid) -> tuple[int, int | None]:
    """The axes of lines unless others are chosen: the longest other one, a line for every compared value."""
    others = [axis for axis in range(len(grid.axes)) if axis != grid.compared]
    several = [axis for axis in others if len(grid.axes[axis].values) > 1]
    if not several:
        return grid.compared, None
    numeric = [axis for axis in several if numbers_of(grid.axes[axis]) is not None]
    x = max(numeric or several, key=lambda axis: len(grid.axes[axis].values))
    return x, grid.compared if len(grid.axes[grid.compared].values) > 1 else None


def cells_at(results: Results, free: Collection[int], at: Sequence[int]) -> list[CellResult]:
    """The cells whose places are those of `at`, but for the `free` axes."""
    fixed = [axis for axis in range(len(at)) if axis not in free]
    return [cell for cell in results.cells if all(cell.places[axis] == at[axis] for axis in fixed)]


def fixed_words(results: Results, free: Collection[int], at: Sequence[int]) -> str:
    """The values that all cells shown share: "batch size 64, learning rate 0.001"; "" without any."""
    axes = enumerate(results.grid.axes)
    shared = [place for place, axis in axes if place not in free and len(axis.values) > 1]
    return results.grid.name(at, shared)


def numbers_of(axis: Axis) -> tuple[float, ...] | None:
    """The values of an axis that is drawn to scale; None for categories."""
    if axis.overrides or len(axis.values) < 2:
        return None
    numbers = [
        value for value in axis.values if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return tuple(map(float, numbers)) if len(numbers) == len(axis.values) else None


def places_along(axis: Axis, start: float, end: float) -> tuple[float, ...]:
    """Where the values of an axis are between two ends: to scale if they are numbers, else evenly."""
    numbers = numbers_of(axis)
    if numbers is not None:
        span = span_of(numbers, start, end)
        return tuple(map(span.place, numbers))
    pitch = (end - start) / len(axis.values)
    return tuple(start + pitch * (place + 0.5) for place in range(len(axis.values)))


def kept_apart(places: Sequence[float], sizes: Sequence[float]) -> tuple[int, ...]:
    """Which of some words at these places can be shown without meeting: every n-th of evenly spaced ones."""
    order = sorted(range(len(places)), key=places.__getitem__)
    steps = [places[right] - places[left] for left, right in pairwise(order)]
    if steps and max(steps) - min(steps) < 1e-6 * max(steps):
        stride = max(1, math.ceil(max(sizes) / steps[0])) if steps[0] else len(order)
        return tuple(order[::stride])
    kept: list[int] = []
    for number in order:
        if not kept or places[number] - places[kept[-1]] >= (sizes[number] + sizes[kept[-1]]) / 2:
            kept.append(number)
    return tuple(kept)


class Shades:
    """The shades of a figure's values over a round range, by logarithms if they span a decade."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [value for value in values if math.isfinite(value)]
        self._span = _rounded(span_of(known, 0.0, 1.0, 0.0))
        self._is_known = bool(known)

    def step(self, value: float) -> int:
        """The number of the value's shade."""
        return min(max(int(self._span.place(value) * SHADES + 1e-9), 0), SHADES - 1)

    def ink(self, value: float) -> str:
        """The ink of the value's shade."""
        return f"heat-{self.step(value)}"

    def bar(self, figure: Figure, x: float, top: float, bottom: float) -> Iterator[Shape]:
        """A colour bar with the figure's values beside it, 14 pixels wide without these."""
        if not self._is_known:
            return
        pitch = (bottom - top) / SHADES
        for step in range(SHADES):
            yield Box(x, bottom - pitch * (step + 1), _BAR, pitch + 0.5, f"heat-{step}")
        span = Span(self._span.low, self._span.high, bottom, top, self._span.is_log)
        for tick in span.ticks(max(2, int((bottom - top) / 40))):
            yield Words(x + _BAR + 6, tick.position + 4, tick.text, "text3", 11)


_BAR, _PARTS = 14.0, 4


def _rounded(span: Span) -> Span:
    if span.is_log:
        decades = range(math.floor(math.log10(span.low)), math.ceil(math.log10(span.high)) + 1)
        known = [factor * 10.0**decade for decade in decades for factor in (1, 2, 5)]
        low = max(value for value in known if value <= span.low * (1 + 1e-9))
        high = min(value for value in known if value >= span.high * (1 - 1e-9))
    else:
        step = nice_step(span.high - span.low, _PARTS)
        low, high = step * math.floor(span.low / step + 1e-9), step * math.ceil(span.high / step - 1e-9)
    return replace(span, low=low, high=high)


def value_words(cell: CellResult, figure: Figure) -> str:
    """The cell's figure with its interval, as a tooltip has it."""
    text = f"{figure.title}: {figure_text(figure, cell.value(figure.name))}"
    interval = interval_of(cell, figure)
    if interval is None:
        return text
    low, high = (bare_text(figure, end) for end in interval)
    return f"{text} (95 % interval {low} to {high})"


def cell_words(cell: CellResult, figures: Sequence[Figure]) -> str:
    """What there is to know of a cell, in lines: its name, its state, and these figures."""
    known = [figure for figure in figures if cell.value(figure.name) is not None]
    state = state_words(cell)
    lines = [cell.name, *([state] if state else []), *(value_words(cell, figure) for figure in known)]
    return "\n".join(lines)


def state_words(cell: CellResult) -> str:
    """Its state where there is more to say than its figures, in a sentence."""
    runs = len(cell.run_ids)
    of_runs = f"Mean of {runs:,} runs" if runs > 1 else ""
    state = of_runs if cell.status == "done" else STATES[cell.status]
    parts = [part for part in (state, cell.why, _DISTURBED if cell.is_disturbed else "") if part]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)


_DISTURBED = "Not a clean measurement: something disturbed it"
STATES = {
    "waiting": "Waits for its turn",
    "held": "Held back",
    "running": "In training",
    "piloted": "Figures of its pilot",
    "done": "Done",
    "stopped": "Stopped",
    "failed": "Failed",
    "left out": "Left out",
}
