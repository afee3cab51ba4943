"""Estimate the time left of a sweep, from its runs and pilots, or before these from other saved runs."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from engine.compare.sides import speed_equivalent
from engine.experiment.checks import Catalog, problems
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.settings import Ranks
from engine.experiment.sweep import VARIANT, Cell, Grid, Pilot, Plan
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.trials import needed_mib
from engine.store.record import RunRecord, Status
from engine.store.saved.forecasts import Forecasts, forecast_key, may_change_memory
from engine.store.saved.sweeps import DOES_NOT_FIT, CellRecord, SweepRecord
from engine.sweep.order import Estimate, Turn, finished_runs, is_trained, pilot_experiment, run_seconds, turns
from engine.words.numbers import need_text


def estimate_of(record: SweepRecord, known_runs: Sequence[RunRecord] = ()) -> Estimate | None:
    """Estimate the time left of a sweep, or None. `known_runs`, newest first, stand in for missing pilots."""
    known = _KnownSeconds(record, known_runs)
    limit = record.plan.time_limit_seconds
    left = None if limit is None else max(0.0, limit - record.spent_seconds)
    total, count = 0.0, 0
    for turn in turns(record):
        if left is not None and total >= left:
            break
        seconds = known.seconds(turn)
        if seconds is None:
            return None
        total, count = total + seconds, count + 1
    is_rough = any(
        cell.pilot is None and not finished_runs(cell) for cell in filter(is_trained, record.cells)
    )
    return Estimate(total, count, is_rough)


def estimate_of_grid(
    grid: Grid, plan: Plan, known_runs: Sequence[RunRecord], left_out: Collection[int] = ()
) -> Estimate | None:
    """Estimate the time of a sweep of the grid without the cells `left_out`. None if nothing is known."""
    cells = (CellRecord(index, "excluded" if index in left_out else "") for index in range(grid.size))
    return estimate_of(SweepRecord(grid, plan, tuple(cells)), known_runs)


def training_seconds(run: RunRecord) -> float | None:
    """Return the time of a finished run, with its worker's start and without pauses."""
    if run.status is not Status.FINISHED or run.started is None or run.ended is None:
        return None
    paused = run.summary.paused_seconds if run.summary is not None else None
    return max(0.0, (run.ended - run.started).total_seconds() - (paused or 0.0))


class _KnownSeconds:
    """Estimates the seconds of turns: by the cell's own runs, else by its pilot, by another run with the same
    settings for speed, or by the mean of the other cells."""

    def __init__(self, record: SweepRecord, known_runs: Sequence[RunRecord]) -> None:
        self._experiments = [cell.experiment for cell in record.grid.cells]
        taking = [cell for cell in record.cells if is_trained(cell)]
        others = KnownRuns(known_runs if any(cell.pilot is None for cell in taking) else ())
        self._pilots = {
            cell.index: pilot
            for cell in taking
            if (pilot := cell.pilot or others.pilot(self._experiments[cell.index])) is not None
        }
        foretold = {
            index: seconds
            for index, pilot in self._pilots.items()
            if (seconds := run_seconds(self._experiments[index], pilot)) is not None
        }
        took = {
            cell.index: statistics.fmean(own)
            for cell in record.cells
            if (own := _known(map(training_seconds, finished_runs(cell))))
        }
        # what pilots overlook in the cells trained so far, they overlook in the others
        both = [took[index] / seconds for index, seconds in foretold.items() if index in took and seconds]
        scale = statistics.median(both) if both else 1.0
        self._runs = {index: scale * seconds for index, seconds in foretold.items()} | took
        self._usual_run = _mean(self._runs.values())
        pilots = [cell.pilot.seconds for cell in record.cells if cell.pilot is not None]
        self._usual_pilot = _mean(pilots or _known(map(self._pilot_seconds, range(len(self._experiments)))))

    def seconds(self, turn: Turn) -> float | None:
        """Estimate the time of the turn. None if nothing is known of any cell."""
        if turn.kind == "run":
            return self._runs.get(turn.cell, self._usual_run)
        foretold = self._pilot_seconds(turn.cell)
        return self._usual_pilot if foretold is None else foretold

    def _pilot_seconds(self, cell: int) -> float | None:
        experiment, pilot = pilot_experiment(self._experiments[cell]), self._pilots.get(cell)
        return None if experiment is None or pilot is None else run_seconds(experiment, pilot)


_OPEN = ("image_size", "num_classes")  # settings that a run states and an experiment may leave to the dataset


class KnownRuns:
    """Estimates an experiment's time from saved runs with the same settings, as far as they affect speed.

    The runs are given newest first, and one takes the place of the experiment's pilot.
    """

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self._runs: dict[Experiment, list[RunRecord]] = {}
        for run in runs:
            # the estimate ignores damaged runs and those of newer versions
            try:
                if run.status is Status.FINISHED and run.summary is not None:
                    self._runs.setdefault(_speed_key(run.experiment), []).append(run)
            except (ProblemError, ValueError):
                continue

    def pilot(self, experiment: Experiment) -> Pilot | None:
        """Return the newest run with the experiment's settings for speed, as a pilot."""
        if not self._runs:
            return None
        for run in self._runs.get(_speed_key(experiment), ()):
            if _may_be(experiment, run.experiment) and (pilot := _as_pilot(run)) is not None:
                return pilot
        return None

    def seconds(self, experiment: Experiment) -> float | None:
        """Estimate the time of a run of the experiment, with its worker's start. None if unknown."""
        pilot = self.pilot(experiment)
        if pilot is not None and experiment.command.whole:
            # a script that runs to its end decides how long that is
            return pilot.seconds
        return None if pilot is None else run_seconds(experiment, pilot)


def _speed_key(experiment: Experiment) -> Experiment:
    if experiment.is_script:
        # its precision, batch size and device were observed
        return Experiment(command=experiment.command.model_copy(update={"require": ""}))
    return speed_equivalent(experiment).model_copy(update=dict.fromkeys(_OPEN))


def _may_be(experiment: Experiment, trained: Experiment) -> bool:
    is_same = all(getattr(experiment, key) in (None, getattr(trained, key)) for key in _OPEN)
    return is_same and experiment.device in ("auto", trained.device)


def _as_pilot(run: RunRecord) -> Pilot | None:
    seconds, summary = training_seconds(run), run.summary
    if seconds is None or summary is None or not summary.steps or not summary.seconds:
        return None
    # compiling and capturing come once; the steps have their share of the validations
    of_steps = summary.seconds - (summary.compile_seconds or 0.0) - (summary.capture_seconds or 0.0)
    if of_steps <= 0:
        return None
    return Pilot(
        steps=summary.steps,
        seconds=seconds,
        start_seconds=max(0.0, seconds - of_steps),
        step_ms=1e3 * of_steps / summary.steps,
        steps_per_epoch=round(summary.steps / summary.epochs) or 1 if summary.epochs else None,
    )


def _mean(values: Collection[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


MOST_FORECASTS = 24  # how many forecasts are made for a grid at most: one takes seconds


@dataclass(frozen=True)
class Fit:
    """The reasons `why` cells of a sweep are excluded, and the memory that cells need, by their index.

    A forecast is still needed for the experiments in `unknown`.
    """

    why: dict[int, str] = field(default_factory=dict)
    needed_mib: dict[int, float] = field(default_factory=dict)
    unknown: tuple[Experiment, ...] = ()


def exclusion_reasons(grid: Grid, catalog: Catalog, forecasts: Forecasts) -> dict[int, str]:
    """Return why cells cannot be trained here or will not fit, by index. Without a forecast they may fit."""
    return fit_of(grid, catalog, forecasts).why


def fit_of(grid: Grid, catalog: Catalog, forecasts: Forecasts | None) -> Fit:
    """Return the known memory of the cells, and the cells that cannot be trained here."""
    why: dict[int, str] = {}
    trainable: list[Cell] = []
    alone: dict[Experiment, Cell] = {}
    for cell in grid.cells:
        obstacle = next(iter(problems(cell.experiment, catalog)), None)
        if obstacle is not None:
            why[cell.index] = obstacle.message
            continue
        if cell.experiment.devices == 1:
            # one device shares nothing, however it would be done
            first = alone.setdefault(cell.experiment.model_copy(update={"ranks": Ranks()}), cell)
            if first is not cell:
                why[cell.index] = f"On one device this is the same as {grid.name(first.places)}."
                continue
        trainable.append(cell)
    groups = _groups(grid, trainable)
    firsts = [group[0].experiment for group in groups]
    found = [None] * len(firsts) if forecasts is None else forecasts.find_all(firsts)
    needed: dict[int, float] = {}
    unknown: dict[str, Experiment] = {}
    for group, forecast in zip(groups, found, strict=True):
        if forecast is None:
            unknown.setdefault(forecast_key(group[0].experiment), group[0].experiment)
            continue
        for cell in group:
            needed[cell.index] = mib = needed_mib(forecast.lines, cell.experiment.batch_size)
            budget_mib = _budget_mib(cell.experiment, catalog)
            if mib > budget_mib:
                why[cell.index] = f"It needs {need_text(mib, budget_mib)}, so it {DOES_NOT_FIT}."
    return Fit(why, needed, tuple(islice(unknown.values(), MOST_FORECASTS)))


def _groups(grid: Grid, cells: Iterable[Cell]) -> list[list[Cell]]:
    """Group the cells that share a memory forecast, which is valid for every batch size."""
    deciding = [
        place
        for place, axis in enumerate(grid.axes)
        if axis.key == VARIANT or axis.overrides or may_change_memory(axis.key)
    ]
    groups: dict[tuple[int, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.places[place] for place in deciding), []).append(cell)
    return list(groups.values())


def _budget_mib(experiment: Experiment, catalog: Catalog) -> float:
    if experiment.memory_cap_gib is not None:
        return experiment.memory_cap_gib * MIB_PER_GIB
    device = catalog.device(experiment.device)
    assert device is not None  # problems() would have named it
    return device.memory_mib
