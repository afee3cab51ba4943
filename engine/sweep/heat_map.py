"""The heat map: a metric over two axes of a grid, each cell in a shade of its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from engine.compare.metrics import SPEED, Metric
from engine.drawing.chart_parts import LegendEntry, Rect, legend
from engine.drawing.shapes import (
    Box,
    Drawing,
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
    labels_that_fit,
    line_looks,
)
from engine.sweep.results import RATIO_FIGURE, CellResult, CellStatus, Results
from engine.words.numbers import counted

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
