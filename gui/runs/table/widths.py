"""How wide the columns of the table are, and which of them a narrow table does without."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gui.runs.table.columns import USUAL, Column

_WIDTHS = {
    Column.TICK: 40,
    Column.NAME: 220,
    Column.TAGS: 120,
    Column.WHEN: 62,
    Column.SPEED: 72,
    Column.PEAK: 72,
    Column.ACCURACY: 62,
    Column.RATIO: 72,
    Column.PRECISION: 118,
    Column.STATUS: 128,
}
_OTHER = 104
"""Of a column that is shown only on request."""
DISPENSABLE = (Column.TAGS, Column.ACCURACY, Column.PEAK, Column.SPEED, Column.WHEN, Column.TICK)
"""A narrow table does without these, in this order, before a name is cut."""


_NONE: Mapping[Column, Any] = MappingProxyType({})


def fitting(
    room: int,
    has_tags: bool,
    chosen: Mapping[Column, bool] = _NONE,
    own: Mapping[Column, int] = _NONE,
) -> tuple[dict[Column, int], set[Column]]:
    """The widths of the columns in `room` pixels, and the columns that are hidden.

    Which columns the user has `chosen` to show or hide, and the widths of the user's `own`, hold in any room.
    """
    shown = [
        column
        for column in Column
        if chosen.get(column, column in USUAL and (has_tags or column is not Column.TAGS))
    ]
    widths = {column: own.get(column, _WIDTHS.get(column, _OTHER)) for column in shown}
    spare = room - sum(widths.values())
    for column in DISPENSABLE:
        if spare < 0 and column in shown and column not in chosen:
            shown.remove(column)
            spare += widths[column]
    return {column: widths[column] for column in shown}, set(Column).difference(shown)
