"""The columns of a table: text, sort value, tooltip, painting and width."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from engine.experiment.experiment import Precision

Row = TypeVar("Row")

RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
GROWS = 1 << 20
"""The `widest` of a column that takes the remaining room."""
_LETTER, _BESIDE_WORDS, _WIDEST_WORDS, _BEFORE_WORDS = 7, 14, 240, 12


class Look(NamedTuple):
    """The look of a cell's text.

    `mark` is drawn before it: a precision's marker, or the icon of that name.
    """

    weight: int = 400
    ink: str = "text"
    mark: Precision | str | None = None
    is_struck: bool = False
    size: int = 12


class ColumnGroup(NamedTuple):
    """Adjacent columns of one precision, below a common title."""

    title: str
    precision: Precision


PLAIN = Look()


def plain_look(_row: Any) -> Look:
    """Return the default look of cells."""
    return PLAIN


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table: how it gets the text of a row, sorts, paints and sizes its cells.

    `text` returns a row's text, and `value` the value to sort by (default: the text). None is sorted last.
    `paint` draws a cell instead of its text, and `paint_heading` the heading. `short` returns a shorter text
    for a narrow cell, and `about` the tooltip.

    Files store the column by its `name`, if it has one. The column is `width` pixels wide, or as wide as its
    texts up to `widest`, with `gap` pixels free at its left. While there is no room for all columns, those
    that are `is_dispensable` are hidden, the widest first.
    """

    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], Any] | None = None
    tip: str = ""
    paint: Callable[[QPainter, QRectF, Row], None] | None = None
    _: KW_ONLY
    name: str = ""
    width: int = 60
    widest: int = 0
    is_number: bool = False
    gap: int = 0
    is_dispensable: bool = False
    is_shaded: bool = False
    look: Callable[[Row], Look] = plain_look
    short: Callable[[Row], str] | None = None
    about: Callable[[Row], str] | None = None
    group: ColumnGroup | None = None
    paint_heading: Callable[[QPainter, QRectF], None] | None = None

    @property
    def key(self) -> Hashable:
        """Its key among the columns of its table."""
        return self.name or (self.title, self.group)

    @property
    def whole_title(self) -> str:
        """The title after the title of its group, such as "FP32 ms"."""
        return f"{self.group.title} {self.title}" if self.group else self.title

    @property
    def alignment(self) -> Qt.AlignmentFlag:
        """The alignment of cells and heading."""
        return RIGHT if self.is_number else LEFT

    def sorted_by(self, row: Row) -> Any:
        """Return the value that a row is sorted by."""
        return self.value(row) if self.value is not None else self.text(row)


def spaced(columns: Sequence[Column[Row]]) -> tuple[Column[Row], ...]:
    """Return the columns with a gap before each text that follows a number, which ends where it starts."""
    pairs = zip((None, *columns), columns, strict=False)
    return tuple(
        replace(column, gap=_BEFORE_WORDS, width=column.width + _BEFORE_WORDS)
        if before is not None and before.is_number and not column.is_number and not column.gap
        else column
        for before, column in pairs
    )


def number_column(
    title: str,
    value: Callable[[Row], float | None],
    write: Callable[[float], str],
    tip: str = "",
    width: int = 70,
) -> Column[Row]:
    """Return a column of numbers, formatted by `write`, and empty for None."""

    def text(row: Row) -> str:
        known = value(row)
        return "" if known is None else write(known)

    return Column(title, text, value, tip, width=width, is_number=True)


def width_of(words: Iterable[str]) -> int:
    """Return the approximate width of a column that shows these words in full, unless they are very long."""
    return min(_LETTER * max(map(len, words)) + _BESIDE_WORDS, _WIDEST_WORDS)


def word_columns(
    headings: Sequence[str], right: Collection[str], rows: Sequence[Sequence[Any]]
) -> list[Column[Sequence[Any]]]:
    """Return columns for `rows` of texts, one text per heading. The columns in `right` are right-aligned.

    A column is as wide as its longest words.
    """
    columns: list[Column[Sequence[Any]]] = []
    for place, heading in enumerate(headings):
        width = width_of((heading, *(str(row[place]) for row in rows)))
        widest = GROWS if place == 0 else 0
        text = partial(_cell, place=place)
        columns.append(Column(heading, text, width=width, widest=widest, is_number=heading in right))
    return columns


def _cell(row: Sequence[Any], place: int) -> str:
    return str(row[place])


def in_order(rows: Sequence[Row], value: Callable[[Row], Any], *, descends: bool) -> list[Row]:
    """Return the rows sorted by their values. Rows without a value, or with NaN, come last."""
    values = list(map(value, rows))
    # NaN is not even itself
    known = [place for place, own in enumerate(values) if own is not None and own == own]
    known.sort(key=values.__getitem__, reverse=descends)
    unknown = sorted(set(range(len(rows))).difference(known))
    return [rows[place] for place in (*known, *unknown)]


def fitted_widths(
    columns: Sequence[Column[Any]], wanted: Mapping[int, int], own: Mapping[Hashable, int], room: int
) -> dict[int, int]:
    """Return the widths of the columns shown in `room` pixels, by position.

    `wanted` has the text widths of columns that fit their texts, `own` the widths chosen by the user.
    """
    widths = {place: own.get(column.key, column.width) for place, column in enumerate(columns)}
    dispensable = [place for place, column in enumerate(columns) if column.is_dispensable]
    for place in sorted(dispensable, key=widths.__getitem__, reverse=True):
        if sum(widths.values()) > room:
            del widths[place]
    spare = room - sum(widths.values())
    free = [place for place in widths if columns[place].key not in own]
    for place in free:
        more = max(0, min(wanted.get(place, 0) - widths[place], spare))
        widths[place] += more
        spare -= more
    growing = [place for place in free if columns[place].widest == GROWS]
    for number, place in enumerate(growing):
        widths[place] += max(0, spare) * (number + 1) // len(growing) - max(0, spare) * number // len(growing)
    return widths
