"""The rows of profiles' tables, side by side: kernels, operations or modules of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from engine.protocol.profile import TimeRow
from engine.protocol.profiles import Profiles

Table = Literal["kernels", "operations", "modules"]
TABLES: tuple[Table, ...] = get_args(Table)


@dataclass(frozen=True)
class SideRow:
    """A name with its row on each side, None where a side has none.

    `ratio` is the time on the first side over that on the last: how many times as fast the last is. None
    where either has no such row, and with a single side.
    """

    name: str
    cells: tuple[TimeRow | None, ...]
    ratio: float | None

    @property
    def known(self) -> tuple[TimeRow, ...]:
        """The rows of the sides that have one; at least one."""
        return tuple(cell for cell in self.cells if cell is not None)

    @property
    def most_ms(self) -> float:
        """The longest time on any side."""
        return max([cell.ms for cell in self.cells if cell is not None])


def side_rows(profiles: Profiles, table: Table) -> tuple[SideRow, ...]:
    """The rows of a table by name, the longest on any side first."""
    cells: dict[str, list[TimeRow | None]] = {}
    for place, side in enumerate(profiles.sides):
        for row in getattr(side.profile, table) if side.profile is not None else ():
            cells.setdefault(row.name, [None] * len(profiles.sides))[place] = row
    rows = [SideRow(name, tuple(of_sides), _ratio(of_sides)) for name, of_sides in cells.items()]
    return tuple(sorted(rows, key=lambda row: row.most_ms, reverse=True))


def _ratio(cells: list[TimeRow | None]) -> float | None:
    first, last = cells[0], cells[-1]
    if len(cells) < 2 or first is None or last is None or not last.ms:
        return None
    return first.ms / last.ms
