"""Lines: a figure over one axis of a grid, a line for every value of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.compare.figures import Figure
from engine.drawing.chart_parts import LegendEntry, Span, legend, span_of
from engine.drawing.looks import SideLook, precision_look
from engine.drawing.shapes import Drawing, Fill, Point, Shape, Stroke, Words, moved, shortened, text_width
from engine.experiment.experiment import Precision
from engine.experiment.sweep import Axis
from engine.sweep.picture import (
    SHADES,
    CellPicture,
    CellSpot,
    cells_at,
    figure_text,
    finite,
    fixed_words,
    interval_of,
    kept_apart,
    places_along,
)
from engine.sweep.results import CellResult, Results
from resources.looks import DARK

_HEAD, _BOTTOM, _RIGHT = 26.0, 40.0, 14.0
_HIT = 9.0
_MOST_WHISKERS, _MOST_WITH_INTERVALS = 12, 10
_MARK, _SMALL_MARK, _MANY = 9.0, 6.0, 200
_MOST_LEGEND_ROWS = 3
_LEAST_PLOT = 60.0


def lines(
    results: Results, x: int, by: int | None, figure: Figure, at: Sequence[int], size: tuple[float, float]
) -> CellPicture:
    """The figure over the axis `x`, a line for every value of the axis `by`, or only one.

    `at` has a place on every axis, which counts for the others. Intervals are whiskers, or bands where the
    points are many.
    """
    return _Picture(results, x, by, figure, at, size).picture()


def line_looks(axis: Axis | None) -> tuple[SideLook, ...]:
    """The looks of lines for the values of an axis: the precisions' own, else shades in their order."""
    if axis is None:
        return (SideLook("text", "o", (), "full"),)
    if axis.key == "precision":
        return tuple(precision_look(Precision(str(value))) for value in axis.values)
    known = list(DARK.precisions.values())
    last = max(1, len(axis.values) - 1)
    return tuple(
        SideLook(
            # the palest shades are too close to the ground for a thin line
            f"heat-{_FIRST_SHADE + round((SHADES - 1 - _FIRST_SHADE) * place / last)}",
            known[place % len(known)].symbol,
            known[place % len(known)].dash,
            "full",
        )
        for place in range(len(axis.values))
    )


_FIRST_SHADE = 3


class _Picture:
    def __init__(
        self,
        results: Results,
        x: int,
        by: int | None,
        figure: Figure,
        at: Sequence[int],
        size: tuple[float, float],
    ) -> None:
        self._results, self._figure, self._at = results, figure, at
        self._x, self._by = x, by
        self._width, self._height = size
        self._axis = results.grid.axes[x]
        self._of = None if by is None else results.grid.axes[by]
        self._looks = line_looks(self._of)
        self._cells = cells_at(results, self._free, at)
        self._legend = legend(list(self._entries()), self._width, _MOST_LEGEND_ROWS)
        self._top = _HEAD + self._legend.height + 8
        self._bottom = max(self._top + _LEAST_PLOT, self._height - _BOTTOM)
        self._up = self._span()
        self._ticks = self._up.ticks(max(2, int((self._bottom - self._top) / 50)))
        self._left = 12 + max((text_width(tick.text, 11) for tick in self._ticks), default=0.0)
        self._places = places_along(self._axis, self._left, self._width - _RIGHT)

    @property
    def _free(self) -> tuple[int, ...]:
        return (self._x,) if self._by is None else (self._x, self._by)

    def _span(self) -> Span:
        values = []
        for cell in self._cells:
            value = finite(cell, self._figure)
            if value is not None:
                values += [value, *(self._reach(cell, value) if self._has_intervals() else ())]
        return span_of(values, self._bottom, self._top)

    def _reach(self, cell: CellResult, value: float) -> tuple[float, float]:
        low, high = interval_of(cell, self._figure) or (value, value)
        far = abs(value) / 2
        return max(low, value - far), min(high, value + far)

    def picture(self) -> CellPicture:
        shapes = [*self._head(), *self._axes()]
        spots: list[CellSpot] = []
        mark = _MARK if len(self._cells) <= _MANY else _SMALL_MARK
        of_lines = [self._line(place) for place in range(len(self._looks))]
        if self._has_intervals():
            for look, cells in zip(self._looks, of_lines, strict=True):
                shapes += self._intervals(look, cells)
        for look, cells in zip(self._looks, of_lines, strict=True):
            points = [self._point(cell) for cell in cells]
            if len(points) > 1:
                shapes.append(Stroke(tuple(points), look.ink, 2.0, look.dash))
            for cell, (across, down) in zip(cells, points, strict=True):
                shapes += look.mark(across, down, mark)
                spots.append(CellSpot(cell.index, across - _HIT, down - _HIT, 2 * _HIT, 2 * _HIT))
        if not spots:
            middle = (self._left + self._width) / 2, (self._top + self._bottom) / 2
            shapes.append(Words(*middle, "No cell has a value yet.", "text3", 12, anchor="middle"))
        height = self._bottom + _BOTTOM
        drawing = Drawing(self._width, height, tuple(shapes), self._description(of_lines))
        return CellPicture(drawing, tuple(reversed(spots)))

    def _has_intervals(self) -> bool:
        known = any(interval_of(cell, self._figure) is not None for cell in self._cells)
        return known and len(self._looks) <= _MOST_WITH_INTERVALS

    def _line(self, place: int) -> list[CellResult]:
        cells = (cell for cell in self._cells if self._by is None or cell.places[self._by] == place)
        known = [cell for cell in cells if finite(cell, self._figure) is not None]
        return sorted(known, key=lambda cell: self._places[cell.places[self._x]])

    def _point(self, cell: CellResult) -> Point:
        return self._places[cell.places[self._x]], self._up.place(finite(cell, self._figure) or 0.0)

    def _intervals(self, look: SideLook, cells: Sequence[CellResult]) -> Iterator[Shape]:
        known = []
        for cell in cells:
            value, interval = finite(cell, self._figure), interval_of(cell, self._figure)
            if value is not None and interval is not None:
                known.append(
                    (self._places[cell.places[self._x]], *map(self._up.place, self._reach(cell, value)))
                )
        if len(known) > _MOST_WHISKERS:
            upper = [(x, high) for x, _, high in known]
            lower = [(x, low) for x, low, _ in reversed(known)]
            yield Fill((*upper, *lower), look.ink, opacity=0.2)
            return
        for x, low, high in known:
            yield Stroke(((x, low), (x, high)), look.ink, 1.5)
            for end in (low, high):
                yield Stroke(((x - 4, end), (x + 4, end)), look.ink, 1.5)

    def _head(self) -> Iterator[Shape]:
        yield Words(0, 15, self._figure.title, "text", 13, 600)
        after = text_width(self._figure.title, 13, 600) + 8
        fixed = fixed_words(self._results, self._free, self._at)
        whiskers = "95 % intervals" if self._has_intervals() else ""
        beside = ", ".join(part for part in (self._figure.unit, whiskers, fixed) if part)
        yield Words(after, 15, shortened(beside, self._width - after, 12), "text3", 12)
        yield from moved(self._legend.shapes, 0, _HEAD)

    def _entries(self) -> Iterator[LegendEntry]:
        if self._of is not None:
            for place, look in enumerate(self._looks):
                text = self._of.text(place)
                named = text if self._of.key == "precision" or place else f"{self._of.title} {text}"
                yield LegendEntry(look.sample, 24, named)

    def _axes(self) -> Iterator[Shape]:
        right = self._width - _RIGHT
        for tick in self._ticks:
            y = round(tick.position) + 0.5
            yield Stroke(((self._left, y), (right, y)), "grid")
            yield Words(self._left - 8, y + 4, tick.text, "text3", 11, anchor="end")
        yield Stroke(((self._left, self._bottom), (right, self._bottom)), "line2")
        names = [self._axis.text(place) for place in range(len(self._places))]
        sizes = [text_width(name, 11) + 8 for name in names]
        for place in kept_apart(self._places, sizes):
            # the outermost names stay within the picture
            half = (sizes[place] - 8) / 2
            x = min(max(self._places[place], half), self._width - half)
            yield Words(x, self._bottom + 16, names[place], "text3", 11, anchor="middle")
        yield Words(right, self._bottom + 33, self._axis.title, "text2", 11, 500, anchor="end")

    def _description(self, of_lines: Sequence[Sequence[CellResult]]) -> str:
        parts = []
        for place, cells in enumerate(of_lines):
            points = ", ".join(
                f"{figure_text(self._figure, finite(cell, self._figure))} at "
                f"{self._axis.text(cell.places[self._x])}"
                for cell in cells
            )
            name = self._of.text(place) if self._of is not None else self._figure.title
            parts.append(f"{name}: {points or 'no values yet'}.")
        return f"{self._figure.title} over {self._axis.title}. {' '.join(parts)}"
