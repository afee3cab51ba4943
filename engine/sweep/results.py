"""A sweep as its pictures and tables show it: a result for every cell, and the figures to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.compare.evidence import Evidence, doubts_of, is_disturbed
from engine.compare.figures import LOSS, PEAK_MEMORY, SPEED, Blocks, Figure, figures, own_cell, row_of
from engine.compare.sides import Side
from engine.experiment.experiment import Experiment
from engine.experiment.repeats import Pilot
from engine.experiment.sweep import Grid
from engine.experiment.value import MIB_PER_GIB
from engine.statistics import Interval
from engine.store.record import Status
from engine.store.saved.sweeps import CellRecord, SweepRecord

CellStatus = Literal["waiting", "held", "running", "piloted", "done", "stopped", "failed", "left out"]


@dataclass(frozen=True)
class CellResult:
    """A cell: its name, where it is on the grid's axes, its runs, and why it has no figures.

    `values` are by the names of the figures, over the finished runs; until there is one, those of its pilot
    (`is_piloted`). `ratio` is its speed as a multiple of the baseline cell's, with its interval where there
    are repeats. From the times of a cell that `is_disturbed` nothing follows, nor from the ratio if either
    cell is.
    """

    index: int
    places: tuple[int, ...]
    name: str
    status: CellStatus
    run_ids: tuple[str, ...] = ()
    why: str = ""
    values: Mapping[str, float] | None = None
    intervals: Mapping[str, Interval] | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    is_piloted: bool = False
    is_disturbed: bool = False
    is_ratio_disturbed: bool = False

    def value(self, figure: str) -> float | None:
        """The value of the figure of that name, or of "ratio"."""
        return self.ratio if figure == RATIO else (self.values or {}).get(figure)

    @property
    def has_diverged(self) -> bool:
        """Whether its loss is no finite number any more: it is best in nothing."""
        loss = self.value(LOSS.name)
        return loss is not None and not math.isfinite(loss)

    def is_disturbed_in(self, figure: Figure) -> bool:
        """Whether a disturbance changed its value of the figure; of a ratio, also the baseline cell's."""
        if figure.name == RATIO:
            return self.is_ratio_disturbed
        return self.is_disturbed and figure.is_of_time

    def can_be_best(self, figure: Figure) -> bool:
        """Whether its value of the figure, if any, is that of undisturbed runs that did not diverge."""
        return not (self.is_piloted or self.has_diverged or self.is_disturbed_in(figure))


RATIO = "ratio"


@dataclass(frozen=True)
class Results:
    """The cells in the grid's order, and the figures that any of them has, the speed first."""

    grid: Grid
    cells: tuple[CellResult, ...]
    figures: tuple[Figure, ...]


def results_of(record: SweepRecord, evidence: Sequence[Evidence] = ()) -> Results:
    """The results of all cells; figures, intervals and ratios are those that a comparison has.

    `evidence` of its runs, as far as there is any, adds the intervals within single runs.
    """
    return _Reader(record, evidence).results()


@dataclass(frozen=True)
class _Figures:
    values: Mapping[str, float]
    intervals: Mapping[str, Interval]


class _Reader:
    def __init__(self, record: SweepRecord, evidence: Sequence[Evidence]) -> None:
        self._record = record
        self._grid = record.grid
        self._blocks: Blocks = {known.run.id: known.block_speeds for known in evidence}
        self._sides = list(map(_side, record.cells))
        runs = [run for side in self._sides if side is not None for run in side.runs]
        self._figures = figures(runs, _datasets(record.grid))
        self._speed = next(figure for figure in self._figures if figure.name == SPEED.name)

    def results(self) -> Results:
        cells = tuple(map(self._result, self._record.cells))
        known = {name for cell in cells for name in cell.values or ()}
        return Results(self._grid, cells, tuple(figure for figure in self._figures if figure.name in known))

    def _result(self, cell: CellRecord) -> CellResult:
        side = self._sides[cell.index]
        # not by the grid's cells: thousands of experiments take seconds to validate
        places = self._grid.places(cell.index)
        status = self._status(cell)
        known = self._of_runs(side) if side is not None else _Figures(self._of_pilot(cell.pilot), {})
        baseline_cell = self._baseline(places)
        baseline = self._sides[baseline_cell.index]
        ratio, ratio_interval = self._ratio(cell, baseline_cell)
        return CellResult(
            cell.index,
            places,
            self._grid.name(places),
            status,
            run_ids=tuple(run.id for run in cell.runs),
            why=_why(cell, status),
            values=known.values or None,
            intervals=known.intervals or None,
            ratio=ratio,
            ratio_interval=ratio_interval,
            is_piloted=side is None and bool(known.values),
            is_disturbed=side is not None and is_disturbed(doubts_of(side, side, {})),
            is_ratio_disturbed=side is not None
            and baseline is not None
            and is_disturbed(doubts_of(side, baseline, {})),
        )

    def _of_runs(self, side: Side) -> _Figures:
        values, intervals = {}, {}
        for figure in self._figures:
            cell = own_cell(figure, side, self._blocks)
            if cell.value is not None:
                values[figure.name] = cell.value
            if cell.interval is not None:
                intervals[figure.name] = cell.interval
        return _Figures(values, intervals)

    def _of_pilot(self, pilot: Pilot | None) -> Mapping[str, float]:
        if pilot is None:
            return {}
        unit = next(figure.unit for figure in self._figures if figure.name == PEAK_MEMORY.name)
        known = {
            SPEED.name: pilot.samples_per_second,
            "step_ms": pilot.step_ms,
            PEAK_MEMORY.name: _in_unit(pilot.peak_mib, unit),
            LOSS.name: pilot.final_loss,
        }
        return {name: value for name, value in known.items() if value is not None}

    def _baseline(self, places: Sequence[int]) -> CellRecord:
        at = [0 if axis == self._grid.compared else place for axis, place in enumerate(places)]
        return self._record.cells[self._grid.index(at)]

    def _ratio(self, cell: CellRecord, baseline_cell: CellRecord) -> tuple[float | None, Interval | None]:
        side, baseline = self._sides[cell.index], self._sides[baseline_cell.index]
        if side is not None and baseline is not None:
            ratio = row_of(self._speed, (side,), baseline, self._blocks).cells[0]
            return ratio.ratio, ratio.ratio_interval
        if side is None and baseline is None and cell.pilot and baseline_cell.pilot:
            # what pilots measure is no more than a hint, and counts only against a pilot
            mine, theirs = cell.pilot.samples_per_second, baseline_cell.pilot.samples_per_second
            return (None if mine is None or theirs is None else mine / theirs), None
        return None, None

    def _status(self, cell: CellRecord) -> CellStatus:
        statuses = [run.status for run in cell.runs]
        finished = statuses.count(Status.FINISHED)
        if cell.left_out:
            return "left out"
        if Status.RUNNING in statuses:
            return "running"
        if cell.problem is not None or Status.FAILED in statuses:
            return "failed"
        if finished >= self._record.plan.repeats:
            return "done"
        if Status.STOPPED in statuses:
            return "stopped"
        if cell.is_held:
            return "held"
        return "piloted" if cell.pilot is not None and not finished else "waiting"


def _datasets(grid: Grid) -> set[str]:
    # by the settings as given: thousands of experiments take seconds to validate
    usual = grid.base.get("dataset", Experiment.model_fields["dataset"].default)
    axes = [{axis.settings(place).get("dataset") for place in range(len(axis.values))} for axis in grid.axes]
    known = {name for names in axes for name in names if name is not None}
    # where each value of an axis sets it, no cell trains on the usual one
    return known if any(None not in names for names in axes) else {*known, usual}


def _why(cell: CellRecord, status: CellStatus) -> str:
    if status == "left out":
        return cell.left_out
    if status != "failed":
        return ""
    problems = (cell.problem, *(run.problem for run in reversed(cell.runs)))
    return next((problem.message for problem in problems if problem is not None), "")


def _side(cell: CellRecord) -> Side | None:
    runs = tuple(run for run in cell.runs if run.status is Status.FINISHED)
    return Side(runs, runs[0].experiment.precision.label) if runs else None


def _in_unit(mib: float | None, unit: str) -> float | None:
    return mib if mib is None or unit == "MiB" else mib / MIB_PER_GIB
