"""The scatter plot: every cell by two metrics, in the shade of a third, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from engine.compare.metrics import Metric
from engine.drawing.chart_parts import LegendEntry, Rect, legend, place_label, span_of
from engine.drawing.looks import SideLook
from engine.drawing.shapes import (
    Drawing,
    Point,
    Shape,
    Stroke,
    TextLine,
    marker,
    shifted,
    shortened,
    text_width,
)
from engine.experiment.value import in_sentence
from engine.sweep.chart import (
    STRIP,
    CellChart,
    CellSpot,
    Shades,
    hollow_entry,
    is_higher_better,
    is_hollow,
    levels,
    line_looks,
    unfit_strip,
    unfit_words,
)
from engine.sweep.results import CellResult, Results
from engine.words.numbers import counted
from resources.looks import MarkFill

_BOTTOM, _RIGHT, _MARK_PITCH = 40.0, 14.0, 18.0
_MARK, _MANY_MARK, _MANY = 11.0, 7.0, 300
_MOST_NAMED, _LONGEST_NAME = 12, 220.0
_LEAST_PLOT = 60.0
_FRONT_DASH = (5.0, 3.0)


def scatter(
    results: Results, x: Metric, y: Metric, shade: Metric | None, size: tuple[float, float]
) -> CellChart:
    """Draw the cells by two metrics, in a third's shade or their precision's color, with the Pareto front."""
    return _Scatter(results, x, y, shade, size).picture()


class _Scatter:
    def __init__(
        self, results: Results, x: Metric, y: Metric, shade: Metric | None, size: tuple[float, float]
    ) -> None:
        self._results, self._x, self._y, self._shade = results, x, y, shade
        self._width, self._height = size
        self._cells = [
            cell for cell in results.cells if cell.finite(x) is not None and cell.finite(y) is not None
        ]
        self._unfit = [cell for cell in results.cells if cell.does_not_fit and cell not in self._cells]
        self._front = pareto_front(self._cells, (x, y))
        shades = [cell.finite(shade) for cell in self._cells] if shade is not None else []
        known = [value for value in shades if value is not None]
        self._shades = Shades(known) if known else None
        keys = [axis.key for axis in results.grid.axes]
        self._by = keys.index("precision") if "precision" in keys else None
        self._looks = line_looks(None if self._by is None else results.grid.axes[self._by])
        self._legend = legend(list(self._legend_entries()), self._width, 2)
        self._top = self._legend.height + 26
        self._bar = self._shades.bar(shade.unit) if self._shades and shade else Drawing(0, 0, ())
        below = (STRIP + 8 if self._unfit else 0.0) + (self._bar.height + 6 if self._bar.width else 0.0)
        self._bottom = max(self._top + _LEAST_PLOT, self._height - _BOTTOM - below)
        self._right = self._width - _RIGHT
        self._up = span_of(self._values(y), self._bottom, self._top)
        self._ups = self._up.ticks(max(2, int((self._bottom - self._top) / 55)))
        self._left = 12 + max((text_width(tick.text, 11) for tick in self._ups), default=0.0)
        self._across = span_of(self._values(x), self._left, self._right)

    def _values(self, figure: Metric) -> list[float]:
        return [value for cell in self._cells if (value := cell.finite(figure)) is not None]

    def picture(self) -> CellChart:
        steps = self._steps()
        shapes = [*self._legend.shapes, *self._axes()]
        if len(steps) > 1:
            shapes.append(Stroke(steps, "text2", 1.5, _FRONT_DASH))
        size = _MARK if len(self._cells) <= _MANY else _MANY_MARK
        spots = []
        in_front = {cell.index for cell in self._front}
        # those of the front lie on top
        for cell in sorted(self._cells, key=lambda cell: cell.index in in_front):
            x, y = self._point(cell)
            shapes += self._mark(cell, x, y, size, is_first=cell.index in in_front)
            reach = size / 2 + 2
            spots.append(CellSpot(cell.index, x - reach, y - reach, 2 * reach, 2 * reach))
        shapes += self._names(size)
        if not self._cells:
            middle = (self._left + self._right) / 2, (self._top + self._bottom) / 2
            shapes.append(
                TextLine(*middle, "No combination has both values yet.", "text3", 12, anchor="middle")
            )
        below = self._bottom + _BOTTOM
        strip, unfit_spots = self._strip(below)
        below += STRIP + 8 if strip else 0.0
        shapes += [*strip, *shifted(self._bar.shapes, self._right - self._bar.width, below)]
        below += self._bar.height + 6 if self._bar.width else 0.0
        drawing = Drawing(self._width, below, tuple(shapes), self._description())
        shade = self._shade
        note = "" if shade is None else f"shade: {in_sentence(shade.title)}{_unit(shade)}"
        return CellChart(drawing, (*unfit_spots, *reversed(spots)), title_of(self._x, self._y), note)

    def _strip(self, top: float) -> tuple[tuple[Shape, ...], tuple[CellSpot, ...]]:
        words = unfit_words(self._results)
        first = self._left + text_width(words, 11) + 36
        most = max(1, int((self._right - first) / _MARK_PITCH))
        places = (first + _MARK_PITCH * place for place in range(most))
        marks = ((cell, self._look(cell), place) for cell, place in zip(self._unfit, places, strict=False))
        return unfit_strip(marks, Rect(self._left, top, self._right, top + STRIP), words)

    def _point(self, cell: CellResult) -> Point:
        return (self._across.place(cell.finite(self._x) or 0.0), self._up.place(cell.finite(self._y) or 0.0))

    def _look(self, cell: CellResult) -> SideLook:
        return self._looks[0 if self._by is None else cell.places[self._by]]

    def _mark(self, cell: CellResult, x: float, y: float, size: float, *, is_first: bool) -> Iterator[Shape]:
        look, ink = self._look(cell), self._look(cell).ink
        if self._shades is not None and self._shade is not None:
            value = cell.finite(self._shade)
            ink = "text3" if value is None else self._shades.ink(value)
        if is_first:
            yield from marker(look.symbol, x, y, size + 5, "text")
            yield from marker(look.symbol, x, y, size + 2, "bg1")
        if self._shades is not None:
            # the palest shade is next to the ground's
            yield from marker(look.symbol, x, y, size + 2, "text3")
        fill: MarkFill = "hollow" if is_hollow(cell, (self._x, self._y)) else "full"
        yield from marker(look.symbol, x, y, size, ink, fill)

    def _steps(self) -> tuple[Point, ...]:
        steps: list[Point] = []
        for x, y in map(self._point, self._front):
            if steps:
                # the corner is at the worse value of both
                last_x, last_y = steps[-1]
                steps.append((last_x, y) if is_higher_better(self._x) else (x, last_y))
            steps.append((x, y))
        return tuple(steps)

    def _names(self, size: float) -> Iterator[Shape]:
        area = Rect(self._left, self._top - 12, self._right, self._bottom)
        taken = [
            Rect(x - size / 2, y - size / 2, x + size / 2, y + size / 2)
            for x, y in map(self._point, self._cells)
        ]
        for (left, top), (right, bottom) in pairwise(self._steps()):
            taken.append(Rect(left, min(top, bottom) - 1, right, max(top, bottom) + 1))
        grid = self._results.grid
        places = list(zip(*(cell.places for cell in self._front), strict=True))
        differing = [axis for axis, of_axis in enumerate(places) if len(set(of_axis)) > 1]
        for cell in self._front[:: max(1, -(-len(self._front) // _MOST_NAMED))]:
            name = shortened(grid.name(cell.places, differing), _LONGEST_NAME, 11)
            yield from place_label(name, *self._point(cell), size / 2 + 6, area, taken)

    def _legend_entries(self) -> Iterator[LegendEntry]:
        if self._by is not None:
            axis = self._results.grid.axes[self._by]
            for place, look in enumerate(self._looks):
                shown = look if self._shades is None else SideLook("text2", look.symbol, (), "full")
                yield LegendEntry(_sample_of(shown), 12, axis.text(place))
        if len(self._front) > 1:
            yield LegendEntry(_front_sample, 24, f"Pareto front ({len(self._front):,} combinations)")
        yield from hollow_entry(self._cells, (self._x, self._y))

    def _axes(self) -> Iterator[Shape]:
        yield from levels(self._ups, self._left, self._right)
        yield TextLine(0, self._top - 8, f"{self._y.title}{_unit(self._y)}", "text2", 11, 500)
        for tick in self._across.ticks(max(2, int((self._right - self._left) / 90))):
            x = round(tick.position) + 0.5
            yield Stroke(((x, self._top), (x, self._bottom)), "grid")
            yield TextLine(x, self._bottom + 16, tick.text, "text3", 11, anchor="middle")
        yield Stroke(((self._left, self._bottom), (self._right, self._bottom)), "line2")
        title = f"{self._x.title}{_unit(self._x)}"
        yield TextLine(self._right, self._bottom + 33, title, "text2", 11, 500, anchor="end")

    def _description(self) -> str:
        best = "; ".join(
            f"{cell.name}: {self._y.text_with_unit(cell.finite(self._y))} at "
            f"{self._x.text_with_unit(cell.finite(self._x))}"
            for cell in self._front
        )
        title = f"{title_of(self._x, self._y)}, {counted(len(self._cells), 'combination')}"
        return f"{title}. On the Pareto front: {best}." if best else f"{title}."


def title_of(x: Metric, y: Metric) -> str:
    """Return the title of the chart: "Throughput vs. peak memory"."""
    return f"{y.title} vs. {in_sentence(x.title)}"


def _sample_of(look: SideLook) -> Callable[[float, float], tuple[Shape, ...]]:
    return lambda x, y: look.mark(x + 6, y, 9)


def _front_sample(x: float, y: float) -> tuple[Shape, ...]:
    return (Stroke(((x, y), (x + 24, y)), "text2", 1.5, _FRONT_DASH),)


def _unit(figure: Metric) -> str:
    return f", {figure.unit}" if figure.unit else ""


def pareto_front(cells: Sequence[CellResult], figures: Sequence[Metric]) -> tuple[CellResult, ...]:
    """Return the cells that no other cell beats: none is as good in all of these metrics and better in one.

    They are sorted by the first metric. Cells without a reliable value of each metric are skipped.
    """
    signs = [1.0 if is_higher_better(figure) else -1.0 for figure in figures]
    known = []
    for cell in cells:
        values = [cell.conclusive(figure) for figure in figures]
        if all(value is not None for value in values):
            score = tuple(sign * (value or 0.0) for sign, value in zip(signs, values, strict=True))
            known.append((score, cell))
    # after the best, a cell can only be beaten by those before it
    known.sort(key=lambda entry: entry[0], reverse=True)
    front: list[tuple[tuple[float, ...], CellResult]] = []
    for score, cell in known:
        if not any(_beats(other, score) for other, _ in front):
            front.append((score, cell))
    return tuple(cell for _, cell in sorted(front, key=lambda entry: signs[0] * entry[0][0]))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))
