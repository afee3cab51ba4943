"""Runs side by side: their figures, the ratios against a baseline, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.events import Summary
from engine.experiment import Precision, flattened
from engine.problem import ProblemError, request_problem
from engine.records.record import RunRecord, Status

MIB_PER_GIB = 1024.0
_TOO_LONG_TO_READ = 1e8
MemoryQuantity = Literal["allocated", "resident"]


@dataclass(frozen=True)
class Figure:
    """One line of the table; values are in `unit`, and shown with `digits` after the point.

    `has_ratio` says whether a ratio of two values means something; else their difference does.
    """

    name: str
    title: str
    unit: str
    digits: int
    has_ratio: bool
    value: Callable[[RunRecord], float | None]

    def text(self, value: float | None) -> str:
        """The value as shown, without its unit; what diverged is shown as NaN, ∞ or a power of ten."""
        if value is None:
            return "–"
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        shown = f"{value:,.{self.digits}f}" if abs(value) < _TOO_LONG_TO_READ else f"{value:.2e}"
        return shown.replace("-", "−").replace("e+", "e")


@dataclass(frozen=True)
class Cell:
    """A run's figure; `ratio` is value / baseline's value, `difference` value - baseline's value."""

    value: float | None
    ratio: float | None
    difference: float | None


@dataclass(frozen=True)
class FigureRow:
    """One figure of every run, in the order of the runs."""

    figure: Figure
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class SettingRow:
    """A setting that is not the same in every run; None where a run does not have it."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; `settings` are those of `all_settings` that differ between the runs."""

    runs: tuple[RunRecord, ...]
    baseline: RunRecord
    figures: tuple[FigureRow, ...]
    settings: tuple[SettingRow, ...]
    all_settings: tuple[SettingRow, ...]

    @property
    def same_settings(self) -> int:
        """How many settings all runs share."""
        return len(self.all_settings) - len(self.settings)


def compare(runs: Sequence[RunRecord], baseline_id: str) -> Comparison:
    """The runs against the one whose id is `baseline_id`. Raises ProblemError if it is not among them."""
    baseline = next((run for run in runs if run.id == baseline_id), None)
    if baseline is None:
        message = f"The baseline {baseline_id} is not among the runs to compare."
        raise ProblemError(request_problem(message, "Choose one of the runs.", key="baseline"))
    settings = [_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    rows = [SettingRow(key, tuple(one.get(key) for one in settings)) for key in keys]
    differing = tuple(row for row in rows if any(value != row.values[0] for value in row.values))
    return Comparison(
        runs=tuple(runs),
        baseline=baseline,
        figures=tuple(
            FigureRow(figure, tuple(_cell(figure, run, baseline) for run in runs)) for figure in figures(runs)
        ),
        settings=differing,
        all_settings=tuple(rows),
    )


def figures(runs: Sequence[RunRecord]) -> tuple[Figure, ...]:
    """The lines of the comparison, in the order shown; memory is in MiB where all of it is below 1 GiB."""
    peaks = [peak[1] for run in runs if (peak := training_peak(run)) is not None]
    if not peaks or max(peaks) >= MIB_PER_GIB:
        return FIGURES
    in_mib = replace(PEAK_MEMORY, unit="MiB", digits=1, value=_peak_mib)
    return tuple(in_mib if figure is PEAK_MEMORY else figure for figure in FIGURES)


def baseline_for(run: RunRecord, runs: Sequence[RunRecord]) -> RunRecord | None:
    """The FP32 run that `run` is measured against, for a column "vs FP32".

    It is the newest finished one that is the same in everything but precision and was trained on a device of
    the same name; a finished FP32 run is its own.
    """
    if run.experiment.precision is Precision.FP32 and run.status is Status.FINISHED:
        return run
    fitting = [other for other in runs if _is_baseline(other, run)]
    return max(fitting, key=lambda other: other.number, default=None)


def speed_ratio(run: RunRecord, baseline: RunRecord) -> float | None:
    """How many times as fast as the baseline the run trained."""
    return _ratio(_samples_per_second(run), _samples_per_second(baseline))


def training_peak(run: RunRecord) -> tuple[MemoryQuantity, float] | None:
    """The run's peak memory in training and what it counts, in MiB: allocated where there is a GPU."""
    summary = run.summary
    if summary is None:
        return None
    if summary.peak_allocated_mib is not None:
        return "allocated", summary.peak_allocated_mib
    if summary.peak_resident_mib is not None:
        return "resident", summary.peak_resident_mib
    return None


def _is_baseline(other: RunRecord, run: RunRecord) -> bool:
    return (
        other.experiment.precision is Precision.FP32
        and other.status is Status.FINISHED
        and _device_name(other) == _device_name(run)
        and _but_precision(other) == _but_precision(run)
    )


def _but_precision(run: RunRecord) -> dict[str, Any]:
    return {key: value for key, value in flattened(run.experiment).items() if key != "precision"}


def _device_name(run: RunRecord) -> str | None:
    return run.environment.device_name if run.environment else None


def _settings(run: RunRecord) -> dict[str, Any]:
    settings = flattened(run.experiment)
    if run.environment is not None:
        settings["device_name"] = run.environment.device_name
        settings["torch"] = run.environment.torch
    return settings


def _cell(figure: Figure, run: RunRecord, baseline: RunRecord) -> Cell:
    value, base = figure.value(run), figure.value(baseline)
    if figure.name == PEAK_MEMORY.name and not _same_quantity(run, baseline):
        return Cell(value, None, None)
    difference = None if value is None or base is None else value - base
    return Cell(value, _ratio(value, base) if figure.has_ratio else None, difference)


def _same_quantity(run: RunRecord, baseline: RunRecord) -> bool:
    mine, theirs = training_peak(run), training_peak(baseline)
    return mine is not None and theirs is not None and mine[0] == theirs[0]


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _of(name: str, scale: float = 1.0) -> Callable[[RunRecord], float | None]:
    assert name in Summary.model_fields

    def value(run: RunRecord) -> float | None:
        figure = getattr(run.summary, name) if run.summary is not None else None
        return None if figure is None else float(figure) * scale

    return value


def _peak_mib(run: RunRecord) -> float | None:
    peak = training_peak(run)
    return None if peak is None else peak[1]


def _peak_gib(run: RunRecord) -> float | None:
    peak = _peak_mib(run)
    return None if peak is None else peak / MIB_PER_GIB


_samples_per_second = _of("samples_per_second")

PEAK_MEMORY = Figure("peak_memory", "Peak memory", "GiB", 2, True, _peak_gib)

FIGURES = (
    Figure("samples_per_second", "Throughput", "samples/s", 0, True, _samples_per_second),
    Figure("step_ms", "Step time", "ms", 1, True, _of("step_ms")),
    Figure("seconds", "Training time", "s", 1, True, _of("seconds")),
    PEAK_MEMORY,
    Figure("accuracy", "Accuracy", "%", 1, False, _of("final_validation_accuracy", 100.0)),
    Figure("final_train_loss", "Final training loss", "", 3, False, _of("final_train_loss")),
    Figure("skipped_steps", "Skipped steps", "", 0, False, _of("skipped_steps")),
)
