"""One optimizer step, and the figures of it that stay on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from engine.experiment import Experiment, Precision
from engine.training.precision import autocast

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# Each a tensor of no dimensions on the device: reading one would make the host wait for it.
Figures = dict[str, torch.Tensor]


class PlainStep:
    """The step as PyTorch's own guide to automatic mixed precision writes it.

    Nothing here waits for the device but `GradScaler.step`, which reads found_inf once a step for an
    optimizer that is not fused: that wait belongs to the plain recipe, and is measured with it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_function: LossFunction,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        *,
        device: torch.device,
        precision: Precision,
        clip_norm: float | None,
    ) -> None:
        self._model = model
        self._loss_function = loss_function
        self._optimizer = optimizer
        self._scaler = scaler
        self._device = device
        self._precision = precision
        self._clip_norm = clip_norm
        self._one = torch.ones((), device=device)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the figures that each step gives."""
        scaled = ("grad_scale", "found_inf") if self._scaler.is_enabled() else ()
        clipped = () if self._clip_norm is None else ("grad_norm",)
        return ("loss", *scaled, *clipped)

    def __call__(self, inputs: torch.Tensor, targets: torch.Tensor) -> Figures:
        """Trains on one batch. The grad scale is the one this step used; the norm is before clipping."""
        figures: Figures = {}
        self._optimizer.zero_grad(set_to_none=True)
        with autocast(self._precision, self._device):
            loss = self._loss_function(self._model(inputs), targets)
        figures["loss"] = loss.detach()
        if self._scaler.is_enabled():
            # The scale itself: `get_scale()` would wait for the device.
            figures["grad_scale"] = self._scaler.scale(self._one)
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self._scaler.unscale_(self._optimizer)
        if self._clip_norm is not None:
            # Raising on a non-finite norm would wait; the scaler skips such a step anyway.
            figures["grad_norm"] = clip_grad_norm_(
                self._model.parameters(), self._clip_norm, error_if_nonfinite=False
            )
        if self._scaler.is_enabled():
            figures["found_inf"] = self._found_inf()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return figures

    def _found_inf(self) -> torch.Tensor:
        # There is no public way to it that does not wait. A falling scale would tell as well, but not once
        # the scale has reached zero.
        found: torch.Tensor = next(iter(self._scaler._found_inf_per_device(self._optimizer).values()))
        return found


def optimizer_for(model: nn.Module, experiment: Experiment) -> torch.optim.Optimizer:
    """The experiment's optimizer in PyTorch's default form, which is not the fused one."""
    settings = experiment.optimizer
    if settings.name == "sgd":
        return torch.optim.SGD(
            model.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
    return torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )


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
