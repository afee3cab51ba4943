"""Where a gain comes from: the factors of a ratio due to precision, optimizations and batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from engine import statistics
from engine.compare.evidence import was_slowed_down
from engine.compare.metrics import SPEED
from engine.compare.sides import (
    AXES,
    Axis,
    Side,
    all_runs,
    differing_axes,
    is_same_machine,
    speed_equivalent,
    with_axes,
)
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import ProblemError
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_words
from engine.words.numbers import times


@dataclass(frozen=True)
class Factor:
    """The speedup by one change alone (precision, optimizations or batch size): 1.5 is 1.5 times as fast."""

    name: Axis
    ratio: float


@dataclass(frozen=True)
class Split:
    """A side's speedup over the baseline, `total`, split into the product of `factors`, one per change.

    `factors` is in the order in which the changes are made. `other_order` makes the first change last. Either
    is empty if a run that it needs is missing. `missing` are the experiments of such runs. `versus_default`
    is the gain over PyTorch's default (convolutions in TF32), if a run with it exists. `sentence` has no full
    stop.
    """

    total: float
    factors: tuple[Factor, ...]
    other_order: tuple[Factor, ...]
    missing: tuple[Experiment, ...]
    versus_default: float | None
    sentence: str

    @property
    def is_of_several(self) -> bool:
        """True if more than one change was made."""
        return bool(self.other_order or self.missing)

    @property
    def precision_ratio(self) -> float | None:
        """The precision's factor under the side's own recipe and batch, or None if unknown."""
        parts = {factor.name: factor.ratio for factor in self.other_order}
        return parts.get("precision")


MOST_OTHERS = 1_000  # how many of the newest saved runs are searched for speeds


class KnownSpeeds:
    """Looks up speeds relative to the baseline, from undisturbed runs on the baseline's machine.

    The speed of a side is the ratio that the comparison shows, so both always agree. Repeats are averaged by
    their geometric mean.
    """

    def __init__(
        self,
        baseline: Side,
        sides: Sequence[Side],
        ratios: Mapping[str, float | None],
        others: Sequence[RunRecord] = (),
    ) -> None:
        self._first = baseline.runs[0]
        self._base = _mean_speed(baseline.runs)
        self._sides, self._ratios, self._others = sides, ratios, others

    def ratio(self, experiment: Experiment) -> float | None:
        """Return the speed relative to the baseline, or None without a run with equivalent settings."""
        key = speed_equivalent(experiment)
        if key in self._side_ratios:
            return self._side_ratios[key]
        speed = _mean_speed(self._runs_by_settings.get(key, []))
        return speed / self._base if speed and self._base else None

    @cached_property
    def _side_ratios(self) -> dict[Experiment, float]:
        ratios: dict[Experiment, float] = {}
        for side in self._sides:
            ratio = self._ratios.get(side.id)
            if ratio and all(map(self._may_count, side.runs)):
                ratios.setdefault(speed_equivalent(side.runs[0].experiment), ratio)
        return ratios

    @cached_property
    def _runs_by_settings(self) -> dict[Experiment, list[RunRecord]]:
        known = {run.id: run for run in (*all_runs(self._sides), *self._others) if self._may_count(run)}
        runs: dict[Experiment, list[RunRecord]] = {}
        for run in known.values():
            runs.setdefault(speed_equivalent(run.experiment), []).append(run)
        return runs

    def _may_count(self, run: RunRecord) -> bool:
        if run.status is not Status.FINISHED:
            return False
        try:
            mine, theirs = run.experiment, self._first.experiment
            machine, other, _ = run.environment, self._first.environment, run.summary
        except (ProblemError, ValueError):
            # the comparison ignores damaged runs and those of newer versions
            return False
        if machine is None or other is None or not is_same_machine(run, self._first):
            return False
        return (
            (mine.model, mine.dataset) == (theirs.model, theirs.dataset)
            and (machine.cuda, machine.driver) == (other.cuda, other.driver)
            and SPEED.value(run) is not None
            and not was_slowed_down(run.summary)
        )


def split_of(side: Side, baseline: Side, speeds: KnownSpeeds, total: float | None) -> Split | None:
    """Return how the gain `total` of `side` over `baseline` splits.

    Return None for the baseline itself, without a gain, if more than precision, recipe and batch differs, and
    if only the precision differs and no run of PyTorch's default is known.
    """
    start, end = baseline.runs[0].experiment, side.runs[0].experiment
    axes = differing_axes(start, end)
    differ_in_axes_alone = speed_equivalent(with_axes(start, AXES, end)) == speed_equivalent(end)
    if not axes or not total or not differ_in_axes_alone:
        return None
    if not is_same_machine(side.runs[0], baseline.runs[0]):
        return None
    versus_default = _versus_default(total, side, baseline, speeds)
    if axes == ("precision",) and versus_default is None:
        return None
    orders = (axes, (*axes[1:], axes[0]))
    factors, other_order = (_factors(order, total, speeds, start, end) for order in orders)
    missing = {
        speed_equivalent(corner): corner
        for order in orders
        for corner in _experiments_between(order, start, end)
        if speeds.ratio(corner) is None
    }
    sentence = _split_sentence(factors, other_order, end, tuple(missing.values()))
    if versus_default is not None:
        than = "Relative to PyTorch's default (convolutions in TF32)"
        sentence += f". {than}: {times(versus_default)} times as fast"
    return Split(
        total=total,
        factors=factors,
        other_order=other_order if len(axes) > 1 else (),
        missing=tuple(missing.values()),
        versus_default=versus_default,
        sentence=sentence,
    )


def _mean_speed(runs: Sequence[RunRecord]) -> float | None:
    speeds = [speed for run in runs if (speed := SPEED.value(run)) is not None]
    return statistics.geometric_mean(speeds)


def _experiments_between(order: Sequence[Axis], start: Experiment, end: Experiment) -> list[Experiment]:
    return [with_axes(start, order[:count], end) for count in range(1, len(order))]


def _factors(
    order: Sequence[Axis], total: float, speeds: KnownSpeeds, start: Experiment, end: Experiment
) -> tuple[Factor, ...]:
    ratios = [1.0, *(speeds.ratio(corner) for corner in _experiments_between(order, start, end)), total]
    factors = []
    for axis, (before, after) in zip(order, pairwise(ratios), strict=True):
        if not before or after is None:
            return ()
        factors.append(Factor(axis, after / before))
    return tuple(factors)


def _versus_default(total: float, side: Side, baseline: Side, speeds: KnownSpeeds) -> float | None:
    first = baseline.runs[0]
    on_gpu = first.environment is not None and first.environment.cuda is not None
    if not on_gpu or baseline.precision is not Precision.FP32 or side.precision is Precision.DEFAULT:
        return None
    default = speeds.ratio(first.experiment.model_copy(update={"precision": Precision.DEFAULT}))
    return total / default if default else None


def _split_sentence(
    factors: tuple[Factor, ...],
    other_order: tuple[Factor, ...],
    end: Experiment,
    missing: tuple[Experiment, ...],
) -> str:
    if len(factors) == 1:
        return _clause(factors, end)
    lacking = " and ".join(
        f"{run.precision.label} ({recipe_words(run.step.recipe)}, batch size {run.batch_size:,})"
        for run in missing
    )
    if factors and other_order:
        return f"{_clause(factors, end)}. In the other order: {_clause(other_order, end)}"
    if factors or other_order:
        return f"{_clause(factors or other_order, end)}. Run {lacking} to see the other order"
    return f"run {lacking} to see how the gain splits"


def _clause(factors: tuple[Factor, ...], end: Experiment) -> str:
    if len(factors) == 1:
        return f"all of it from {_change_words(factors[0].name, end)}"
    leads = ["", *("another " if factor.ratio >= 1 else "but only " for factor in factors[1:])]
    return ", ".join(
        f"{lead}{times(factor.ratio)} times as fast from {_change_words(factor.name, end)}"
        for lead, factor in zip(leads, factors, strict=True)
    )


def _change_words(axis: Axis, end: Experiment) -> str:
    if axis == "precision":
        return "the precision"
    if axis == "recipe":
        return f"optimizations ({recipe_words(end.step.recipe)})"
    return f"the batch size of {end.batch_size:,}"
