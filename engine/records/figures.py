"""What runs are measured by: the lines of a comparison's table, each with its unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.events import Summary
from engine.records.large_numbers import number
from engine.records.record import RunRecord

MIB_PER_GIB = 1024.0
MemoryQuantity = Literal["allocated", "resident"]


@dataclass(frozen=True)
class Figure:
    """One line of the table; values are in `unit`, shown with `digits` after the point (None: three figures).

    `has_ratio` says whether a ratio of two values means something; else their difference does. Over repeats
    a figure is the mean where `is_mean`, the geometric mean where it has a ratio, so that the values' ratio
    is the one that is shown, else the median; one that `needs_all` has none unless every repeat
    has it. `absent` stands for a value that is not there.
    """

    name: str
    title: str
    unit: str
    digits: int | None
    has_ratio: bool
    value: Callable[[RunRecord], float | None]
    is_mean: bool = False
    needs_all: bool = False
    absent: str = "–"

    @property
    def is_of_time(self) -> bool:
        """Whether it says how long something took, which a drift of the machine and other programs change."""
        return self.unit in ("samples/s", "ms", "s")

    def text(self, value: float | None) -> str:
        """The value as shown, without its unit; what diverged is shown as NaN, ∞ or a power of ten."""
        return self.absent if value is None else number(value, self.digits)

    def text_with_unit(self, value: float | None) -> str:
        """The value as shown, and its unit."""
        return f"{self.text(value)} {self.unit}" if self.unit else self.text(value)


def figures(runs: Sequence[RunRecord]) -> tuple[Figure, ...]:
    """The lines of the comparison, in the order shown; memory is in MiB where all of it is below 1 GiB."""
    peaks = [peak[1] for run in runs if (peak := training_peak(run)) is not None]
    if not peaks or max(peaks) >= MIB_PER_GIB:
        return FIGURES
    in_mib = replace(PEAK_MEMORY, unit="MiB", value=_peak_mib)
    return tuple(in_mib if figure is PEAK_MEMORY else figure for figure in FIGURES)


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


SPEED = Figure("samples_per_second", "Throughput", "samples/s", None, True, _of("samples_per_second"))
PEAK_MEMORY = Figure("peak_memory", "Peak memory", "GiB", None, True, _peak_gib)
ACCURACY = Figure(
    "accuracy", "Accuracy", "%", 1, False, _of("final_validation_accuracy", 100.0), is_mean=True
)
LOSS = Figure(
    "final_train_loss", "Mean loss, last epoch", "", 3, False, _of("final_train_loss"), is_mean=True
)

FIGURES = (
    SPEED,
    Figure("step_ms", "Step time", "ms", None, True, _of("step_ms")),
    Figure("seconds", "Training time", "s", None, True, _of("seconds")),
    PEAK_MEMORY,
    ACCURACY,
    LOSS,
    Figure("skipped_steps", "Skipped steps", "", 0, False, _of("skipped_steps")),
)
