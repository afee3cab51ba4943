"""How a run that did not fit into memory can be tried again. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.experiment import Experiment
from engine.memory_lines import MemoryLine, largest_batch
from engine.problem import Problem

USABLE_FRACTION = 0.95
"""What of a budget a forecast may fill: the rest is lost between the allocator's blocks and to the device."""


def fitting_batch(lines: Sequence[MemoryLine], budget_mib: float, failed_batch: int) -> int | None:
    """The largest batch below the one that failed that `budget_mib` is enough for; None where none is."""
    largest = largest_batch(lines, USABLE_FRACTION * budget_mib)
    if largest is None or largest < 1 or failed_batch < 2:
        return None
    # it failed whatever the forecast says of it, so the answer is clearly less
    return min(largest, max(1, math.floor(0.9 * failed_batch)))


def with_smaller_batch(experiment: Experiment, batch_size: int) -> Experiment:
    """The experiment with a batch that fits: fewer samples in each optimizer step, all else the same."""
    return experiment.model_copy(update={"batch_size": batch_size})


def with_accumulation(experiment: Experiment, batch_size: int) -> Experiment | None:
    """The experiment in batches of at most `batch_size` that trains on as many samples a step as before.

    That takes a batch which divides them evenly; None where there is none larger than one sample.
    """
    samples = experiment.step_samples
    fitting = next((size for size in range(min(batch_size, samples), 1, -1) if samples % size == 0), None)
    if fitting is None:
        return None
    step = experiment.step.model_copy(update={"gradient_accumulation": samples // fitting})
    return experiment.model_copy(update={"batch_size": fitting, "step": step})


def with_remedy(problem: Problem, experiment: Experiment, batch_size: int) -> Problem:
    """The out-of-memory problem with a remedy that names the batch which fits by the forecast."""
    accumulated = with_accumulation(experiment, batch_size)
    remedy = f"By the forecast a batch of {batch_size:,} fits: set batch_size to it"
    if accumulated is not None:
        times = accumulated.step.gradient_accumulation
        remedy += (
            f", or to {accumulated.batch_size:,} with step.gradient_accumulation {times:,}, "
            f"which trains on {experiment.step_samples:,} samples a step as before"
        )
    return problem.model_copy(
        update={
            "remedy": f"{remedy}.",
            "key": "batch_size",
            "value": str(experiment.batch_size),
            "allowed": f"at most {batch_size:,}",
        }
    )
