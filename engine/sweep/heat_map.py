"""The heat map: a metric over two axes of a grid, each cell in a shade of its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.compare.metrics import SPEED, Metric
from engine.drawing.chart_parts import LegendEntry, Rect, legend
from engine.drawing.shapes import (
    Box,
    Drawing,
    Shape,
    Stroke,
    TextLine,
    hatching,
    rounded,
    shifted,
    shortened,
    text_width,
)
from engine.sweep.chart import (
    DISTURBED_WORDS,
    HATCH_PITCH,
    CellChart,
    CellSpot,
    Shades,
    Slice,
    best_of,
    labels_that_fit,
    line_looks,
    state_word,
    unfit_hatch,
    unfit_words,
)
from engine.sweep.results import RATIO_FIGURE, CellResult, Results
from engine.words.numbers import counted, times

_TITLE, _BELOW, _MARK_ROOM, _LONGEST_NAME, _BESIDE = 18.0, 34.0, 20.0, 150.0, 14.0
_MOST_WIDE, _MOST_HIGH, _LEAST_WIDE = 116.0, 122.0, 44.0
_VALUE, _SMALL, _LINE = 14.0, 12.0, 17.0
_ROUGHLY = "≈"
_WAITING = ("waiting", "running", "piloted", "paused")


def heat_map(
    results: Results, x: int, y: int | None, figure: Metric, at: Sequence[int], size: tuple[float, float]
) -> CellChart:
    """Draw the metric over two axes, or over `x` in one row. `at` has a place on every axis."""
    return _HeatMap(results, x, y, figure, at, size).picture()


class _HeatMap(Slice):
    def _arrange(self) -> None:
        figure, down = self._figure, self._of
        values = [value for cell in self._cells if (value := cell.finite(figure)) is not None]
        self._shades, self._best = Shades(values), best_of(self._cells, figure)
        self._row_names = [] if down is None else [down.text(row) for row in range(len(down.values))]
        self._looks = line_looks(down) if down is not None and down.key == "precision" else ()
        widest = max((text_width(name, 12, 500) for name in self._row_names), default=0.0)
        self._left = min(_LONGEST_NAME, widest) + 10 + (_MARK_ROOM if self._looks else 0.0)
        self._top = 0.0 if self._looks or down is None else _TITLE
        self._bests = [self._best_of_row(row) for row in range(max(1, len(self._row_names)))]
        columns, rows = len(self._across.values), len(self._bests)
        widths = [text_width(self._place_of(best), 12) for best in self._bests if best is not None]
        beside = max(*widths, text_width(_BEST_OF_ROWS, 11, 500), 0.0) + _BESIDE
        room = self._width - self._left
        self._has_bests = len(self._row_names) > 1 and (room - beside) / columns >= _LEAST_WIDE
        room -= beside if self._has_bests else 0.0
        self._wide = min(_MOST_WIDE, room / columns)
        self._foot = self._foot_of(self._left + self._wide * columns - 2)
        high = (self._height - self._top - _BELOW - self._foot.height - 4) / rows
        self._pitch = self._wide, min(_MOST_HIGH, max(4.0, high))
        self._right = self._left + self._pitch[0] * columns
        self._bottom = self._top + self._pitch[1] * rows
        self._gap = 2.0 if min(self._pitch) > 16 else 1.0 if min(self._pitch) > 6 else 0.0

    def picture(self) -> CellChart:
        spots = tuple(map(self._spot, self._cells))
        shapes = [*self._names(), *self._best_column()]
        for spot, cell in zip(spots, self._cells, strict=True):
            shapes += self._cell(self._box(spot), cell)
        below = self._bottom + _BELOW
        shapes += shifted(self._foot.shapes, 0, below)
        drawing = Drawing(self._width, below + self._foot.height, tuple(shapes), self._description())
        is_paired = any(map(self._has_ratio, self._cells))
        return CellChart(
            drawing, spots, self._figure.title, self._caption(self._of_ratio() if is_paired else "")
        )

    def _of_ratio(self) -> str:
        axes = self._results.grid.axes
        others = {axis.key for axis in axes if len(axis.values) > 1} - {axes[self._results.grid.compared].key}
        where = "batch" if others == {"batch_size"} else "settings"
        return f"and ratio to {axes[self._results.grid.compared].text(0)} at the same {where}"

    def _best_of_row(self, row: int) -> CellResult | None:
        return best_of(
            [cell for cell in self._cells if self._by is None or cell.places[self._by] == row], self._figure
        )

    def _names(self) -> Iterator[Shape]:
        wide, high = self._pitch
        if self._of is not None and self._top:
            yield TextLine(0, 11, shortened(self._of.title, self._width, 11), "text3", 11)
        rows = [self._top + high * (row + 0.5) for row in range(len(self._row_names))]
        for row in labels_that_fit(rows, [14.0] * len(rows)):
            name = shortened(self._row_names[row], _LONGEST_NAME, 12, 500)
            if self._looks:
                yield from self._looks[row].mark(6, rows[row], 9)
            yield TextLine(_MARK_ROOM if self._looks else 0.0, rows[row] + 4, name, "text", 12, 500)
        names = [self._across.text(column) for column in range(len(self._across.values))]
        if wide > 40:
            names = [shortened(name, wide - 4, 11) for name in names]
        columns = [self._left + wide * (column + 0.5) for column in range(len(names))]
        for column in labels_that_fit(columns, [text_width(name, 11) + 6 for name in names]):
            yield TextLine(columns[column], self._bottom + 16, names[column], "text3", 11, anchor="middle")
        title = self._across.title
        if text_width(title, 11) <= self._left - 8:
            yield TextLine(0, self._bottom + 16, title, "text3", 11)
        else:
            yield TextLine(self._left, self._bottom + 30, title, "text3", 11)

    def _best_column(self) -> Iterator[Shape]:
        if not self._has_bests:
            return
        x, high = self._right - self._gap + _BESIDE, self._pitch[1]
        base = self._bests[0]
        for row, best in enumerate(self._bests):
            if best is None:
                continue
            middle = self._top + high * (row + 0.5)
            ink = self._looks[row].ink if self._looks else "text"
            lines = [(self._figure.text(best.finite(self._figure)), ink, 15.0, 600)]
            if high > 44:
                lines.append((self._place_of(best), "text2", 12.0, 400))
            is_baseline = row == 0
            if high > 62 and self._compares and base is not None:
                ratio = (best.finite(self._figure) or 0.0) / (base.finite(self._figure) or 1.0)
                lines.append(
                    (
                        f"{times(ratio)}×",
                        "text3" if is_baseline else "text",
                        12.0,
                        400 if is_baseline else 600,
                    )
                )
            top = middle - 9.0 * len(lines)
            for place, (text, color, size, weight) in enumerate(lines):
                yield TextLine(x, top + 18 * place + 14, text, color, size, weight)
        yield TextLine(x, self._bottom + 16, _BEST_OF_ROWS, "text2", 11, 500)

    @property
    def _compares(self) -> bool:
        """True if the rows are the values to compare, and their metric is the one that has ratios."""
        return self._by == self._results.grid.compared and self._figure.name == SPEED.name

    def _place_of(self, cell: CellResult) -> str:
        value = self._across.text(cell.places[self._x])
        return f"at batch {value}" if self._across.key == "batch_size" else f"at {value}"

    def _spot(self, cell: CellResult) -> CellSpot:
        wide, high = self._pitch
        row = 0 if self._by is None else cell.places[self._by]
        return CellSpot(
            cell.index, self._left + wide * cell.places[self._x], self._top + high * row, wide, high
        )

    def _box(self, spot: CellSpot) -> Rect:
        return Rect(spot.x, spot.y, spot.x + spot.width - self._gap, spot.y + spot.height - self._gap)

    def _cell(self, box: Rect, cell: CellResult) -> Iterator[Shape]:
        value = cell.finite(self._figure)
        if value is None:
            yield from _blank(cell, box)
            if lines := _fitting([(_word(cell), _SMALL, 400)], box):
                if cell.does_not_fit:
                    yield _plate(lines, box)
                yield from _written(lines, box, "text2")
            return
        shade, text = self._shades.ink(value), f"{_roughly(cell)}{self._figure.text(value)}"
        yield Box(box.left, box.top, box.width, box.height, shade)
        if cell.is_disturbed_in(self._figure):
            yield from hatching(box.corners, (box.left, box.top), "bg1", HATCH_PITCH, 1.5)
            if lines := _fitting([(text, 13.0, 500), (_DISTURBED, _SMALL, 400)], box):
                yield _plate(lines, box)
                yield from _written(lines, box, "text3")
            return
        below = "fastest" if self._figure.name == SPEED.name else "best"
        if cell is self._best:
            yield from _frame(box)
        elif self._has_ratio(cell):
            below = f"{_roughly(cell)}{RATIO_FIGURE.text_with_unit(cell.ratio)}"
        else:
            below = ""
        lines = _fitting([(text, _VALUE, 600), (below, _SMALL, 400)], box)
        yield from _written(lines or _fitting([(text, _SMALL, 500)], box), box, f"on-{shade}")

    def _has_ratio(self, cell: CellResult) -> bool:
        is_baseline = cell.places[self._results.grid.compared] == 0
        is_sound = cell.ratio is not None and not cell.is_disturbed_in(RATIO_FIGURE)
        return self._figure.name == SPEED.name and is_sound and not is_baseline

    def _foot_of(self, right: float) -> Drawing:
        """Draw the legend from the first column on, with the color bar at the right of it, or below."""
        bar, width = self._shades.bar(self._figure.unit), right - self._left
        entries = legend(list(self._entries()), width)
        taken = max(
            (shape.x + text_width(shape.text, 12) for shape in entries.shapes if isinstance(shape, TextLine)),
            default=0.0,
        )
        is_below = taken + 24 + bar.width > width and taken > 0
        down = entries.height if is_below else 0.0
        shapes = [
            *shifted(entries.shapes, self._left, 0),
            *shifted(bar.shapes, max(0.0, right - bar.width), down + 2),
        ]
        return Drawing(self._width, max(entries.height, down + bar.height + 4), tuple(shapes))

    def _entries(self) -> Iterator[LegendEntry]:
        shown = [cell for cell in self._cells if cell.finite(self._figure) is not None]
        if any(cell.is_disturbed_in(self._figure) for cell in shown):
            yield LegendEntry(_disturbed_sample, 22, DISTURBED_WORDS)
        blank: dict[str, CellResult] = {}
        for cell in self._cells:
            if cell.finite(self._figure) is None:
                blank.setdefault(_word(cell), cell)
        for word, cell in blank.items():
            if not cell.does_not_fit and text_width(word, _SMALL) <= self._wide - 8:
                # it stands in the cells
                continue
            yield LegendEntry(
                _blank_sample(cell), 22, unfit_words(self._results) if cell.does_not_fit else word
            )
        if any(cell.is_piloted for cell in shown):
            yield LegendEntry(lambda *_: (), 0, f"{_ROUGHLY} from a short test run")

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


_BEST_OF_ROWS, _DISTURBED = "best of each row", "disturbed"
_Line = tuple[str, float, int]
"""A line in a cell: its text, size and weight."""


def _word(cell: CellResult) -> str:
    word = state_word(cell)
    return "no value" if word in ("done", _DISTURBED) else word


def _roughly(cell: CellResult) -> str:
    return _ROUGHLY if cell.is_piloted else ""


def _fitting(lines: Sequence[_Line], box: Rect) -> list[_Line]:
    """Return the lines for which there is room. None if the first has none."""
    kept = [line for line in lines if line[0] and text_width(*line) <= box.width - 6]
    kept = kept[: int((box.height - 2) // _LINE)]
    return kept if kept[:1] == list(lines[:1]) else []


def _written(lines: Sequence[_Line], box: Rect, ink: str) -> Iterator[Shape]:
    middle, center = box.middle
    top = center + 5 - _LINE / 2 * (len(lines) - 1)
    for place, (text, size, weight) in enumerate(lines):
        color = "text2" if ink == "text3" and place else ink
        yield TextLine(middle, top + _LINE * place, text, color, size, weight, "middle")


def _plate(lines: Sequence[_Line], box: Rect) -> Shape:
    width = max(text_width(*line) for line in lines) + 16
    width, height = min(width, box.width - 2), min(_LINE * len(lines) + 6, box.height - 2)
    middle, center = box.middle
    return rounded(middle - width / 2, center - height / 2, width, height, 4, "bg1")


def _blank(cell: CellResult, box: Rect) -> Iterator[Shape]:
    if cell.does_not_fit:
        yield from unfit_hatch(box)
    elif cell.status in _WAITING:
        yield Box(box.left, box.top, box.width, box.height, "bg2")
    else:
        yield Stroke((*box.corners, box.corners[0]), "line2")


def _frame(box: Rect) -> Iterator[Shape]:
    for inset, ink, width in ((1.0, "text", 2.0), (2.5, "bg1", 1.0)):
        corners = Rect(box.left + inset, box.top + inset, box.right - inset, box.bottom - inset).corners
        yield Stroke((*corners, corners[0]), ink, width)


def _blank_sample(cell: CellResult) -> Callable[[float, float], tuple[Shape, ...]]:
    return lambda x, y: (*_blank(cell, _sample_box(x, y)), *_outline(_sample_box(x, y)))


def _outline(box: Rect) -> Iterator[Shape]:
    yield Stroke((*box.corners, box.corners[0]), "line")


def _disturbed_sample(x: float, y: float) -> tuple[Shape, ...]:
    box = _sample_box(x, y)
    shade = Box(box.left, box.top, box.width, box.height, "heat-3")
    return shade, *hatching(box.corners, (box.left, box.top), "bg1", 6.0, 1.5)


def _sample_box(x: float, y: float) -> Rect:
    return Rect(x, y - 7, x + 22, y + 7)
