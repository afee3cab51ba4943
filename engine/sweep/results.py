"""The results of a sweep: metrics over repeats, ratios to baselines, and scaling efficiency over devices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.compare.evidence import Evidence, doubts_of, is_disturbed
from engine.compare.metrics import LOSS, PEAK_MEMORY, SPEED, Metric, metric_row, own_cell, shown_metrics
from engine.compare.sides import Side, node_of
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Grid
from engine.experiment.value import MIB_PER_GIB
from engine.statistics import Interval
from engine.store.record import RunRecord, Status
from engine.store.saved.sweeps import DOES_NOT_FIT, CellRecord, SweepRecord
from engine.words.numbers import times

DEVICES = "devices"
WEAK = Metric("weak_efficiency", "Scaling efficiency", "%", 1, False, lambda run: None)
STRONG = Metric("strong_efficiency", "Efficiency at the same global batch", "%", 1, False, lambda run: None)
IDEAL = 100.0


def _communication_ms(run: RunRecord) -> float | None:
    ranks = () if run.summary is None else run.summary.ranks
    known = [
        100 * rank.communication_ms / rank.step_ms
        for rank in ranks
        if rank.communication_ms is not None and rank.step_ms
    ]
    # the rank that comes last waits for none: its time is the transfer's
    return min(known) if ranks and len(known) == len(ranks) else None


EXCHANGE = Metric(
    "exchange_percent", "Synchronizing gradients", "% of a step", 1, False, _communication_ms, is_mean=True
)
SCALING = (WEAK, STRONG, EXCHANGE)


@dataclass(frozen=True)
class Efficiency:
    """The scaling efficiency of several devices, in percent of ideal scaling, with its 95% interval.

    If it `is_disturbed` it is unreliable.
    """

    percent: float
    interval: Interval | None
    is_disturbed: bool


def efficiencies(
    grid: Grid, sides: Sequence[Side | None], speed: Metric, blocks: Mapping[str, NDArray[np.float64]]
) -> dict[int, dict[str, Efficiency]]:
    """Return the efficiencies of cells by index and name. There are none unless `devices` is an axis.

    Both relate the speed per device to that on the fewest devices. `WEAK`: all other settings are equal, so
    each device keeps its batch size. `STRONG`: batch sizes vary too, and the global batch is equal.
    """
    keys, found = [axis.key for axis in grid.axes], defaultdict[int, dict[str, Efficiency]](dict)
    for figure, varied in ((WEAK, {DEVICES}), (STRONG, {DEVICES, "batch_size"})):
        groups = defaultdict[tuple[object, ...], dict[int, Side]](dict)
        for index, side in enumerate(sides if varied <= set(keys) else ()):
            if side is not None:
                same = [
                    place for key, place in zip(keys, grid.places(index), strict=True) if key not in varied
                ]
                batch = side.runs[0].experiment.device_step_samples * _device_count(side)
                groups[(*same, batch if figure is STRONG else None)][index] = side
        for group in groups.values():
            base = min(group.values(), key=_device_count)
            if len(set(map(_device_count, group.values()))) < 2:
                continue
            for index, side in group.items():
                cell, share = (
                    metric_row(speed, (side,), base, blocks).cells[0],
                    IDEAL * _device_count(base) / _device_count(side),
                )
                if cell.ratio is not None:
                    low, high = cell.ratio_interval or (0.0, 0.0)
                    interval = None if cell.ratio_interval is None else (share * low, share * high)
                    doubtful = is_disturbed(doubts_of(side, base, {}))
                    found[index][figure.name] = Efficiency(share * cell.ratio, interval, doubtful)
    return found


def _device_count(side: Side) -> int:
    summary = side.runs[0].summary
    return max(1, len(summary.ranks) if summary is not None else 1)


CellStatus = Literal["running", "done", "piloted", "waiting", "paused", "stopped", "failed", "excluded"]


class _Ratio(Metric):
    def text(self, value: float | None) -> str:
        return super().text(value) if value is None else f"{times(value)}×"

    def text_with_unit(self, value: float | None) -> str:
        return self.text(value)


RATIO_FIGURE = _Ratio("ratio", "Ratio to the baseline", "×", 2, True, lambda run: None)


@dataclass(frozen=True)
class CellResult:
    """The result of one cell of a sweep: its metrics, ratio and runs, or `why` it has none.

    `places` are the indexes of its values on the grid's axes. `values` are by the names of the metrics, over
    the finished runs, or of the pilot until a run has finished (`is_piloted`). `ratio` is its speed as a
    multiple of the baseline cell's. If a cell `is_disturbed` by other programs, heat or power limits, its
    times and scaling are unreliable, and so is each ratio that uses it. `does_not_fit`: it needs more memory
    than there is, as estimated or as found by its run. `nodes` are the cluster nodes that trained it.
    """

    index: int
    places: tuple[int, ...]
    name: str
    status: CellStatus
    run_ids: tuple[str, ...] = ()
    why: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    ratio: float | None = None
    ratio_interval: Interval | None = None
    is_piloted: bool = False
    is_disturbed: bool = False
    is_ratio_disturbed: bool = False
    is_scaling_disturbed: bool = False
    does_not_fit: bool = False
    nodes: tuple[str, ...] = ()

    def value(self, figure: Metric) -> float | None:
        return self.ratio if figure is RATIO_FIGURE else self.values.get(figure.name)

    def interval(self, figure: Metric) -> Interval | None:
        return self.ratio_interval if figure is RATIO_FIGURE else self.intervals.get(figure.name)

    def finite(self, figure: Metric) -> float | None:
        """Return the value of a metric, unless it is unknown or has diverged."""
        value = self.value(figure)
        return value if value is not None and math.isfinite(value) else None

    def conclusive(self, figure: Metric) -> float | None:
        """Return the finite value of a metric if the cell was not disturbed and did not diverge."""
        is_doubtful = self.is_piloted or self.has_diverged or self.is_disturbed_in(figure)
        return None if is_doubtful else self.finite(figure)

    @property
    def has_diverged(self) -> bool:
        """True if the cell's loss is no longer finite, so that the cell cannot be the best."""
        return not math.isfinite(self.values.get(LOSS.name, 0.0))

    def is_disturbed_in(self, figure: Metric) -> bool:
        """Return True if a disturbance changed the metric, or for a ratio, the baseline's metric."""
        if figure in SCALING:
            return self.is_scaling_disturbed
        return self.is_ratio_disturbed if figure is RATIO_FIGURE else self.is_disturbed and figure.is_of_time


@dataclass(frozen=True)
class Results:
    """The results of all cells of a sweep, in order, and the metrics that at least one cell has.

    `shares_cores`: the devices of multi-device runs are all the same CPU. `memory_mib` is the memory cap, or
    else the device's memory. None if it is unknown or differs.
    """

    grid: Grid
    cells: tuple[CellResult, ...]
    figures: tuple[Metric, ...]
    shares_cores: bool = False
    memory_mib: float | None = None


def results_of(record: SweepRecord, evidence: Sequence[Evidence] = ()) -> Results:
    """Return the metrics of all cells and their ratios to the baseline.

    `evidence` has the speeds in blocks of steps, from which cells with a single run get a confidence
    interval.
    """
    grid, blocks = record.grid, {known.run.id: known.block_speeds for known in evidence}
    sides = list(map(_side, record.cells))
    of_runs = shown_metrics([run for side in sides if side is not None for run in side.runs], _datasets(grid))
    speed = next(figure for figure in of_runs if figure.name == SPEED.name)
    scaling = efficiencies(grid, sides, speed, blocks)

    def result(cell: CellRecord) -> CellResult:
        # not by the grid's cells: thousands of experiments take seconds to validate
        places = grid.places(cell.index)
        at = [0 if axis == grid.compared else place for axis, place in enumerate(places)]
        baseline_cell = record.cells[grid.index(at)]
        side, baseline = sides[cell.index], sides[baseline_cell.index]
        status = _status(cell, record.plan.repeats)
        known = CellResult(
            cell.index,
            places,
            grid.name(places),
            status,
            tuple(run.id for run in cell.runs),
            _failure_words(cell, status),
            does_not_fit=_does_not_fit(cell, status),
        )
        changes: dict[str, Any] = {}
        if side is not None:
            own = {figure.name: own_cell(figure, side, blocks) for figure in (*of_runs, EXCHANGE)}
            changes["nodes"] = tuple(dict.fromkeys(filter(None, map(node_of, side.runs))))
            changes["values"] = {name: of.value for name, of in own.items() if of.value is not None}
            changes["intervals"] = {name: of.interval for name, of in own.items() if of.interval is not None}
            changes["is_disturbed"] = changes["is_scaling_disturbed"] = is_disturbed(
                doubts_of(side, side, {})
            )
            for name, efficiency in scaling.get(cell.index, {}).items():
                changes["values"][name] = efficiency.percent
                if efficiency.interval is not None:
                    changes["intervals"][name] = efficiency.interval
                changes["is_scaling_disturbed"] |= efficiency.is_disturbed
            if baseline is not None:
                ratio = metric_row(speed, (side,), baseline, blocks).cells[0]
                changes |= {"ratio": ratio.ratio, "ratio_interval": ratio.ratio_interval}
                changes["is_ratio_disturbed"] = is_disturbed(doubts_of(side, baseline, {}))
        elif cell.pilot is not None:
            values = _pilot_values(cell, of_runs)
            changes |= {"values": values, "is_piloted": bool(values)}
            if baseline is None and baseline_cell.pilot is not None:
                # what pilots measure is no more than a hint, and counts only against a pilot
                mine, theirs = cell.pilot.samples_per_second, baseline_cell.pilot.samples_per_second
                changes["ratio"] = None if mine is None or theirs is None else mine / theirs
        return replace(known, **changes)

    cells = tuple(map(result, record.cells))
    known = {name for cell in cells for name in cell.values}
    every = (*of_runs, *SCALING)
    summaries = [run.summary for side in sides if side is not None for run in side.runs]
    ranks = [rank for summary in summaries if summary is not None for rank in summary.ranks]
    shares_cores = any(rank.device == "cpu" for rank in ranks)
    shown = tuple(figure for figure in every if figure.name in known)
    return Results(grid, cells, shown, shares_cores, _memory_mib(record))


def _memory_mib(record: SweepRecord) -> float | None:
    cap = record.grid.base.get("memory_cap_gib")
    if cap:
        return float(cap) * MIB_PER_GIB
    if any(axis.key in ("memory_cap_gib", "device") for axis in record.grid.axes):
        return None
    environments = (run.environment for cell in record.cells for run in cell.runs)
    return next((known.device_memory_mib for known in environments if known is not None), None)


def _side(cell: CellRecord) -> Side | None:
    runs = tuple(run for run in cell.runs if run.status is Status.FINISHED)
    return Side(runs, runs[0].experiment.precision.label) if runs else None


def _pilot_values(cell: CellRecord, of_runs: Sequence[Metric]) -> dict[str, float]:
    pilot = cell.pilot
    assert pilot is not None
    unit = next(figure.unit for figure in of_runs if figure.name == PEAK_MEMORY.name)
    known = {
        SPEED.name: pilot.samples_per_second,
        "step_ms": pilot.step_ms,
        PEAK_MEMORY.name: pilot.peak_mib
        and (pilot.peak_mib if unit == "MiB" else pilot.peak_mib / MIB_PER_GIB),
        LOSS.name: pilot.final_loss,
    }
    return {name: value for name, value in known.items() if value is not None}


def _status(cell: CellRecord, repeats: int) -> CellStatus:
    statuses = [run.status for run in cell.runs]
    finished = statuses.count(Status.FINISHED)
    by_rank: tuple[tuple[CellStatus, object], ...] = (
        ("excluded", cell.left_out),
        ("running", Status.RUNNING in statuses),
        ("failed", cell.problem is not None or Status.FAILED in statuses),
        ("done", finished >= repeats),
        ("stopped", Status.STOPPED in statuses),
        ("paused", cell.is_paused),
        ("piloted", cell.pilot is not None and not finished),
    )
    return next((status for status, holds in by_rank if holds), "waiting")


def _does_not_fit(cell: CellRecord, status: CellStatus) -> bool:
    if status == "excluded":
        return cell.left_out.removesuffix(".").endswith(DOES_NOT_FIT)
    problem = _problem(cell)
    is_full = problem is not None and problem.kind in (Kind.OUT_OF_MEMORY, Kind.SPILLED)
    return status == "failed" and is_full


def _problem(cell: CellRecord) -> Problem | None:
    problems = (cell.problem, *(run.problem for run in reversed(cell.runs)))
    return next((problem for problem in problems if problem is not None), None)


def _failure_words(cell: CellRecord, status: CellStatus) -> str:
    if status == "excluded":
        return cell.left_out
    problem = _problem(cell)
    return problem.message if status == "failed" and problem is not None else ""


def _datasets(grid: Grid) -> set[str]:
    # by the settings as given: thousands of experiments take seconds to validate
    usual = grid.base.get("dataset", Experiment.model_fields["dataset"].default)
    axes = [{axis.settings(place).get("dataset") for place in range(len(axis.values))} for axis in grid.axes]
    known = {name for names in axes for name in names if name is not None}
    # where each value of an axis sets it, no cell trains on the usual one
    return known if any(None not in names for names in axes) else {*known, usual}
