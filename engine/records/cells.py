"""The figures of a comparison's table: one of each side, beside the baseline's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.records import intervals
from engine.records.figures import Figure
from engine.records.likeness import is_alike
from engine.records.record import RunRecord
from engine.records.sides import Side, is_in_turns
from engine.steadiness import Interval, steadiness

IntervalKind = Literal["repeats", "within run"]
Blocks = Mapping[str, NDArray[np.float64]]
_TIMED_BY_BLOCKS = ("samples_per_second", "step_ms")


@dataclass(frozen=True)
class Cell:
    """One side's figure; what does not apply is None.

    `value` is over the repeats: the geometric mean for speeds, times and memory, else the mean;
    `values` has one a repeat. `interval` is the value's (95 %), and `interval_kind` says what from: from
    repeats, or from the blocks of the only run, which says no more than how steady that run was. `ratio` is
    to the baseline, of the geometric means over the repeats, which for repeats in pairs a drift of the
    machine does not shift; `ratio_interval` is its 95 % interval, only from repeats of both sides, and of
    what takes time only where these were made in turns.
    `within_spread` says whether the difference is no larger than repeats of one side differ among themselves.
    """

    value: float | None
    values: tuple[float | None, ...]
    interval: Interval | None = None
    interval_kind: IntervalKind | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    difference: float | None = None
    within_spread: bool | None = None


@dataclass(frozen=True)
class FigureRow:
    """One figure of every side, in the order of the sides."""

    figure: Figure
    cells: tuple[Cell, ...]


def row_of(figure: Figure, sides: Sequence[Side], baseline: Side, blocks: Blocks) -> FigureRow:
    """The figure of every side against `baseline`; `blocks` are each run's block speeds by its id."""
    return FigureRow(figure, tuple(_cell(figure, side, baseline, blocks) for side in sides))


def _cell(figure: Figure, side: Side, baseline: Side, blocks: Blocks) -> Cell:
    values, base_values = _values(figure, side), _values(figure, baseline)
    value, base = _over_repeats(figure, values), _over_repeats(figure, base_values)
    interval, kind = _interval(figure, side, values, blocks)
    alone = Cell(value, values, interval, kind)
    if value is None or base is None or not is_alike(figure, side, baseline):
        return alone
    if side is baseline:
        return replace(alone, ratio=1.0 if figure.has_ratio and base else None, difference=0.0)
    ratio, ratio_interval = _ratio(figure, side, baseline) if figure.has_ratio else (None, None)
    return replace(
        alone,
        ratio=ratio,
        ratio_interval=ratio_interval,
        difference=value - base,
        within_spread=_is_within_spread(value - base, values, base_values),
    )


def _values(figure: Figure, side: Side) -> tuple[float | None, ...]:
    return tuple(figure.value(run) for run in side.runs)


def _over_repeats(figure: Figure, values: Sequence[float | None]) -> float | None:
    known = _known(values)
    if not known or (figure.needs_all and len(known) < len(values)):
        return None
    diverged = next((value for value in known if not math.isfinite(value)), None)
    if diverged is not None:
        return diverged
    if figure.is_mean:
        return statistics.fmean(known)
    typical = intervals.typical(known) if figure.has_ratio else None
    return statistics.median(known) if typical is None else typical


def _interval(
    figure: Figure, side: Side, values: Sequence[float | None], blocks: Blocks
) -> tuple[Interval | None, IntervalKind | None]:
    if len(side.runs) > 1:
        interval = intervals.value_interval(_known(values), is_mean=figure.is_mean)
        return interval, None if interval is None else "repeats"
    if figure.name not in _TIMED_BY_BLOCKS or values[0] is None:
        return None, None
    interval = _within_run(figure, side.runs[0], blocks)
    return interval, None if interval is None else "within run"


def _within_run(figure: Figure, run: RunRecord, blocks: Blocks) -> Interval | None:
    # the run's own knows how many samples each step took, which its saved columns do not
    interval = run.summary.samples_per_second_ci if run.summary is not None else None
    if interval is None and run.id in blocks:
        interval = steadiness(blocks[run.id])
    if interval is None or figure.name == "samples_per_second":
        return interval
    ms_samples = 1e3 * run.experiment.step_samples
    return ms_samples / interval[1], ms_samples / interval[0]


def _ratio(figure: Figure, side: Side, baseline: Side) -> tuple[float | None, Interval | None]:
    """The ratio and its interval, by pairs where every repeat has a partner and both have the figure."""
    values, base_values = _known(_values(figure, side)), _known(_values(figure, baseline))
    ratio = intervals.typical_ratio(values, base_values)
    if ratio is None or (figure.is_of_time and not is_in_turns(side, baseline)):
        return ratio, None
    partners = _partners(side, baseline) or []
    pairs = [(figure.value(run), figure.value(partner)) for run, partner in partners]
    whole = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if len(whole) > 1 and len(whole) == len(pairs):
        return ratio, intervals.paired_ratio_interval(*zip(*whole, strict=True))
    return ratio, intervals.ratio_interval(values, base_values)


def _partners(side: Side, baseline: Side) -> list[tuple[RunRecord, RunRecord]] | None:
    """The repeats of both sides by comparison and seed; None where they were not made in pairs."""
    mine, theirs = (
        {(run.comparison, run.experiment.seed): run for run in one.runs} for one in (side, baseline)
    )
    one_each = len(mine) == len(side.runs) and len(theirs) == len(baseline.runs)
    if not one_each or mine.keys() != theirs.keys() or any(comparison is None for comparison, _ in mine):
        return None
    return [(run, theirs[key]) for key, run in mine.items()]


def _is_within_spread(
    difference: float, values: Sequence[float | None], base_values: Sequence[float | None]
) -> bool | None:
    known = [_known(values), _known(base_values)]
    if min(map(len, known)) < 2 or not all(math.isfinite(value) for one in known for value in one):
        return None
    return abs(difference) <= max(max(one) - min(one) for one in known)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
