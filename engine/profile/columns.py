"""The columns of profiles' tables: the name, each side's measurements, and the ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.profile.names import side_names
from engine.protocol.profile import StepPart, StepProfile, TimeRow
from engine.protocol.profiles import Profiles
from engine.words.numbers import number, share_text, three_figures, times

NAME = 0
NOUNS: dict[Table, str] = {"kernels": "Kernel", "operations": "Operation", "modules": "Module"}
NO_UNITS = "no"

_ABBREVIATED = {"Tensor Cores": "TC"}
_LEAST_MS = 0.001
_MATRIX = (StepPart.MATRIX, StepPart.MATRIX_UNITS)
_RATE_TIP = "Achieved throughput, in {} floating-point operations per second, if counted"
_BANDWIDTH_TIP = (
    "Achieved bandwidth, in 10⁹ bytes of inputs and outputs per second, each tensor counted once. "
    "A cache may exceed the bandwidth of the memory."
)


@dataclass(frozen=True)
class Column:
    """A column of a profile's table, for one side (a profiled experiment) or, if `side` is None, for all.

    Rows sort by `value` and show `text`. Where space is short, the window shows a column with `is_in_tip`
    only in a row's tooltip.
    """

    heading: str
    tip: str
    width: int
    value: Callable[[SideRow], Any]
    text: Callable[[SideRow], str]
    side: int | None = None
    shows_units: bool = False
    is_in_tip: bool = False


def columns_of(profiles: Profiles, table: Table, rows: Sequence[SideRow]) -> tuple[Column, ...]:
    """Return the columns for these rows. Columns that are empty in all rows are skipped."""
    noun = NOUNS[table]
    tip = f"Sort by name. A third click brings the longest {noun.lower()} to the top."
    columns = [Column(noun, tip, 0, lambda row: row.name, lambda row: row.name)]
    for place, side in enumerate(profiles.sides):
        if side.profile is not None:
            columns += _side_columns(place, side.profile, rows)
    if any(row.ratio is not None for row in rows):
        first, *_, last = side_names(profiles)
        tip = f"Time in {first} divided by time in {last}. Above 1, {last} is faster."
        columns.append(Column("Ratio", tip, 58, lambda row: row.ratio, _ratio_text))
    return tuple(columns)


def _side_columns(side: int, profile: StepProfile, rows: Sequence[SideRow]) -> list[Column]:
    def column(
        heading: str,
        tip: str,
        width: int,
        figure: Callable[[TimeRow], float | None],
        text: Callable[[float], str],
        *,
        shows_units: bool = False,
        is_in_tip: bool = False,
    ) -> Column:
        def value(row: SideRow) -> float | None:
            cell = row.cells[side]
            return None if cell is None else figure(cell)

        def shown(row: SideRow) -> str:
            known = value(row)
            return "" if known is None else text(known)

        return Column(heading, tip, width, value, shown, side, shows_units, is_in_tip)

    units = profile.matrix_units
    ms_tip, share_tip = "Milliseconds per step, mean of the recorded steps", "Share of the step's time"
    columns = [
        column("Share", share_tip, 64, profile.share_of_step, share_text, is_in_tip=True),
        column("ms", ms_tip, 56, lambda cell: cell.ms, ms_text),
        column("Calls", "Calls per step", 50, lambda cell: cell.calls, count_text, is_in_tip=True),
    ]
    if units is not None:
        heading = _ABBREVIATED.get(units, units)
        tip = f"Whether it runs on {units}. A percentage means that only part of its time does."
        columns.append(column(heading, tip, 60, _on_units, _units_text, shows_units=True))
    if rates := [cell.tflops for row in rows for cell in row.cells if cell is not None and cell.tflops]:
        # what a CPU reaches is read more easily in GFLOP/s
        unit, power, scale = ("TFLOP/s", "10¹²", 1.0) if max(rates) >= 1 else ("GFLOP/s", "10⁹", 1e3)
        tip = _RATE_TIP.format(power)
        columns.append(column(unit, tip, 64, lambda cell: cell.tflops, lambda rate: number(scale * rate)))
    if any(cell is not None and cell.moved_bytes for row in rows for cell in row.cells):
        columns.append(column("GB/s", _BANDWIDTH_TIP, 58, lambda cell: cell.gb_per_second, number))
    return columns


def _on_units(cell: TimeRow) -> float | None:
    is_matrix_work = cell.part in _MATRIX or cell.matrix_unit_fraction
    return cell.matrix_unit_fraction if is_matrix_work else None


def _units_text(fraction: float) -> str:
    return NO_UNITS if not fraction else "yes" if fraction == 1 else share_text(fraction)


def ms_text(ms: float) -> str:
    """Format a time in milliseconds, without the unit."""
    if 0 < ms < _LEAST_MS:
        return f"< {_LEAST_MS}"
    return number(ms, min(3, three_figures(ms)))


def count_text(calls: float) -> str:
    """Format the mean number of calls per step."""
    return f"{calls:,.0f}" if calls == round(calls) else number(calls)


def _ratio_text(row: SideRow) -> str:
    return "" if row.ratio is None else f"{times(row.ratio)}×"


Table = Literal["kernels", "operations", "modules"]
TABLES: tuple[Table, ...] = get_args(Table)


@dataclass(frozen=True)
class SideRow:
    """A row of a profile's table: a kernel, operation or module with its values on each side.

    A side that does not have it is None. `ratio` is its time on the first side divided by that on the last,
    or None if either lacks it or there is one side.
    """

    name: str
    cells: tuple[TimeRow | None, ...]
    ratio: float | None

    @property
    def known(self) -> tuple[TimeRow, ...]:
        """The rows of all sides that have one. There is at least one."""
        return tuple(cell for cell in self.cells if cell is not None)


def side_rows(profiles: Profiles, table: Table) -> tuple[SideRow, ...]:
    """Return the rows of a table by name, the longest on any side first."""
    cells: dict[str, list[TimeRow | None]] = {}
    for place, side in enumerate(profiles.sides):
        for row in getattr(side.profile, table) if side.profile is not None else ():
            cells.setdefault(row.name, [None] * len(profiles.sides))[place] = row
    rows = [SideRow(name, tuple(of_sides), _ratio(of_sides)) for name, of_sides in cells.items()]
    return tuple(sorted(rows, key=lambda row: max(cell.ms for cell in row.known), reverse=True))


def _ratio(cells: list[TimeRow | None]) -> float | None:
    first, last = cells[0], cells[-1]
    if len(cells) < 2 or first is None or last is None or not last.ms:
        return None
    return first.ms / last.ms
