"""Lines: a metric over one axis of a grid, a line for every value of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from engine.compare.metrics import Metric
from engine.drawing.chart_parts import AxisScale, LegendEntry, Rect, legend, span_of
from engine.drawing.looks import SideLook
from engine.drawing.shapes import Drawing, Fill, Point, Shape, Stroke, TextLine, text_width
from engine.sweep.chart import (
    STRIP,
    CellChart,
    CellSpot,
    Slice,
    hollow_entry,
    is_hollow,
    labels_that_fit,
    levels,
    line_looks,
    numbers_of,
    unfit_strip,
    unfit_words,
)
from engine.sweep.results import IDEAL, STRONG, WEAK, CellResult, Results
from resources.looks import MarkFill

_BOTTOM, _RIGHT = 40.0, 14.0
_HIT = 9.0
_MOST_WHISKERS, _MOST_WITH_INTERVALS = 12, 10
_MARK, _SMALL_MARK, _MANY, _MARK_PITCH = 9.0, 6.0, 200, 12.0
_MOST_LEGEND_ROWS = 3
_LEAST_PLOT = 60.0
_APART, _MOST_APART = 10.0, 36.0  # between the whiskers of two lines at one place, and of all of them


def lines(
    results: Results, x: int, by: int | None, figure: Metric, at: Sequence[int], size: tuple[float, float]
) -> CellChart:
    """Draw the metric over the axis `x`, with a line for every value of the axis `by`, or only one.

    `at` has a place on every axis, used for the axes that are not drawn. Intervals are whiskers, or bands if
    there are many points.
    """
    return _Lines(results, x, by, figure, at, size).picture()


class _Lines(Slice):
    def _arrange(self) -> None:
        figure = self._figure
        self._looks = line_looks(self._of)
        is_any = any(cell.interval(figure) is not None for cell in self._cells)
        self._has_intervals = is_any and len(self._looks) <= _MOST_WITH_INTERVALS
        self._legend = legend(list(self._entries()), self._width, _MOST_LEGEND_ROWS)
        self._top = self._legend.height + 8
        self._unfit = [cell for cell in self._cells if cell.does_not_fit and cell.finite(figure) is None]
        self._base = max(self._top + _LEAST_PLOT, self._height - _BOTTOM)
        self._bottom = self._base - (STRIP + 6 if self._unfit else 0.0)
        self._up = self._span()
        self._ticks = self._up.ticks(max(2, int((self._bottom - self._top) / 50)))
        self._left = 12 + max((text_width(tick.text, 11) for tick in self._ticks), default=0.0)
        self._places = self._places_along(self._left, self._width - _RIGHT)
        has_whiskers = self._has_intervals and len(self._places) <= _MOST_WHISKERS
        self._apart = min(_APART, _MOST_APART / len(self._looks)) if has_whiskers else 0.0

    def _places_along(self, start: float, end: float) -> tuple[float, ...]:
        numbers, count = numbers_of(self._across), len(self._across.values)
        if numbers is not None:
            return tuple(map(span_of(numbers, start, end).place, numbers))
        return tuple(start + (end - start) / count * (place + 0.5) for place in range(count))

    def _span(self) -> AxisScale:
        values = [IDEAL] if self._figure in (WEAK, STRONG) else []
        for cell in self._cells:
            value = cell.finite(self._figure)
            if value is not None:
                values += [value, *(self._reach(cell, value) if self._has_intervals else ())]
        return span_of(values, self._bottom, self._top)

    def _reach(self, cell: CellResult, value: float) -> tuple[float, float]:
        low, high = cell.interval(self._figure) or (value, value)
        far = abs(value) / 2
        return max(low, value - far), min(high, value + far)

    def picture(self) -> CellChart:
        middle = (len(self._looks) - 1) / 2
        strip, unfit_spots = unfit_strip(
            (
                (cell, self._looks[line], self._places[cell.places[self._x]] + _MARK_PITCH * (line - middle))
                for cell in self._unfit
                for line in (self._line_of(cell),)
            ),
            Rect(self._left, self._base - STRIP, self._width - _RIGHT, self._base),
            unfit_words(self._results),
        )
        shapes = [*self._legend.shapes, *self._axes(), *strip]
        spots: list[CellSpot] = [*unfit_spots]
        mark = _MARK if len(self._cells) <= _MANY else _SMALL_MARK
        of_lines = [self._line(place) for place in range(len(self._looks))]
        if self._has_intervals:
            for look, cells in zip(self._looks, of_lines, strict=True):
                shapes += self._intervals(look, cells)
        for look, cells in zip(self._looks, of_lines, strict=True):
            points = [self._point(cell) for cell in cells]
            shapes += (Stroke(part, look.ink, 2.0, look.dash) for part in self._parts(cells, points))
            for cell, (across, down) in zip(cells, points, strict=True):
                fill: MarkFill = "hollow" if is_hollow(cell, (self._figure,)) else look.fill
                shapes += replace(look, fill=fill).mark(across, down, mark)
                spots.append(CellSpot(cell.index, across - _HIT, down - _HIT, 2 * _HIT, 2 * _HIT))
        if not any(of_lines):
            center = (self._left + self._width) / 2, (self._top + self._bottom) / 2
            shapes.append(TextLine(*center, "No combination has a value yet.", "text3", 12, anchor="middle"))
        drawing = Drawing(self._width, self._base + _BOTTOM, tuple(shapes), self._description(of_lines))
        note = self._caption("95% intervals" if self._has_intervals else "")
        return CellChart(drawing, tuple(reversed(spots)), self._figure.title, note)

    def _parts(self, cells: Sequence[CellResult], points: Sequence[Point]) -> Iterator[tuple[Point, ...]]:
        """Yield the line in parts. It is broken where a cell is disturbed."""
        for _, part in groupby(
            zip(cells, points, strict=True), lambda entry: entry[0].is_disturbed_in(self._figure)
        ):
            known = tuple(part)
            if len(known) > 1 and not known[0][0].is_disturbed_in(self._figure):
                yield tuple(point for _, point in known)

    def _line(self, place: int) -> list[CellResult]:
        cells = (cell for cell in self._cells if self._by is None or cell.places[self._by] == place)
        known = [cell for cell in cells if cell.finite(self._figure) is not None]
        return sorted(known, key=lambda cell: self._places[cell.places[self._x]])

    def _point(self, cell: CellResult) -> Point:
        return self._place(cell), self._up.place(cell.finite(self._figure) or 0.0)

    def _line_of(self, cell: CellResult) -> int:
        return 0 if self._by is None else cell.places[self._by]

    def _place(self, cell: CellResult) -> float:
        line = self._line_of(cell) - (len(self._looks) - 1) / 2
        return self._places[cell.places[self._x]] + line * self._apart

    def _intervals(self, look: SideLook, cells: Sequence[CellResult]) -> Iterator[Shape]:
        known = []
        for cell in cells:
            value, interval = cell.finite(self._figure), cell.interval(self._figure)
            if value is not None and interval is not None:
                known.append((self._place(cell), *map(self._up.place, self._reach(cell, value))))
        if len(known) > _MOST_WHISKERS:
            upper = [(x, high) for x, _, high in known]
            lower = [(x, low) for x, low, _ in reversed(known)]
            yield Fill((*upper, *lower), look.ink, opacity=0.2)
            return
        for x, low, high in known:
            yield Stroke(((x, low), (x, high)), look.ink, 1.5)
            for end in (low, high):
                yield Stroke(((x - 4, end), (x + 4, end)), look.ink, 1.5)

    def _entries(self) -> Iterator[LegendEntry]:
        if self._of is not None:
            for place, look in enumerate(self._looks):
                text = self._of.text(place)
                named = text if self._of.key == "precision" or place else f"{self._of.title} {text}"
                yield LegendEntry(look.sample, 24, named)
        known = [cell for cell in self._cells if cell.finite(self._figure) is not None]
        yield from hollow_entry(known, (self._figure,))

    def _axes(self) -> Iterator[Shape]:
        right = self._width - _RIGHT
        yield from levels(self._ticks, self._left, right)
        yield Stroke(((self._left, self._bottom), (right, self._bottom)), "line2")
        if self._figure in (WEAK, STRONG):
            ideal = self._up.place(IDEAL)
            yield Stroke(((self._left, ideal), (right, ideal)), "text3", 1.0, (4, 4))
            yield TextLine((self._left + right) / 2, ideal - 5, "ideal", "text3", 11, anchor="middle")
        names = [self._across.text(place) for place in range(len(self._places))]
        sizes = [text_width(name, 11) + 8 for name in names]
        for place in labels_that_fit(self._places, sizes):
            # the outermost names stay within the picture
            half = (sizes[place] - 8) / 2
            x = min(max(self._places[place], half), self._width - half)
            yield TextLine(x, self._base + 16, names[place], "text3", 11, anchor="middle")
        yield TextLine(right, self._base + 33, self._across.title, "text2", 11, 500, anchor="end")

    def _description(self, of_lines: Sequence[Sequence[CellResult]]) -> str:
        parts = []
        for place, cells in enumerate(of_lines):
            points = ", ".join(
                f"{self._figure.text_with_unit(cell.finite(self._figure))} at "
                f"{self._across.text(cell.places[self._x])}"
                for cell in cells
            )
            name = self._of.text(place) if self._of is not None else self._figure.title
            parts.append(f"{name}: {points or 'no values yet'}.")
        return f"{self._figure.title} over {self._across.title}. {' '.join(parts)}"
