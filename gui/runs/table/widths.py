"""How wide the columns of the runs table are, and which of them a narrow table does without."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gui.runs.table.columns import USUAL, Column

# roomy, and compact
_WIDTHS = {
    Column.TICK: (40, 40),
    Column.MARKER: (28, 24),
    Column.NAME: (106, 84),
    Column.TAGS: (120, 84),
    Column.WHEN: (68, 72),
    Column.MODEL: (104, 80),
    Column.DATASET: (112, 104),
    Column.PRECISION: (102, 84),
    Column.RECIPE: (76, 64),
    Column.BATCH: (64, 56),
    Column.SPEED: (76, 70),
    Column.PEAK: (84, 74),
    Column.ACCURACY: (72, 60),
    Column.RATIO: (84, 68),
    Column.STATUS: (156, 124),
}
_OTHER = (104, 96)
"""Of a column that is shown only on request."""
_ROOMY, _COMPACT = ({column: _WIDTHS.get(column, _OTHER)[place] for column in Column} for place in (0, 1))
# room for the longest precision and a speed of seven figures, in order of need
_WIDER = {Column.PRECISION: 102, Column.SPEED: 76, Column.MODEL: 100}
_NARROW, _NAME_SHARE, _LONGEST_NAME = 780, 0.25, 200
"""In a wider table the name gets its share before the dispensable columns get any."""
# hidden in a narrow table, in this order; the name's tooltip has their values
DISPENSABLE = (Column.DATASET, Column.BATCH, Column.RECIPE, Column.TAGS, Column.WHEN, Column.MODEL)


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
    roomy, compact = ({**usual, **own} for usual in (_ROOMY, _COMPACT))
    widths = roomy if sum(roomy[column] for column in shown) <= room else compact
    least = min(widths[Column.NAME] + max(0, int(_NAME_SHARE * (room - _NARROW))), _LONGEST_NAME)
    widths = {**widths, Column.NAME: least}
    spare = room - sum(widths[column] for column in shown)
    for column in DISPENSABLE:
        if spare < 0 and column in shown and column not in chosen:
            shown.remove(column)
            spare += widths[column]
    for column, width in _WIDER.items():
        more = width - widths[column]
        if column in shown and column not in own and 0 < more <= spare:
            widths[column] = width
            spare -= more
    return {column: widths[column] for column in shown}, set(Column).difference(shown)
