"""The optimizer of a recipe, its loss scaler, and the learning rate of each step in closed form."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import Experiment, Optimizer, Schedule

# PyTorch's defaults for one-cycle: it begins at a 25th of the peak and ends at a 10,000th of that.
_ONE_CYCLE_BEGIN, _ONE_CYCLE_END = 1 / 25, 1 / 250_000


def learning_rate_at(
    step: int, optimizer: Optimizer, schedule: Schedule, total_steps: int, steps_per_epoch: int
) -> float:
    """The learning rate of one optimizer step; `step` counts from 0.

    The curves are those of `torch.optim.lr_scheduler`: LinearLR for the warm-up (its first step has one part
    in `warmup_steps + 1`, the step after it the peak), then CosineAnnealingLR over the remaining steps,
    OneCycleLR over all steps, or StepLR, whose epochs count from the run's start.
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
    """The value at a fraction (0 to 1) of half a cosine wave from `begin` to `end`."""
    return end + (begin - end) * (1 + math.cos(math.pi * min(fraction, 1.0))) / 2


_WITH_FUSED_FORMS = ("cuda", "cpu", "xpu", "mps")


def optimizer_for(
    model: nn.Module, experiment: Experiment, *, fused: bool | None = None, capturable: bool = False
) -> torch.optim.Optimizer:
    """The experiment's optimizer for a model that is already on its device.

    With `fused` None the experiment chooses the form, and PyTorch where the experiment does not. If
    `capturable`, the learning rate is on the device, where a CUDA graph reads it at every step.
    """
    settings = experiment.optimizer
    is_fused = bool(settings.fused if fused is None else fused)
    parameters = list(model.parameters())
    rate: float | torch.Tensor = settings.learning_rate
    if capturable:
        rate = torch.tensor(settings.learning_rate, device=parameters[0].device)
    shared: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay}
    if is_fused:  # False would mean the form that loops over parameters, not the default
        shared["fused"] = True
    if settings.name == "sgd":
        sgd = torch.optim.SGD(parameters, momentum=settings.momentum, **shared)
        if is_fused and settings.momentum:
            _begin_with_zero_momentum(sgd)
        return sgd
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(parameters, capturable=capturable, **shared)


def no_fused_form(model: nn.Module, device: torch.device) -> str | None:
    """The reason why the optimizer cannot be fused, as a short clause; None where it can."""
    if device.type not in _WITH_FUSED_FORMS:
        return f"PyTorch has no fused optimizer for {device.type}"
    if not all(parameter.is_floating_point() for parameter in model.parameters()):
        return "a fused optimizer takes parameters of floating point only"
    return None


def scaler_for(experiment: Experiment, device: torch.device) -> torch.amp.GradScaler:
    """The experiment's loss scaler; without one it is disabled and passes everything through."""
    settings = experiment.scaler
    return torch.amp.GradScaler(
        device=device.type,
        init_scale=settings.init_scale,
        growth_factor=settings.growth_factor,
        backoff_factor=settings.backoff_factor,
        growth_interval=settings.growth_interval,
        enabled=experiment.uses_scaler,
    )


def _begin_with_zero_momentum(optimizer: torch.optim.SGD) -> None:
    # If the scaler skips the first step, fused SGD would use uninitialized memory as its momentum. Zeros give
    # the same update as its usual first step.
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
