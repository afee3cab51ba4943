"""Validation: how well a model does on samples it does not train on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from engine.experiment.experiment import Precision
from engine.training.data.batches import Batch
from engine.training.models.build import LossFunction
from engine.training.precision import autocast


@dataclass(frozen=True)
class Validation:
    """The mean loss, and the fraction (0 to 1) of predictions whose most likely class is right (top-1).

    A picture is one prediction, a sequence of text one per token.
    """

    loss: float
    accuracy: float


def validate(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_function: LossFunction,
    *,
    precision: Precision,
    device: torch.device,
    must_end: Callable[[], bool],
) -> Validation | None:
    """Validates under the run's autocast, without a scaler: there is no gradient to scale.

    Takes the model itself, neither compiled nor captured, and leaves it in training mode. Returns None when
    asked to end before the last batch.
    """
    loss_sum = torch.zeros((), device=device)
    correct = torch.zeros((), device=device, dtype=torch.long)
    samples = predictions = 0
    model.eval()
    try:
        with torch.no_grad():
            for inputs, targets in batches:
                if must_end():
                    return None
                with autocast(precision, device):
                    outputs = model(inputs)
                    loss = loss_function(outputs, targets)
                loss_sum += loss.float() * len(targets)
                correct += (outputs.argmax(dim=-1) == targets).sum()
                samples += len(targets)
                predictions += targets.numel()
    finally:
        model.train()
    # The only wait for the device, once per validation.
    return Validation(loss=loss_sum.item() / samples, accuracy=correct.item() / predictions)
