"""The metrics of a comparison, one row per metric, with unit, interval and ratio to the baseline.

A ratio is given only if both sides measure the same quantity.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from engine import statistics as intervals
from engine.compare.evidence import speed_interval
from engine.compare.sides import Side, allows_interval, paired_repeats, pairs_on_nodes
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Summary
from engine.protocol.summary import Energy
from engine.statistics import Interval, known_values
from engine.store.record import RunRecord, Status
from engine.words.names import sample_unit, speed_unit
from engine.words.numbers import number, unit_suffix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MemoryQuantity = Literal["allocated", "resident"]

_OF_ENERGY = ("energy", "net_energy")


class AnyRun(Protocol):
    """A run with its settings, and a summary once it has ended: a saved run or one in progress."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def summary(self) -> Summary | None: ...


@dataclass(frozen=True)
class Metric:
    """A metric of runs, such as speed or peak memory: its title, unit, digits, and how to read it from a run.

    `value` reads a saved run, and, for metrics of a summary, also one in progress.

    `digits` are decimals, None for three significant digits. Over repeats, a metric with `has_ratio` is the
    geometric mean, so that the values give the ratio shown, one with `is_mean` the arithmetic mean, and any
    other the median. With `needs_all` it is absent unless every repeat has a value.
    """

    name: str
    title: str
    unit: str
    digits: int | None
    has_ratio: bool
    value: Callable[[Any], float | None]
    is_mean: bool = False
    needs_all: bool = False
    absent: str = "–"

    @property
    def is_of_time(self) -> bool:
        """True for speed, time and energy, which other programs and drift of the machine affect."""
        times = ("samples_per_second", "step_ms", "seconds", "seconds_to_accuracy")
        return self.name in (*times, *_OF_ENERGY)

    def text(self, value: float | None) -> str:
        """Return the value as shown, without unit. Diverged values are NaN, ∞ or a power of ten."""
        return self.absent if value is None else number(value, self.digits)

    def text_with_unit(self, value: float | None) -> str:
        return f"{self.text(value)}{unit_suffix(self.unit)}"

    def difference_text(self, value: float, difference: float) -> str:
        """Return the difference of two values as rounded for display: "+0.001" between 1.4685 and 1.4683."""
        if self.digits is not None and math.isfinite(difference):
            difference = round(value, self.digits) - round(value - difference, self.digits)
        sign = "−" if difference < 0 else "+" if difference > 0 else ""
        return f"{sign}{self.text(abs(difference))}"


def shown_metrics(runs: Sequence[AnyRun], datasets: Iterable[str] = ()) -> tuple[Metric, ...]:
    """Return the metrics of a comparison in display order, in units that suit these runs.

    Samples are called images if all runs, and the `datasets` of runs that have not started, have images, and
    the throughput of scripts without a known batch is in steps. Memory is in MiB if all values are below
    1 GiB. Energy and unchanged weights are omitted if no run has them, and the time of scripts that were
    ended after their steps.
    """
    scripts = [run.experiment for run in runs if run.experiment.is_script]
    peaks = [peak[1] for run in runs if (peak := training_peak(run)) is not None]
    fitting = {SPEED: replace(SPEED, unit=speed_unit((run.experiment for run in runs), datasets))}
    if scripts and len(scripts) == len(runs):
        fitting[LOSS] = replace(LOSS, title="Loss at the end")
    if peaks and max(peaks) < MIB_PER_GIB:
        fitting[PEAK_MEMORY] = replace(PEAK_MEMORY, unit="MiB", value=partial(_peak, unit_mib=1.0))
    absent = [] if any(energy_of(run) is not None for run in runs) else [*_ENERGIES]
    absent += [] if any(UNCHANGED.value(run) is not None for run in runs) else [UNCHANGED]
    absent += [SECONDS] if any(not script.command.whole for script in scripts) else []
    shown = (metric for metric in METRICS if metric not in absent)
    return tuple(fitting.get(metric, metric) for metric in shown)


def training_peak(run: AnyRun) -> tuple[MemoryQuantity, float] | None:
    """Return the kind of the run's peak memory and its MiB: allocated on a GPU, else resident."""
    allocated, resident = _summary_value("peak_allocated_mib")(run), _summary_value("peak_resident_mib")(run)
    if allocated is not None:
        return "allocated", allocated
    return None if resident is None else ("resident", resident)


def _summary_value(name: str, scale: float = 1.0) -> Callable[[AnyRun], float | None]:
    assert name in Summary.model_fields

    def value(run: AnyRun) -> float | None:
        recorded = getattr(run.summary, name) if run.summary is not None else None
        return None if recorded is None else float(recorded) * scale

    return value


def _peak(run: AnyRun, unit_mib: float) -> float | None:
    peak = training_peak(run)
    return None if peak is None else peak[1] / unit_mib


def energy_of(run: AnyRun) -> Energy | None:
    """Return the energy of the run's measured steps, in joules. None if it was not measured."""
    return run.summary.energy if run.summary is not None else None


def _energy(run: AnyRun) -> float | None:
    energy = energy_of(run)
    return None if energy is None else energy.per_thousand_samples()


def _net_energy(run: AnyRun) -> float | None:
    energy = energy_of(run)
    net = None if energy is None else energy.net_joules
    return None if energy is None or net is None else 1e3 * net / energy.samples


SPEED = Metric(
    "samples_per_second", "Throughput", "samples/s", None, True, _summary_value("samples_per_second")
)
STEP_TIME = Metric("step_ms", "Step time", "ms", None, True, _summary_value("step_ms"))
SECONDS = Metric("seconds", "Training time", "s", None, True, _summary_value("seconds"))
PEAK_MEMORY = Metric("peak_memory", "Peak memory", "GiB", None, True, partial(_peak, unit_mib=MIB_PER_GIB))
_JOULES = "J/1,000 samples"
ENERGY = Metric("energy", "Energy", _JOULES, None, True, _energy)
NET_ENERGY = Metric("net_energy", "Energy above idle", _JOULES, None, True, _net_energy)
_ENERGIES = (ENERGY, NET_ENERGY)
UNCHANGED = Metric(
    "unchanged_weights",
    "Weights unchanged by a step",
    "%",
    1,
    False,
    _summary_value("unchanged_weights_fraction", 100.0),
    is_mean=True,
)
ACCURACY = Metric(
    "accuracy", "Accuracy", "%", 1, False, _summary_value("final_validation_accuracy", 100.0), is_mean=True
)
LOSS = Metric(
    "final_train_loss",
    "Mean loss, last epoch",
    "",
    3,
    False,
    _summary_value("final_train_loss"),
    is_mean=True,
)

SKIPPED = Metric("skipped_steps", "Skipped steps", "", 0, False, _summary_value("skipped_steps"))
DATA_WAIT = Metric(
    "data_wait", "Waiting for data", "% of the time", 1, False, _summary_value("data_wait_fraction", 100.0)
)
"""Shown while a run trains and in its details, not in the table of a comparison."""

METRICS = (
    SPEED,
    STEP_TIME,
    SECONDS,
    PEAK_MEMORY,
    *_ENERGIES,
    ACCURACY,
    LOSS,
    SKIPPED,
    UNCHANGED,
)


def is_comparable(metric: Metric, side: Side, baseline: Side) -> bool:
    """Return True if a metric of two sides measures the same quantity.

    Not comparable are allocated and resident memory, samples or memory of images and of text, samples and
    steps of scripts, times of trainings of different lengths unless they are whole scripts, energy of two
    devices, accuracy on two datasets, and the learning of a stopped run and a complete one.
    """
    return is_comparable_across(metric, (*side.runs, *baseline.runs))


def is_comparable_across(metric: Metric, runs: Iterable[RunRecord]) -> bool:
    """Return True if a metric of all these runs measures the same quantity, as in `is_comparable`."""
    return len({_cut_short_count(metric.name, run) for run in runs if metric.value(run) is not None}) <= 1


def _cut_short_count(name: str, run: RunRecord) -> object:
    experiment, steps = run.experiment, run.summary.steps if run.summary is not None else 0
    # texts of different lengths are different samples
    sample: object = experiment.sequence_length if experiment.dataset.task == "language" else None
    if experiment.is_script:
        sample = sample_unit(experiment)
    if experiment.precision is Precision.FP8 and experiment.device == "cpu" and name not in _OF_LEARNING:
        # emulated: its time and memory are those of no device, so they are compared with none
        return run.id
    if name == SPEED.name:
        return sample
    if name == "step_ms":
        return sample, experiment.step_samples
    if name == "seconds" and experiment.command.whole and run.status is Status.FINISHED:
        # a whole script is compared, however many steps it has
        return "whole"
    if name == "seconds":
        return sample, steps * experiment.step_samples
    if name == PEAK_MEMORY.name:
        peak = training_peak(run)
        return peak and (peak[0], experiment.dataset.task)
    if name in _OF_ENERGY:
        energy, environment = energy_of(run), run.environment
        return sample, energy and energy.source, environment and environment.device_name
    cut_short_at = None if run.status is Status.FINISHED else steps * experiment.step_samples
    if name in _OF_LEARNING:
        smoothing = experiment.label_smoothing if name == LOSS.name else None
        return experiment.dataset, experiment.path, smoothing, cut_short_at
    return cut_short_at if name == "skipped_steps" else None


_OF_LEARNING = (ACCURACY.name, LOSS.name)
IntervalKind = Literal["repeats", "within run"]
Blocks: TypeAlias = "Mapping[str, NDArray[np.float64]]"
_TIMED_BY_BLOCKS = ("samples_per_second", "step_ms")


@dataclass(frozen=True)
class MetricCell:
    """The value of one metric on one side of a comparison, over its repeats. None where it does not apply.

    `interval` (95%) comes from repeats, or, for a single run, from its blocks, which show only how steady it
    was. `ratio` is to the baseline, of geometric means. `ratio_interval` (95%) needs repeats of both sides.
    `within_spread`: the difference is at most the spread between repeats of one side. None if unknown,
    also for scripts whose repeats are all equal. `text` is a value that is not a number.
    """

    value: float | None
    values: tuple[float | None, ...]
    interval: Interval | None = None
    interval_kind: IntervalKind | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    difference: float | None = None
    within_spread: bool | None = None
    text: str = ""

    @property
    def known(self) -> list[float]:
        """The values of the repeats that have one."""
        return known_values(self.values)


@dataclass(frozen=True)
class MetricRow:
    """One metric of a comparison, with a cell per side in the order of the sides."""

    metric: Metric
    cells: tuple[MetricCell, ...]


def metric_row(metric: Metric, sides: Sequence[Side], baseline: Side, blocks: Blocks) -> MetricRow:
    """Return the metric of every side relative to `baseline`. `blocks` are block speeds by run id."""
    return MetricRow(metric, tuple(_cell(metric, side, baseline, blocks) for side in sides))


def own_cell(metric: Metric, side: Side, blocks: Blocks) -> MetricCell:
    """Return the metric of one side with its interval, without a comparison."""
    values = _run_values(metric, side)
    interval, kind = _value_interval(metric, side, values, blocks)
    return MetricCell(_over_repeats(metric, values), values, interval, kind)


def _cell(metric: Metric, side: Side, baseline: Side, blocks: Blocks) -> MetricCell:
    cell, base_values = own_cell(metric, side, blocks), _run_values(metric, baseline)
    value, base = cell.value, _over_repeats(metric, base_values)
    if value is None or base is None or not is_comparable(metric, side, baseline):
        return cell
    if side is baseline:
        return replace(cell, ratio=1.0 if metric.has_ratio and base else None, difference=0.0)
    ratio, ratio_interval = _ratio_interval(metric, side, baseline) if metric.has_ratio else (None, None)
    return replace(
        cell,
        ratio=ratio,
        ratio_interval=ratio_interval,
        difference=value - base,
        within_spread=_is_within_spread(value - base, cell.values, base_values, is_script=side.is_script),
    )


def _run_values(metric: Metric, side: Side) -> tuple[float | None, ...]:
    return tuple(metric.value(run) for run in side.runs)


def _over_repeats(metric: Metric, values: Sequence[float | None]) -> float | None:
    known = known_values(values)
    if not known or (metric.needs_all and len(known) < len(values)):
        return None
    diverged = next((value for value in known if not math.isfinite(value)), None)
    if diverged is not None:
        return diverged
    if metric.is_mean:
        return statistics.fmean(known)
    typical = intervals.geometric_mean(known) if metric.has_ratio else None
    return statistics.median(known) if typical is None else typical


def _value_interval(
    metric: Metric, side: Side, values: Sequence[float | None], blocks: Blocks
) -> tuple[Interval | None, IntervalKind | None]:
    if len(side.runs) > 1:
        interval = intervals.value_interval(known_values(values), is_mean=metric.is_mean)
        return interval, None if interval is None else "repeats"
    run = side.runs[0]
    interval = speed_interval(run, blocks.get(run.id))
    if metric.name not in _TIMED_BY_BLOCKS or values[0] is None or interval is None:
        return None, None
    if metric.name == "step_ms":
        ms_samples = 1e3 * run.experiment.step_samples
        if run.experiment.is_script:
            # it may accumulate gradients
            ms_samples = values[0] * (SPEED.value(run) or 0.0)
        interval = ms_samples / interval[1], ms_samples / interval[0]
    return interval, "within run"


def _ratio_interval(metric: Metric, side: Side, baseline: Side) -> tuple[float | None, Interval | None]:
    values, base_values = (
        known_values(_run_values(metric, side)),
        known_values(_run_values(metric, baseline)),
    )
    partners = pairs_on_nodes(side, baseline) if metric.is_of_time else None
    if partners is not None:
        # a slower node slows down both partners, and leaves their ratio as it is
        values, base_values = _complete(metric, partners)
    ratio = intervals.ratio_of_means(values, base_values)
    if ratio is None or (metric.is_of_time and not allows_interval(side, baseline)):
        return ratio, None
    if partners is None:
        pairs = paired_repeats(side, baseline) or []
        mine, theirs = _complete(metric, pairs)
        if len(mine) < 2 or len(mine) < len(pairs):
            return ratio, intervals.ratio_interval(values, base_values)
        values, base_values = mine, theirs
    return ratio, intervals.paired_ratio_interval(values, base_values)


def _complete(metric: Metric, pairs: Sequence[tuple[RunRecord, ...]]) -> tuple[list[float], list[float]]:
    values = [(metric.value(run), metric.value(partner)) for run, partner in pairs]
    known = [(mine, theirs) for mine, theirs in values if mine is not None and theirs is not None]
    return [mine for mine, _ in known], [theirs for _, theirs in known]


def _is_within_spread(
    difference: float,
    values: Sequence[float | None],
    base_values: Sequence[float | None],
    *,
    is_script: bool,
) -> bool | None:
    known = [known_values(values), known_values(base_values)]
    if min(map(len, known)) < 2 or not all(math.isfinite(value) for repeats in known for value in repeats):
        return None
    spread = max(max(repeats) - min(repeats) for repeats in known)
    # all runs of a script with a fixed seed end alike, and show no variation
    return None if is_script and difference and not spread else abs(difference) <= spread
