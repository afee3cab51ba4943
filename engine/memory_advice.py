"""Advice after an out-of-memory: a batch that fits by the forecast, corrected by measured peaks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.experiment.titles import named
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Event, Failed, Finished, Started
from engine.protocol.memory_lines import MemoryLine, largest_batch
from engine.store.saved.forecasts import Forecasts

USABLE_FRACTION = 0.95
"""Usable share of a budget: the rest is lost between the allocator's blocks and to the device."""


def fitting_batch(lines: Sequence[MemoryLine], budget_mib: float, failed_batch: int) -> int | None:
    """The largest batch below the failed one that fits into `budget_mib`; None where none does."""
    largest = largest_batch(lines, USABLE_FRACTION * budget_mib)
    if largest is None or largest < 1 or failed_batch < 2:
        return None
    # it failed whatever the forecast says, so propose clearly less
    return min(largest, max(1, math.floor(0.9 * failed_batch)))


def with_smaller_batch(experiment: Experiment, batch_size: int) -> Experiment:
    """The experiment with a smaller batch: fewer samples per optimizer step, all else the same."""
    return experiment.model_copy(update={"batch_size": batch_size})


def with_accumulation(experiment: Experiment, batch_size: int) -> Experiment | None:
    """The experiment in batches of at most `batch_size`, with as many samples per step as before.

    The batch must divide them evenly; None where only a single sample would.
    """
    samples = experiment.step_samples
    fitting = next((size for size in range(min(batch_size, samples), 1, -1) if samples % size == 0), None)
    if fitting is None:
        return None
    step = experiment.step.model_copy(update={"gradient_accumulation": samples // fitting})
    return experiment.model_copy(update={"batch_size": fitting, "step": step})


def with_remedy(problem: Problem, experiment: Experiment, batch_size: int) -> Problem:
    """The out-of-memory problem with a remedy that names a batch that fits by the forecast."""
    accumulated = with_accumulation(experiment, batch_size)
    remedy = f"By the forecast a batch of {batch_size:,} fits: set {named('batch_size')} to it"
    if accumulated is not None:
        times = accumulated.step.gradient_accumulation
        remedy += (
            f", or to {accumulated.batch_size:,} with {named('step.gradient_accumulation')} {times:,}, "
            f"which trains on {experiment.step_samples:,} samples per step as before"
        )
    return problem.model_copy(
        update={
            "remedy": f"{remedy}.",
            "key": "batch_size",
            "value": str(experiment.batch_size),
            "allowed": f"at most {batch_size:,}",
        }
    )


class MemoryAdvice:
    """Follows one run from outside its worker, which may have died of the out-of-memory."""

    def __init__(self, experiment: Experiment, forecasts: Forecasts) -> None:
        self._experiment = experiment
        self._forecasts = forecasts
        self._device_mib: float | None = None

    def with_remedy(self, event: Event) -> Event:
        """The event; an out-of-memory gets a remedy that names a batch that fits, if one is known."""
        if isinstance(event, Started):
            self._experiment = event.experiment
            self._device_mib = event.environment.device_memory_mib
        elif isinstance(event, Finished):
            self._forecasts.learn_run(self._experiment, event.summary)
        elif isinstance(event, Failed) and event.problem.kind is Kind.OUT_OF_MEMORY:
            return self._answered(event)
        return event

    def _answered(self, failed: Failed) -> Failed:
        forecast, budget_mib = self._forecasts.find(self._experiment), self._budget_mib()
        if forecast is None or budget_mib is None:
            return failed
        fits = fitting_batch(forecast.lines, budget_mib, self._experiment.batch_size)
        if fits is None:
            return failed
        return failed.model_copy(update={"problem": with_remedy(failed.problem, self._experiment, fits)})

    def _budget_mib(self) -> float | None:
        cap = self._experiment.memory_cap_gib
        return self._device_mib if cap is None else cap * MIB_PER_GIB
