"""Which two runs of two sides are replayed against each other, and what to say where none can be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.problem import ProblemError, request_problem
from engine.records.blocks import Columns
from engine.records.comparison import Comparison
from engine.records.figures import SPEED
from engine.records.lanes import Lane, ending, lane_of
from engine.records.record import RunRecord, Status
from engine.records.sides import Side
from engine.text import shortened


def pair_of(
    comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None
) -> tuple[Lane, Lane]:
    """The lanes of the baseline and of a side; of repeats those whose ratio is nearest to the comparison's.

    Raises ProblemError where there is no such side, or one of the two has nothing to replay.
    """
    sides = _candidates(comparison, side_id)
    base_lanes = _lanes(comparison.baseline, curves)
    if not base_lanes:
        raise _nothing_to_replay(comparison.baseline)
    for side in sides:
        if lanes := _lanes(side, curves):
            return _nearest(base_lanes, lanes, comparison.cells(side.id)[SPEED.name].ratio)
    raise _nothing_to_replay(sides[0])


def _candidates(comparison: Comparison, side_id: str | None) -> list[Side]:
    """The sides that may race the baseline, the one that is most wanted first."""
    others = [side for side in comparison.sides if side is not comparison.baseline]
    if not others:
        message = "There is only one side here, so it has nothing to race against."
        remedy = "Choose runs in full and in mixed precision of the same training."
        raise ProblemError(request_problem(message, remedy))
    if side_id is None:
        return sorted(others, key=lambda side: not side.precision.is_autocast)
    chosen = [side for side in others if side.holds(side_id)]
    if not chosen:
        is_baseline = comparison.baseline.holds(side_id)
        message = (
            f"{comparison.baseline.title} is the baseline, which cannot race against itself."
            if is_baseline
            else f"The run {side_id} is not among those that are compared."
        )
        remedy = f"Choose one of: {', '.join(side.title for side in others)}."
        raise ProblemError(request_problem(message, remedy, key="side", value=side_id))
    return chosen


def _lanes(side: Side, curves: Mapping[str, Columns]) -> list[Lane]:
    found = (lane_of(side, run, curves.get(run.id, {})) for run in side.runs)
    return [lane for lane in found if lane is not None]


def _nearest(full: Sequence[Lane], mixed: Sequence[Lane], ratio: float | None) -> tuple[Lane, Lane]:
    """Whole runs before those cut short, and pairs of one seed before others."""
    pairs = [(one, other) for one in full for other in mixed]

    def unfitness(pair: tuple[Lane, Lane]) -> tuple[int, bool, float]:
        cut_short = sum(lane.is_cut_short for lane in pair)
        return cut_short, not _is_of_one_seed(*pair), _distance(*pair, ratio)

    return min(pairs, key=unfitness)


def _is_of_one_seed(full: Lane, mixed: Lane) -> bool:
    mine, theirs = ((lane.run.comparison, lane.run.experiment.seed) for lane in (full, mixed))
    return mine == theirs


def _distance(full: Lane, mixed: Lane, ratio: float | None) -> float:
    """How far the pair's own ratio is from the comparison's, as a logarithm; 0 where there is none."""
    speeds = [SPEED.value(lane.run) for lane in (mixed, full)]
    known = [speed for speed in (*speeds, ratio) if speed is not None and speed > 0 and math.isfinite(speed)]
    if len(known) < 3:
        return 0.0 if ratio is None else math.inf
    return abs(math.log(known[0]) - math.log(known[1]) - math.log(known[2]))


def _nothing_to_replay(side: Side) -> ProblemError:
    run = max(side.runs, key=lambda run: run.status is not Status.QUEUED)
    what = _what_happened(run)
    message = f"“{shortened(run.name)}” ({side.title}) {what}, so there is nothing of it to replay."
    return ProblemError(request_problem(message, _remedy(run), key="run", value=run.id))


def _what_happened(run: RunRecord) -> str:
    if run.status is Status.QUEUED:
        return ending(run)
    if run.status is Status.RUNNING:
        return "is still warming up"
    if run.status is Status.FINISHED:
        return "ended before any of its steps was counted"
    return f"{ending(run)} before its first counted step"


def _remedy(run: RunRecord) -> str:
    if run.status is Status.QUEUED:
        return "Let it train first."
    if run.status is Status.RUNNING:
        return "Wait until its warm-up is over."
    if run.status is Status.FAILED and run.problem is not None:
        return run.problem.remedy
    if run.status is Status.FINISHED:
        return f"Train it for at least {run.experiment.measure.least_steps:,} steps."
    return "Train it again, to its end."
