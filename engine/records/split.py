"""Where a gain comes from: what of a ratio the precision did, what the recipe, and what the batch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from engine.experiment import Experiment, Precision
from engine.problem import ProblemError
from engine.records.doubts import is_spoiled
from engine.records.figures import SPEED
from engine.records.record import RunRecord, Status
from engine.records.sides import Side, recipe_words
from engine.records.speed_settings import AXES, Axis, differing_axes, for_speed, moved, same_machine
from engine.records.words import times


@dataclass(frozen=True)
class Factor:
    """One part of a ratio: how many times as fast this change alone made the training."""

    name: Axis
    ratio: float


@dataclass(frozen=True)
class Split:
    """`total` is the product of `factors`: the precision first, under the baseline's recipe and batch.

    `other_order` takes the first of these changes last (the precision, under the side's own recipe). Each is
    empty where a corner is missing, and `missing` are the experiments that would fill it. `versus_default` is
    the gain against PyTorch's default (convolutions in TF32 already), on a GPU where such a run is known.
    `sentence` has no full stop; `headline` is its part for the verdict.
    """

    total: float
    factors: tuple[Factor, ...]
    other_order: tuple[Factor, ...]
    missing: tuple[Experiment, ...]
    versus_default: float | None
    sentence: str
    headline: str

    @property
    def precision_ratio(self) -> float | None:
        """The precision's part under the side's own recipe and batch; None where unknown."""
        parts = {factor.name: factor.ratio for factor in self.other_order}
        return parts.get("precision")


MOST_OTHERS = 1_000
"""How many saved runs are worth looking through for corners, newest first."""


class Corners:
    """Speeds of experiments among runs made on the baseline's machine, median over repeats.

    `shown` are the runs that are compared, whose doubts are told beside them; of the `others` those count
    that nothing disturbed.
    """

    def __init__(self, baseline: Side, shown: Sequence[RunRecord], others: Sequence[RunRecord] = ()) -> None:
        self._first = baseline.runs[0]
        self._shown = {run.id for run in shown}
        self._known = (*shown, *others)

    def speed(self, experiment: Experiment) -> float | None:
        """Samples a second of the runs whose settings agree in all that bears on speed; None without one."""
        return _speed(self._by_settings.get(for_speed(experiment), []))

    @cached_property
    def _by_settings(self) -> dict[Experiment, list[RunRecord]]:
        found: dict[Experiment, list[RunRecord]] = {}
        for run in {run.id: run for run in self._known if self._may_count(run)}.values():
            found.setdefault(for_speed(run.experiment), []).append(run)
        return found

    def _may_count(self, run: RunRecord) -> bool:
        if run.status is not Status.FINISHED or not _is_readable(run):
            return False
        mine, theirs = run.experiment, self._first.experiment
        return (
            (mine.model, mine.dataset) == (theirs.model, theirs.dataset)
            and SPEED.value(run) is not None
            and same_machine(run, self._first)
            and _same_software(run, self._first)
            and (run.id in self._shown or not is_spoiled(run))
        )


def _same_software(one: RunRecord, other: RunRecord) -> bool:
    mine, theirs = one.environment, other.environment
    assert mine is not None and theirs is not None
    return (mine.cuda, mine.driver) == (theirs.cuda, theirs.driver)


def _is_readable(run: RunRecord) -> bool:
    """A damaged run, or a newer version's, is no corner, and none of the comparison's business."""
    try:
        return run.experiment is not None and (run.environment, run.summary) != (None, None)
    except (ProblemError, ValueError):
        return False


def split_of(side: Side, baseline: Side, corners: Corners, total: float | None = None) -> Split | None:
    """How the gain of `side` over `baseline` splits; `total` is that gain where it is known better than by
    the median speeds.

    None for the baseline itself, where a speed is missing or more differs than precision, recipe and batch,
    and where only the precision differs and no run of PyTorch's default is known.
    """
    start, end = baseline.runs[0].experiment, side.runs[0].experiment
    axes = differing_axes(start, end)
    speed, base = _speed(side.runs), _speed(baseline.runs)
    if not axes or speed is None or not base or not _differ_in_axes_alone(side, baseline):
        return None
    base = speed / total if total else base
    versus_default = _versus_default(speed, side, baseline, corners)
    if axes == ("precision",) and versus_default is None:
        return None
    orders = (axes, (*axes[1:], axes[0]))
    factors, other_order = (_factors(order, (base, speed), corners, start, end) for order in orders)
    missing = {
        for_speed(corner): corner
        for order in orders
        for corner in _between(order, start, end)
        if corners.speed(corner) is None
    }
    return Split(
        total=speed / base,
        factors=factors,
        other_order=other_order if len(axes) > 1 else (),
        missing=tuple(missing.values()),
        versus_default=versus_default,
        sentence=_sentence(factors, other_order, end, tuple(missing.values())) + _against(versus_default),
        headline=_headline(factors or other_order, axes, end),
    )


def _differ_in_axes_alone(side: Side, baseline: Side) -> bool:
    mine, theirs = side.runs[0], baseline.runs[0]
    as_mine = moved(theirs.experiment, AXES, mine.experiment)
    return same_machine(mine, theirs) and for_speed(as_mine) == for_speed(mine.experiment)


def _speed(runs: Sequence[RunRecord]) -> float | None:
    speeds = [speed for run in runs if (speed := SPEED.value(run)) is not None]
    return statistics.median(speeds) if speeds else None


def _between(order: Sequence[Axis], start: Experiment, end: Experiment) -> list[Experiment]:
    return [moved(start, order[:count], end) for count in range(1, len(order))]


def _factors(
    order: Sequence[Axis], ends: tuple[float, float], corners: Corners, start: Experiment, end: Experiment
) -> tuple[Factor, ...]:
    between = (corners.speed(corner) for corner in _between(order, start, end))
    speeds: list[float | None] = [ends[0], *between, ends[1]]
    found = []
    for axis, (before, after) in zip(order, pairwise(speeds), strict=True):
        if not before or after is None:
            return ()
        found.append(Factor(axis, after / before))
    return tuple(found)


def _versus_default(speed: float, side: Side, baseline: Side, corners: Corners) -> float | None:
    first = baseline.runs[0]
    on_gpu = first.environment is not None and first.environment.cuda is not None
    if not on_gpu or baseline.precision is not Precision.FP32 or side.precision is Precision.DEFAULT:
        return None
    default = corners.speed(first.experiment.model_copy(update={"precision": Precision.DEFAULT}))
    return speed / default if default else None


def _headline(factors: tuple[Factor, ...], axes: tuple[Axis, ...], end: Experiment) -> str:
    if axes == ("precision",):
        return ""
    if not factors:
        return f"how much of it is from {_cause(axes[0], end)} is not known"
    return _told(factors, end)


def _sentence(
    factors: tuple[Factor, ...],
    other_order: tuple[Factor, ...],
    end: Experiment,
    missing: tuple[Experiment, ...],
) -> str:
    if len(factors) == 1:
        return _told(factors, end)
    lacking = " and of ".join(_named(experiment) for experiment in missing)
    if factors and other_order:
        return f"{_told(factors, end)}; the other way round, {_told(other_order, end)}"
    if factors or other_order:
        only = f"{_told(factors or other_order, end)}; the other way round is not known"
        return f"{only} without a run of {lacking}"
    return f"how the gain splits is not known without a run of {lacking}"


def _against(versus_default: float | None) -> str:
    """PyTorch's default is what most people have today."""
    if versus_default is None:
        return ""
    return f"; {times(versus_default)} times as fast as PyTorch's default, which has convolutions in TF32"


def _told(factors: tuple[Factor, ...], end: Experiment) -> str:
    if len(factors) == 1:
        return f"all of it from {_cause(factors[0].name, end)}"
    return ", ".join(_part(factor, end, is_first=not place) for place, factor in enumerate(factors))


def _part(factor: Factor, end: Experiment, *, is_first: bool) -> str:
    if is_first:
        return f"{times(factor.ratio)} times as fast from {_cause(factor.name, end)}"
    more = "more" if factor.ratio >= 1 else "that"
    return f"{times(factor.ratio)} times {more} from {_cause(factor.name, end)}"


def _cause(axis: Axis, end: Experiment) -> str:
    if axis == "precision":
        return "the precision"
    if axis == "recipe":
        return f"the {recipe_words(end.step.recipe)} recipe"
    return f"the batch of {end.batch_size:,}"


def _named(experiment: Experiment) -> str:
    recipe = recipe_words(experiment.step.recipe)
    return f"{experiment.precision.label} with the {recipe} recipe at batch {experiment.batch_size:,}"
