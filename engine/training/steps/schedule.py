"""The learning rate of each optimizer step, in closed form."""

from __future__ import annotations

import math

from engine.experiment import Optimizer, Schedule

# PyTorch's own defaults for one-cycle: it begins at a 25th of the peak and ends at a 10,000th of that.
_ONE_CYCLE_BEGIN, _ONE_CYCLE_END = 1 / 25, 1 / 250_000


def learning_rate_at(
    step: int, optimizer: Optimizer, schedule: Schedule, total_steps: int, steps_per_epoch: int
) -> float:
    """The learning rate of one optimizer step; `step` counts from 0.

    The curves are those of `torch.optim.lr_scheduler`: LinearLR for the warm-up (its first step has one part
    in `warmup_steps + 1`, the step after it the peak), then CosineAnnealingLR over the steps that are left,
    OneCycleLR over all of them, or StepLR, whose epochs count from the run's begin.
    """
    peak = optimizer.learning_rate
    if step < schedule.warmup_steps:
        return peak * (step + 1) / (schedule.warmup_steps + 1)
    match schedule.name:
        case "cosine":
            return peak * _cosine(step - schedule.warmup_steps, schedule, total_steps)
        case "one-cycle":
            return peak * _one_cycle(step, schedule, total_steps)
        case "step":
            decays = step // (schedule.decay_epochs * steps_per_epoch)
            return peak * schedule.decay_factor**decays
        case "constant":
            return peak


def _cosine(step: int, schedule: Schedule, total_steps: int) -> float:
    last = total_steps - 1 - schedule.warmup_steps
    return _annealed(1.0, schedule.final_fraction, step / last) if last > 0 else 1.0


def _one_cycle(step: int, schedule: Schedule, total_steps: int) -> float:
    top, last = schedule.rise_fraction * total_steps - 1, total_steps - 1
    if step < top:
        return _annealed(_ONE_CYCLE_BEGIN, 1.0, step / top)
    return _annealed(1.0, _ONE_CYCLE_END, (step - top) / (last - top))


def _annealed(begin: float, end: float, fraction: float) -> float:
    """Half a cosine wave from `begin` to `end`, at a fraction (0 to 1) of the way."""
    return end + (begin - end) * (1 + math.cos(math.pi * min(fraction, 1.0))) / 2
