"""The optimizer of an experiment in the form that its recipe calls for, and its loss scaler."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.experiment import Experiment

_WITH_FUSED_FORMS = ("cuda", "cpu", "xpu", "mps")


def optimizer_for(
    model: nn.Module, experiment: Experiment, *, fused: bool | None = None, capturable: bool = False
) -> torch.optim.Optimizer:
    """The experiment's optimizer for a model that lies on its device already.

    `fused` of None takes the form that the experiment names, and PyTorch's default one where it names none.
    A `capturable` one keeps its learning rate on the device, so that a CUDA graph reads it anew each step.
    """
    settings = experiment.optimizer
    is_fused = bool(settings.fused if fused is None else fused)
    parameters = list(model.parameters())
    rate: float | torch.Tensor = settings.learning_rate
    if capturable:
        rate = torch.tensor(settings.learning_rate, device=parameters[0].device)
    shared: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay}
    if is_fused:  # False would mean the form that loops over parameters, which is not the default one
        shared["fused"] = True
    if settings.name == "sgd":
        sgd = torch.optim.SGD(parameters, momentum=settings.momentum, **shared)
        if is_fused and settings.momentum:
            _begin_with_zero_momentum(sgd)
        return sgd
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(parameters, capturable=capturable, **shared)


def no_fused_form(model: nn.Module, device: torch.device) -> str | None:
    """Why the optimizer cannot be fused, as a short clause; None where it can."""
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
    # In a first step that the scaler skips, fused SGD would take memory that nobody has written for its
    # momentum. Zeros give the very update that it makes of a first step otherwise.
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
