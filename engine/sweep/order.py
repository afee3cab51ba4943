"""Which turn of a sweep is next: pilots first, then whole runs in turns, then repeats of what is least known.

The first run of every cell comes before the second of any, and the cells that are compared with one another
are trained one right after the other, in reversed order each time, as the repeats of a comparison are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.compare.figures import SPEED, row_of
from engine.compare.sides import Side
from engine.experiment.repeats import MOST_EXTRA_REPEATS
from engine.statistics import student
from engine.store.record import RunRecord, Status
from engine.store.saved.sweeps import CellRecord, SweepRecord
from engine.sweep.events import Turn
from engine.sweep.pilot import pilot_of

_LIKELY_REPEATS = 3
"""How many repeats a ratio is expected to need of which no interval is known yet."""

_DONE = (Status.FINISHED, Status.FAILED)


def takes_turns(cell: CellRecord) -> bool:
    """Whether a cell is still trained: it is neither left out nor held, and none of its turns failed."""
    has_failed = cell.problem is not None or any(run.status is Status.FAILED for run in cell.runs)
    return not (cell.left_out or cell.is_held or has_failed)


def turns(record: SweepRecord) -> Iterator[Turn]:
    """The turns that are left if none fails, the next one first.

    Those for the sake of a wanted precision are as many as are likely. The time limit is left to the caller.
    """
    groups = groups_of(record)
    for cell in _cells(groups):
        is_known = cell.pilot is not None or finished_runs(cell)
        if not is_known and pilot_of(record.grid.cells[cell.index].experiment) is not None:
            yield Turn(cell.index, "pilot")
    for repeat in range(1, record.plan.repeats + 1):
        for group in groups:
            yield from group.round(repeat)
    if record.plan.precision_percent is not None:
        yield from _extra_turns(record, groups, record.plan.precision_percent / 100)


def finished_runs(cell: CellRecord) -> tuple[RunRecord, ...]:
    """The runs of a cell that came to their end."""
    return tuple(run for run in cell.runs if run.status is Status.FINISHED)


@dataclass(frozen=True)
class Group:
    """Cells that are compared with `baseline`, which is the first of them unless it takes no turns."""

    baseline: int
    cells: tuple[CellRecord, ...]

    def round(self, repeat: int) -> Iterator[Turn]:
        """The runs of that repeat that are missing, in training order."""
        for cell in self.cells if repeat % 2 else reversed(self.cells):
            if not any(run.repeat == repeat and run.status in _DONE for run in cell.runs):
                yield Turn(cell.index, "run", repeat)

    @property
    def begun(self) -> int:
        """The last repeat that has begun."""
        return max((run.repeat or 0 for cell in self.cells for run in finished_runs(cell)), default=0)

    @property
    def reach(self) -> float:
        """How far the widest interval of a ratio reaches from the ratio, as a fraction of it.

        Infinite where a ratio has no interval yet, 0 where there is none to be known.
        """
        first, *others = self.cells
        if first.index != self.baseline or any(map(_has_no_speed, self.cells)):
            return 0.0
        return max((_reach(cell, first) for cell in others), default=0.0)


def groups_of(record: SweepRecord) -> tuple[Group, ...]:
    """The cells that take turns, with those that have the same baseline together."""
    groups: dict[int, list[CellRecord]] = defaultdict(list)
    for cell in record.cells:
        if takes_turns(cell):
            groups[record.grid.baseline(record.grid.cells[cell.index]).index].append(cell)
    return tuple(Group(baseline, tuple(cells)) for baseline, cells in groups.items())


def _cells(groups: Iterable[Group]) -> Iterator[CellRecord]:
    return (cell for group in groups for cell in group.cells)


def _extra_turns(record: SweepRecord, groups: Sequence[Group], wanted: float) -> Iterator[Turn]:
    # whoever was repeated less often than its partners catches up first
    for group in groups:
        for repeat in range(record.plan.repeats + 1, group.begun + 1):
            yield from group.round(repeat)
    reaches = sorted(((group.reach, group) for group in groups), key=lambda pair: -pair[0])
    for reach, group in reaches:
        if reach > wanted:
            begun = max(group.begun, record.plan.repeats)
            for repeat in range(begun + 1, _likely_repeats(begun, reach, wanted) + 1):
                yield from group.round(repeat)


def _likely_repeats(begun: int, reach: float, wanted: float) -> int:
    """How many repeats bring an interval of that reach down to the wanted one, at most those allowed."""
    if not math.isfinite(reach) or begun < 2:
        return min(max(begun + 1, _LIKELY_REPEATS), MOST_EXTRA_REPEATS)
    spread = reach * math.sqrt(begun) / student(begun - 1)
    likely = (
        repeats
        for repeats in range(begun + 1, MOST_EXTRA_REPEATS)
        if student(repeats - 1) * spread / math.sqrt(repeats) <= wanted
    )
    return next(likely, MOST_EXTRA_REPEATS)


def _has_no_speed(cell: CellRecord) -> bool:
    return any(SPEED.value(run) is None for run in finished_runs(cell))


def _reach(cell: CellRecord, baseline: CellRecord) -> float:
    runs, base_runs = finished_runs(cell), finished_runs(baseline)
    if not runs or not base_runs:
        return math.inf
    side, base = Side(runs, label=""), Side(base_runs, label="")
    known = row_of(SPEED, (side,), base, {}).cells[0]
    if known.ratio is None or known.ratio_interval is None:
        return math.inf
    low, high = known.ratio_interval
    return max(high / known.ratio, 2 - low / known.ratio) - 1
