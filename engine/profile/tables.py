"""The tables of profiles: kernels, operations and modules of each side, and communication between devices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.experiment.value import BYTES_PER_MIB
from engine.profile.names import side_names
from engine.protocol.profile import Communication, Profiles, RankProfile, StepPart, StepProfile, TimeRow
from engine.words.numbers import NONE, counted, memory_text, number, share_text, three_figures, times

BY_DEVICE, BY_SIZE = "By device", "Bus bandwidth by message size"
DEVICE_HEADINGS = ("Device", "Step", "Computing", "Host", "Data", "Exposed", "Overlapped", "Skew")
SIZE_HEADINGS = ("Message", "GB/s", "Sent per step")
HOW_MEASURED = (
    "Times are milliseconds per step. Host and Data are waits for the host and for data. Communication is "
    "exposed while the device computes nothing, and overlapped while it computes. Skew is the part of both "
    "in which another device had not started: the extra time of a message relative to the device where it is "
    "shortest. Bus bandwidth is the traffic on each link in an all-reduce. For n devices it is 2 (n - 1) / n "
    "times the bytes of the message, divided by the time."
)


def communication_by_side(profiles: Profiles) -> tuple[tuple[str, Communication], ...]:
    """Return the sides that multiple devices trained, by name. A single side has an empty name."""
    return tuple((name, exchange) for name, _, exchange in _exchanges(profiles))


def _exchanges(profiles: Profiles) -> tuple[tuple[str, StepProfile, Communication], ...]:
    return tuple(
        (name if len(profiles.sides) > 1 else "", side.profile, side.profile.exchange)
        for name, side in zip(side_names(profiles), profiles.sides, strict=True)
        if side.profile is not None and side.profile.exchange is not None
    )


def communication_sentences(profiles: Profiles) -> tuple[str, ...]:
    """Describe the communication of each side's devices, and which one the others wait for."""
    return tuple(
        f"{name}: {sentence}" if name else sentence
        for name, profile, exchange in _exchanges(profiles)
        for sentence in ((_UNRELIABLE,) if profile.disturbance is not None else _sentences(exchange))
    )


_UNRELIABLE = "The times of the devices are unreliable, as the steps were disturbed."


def _sentences(exchange: Communication) -> Iterator[str]:
    first, sizes = exchange.ranks[0], exchange.messages
    share = first.exposed_ms / first.step_ms if first.step_ms else 0.0
    yield (
        f"Rank 0 spends {number(first.exposed_ms)} ms of a {number(first.step_ms)} ms step "
        f"({share_text(share)}) on exposed communication. {number(first.overlapped_ms)} ms are overlapped."
    )
    if sizes:
        sent, together = counted(len(sizes), "message"), _size(sum(sizes))
        yield (
            f"It sends {sent} of {together} per step."
            if len(sizes) == 1
            else f"It sends {sent} per step, {together} in total."
        )
    slowest = exchange.slowest
    if slowest is not None:
        waits = [rank.skew_ms or 0.0 for rank in exchange.ranks]
        named = exchange.ranks[slowest].named(slowest)
        yield f"The others wait for {named}, for up to {number(max(waits))} ms per step."
    elif any(rank.skew_ms is None for rank in exchange.ranks):
        yield "The devices did not send the same messages, so their waits are unknown."


def device_rows(profiles: Profiles) -> tuple[tuple[str, ...], ...]:
    """Return the rows under `DEVICE_HEADINGS`, in milliseconds. Mark the slowest device of each side."""
    rows = []
    for name, exchange in communication_by_side(profiles):
        for place, rank in enumerate(exchange.ranks):
            named = f"{name}, {rank.named(place)}" if name else rank.named(place)
            rows.append(_device_row(named, rank, exchange.slowest == place))
    return tuple(rows)


def _device_row(name: str, rank: RankProfile, is_slowest: bool) -> tuple[str, ...]:
    return (
        f"{name}, slowest" if is_slowest else name,
        *map(
            number, (rank.step_ms, rank.computing_ms, rank.bar.ms(StepPart.HOST), rank.bar.ms(StepPart.DATA))
        ),
        *map(number, (rank.exposed_ms, rank.overlapped_ms, rank.skew_ms)),
    )


def size_rows(profiles: Profiles) -> tuple[tuple[str, ...], ...]:
    """Return the rows under `SIZE_HEADINGS`, for the first side whose communication was measured.

    Each message of a step is counted at the measured size nearest to its own.
    """
    found = next((exchange for _, exchange in communication_by_side(profiles) if exchange.rates), None)
    if found is None:
        return ()
    sizes = [rate.size for rate in found.rates]
    sent = Counter(min(sizes, key=lambda size: abs(math.log(size / own))) for own in found.messages)
    return tuple(
        (_size(rate.size), number(rate.gb_per_second), f"{sent[rate.size]:,}" if sent[rate.size] else NONE)
        for rate in found.rates
    )


def _size(count: float) -> str:
    mib = count / BYTES_PER_MIB
    return memory_text(mib) if mib >= 1 else f"{number(1_024 * mib, 0)} KiB"


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
class SideColumn:
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


def columns_of(profiles: Profiles, table: Table, rows: Sequence[SideRow]) -> tuple[SideColumn, ...]:
    """Return the columns for these rows. Columns that are empty in all rows are skipped."""
    noun = NOUNS[table]
    tip = f"Sort by name. A third click brings the longest {noun.lower()} to the top."
    columns = [SideColumn(noun, tip, 0, lambda row: row.name, lambda row: row.name)]
    for place, side in enumerate(profiles.sides):
        if side.profile is not None:
            columns += _side_columns(place, side.profile, rows)
    if any(row.ratio is not None for row in rows):
        first, *_, last = side_names(profiles)
        tip = f"Time in {first} divided by time in {last}. Above 1, {last} is faster."
        columns.append(SideColumn("Ratio", tip, 58, lambda row: row.ratio, _ratio_text))
    return tuple(columns)


def _side_columns(side: int, profile: StepProfile, rows: Sequence[SideRow]) -> list[SideColumn]:
    def column(
        heading: str,
        tip: str,
        width: int,
        figure: Callable[[TimeRow], float | None],
        text: Callable[[float], str],
        *,
        shows_units: bool = False,
        is_in_tip: bool = False,
    ) -> SideColumn:
        def value(row: SideRow) -> float | None:
            cell = row.cells[side]
            return None if cell is None else figure(cell)

        def shown(row: SideRow) -> str:
            known = value(row)
            return "" if known is None else text(known)

        return SideColumn(heading, tip, width, value, shown, side, shows_units, is_in_tip)

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
