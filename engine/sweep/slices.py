"""Charts of a slice of a grid: a heat map over two axes, and lines over one for each value of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from engine.compare.metrics import SPEED, Metric
from engine.drawing.chart_parts import LegendEntry, Rect, Span, legend, span_of
from engine.drawing.looks import SideLook
from engine.drawing.shapes import (
    Box,
    Drawing,
    Fill,
    Point,
    Shape,
    Stroke,
    Words,
    hatching,
    shifted,
    shortened,
    text_width,
)
from engine.sweep.chart import (
    DISTURBED_MARK,
    MARK_WORDS,
    CellChart,
    CellSpot,
    Shades,
    Slice,
    best_of,
    head,
    hollow_entry,
    is_hollow,
    labels_that_fit,
    levels,
    line_looks,
    numbers_of,
)
from engine.sweep.results import IDEAL, RATIO_FIGURE, STRONG, WEAK, CellResult, CellStatus, Results
from engine.words.numbers import counted
from resources.looks import MarkFill

_HEAD, _TITLES, _BELOW = 26.0, 18.0, 40.0
_BAR_ROOM, _LONGEST_NAME, _MARK_ROOM = 24.0, 150.0, 18.0
_MOST_WIDE, _MOST_HIGH = 280.0, 150.0
_HATCH_PITCH, _LINE = 6.0, 15.0
_ROUGHLY, _DISTURBED = "≈", "disturbed"
_ENDED = ("failed", "stopped", "excluded")
_WORD = {"running": "training", "done": "no value"}


def heat_map(
    results: Results, x: int, y: int | None, figure: Metric, at: Sequence[int], size: tuple[float, float]
) -> CellChart:
    """Draw the metric over two axes, or over `x` in one row. `at` has a place on every axis."""
    return _HeatMap(results, x, y, figure, at, size).picture()


class _HeatMap(Slice):
    def _arrange(self) -> None:
        figure = self._figure
        values = [value for cell in self._cells if (value := cell.finite(figure)) is not None]
        self._shades = Shades(values)
        self._best = best_of(self._cells, figure)
        self._legend = legend(list(self._legend_entries()), self._width)
        down = self._of
        self._row_names = [] if down is None else [down.text(row) for row in range(len(down.values))]
        widest = max((text_width(name, 11) for name in self._row_names), default=0.0)
        self._looks = line_looks(down) if down is not None and down.key == "precision" else ()
        mark_room = _MARK_ROOM if self._looks else 0.0
        self._left = min(_LONGEST_NAME, widest) + 10 + mark_room if self._row_names else 0.0
        self._top = _HEAD + (_TITLES if self._row_names else 6.0)
        # the ticks of the colour bar may have more digits than the values
        right = _BAR_ROOM + max(40.0, *(text_width(figure.text(value), 11) + 12 for value in values), 0.0)
        columns, rows = len(self._across.values), max(1, len(self._row_names))
        room = (self._width - self._left - right, self._height - self._top - _BELOW - self._legend.height - 4)
        self._pitch = min(_MOST_WIDE, room[0] / columns), min(_MOST_HIGH, max(4.0, room[1] / rows))
        self._right = self._left + self._pitch[0] * columns
        self._bottom = self._top + self._pitch[1] * rows
        self._gap = 2.0 if min(self._pitch) > 16 else 1.0 if min(self._pitch) > 6 else 0.0

    def picture(self) -> CellChart:
        spots = tuple(map(self._spot, self._cells))
        shapes = [*head(self._figure.title, (self._figure.unit, self._fixed), self._width), *self._names()]
        for spot, cell in zip(spots, self._cells, strict=True):
            shapes += self._cell(spot, cell)
        # its frame lies over the neighbours
        for spot, cell in zip(spots, self._cells, strict=True):
            if cell is self._best:
                shapes += _frame(self._box(spot))
        bar_bottom = max(self._bottom, self._top + 60)
        shapes += self._shades.bar(self._right + 10, self._top, bar_bottom)
        down = self._bottom + _BELOW
        shapes += shifted(self._legend.shapes, 0, down)
        height = max(down + self._legend.height, bar_bottom + 8)
        return CellChart(Drawing(self._width, height, tuple(shapes), self._description()), spots)

    def _names(self) -> Iterator[Shape]:
        wide, high = self._pitch
        if self._of is not None:
            title = shortened(self._of.title, self._width, 11, 500)
            yield Words(0, _HEAD + 11, title, "text2", 11, 500)
        rows = [self._top + high * (row + 0.5) for row in range(len(self._row_names))]
        for row in labels_that_fit(rows, [13.0] * len(rows)):
            if self._looks:
                yield from self._looks[row].mark(5, rows[row], 8)
                yield Words(_MARK_ROOM, rows[row] + 4, self._row_names[row], "text", 11)
            else:
                name = shortened(self._row_names[row], self._left - 10, 11)
                yield Words(self._left - 8, rows[row] + 4, name, "text3", 11, anchor="end")
        names = [self._across.text(column) for column in range(len(self._across.values))]
        if wide > 40:
            names = [shortened(name, wide - 4, 11) for name in names]
        columns = [self._left + wide * (column + 0.5) for column in range(len(names))]
        for column in labels_that_fit(columns, [text_width(name, 11) + 6 for name in names]):
            yield Words(columns[column], self._bottom + 16, names[column], "text3", 11, anchor="middle")
        yield Words(self._left, self._bottom + 32, self._across.title, "text2", 11, 500)

    def _spot(self, cell: CellResult) -> CellSpot:
        wide, high = self._pitch
        row = 0 if self._by is None else cell.places[self._by]
        x, y = self._left + wide * cell.places[self._x], self._top + high * row
        return CellSpot(cell.index, x, y, wide, high)

    def _box(self, spot: CellSpot) -> Rect:
        return Rect(spot.x, spot.y, spot.x + spot.width - self._gap, spot.y + spot.height - self._gap)

    def _cell(self, spot: CellSpot, cell: CellResult) -> Iterator[Shape]:
        box = self._box(spot)
        value = cell.finite(self._figure)
        if value is None:
            yield from _blank(cell.status, box)
            yield from _written(box, [_word(cell)], "text2", "bg1")
            return
        shade = self._shades.ink(value)
        yield Box(box.left, box.top, box.width, box.height, shade)
        lines, ground = [f"{_roughly(cell)}{self._figure.text(value)}"], None
        if cell.is_disturbed_in(self._figure):
            yield from hatching(_corners(box), (box.left, box.top), "bg1", _HATCH_PITCH)
            lines, ground = [*lines, _DISTURBED], shade
        elif self._shows_ratio(cell):
            mark = DISTURBED_MARK if cell.is_disturbed_in(RATIO_FIGURE) else ""
            lines.append(f"{_roughly(cell)}{RATIO_FIGURE.text_with_unit(cell.ratio)}{mark}")
        yield from _written(box, lines, f"on-{shade}", ground)

    def _shows_ratio(self, cell: CellResult) -> bool:
        is_baseline = cell.places[self._results.grid.compared] == 0
        return self._figure.name == SPEED.name and cell.ratio is not None and not is_baseline

    def _legend_entries(self) -> Iterator[LegendEntry]:
        if self._best is not None:
            text = f"best: {self._figure.text_with_unit(self._best.finite(self._figure))}, {self._best.name}"
            yield LegendEntry(lambda x, y: tuple(_frame(_sample_box(x, y))), 18, text)
        shown: list[CellResult] = []
        blank: dict[str, list[CellResult]] = {}
        for cell in self._cells:
            has_value = cell.finite(self._figure) is not None
            (shown if has_value else blank.setdefault(_word(cell), [])).append(cell)
        for words, cells in blank.items():
            sample = partial(_blank_sample, cells[0].status)
            yield LegendEntry(sample, 18, f"{words} ({len(cells):,})")
        if any(cell.is_piloted for cell in shown):
            yield LegendEntry(lambda *_: (), 0, f"{_ROUGHLY} from the pilot")
        disturbed = [cell for cell in shown if cell.is_disturbed_in(self._figure)]
        if disturbed:
            yield LegendEntry(_disturbed_sample, 18, f"{_DISTURBED}, unreliable ({len(disturbed):,})")
        of_ratio = [cell for cell in shown if self._shows_ratio(cell) and cell.is_disturbed_in(RATIO_FIGURE)]
        if any(cell not in disturbed for cell in of_ratio):
            yield LegendEntry(lambda *_: (), 0, MARK_WORDS)

    def _description(self) -> str:
        words = f"{self._figure.title} over {self._across.title}"
        words += f" and {self._of.title}" if self._of is not None else ""
        if all(cell.finite(self._figure) is None for cell in self._cells):
            return f"{words}. No combination has a value yet."
        words = f"{words}, {counted(len(self._cells), 'combination')}."
        if self._best is None:
            return words
        value = self._figure.text_with_unit(self._best.finite(self._figure))
        return f"{words} The best is {self._best.name} with {value}."


def _word(cell: CellResult) -> str:
    # a loss that became NaN is a result, too
    return "diverged" if cell.values and cell.status == "done" else _WORD.get(cell.status, cell.status)


def _roughly(cell: CellResult) -> str:
    return _ROUGHLY if cell.is_piloted else ""


def _written(box: Rect, lines: Sequence[str], ink: str, ground: str | None = None) -> Iterator[Shape]:
    fitting = [line for line in lines if line and text_width(line, 12, 500) <= box.width - 4]
    fitting = fitting[: int((box.height - 2) // _LINE)] if fitting[:1] == list(lines[:1]) else []
    middle, top = (box.left + box.right) / 2, (box.top + box.bottom - _LINE * len(fitting)) / 2
    for place, line in enumerate(fitting):
        weight = 400 if place else 500
        if ground is not None:
            width = text_width(line, 12, weight) + 6
            yield Box(middle - width / 2, top + _LINE * place, width, _LINE, ground)
        yield Words(middle, top + _LINE * place + 11.5, line, ink, 12, weight, "middle")


def _blank(status: CellStatus, box: Rect) -> Iterator[Shape]:
    corners = _corners(box)
    if status in _ENDED:
        yield from hatching(corners, corners[0], "text3", _HATCH_PITCH, rises=status != "excluded")
        yield Stroke((*corners, corners[0]), "text3")
    else:
        yield Box(box.left, box.top, box.width, box.height, "bg3")


def _frame(box: Rect) -> Iterator[Shape]:
    for out, ink, width in ((0.0, "text", 3.0), (2.0, "bg1", 1.0)):
        corners = _corners(Rect(box.left + out, box.top + out, box.right - out, box.bottom - out))
        yield Stroke((*corners, corners[0]), ink, width)


def _corners(box: Rect) -> tuple[Point, ...]:
    return (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)


def _blank_sample(status: CellStatus, x: float, y: float) -> tuple[Shape, ...]:
    return tuple(_blank(status, _sample_box(x, y)))


def _disturbed_sample(x: float, y: float) -> tuple[Shape, ...]:
    box = _sample_box(x, y)
    shade = Box(box.left, box.top, box.width, box.height, "heat-3")
    return shade, *hatching(_corners(box), (box.left, box.top), "bg1", _HATCH_PITCH)


def _sample_box(x: float, y: float) -> Rect:
    return Rect(x, y - 6, x + 18, y + 6)


_LINES_HEAD, _BOTTOM, _RIGHT = 26.0, 40.0, 14.0
_HIT = 9.0
_MOST_WHISKERS, _MOST_WITH_INTERVALS = 12, 10
_MARK, _SMALL_MARK, _MANY = 9.0, 6.0, 200
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
        self._top = _LINES_HEAD + self._legend.height + 8
        self._bottom = max(self._top + _LEAST_PLOT, self._height - _BOTTOM)
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

    def _span(self) -> Span:
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
        whiskers = "95% intervals" if self._has_intervals else ""
        shapes = [*head(self._figure.title, (self._figure.unit, whiskers, self._fixed), self._width)]
        shapes += [*shifted(self._legend.shapes, 0, _LINES_HEAD), *self._axes()]
        spots: list[CellSpot] = []
        mark = _MARK if len(self._cells) <= _MANY else _SMALL_MARK
        of_lines = [self._line(place) for place in range(len(self._looks))]
        if self._has_intervals:
            for look, cells in zip(self._looks, of_lines, strict=True):
                shapes += self._intervals(look, cells)
        for look, cells in zip(self._looks, of_lines, strict=True):
            points = [self._point(cell) for cell in cells]
            if len(points) > 1:
                shapes.append(Stroke(tuple(points), look.ink, 2.0, look.dash))
            for cell, (across, down) in zip(cells, points, strict=True):
                fill: MarkFill = "hollow" if is_hollow(cell, (self._figure,)) else look.fill
                shapes += replace(look, fill=fill).mark(across, down, mark)
                spots.append(CellSpot(cell.index, across - _HIT, down - _HIT, 2 * _HIT, 2 * _HIT))
        if not spots:
            middle = (self._left + self._width) / 2, (self._top + self._bottom) / 2
            shapes.append(Words(*middle, "No combination has a value yet.", "text3", 12, anchor="middle"))
        height = self._bottom + _BOTTOM
        drawing = Drawing(self._width, height, tuple(shapes), self._description(of_lines))
        return CellChart(drawing, tuple(reversed(spots)))

    def _line(self, place: int) -> list[CellResult]:
        cells = (cell for cell in self._cells if self._by is None or cell.places[self._by] == place)
        known = [cell for cell in cells if cell.finite(self._figure) is not None]
        return sorted(known, key=lambda cell: self._places[cell.places[self._x]])

    def _point(self, cell: CellResult) -> Point:
        return self._place(cell), self._up.place(cell.finite(self._figure) or 0.0)

    def _place(self, cell: CellResult) -> float:
        line = 0.0 if self._by is None else cell.places[self._by] - (len(self._looks) - 1) / 2
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
            yield Words((self._left + right) / 2, ideal - 5, "ideal", "text3", 11, anchor="middle")
        names = [self._across.text(place) for place in range(len(self._places))]
        sizes = [text_width(name, 11) + 8 for name in names]
        for place in labels_that_fit(self._places, sizes):
            # the outermost names stay within the picture
            half = (sizes[place] - 8) / 2
            x = min(max(self._places[place], half), self._width - half)
            yield Words(x, self._bottom + 16, names[place], "text3", 11, anchor="middle")
        yield Words(right, self._bottom + 33, self._across.title, "text2", 11, 500, anchor="end")

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
