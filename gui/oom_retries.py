"""How a run that did not fit can be tried again with one press, by the forecast that is known for it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiment import Experiment
from engine.oom_remedies import fitting_batch, with_accumulation, with_smaller_batch
from engine.problem import Kind
from engine.records.forecasts import Forecasts
from engine.records.record import RunRecord


@dataclass(frozen=True)
class Retry:
    """What the button says, and the experiment that it runs."""

    words: str
    experiment: Experiment


def retries(run: RunRecord, forecasts: Forecasts, device_mib: float | None) -> tuple[Retry, ...]:
    """The retries of a run that ran out of memory; empty for any other, and where no forecast is known."""
    if run.problem is None or run.problem.kind is not Kind.OUT_OF_MEMORY:
        return ()
    experiment = run.experiment
    cap = experiment.memory_cap_gib
    budget_mib = device_mib if cap is None else cap * 1024
    forecast = forecasts.find(experiment)
    if forecast is None or budget_mib is None:
        return ()
    size = fitting_batch(forecast.lines, budget_mib, experiment.batch_size)
    if size is None:
        return ()
    found = [Retry(f"Try batch {size:,}", with_smaller_batch(experiment, size))]
    accumulated = with_accumulation(experiment, size)
    if accumulated is not None:
        times = accumulated.step.gradient_accumulation
        found.append(Retry(f"Accumulate {times:,} × {accumulated.batch_size:,}", accumulated))
    return tuple(found)
