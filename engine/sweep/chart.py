"""The common parts of a sweep's charts: places of cells, choices of metrics and axes, shades, words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.compare.metrics import ACCURACY, SPEED, Metric
from engine.drawing.chart_parts import AxisScale, LegendEntry, Rect, span_of
from engine.drawing.looks import SideLook, precision_look
from engine.drawing.shapes import Box, Drawing, Shape, Stroke, TextLine, hatching, marker, text_width
from engine.experiment.experiment import Precision
from engine.experiment.sweep import Axis, Grid
from engine.experiment.value import in_sentence
from engine.store.saved.sweeps import DOES_NOT_FIT
from engine.sweep.results import DEVICES, RATIO_FIGURE, STRONG, WEAK, CellResult, Results
from engine.words.numbers import Tick, memory_text, nice_step, unit_suffix
from resources.looks import DARK, LIGHT

Size = tuple[float, float]

_SHADES = len(LIGHT.heat)
_FIRST_SHADE = 3  # the palest shades are too close to the ground for a thin line
_HIGH_IS_BETTER = (SPEED.name, ACCURACY.name, RATIO_FIGURE.name, WEAK.name, STRONG.name)


@dataclass(frozen=True)
class CellSpot:
    """The rectangle of a sweep's cell in a chart, from which a click finds the cell."""

    cell: int
    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True)
class CellChart:
    """A chart of a sweep, with its title and a note.

    `spots` are the places of the cells that can be pointed at, the one drawn last first.
    """

    drawing: Drawing
    spots: tuple[CellSpot, ...]
    title: str
    note: str


class Slice:
    """The values of one metric along one or two axes of a sweep, with the other axes at fixed values."""

    def __init__(
        self, results: Results, x: int, by: int | None, figure: Metric, at: Sequence[int], size: Size
    ) -> None:
        self._results, self._figure, self._x, self._by = results, figure, x, by
        self._width, self._height = size
        axes = results.grid.axes
        self._across, self._of = axes[x], None if by is None else axes[by]
        fixed = [axis for axis in range(len(at)) if axis not in (x, by)]
        self._cells = [cell for cell in results.cells if all(cell.places[axis] == at[axis] for axis in fixed)]
        self._at = at
        self._arrange()

    def _caption(self, *more: str) -> str:
        return caption(self._results, self._figure, self._at, (self._x, self._by), *more)

    def _arrange(self) -> None:
        raise NotImplementedError


def caption(
    results: Results, figure: Metric, at: Sequence[int], shown: Collection[int | None], *more: str
) -> str:
    """Return the words next to a chart's title: unit, `more`, and the values on axes that are not shown."""
    axes = results.grid.axes
    fixed = [axis for axis in range(len(axes)) if axis not in shown and len(axes[axis].values) > 1]
    # "batch size 64, learning rate 0.001": what all cells shown share
    return ", ".join(filter(None, (figure.unit, *more, results.grid.name(at, fixed))))


def levels(ticks: Iterable[Tick], left: float, right: float) -> Iterator[Shape]:
    """Yield the grid lines of a vertical axis with their values."""
    for tick in ticks:
        y = round(tick.position) + 0.5
        yield Stroke(((left, y), (right, y)), "grid")
        yield TextLine(left - 8, y + 4, tick.text, "text3", 11, anchor="end")


def line_looks(axis: Axis | None) -> tuple[SideLook, ...]:
    """Return the color, symbol and dash of the line for each value of an axis.

    Precisions have their own colors, other values get shades in order. Without an axis there is a single
    line.
    """
    if axis is None:
        return (SideLook("text", "o", (), "full"),)
    if axis.key == "precision":
        return tuple(precision_look(Precision(str(value))) for value in axis.values)
    known, looks = list(DARK.precisions.values()), []
    pitch = (_SHADES - 1 - _FIRST_SHADE) / max(1, len(axis.values) - 1)
    for place in range(len(axis.values)):
        look = known[place % len(known)]
        looks.append(SideLook(f"heat-{_FIRST_SHADE + round(pitch * place)}", look.symbol, look.dash, "full"))
    return tuple(looks)


def shown_figures(results: Results) -> tuple[Metric, ...]:
    """Return the metrics that can be selected: those of the results and, second, the ratio if known."""
    has_ratio = any(cell.ratio is not None for cell in results.cells)
    return (*results.figures[:1], *((RATIO_FIGURE,) if has_ratio else ()), *results.figures[1:])


def is_higher_better(figure: Metric) -> bool:
    """Return True if a higher value is better. Times, memory, energy and losses should be low."""
    return figure.name in _HIGH_IS_BETTER


def is_hollow(cell: CellResult, figures: Sequence[Metric]) -> bool:
    """Return True if the cell's mark is hollow: its values are from its pilot, or disturbed."""
    return cell.is_piloted or any(map(cell.is_disturbed_in, figures))


def hollow_entry(cells: Sequence[CellResult], figures: Sequence[Metric]) -> Iterator[LegendEntry]:
    """Yield the legend's entry for hollow marks, where there are any."""
    reasons = {
        DISTURBED_WORDS: any(cell.is_disturbed_in(figure) for cell in cells for figure in figures),
        "short test run": any(cell.is_piloted for cell in cells),
    }
    if words := ", ".join(reason for reason, applies in reasons.items() if applies):
        yield LegendEntry(lambda x, y: tuple(marker("o", x + 6, y, 9, "text2", "hollow")), 12, words)


DISTURBED_WORDS = "disturbed, not ranked"


def memory_words(results: Results) -> str:
    """Return the memory into which a combination does not fit, as in "into 24.0 GiB"."""
    memory = results.memory_mib
    return "into memory" if memory is None else f"into {memory_text(memory)}"


def unfit_words(results: Results) -> str:
    """Return "does not fit into 24.0 GiB"."""
    return f"{DOES_NOT_FIT} {memory_words(results)}"


def unfit_hatch(box: Rect) -> Iterator[Shape]:
    """Yield the ground of combinations that do not fit into memory."""
    yield Box(box.left, box.top, box.width, box.height, "bg1")
    yield from hatching(box.corners, (box.left, box.top), "hatch", HATCH_PITCH)


def unfit_strip(
    marks: Iterable[tuple[CellResult, SideLook, float]], area: Rect, words: str
) -> tuple[tuple[Shape, ...], tuple[CellSpot, ...]]:
    """Return a hatched strip with a hollow mark for each cell that does not fit, at its x position.

    The words are at the left end unless a mark is there, else at the right end.
    """
    placed = list(marks)
    if not placed:
        return (), ()
    middle, width = (area.top + area.bottom) / 2, text_width(words, 11) + 8
    lefts = area.left + 6, area.right - 6 - width
    is_taken = any(across - 10 < lefts[0] + width for _, _, across in placed)
    left = lefts[1] if is_taken and all(across + 10 < lefts[1] for _, _, across in placed) else lefts[0]
    shapes = [*unfit_hatch(area)]
    if left != lefts[0] or not is_taken:
        shapes.append(Box(left, area.top + 2, width, area.height - 4, "bg1"))
        shapes.append(TextLine(left + 4, middle + 4, words, "text2", 11))
    for _, look, across in placed:
        shapes += replace(look, fill="hollow").mark(across, middle, 9.0)
    spots = (CellSpot(cell.index, across - 9, area.top, 18, area.height) for cell, _, across in placed)
    return tuple(shapes), tuple(spots)


HATCH_PITCH, STRIP = 11.3, 22.0
"""The pitch of hatching across, 8 pixels from line to line, and the height of a strip."""


def best_of(cells: Sequence[CellResult], figure: Metric) -> CellResult | None:
    """Return the cell with the best reliable value. None if there is none."""
    known = [cell for cell in cells if cell.conclusive(figure) is not None]
    sign = 1 if is_higher_better(figure) else -1
    return max(known, key=lambda cell: sign * (cell.finite(figure) or 0.0), default=None)


def default_places(results: Results, figure: Metric) -> tuple[int, ...]:
    """Return the places of the best cell on every axis."""
    best = best_of(results.cells, figure)
    return best.places if best is not None else (0,) * len(results.grid.axes)


def default_axes(grid: Grid) -> tuple[int, int | None]:
    """Return the default axes of a heat map: the longest across, the next longest downwards."""
    longest = sorted(range(len(grid.axes)), key=lambda axis: len(grid.axes[axis].values), reverse=True)
    several = [axis for axis in longest if len(grid.axes[axis].values) > 1]
    return (several or longest)[0], several[1] if len(several) > 1 else None


def default_lines(grid: Grid) -> tuple[int, int | None]:
    """Return the default axes of lines: devices, or else the longest axis that is not compared, and the
    compared axis, with a line for every value."""
    axes, compared = grid.axes, grid.compared
    several = [place for place, axis in enumerate(axes) if len(axis.values) > 1]
    devices = [place for place in several if axes[place].key == DEVICES]
    others = [place for place in several if place != compared]
    numeric = [place for place in others if numbers_of(axes[place]) is not None]
    x = max(devices or numeric or others or [compared], key=lambda place: len(axes[place].values))
    by = [compared] if x != compared else others
    return x, next((place for place in by if place in several and place != x), None)


def numbers_of(axis: Axis) -> tuple[float, ...] | None:
    """Return the values of an axis that is drawn to scale. None for categories."""
    values = axis.values
    known = (value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    numbers = tuple(map(float, known))
    return None if axis.overrides or len(values) < 2 or len(numbers) < len(values) else numbers


def labels_that_fit(places: Sequence[float], sizes: Sequence[float]) -> tuple[int, ...]:
    """Return the words that fit at these places without overlap: every n-th of evenly spaced ones."""
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
    """The color scale of a heatmap: shades of a round range, logarithmic if the values span a decade."""

    def __init__(self, values: Sequence[float]) -> None:
        self._span = _rounded(span_of(values, 0.0, 1.0, 0.0))
        self._is_known = bool(values)

    def ink(self, value: float) -> str:
        return f"heat-{min(max(int(self._span.place(value) * _SHADES + 1e-9), 0), _SHADES - 1)}"

    def bar(self, unit: str) -> Drawing:
        """Draw the color bar, 14 pixels high, between the values of its ends."""
        if not self._is_known:
            return Drawing(0.0, 0.0, ())
        low, high = (f"{value:,.10g}" for value in (self._span.low, self._span.high))
        high += unit_suffix(unit)
        left = text_width(low, 11) + 8
        right = left + _SHADES * _SHADE_WIDTH + 8
        boxes = (
            Box(left + _SHADE_WIDTH * step, 0.0, _SHADE_WIDTH + 0.5, _BAR, f"heat-{step}")
            for step in range(_SHADES)
        )
        words = TextLine(0.0, 11, low, "text3", 11), TextLine(right, 11, high, "text3", 11)
        return Drawing(right + text_width(high, 11), _BAR, (*words, *boxes))


_BAR, _PARTS, _SHADE_WIDTH = 14.0, 4, 22.0


def _rounded(span: AxisScale) -> AxisScale:
    if span.is_log:
        decades = range(math.floor(math.log10(span.low)), math.ceil(math.log10(span.high)) + 1)
        known = [factor * 10.0**decade for decade in decades for factor in (1, 2, 5)]
        low = max(value for value in known if value <= span.low * (1 + 1e-9))
        high = min(value for value in known if value >= span.high * (1 - 1e-9))
    else:
        step = nice_step(span.high - span.low, _PARTS)
        low, high = step * math.floor(span.low / step + 1e-9), step * math.ceil(span.high / step - 1e-9)
    return replace(span, low=low, high=high)


def cell_words(cell: CellResult, figures: Sequence[Metric]) -> str:
    """Return the words about a cell, in lines: its name, its state, and these metrics."""
    return "\n".join(filter(None, (cell.name, state_words(cell), *metric_words(cell, figures))))


def metric_words(cell: CellResult, figures: Sequence[Metric]) -> Iterator[str]:
    """Yield the values of a cell: "Throughput: 1,280 img/s (95% interval 1,270 to 1,290)"."""
    for figure in figures:
        if (value := cell.value(figure)) is not None:
            ends = " to ".join(map(figure.text, cell.interval(figure) or ()))
            interval = f" (95% interval {ends})" if ends else ""
            doubt = ", not reliable" if cell.is_disturbed_in(figure) and not cell.is_disturbed else ""
            yield f"{figure.title}: {figure.text_with_unit(value)}{interval}{doubt}"


def state_words(cell: CellResult) -> str:
    """Return a cell's state in sentences, or "" if its metrics say all."""
    runs = len(cell.run_ids)
    of_runs = f"Mean of {runs:,} runs" if runs > 1 else ""
    state = of_runs if cell.status == "done" else STATES[cell.status]
    disturbed = "Disturbed: its throughput is not reliable" if cell.is_disturbed else ""
    parts = [part for part in (state, cell.why, disturbed) if part]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)


def state_word(cell: CellResult) -> str:
    """Return a cell's state in a word: "disturbed", "does not fit"."""
    if cell.does_not_fit:
        return DOES_NOT_FIT
    if cell.status == "done" and (cell.has_diverged or cell.is_disturbed):
        # a loss that became NaN is a result, too
        return "diverged" if cell.has_diverged else "disturbed"
    return "pilot" if cell.status == "piloted" else in_sentence(STATES[cell.status])


STATES = {
    "waiting": "Waiting",
    "paused": "Paused",
    "running": "Training",
    "piloted": "Results of its pilot",
    "done": "Done",
    "stopped": "Stopped",
    "failed": "Failed",
    "excluded": "Excluded",
}
