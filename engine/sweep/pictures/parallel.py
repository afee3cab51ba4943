"""Parallel coordinates: an upright line for every axis and figure, and a line across for every cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.compare.figures import Figure
from engine.drawing.chart_parts import span_of
from engine.drawing.shapes import Box, Drawing, Point, Shape, Stroke, Words, shortened, text_width, wrapped
from engine.experiment.text import in_sentence
from engine.sweep.pictures.picture import (
    CellPicture,
    CellSpot,
    Shades,
    finite,
    kept_apart,
    places_along,
)
from engine.sweep.results import CellResult, Results

_HEAD, _FOOT = 66.0, 24.0
_BAR_ROOM = 84.0
_MANY = 200
_BRUSH = 10.0

Range = tuple[float, float]
"""A part of a coordinate as fractions of its height from the bottom."""


@dataclass(frozen=True)
class Coordinate:
    """An upright line at `x`, of an axis or of a figure by its key."""

    key: str
    title: str
    unit: str
    x: float
    top: float
    bottom: float

    def fraction(self, y: float) -> float:
        """How high a place is on it, from 0 at the bottom to 1."""
        return min(max((self.bottom - y) / (self.bottom - self.top), 0.0), 1.0)

    def y(self, fraction: float) -> float:
        """The place at a height."""
        return self.bottom - fraction * (self.bottom - self.top)


@dataclass(frozen=True)
class ParallelPicture(CellPicture):
    """The picture with its coordinates, the `count` of its cells, and those that pass all ranges."""

    coordinates: tuple[Coordinate, ...]
    count: int
    passing: tuple[int, ...]


def parallel(
    results: Results,
    figures: Sequence[Figure],
    shade: Figure,
    ranges: Mapping[str, Range],
    size: tuple[float, float],
) -> ParallelPicture:
    """The axes and these figures side by side, the cells in the shades of one of them.

    A figure that is the same in all cells is left out.

    `ranges` are by the keys of coordinates; the lines of cells that do not pass them all are pale.
    """
    return _Picture(results, figures, shade, ranges, size).picture()


class _Picture:
    def __init__(
        self,
        results: Results,
        figures: Sequence[Figure],
        shade: Figure,
        ranges: Mapping[str, Range],
        size: tuple[float, float],
    ) -> None:
        self._results, self._shade, self._ranges = results, shade, ranges
        self._width, height = size
        self._axes = [place for place, axis in enumerate(results.grid.axes) if len(axis.values) > 1]
        figures = [figure for figure in figures if figure is shade or _differs(results, figure)]
        self._figures = figures
        self._cells = [cell for cell in results.cells if self._has_figure(cell)]
        self._bottom = max(_HEAD + 60, height - _FOOT)
        values = [value for cell in self._cells if (value := finite(cell, shade)) is not None]
        self._shades = Shades(values)
        keys = [results.grid.axes[place].key for place in self._axes]
        titles = [results.grid.axes[place].title for place in self._axes]
        keys += [figure.name for figure in figures]
        titles += [figure.title for figure in figures]
        units = [*("" for _ in self._axes), *(figure.unit for figure in figures)]
        count = len(keys)
        room = self._width - _BAR_ROOM
        # a coordinate in the middle of its column, so that its title has room on both sides
        self._pitch = room / count
        self.coordinates = tuple(
            Coordinate(key, title, unit, self._pitch * (place + 0.5), _HEAD, self._bottom)
            for place, (key, title, unit) in enumerate(zip(keys, titles, units, strict=True))
        )
        self._ups = {
            place: places_along(results.grid.axes[place], self._bottom, _HEAD) for place in self._axes
        }
        self._spans = {
            figure.name: span_of(self._values(figure), self._bottom, _HEAD, 0.03) for figure in figures
        }

    def _has_figure(self, cell: CellResult) -> bool:
        return any(finite(cell, figure) is not None for figure in self._figures)

    def _values(self, figure: Figure) -> list[float]:
        return [value for cell in self._cells if (value := finite(cell, figure)) is not None]

    def picture(self) -> ParallelPicture:
        lines = {cell.index: self._line(cell) for cell in self._cells}
        passing = [cell for cell in self._cells if self._passes(cell)]
        kept = {cell.index for cell in passing}
        shapes = [*self._columns()]
        width = 1.0 if len(passing) > _MANY else 1.5
        shapes += [
            Stroke(line, "line2")
            for cell in self._cells
            if cell.index not in kept and len(line := lines[cell.index]) > 1
        ]
        # the best values lie on top
        passing.sort(key=lambda cell: finite(cell, self._shade) or 0.0)
        for cell in passing:
            value = finite(cell, self._shade)
            ink = "text3" if value is None else self._shades.ink(value)
            if len(lines[cell.index]) > 1:
                shapes.append(Stroke(lines[cell.index], ink, width))
        shapes += [*self._labels(), *self._brushes()]
        shapes += self._shades.bar(self._shade, self._width - _BAR_ROOM + 20, _HEAD, self._bottom)
        if not self._cells:
            middle = self._width / 2, (_HEAD + self._bottom) / 2
            shapes.append(Words(*middle, "No cell has figures yet.", "text2", 12, anchor="middle"))
        spots = [_spot(cell.index, lines[cell.index]) for cell in passing if len(lines[cell.index]) > 1]
        return ParallelPicture(
            Drawing(self._width, self._bottom + _FOOT, tuple(shapes), self._description(len(passing))),
            tuple(reversed(spots)),
            self.coordinates,
            len(self._cells),
            tuple(sorted(kept)),
        )

    def _heights(self, cell: CellResult) -> list[float | None]:
        """Where the cell is on every coordinate."""
        heights: list[float | None] = [self._ups[place][cell.places[place]] for place in self._axes]
        for figure in self._figures:
            value = finite(cell, figure)
            heights.append(None if value is None else self._spans[figure.name].place(value))
        return heights

    def _line(self, cell: CellResult) -> tuple[Point, ...]:
        return tuple(
            (coordinate.x, y)
            for coordinate, y in zip(self.coordinates, self._heights(cell), strict=True)
            if y is not None
        )

    def _passes(self, cell: CellResult) -> bool:
        for coordinate, y in zip(self.coordinates, self._heights(cell), strict=True):
            wanted = self._ranges.get(coordinate.key)
            if wanted is not None and (y is None or not wanted[0] <= coordinate.fraction(y) <= wanted[1]):
                return False
        return True

    def _columns(self) -> Iterator[Shape]:
        yield Words(0, 15, "All axes and figures", "text", 13, 600)
        after = text_width("All axes and figures", 13, 600) + 8
        unit = f", {self._shade.unit}" if self._shade.unit else ""
        words = shortened(f"shade: {in_sentence(self._shade.title)}{unit}", self._width - after, 12)
        yield Words(after, 15, words, "text3", 12)
        for coordinate in self.coordinates:
            x = round(coordinate.x) + 0.5
            yield Stroke(((x, coordinate.top), (x, coordinate.bottom)), "line2")
            lines = wrapped(coordinate.title, self._pitch - 8, 11, 500)
            for row, line in enumerate(reversed(lines)):
                yield Words(x, coordinate.top - 14 - 14 * row, line, "text2", 11, 500, "middle")
            unit = shortened(coordinate.unit, self._pitch - 8, 11)
            yield Words(x, coordinate.bottom + 16, unit, "text3", 11, anchor="middle")

    def _labels(self) -> Iterator[Shape]:
        """The values beside the coordinates, on the ground's colour, since lines pass below them."""
        for place, coordinate in zip(self._axes, self.coordinates, strict=False):
            axis, ups = self._results.grid.axes[place], self._ups[place]
            texts = [axis.text(number) for number in range(len(ups))]
            for number in kept_apart(ups, [13.0] * len(ups)):
                yield from self._label(coordinate, ups[number], texts[number])
        for figure, coordinate in zip(self._figures, self.coordinates[len(self._axes) :], strict=True):
            span = self._spans[figure.name]
            for tick in span.ticks(max(2, int((self._bottom - _HEAD) / 50))):
                yield from self._label(coordinate, tick.position, tick.text)

    def _label(self, coordinate: Coordinate, y: float, text: str) -> Iterator[Shape]:
        shown = shortened(text, self._pitch - 12, 11)
        width = text_width(shown, 11)
        yield Box(coordinate.x + 5, y - 7, width + 4, 13, "bg1")
        yield Words(coordinate.x + 7, y + 4, shown, "text3", 11)

    def _brushes(self) -> Iterator[Shape]:
        for coordinate in self.coordinates:
            if (wanted := self._ranges.get(coordinate.key)) is not None:
                low, high = coordinate.y(wanted[0]), coordinate.y(wanted[1])
                left, right = coordinate.x - _BRUSH / 2, coordinate.x + _BRUSH / 2
                yield Stroke(
                    ((left, high), (right, high), (right, low), (left, low), (left, high)), "text", 1.5
                )

    def _description(self, passing: int) -> str:
        titles = ", ".join(coordinate.title for coordinate in self.coordinates)
        kept = f"; {passing:,} pass the ranges" if self._ranges else ""
        return f"Parallel coordinates of {titles}: {len(self._cells):,} cells{kept}."


def _differs(results: Results, figure: Figure) -> bool:
    return len({value for cell in results.cells if (value := finite(cell, figure)) is not None}) > 1


def _spot(cell: int, line: tuple[Point, ...]) -> CellSpot:
    ys = [y for _, y in line]
    top, bottom = min(ys) - 4, max(ys) + 4
    return CellSpot(cell, line[0][0], top, line[-1][0] - line[0][0], bottom - top, line)
