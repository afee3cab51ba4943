"""Validation: how well a model does on samples it does not train on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.experiment import Precision
from engine.training.data.batches import Batch, batch_samples
from engine.training.models.outputs import Forward, Hits, LossFunction, call_model, default_hits
from engine.training.precision import autocast

HitsFunction = Callable[[Any, Any, int], Hits | None]


@dataclass(frozen=True)
class Validation:
    """The mean loss, and the fraction (0 to 1) of predictions whose most likely class is right (top-1).

    A picture is one prediction, a sequence of text one per token. The accuracy is None where nothing can be
    right or wrong.
    """

    loss: float
    accuracy: float | None


def validate(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_function: LossFunction,
    *,
    precision: Precision,
    device: torch.device,
    must_end: Callable[[], bool],
    call: Forward = call_model,
    hits: HitsFunction = default_hits,
) -> Validation | None:
    """Validates under the run's autocast, without a scaler: there is no gradient to scale.

    Takes the model itself, neither compiled nor captured, and leaves it in training mode; `call` gives its
    outputs, and `hits` how many predictions of a batch are right. Returns None when asked to end before the
    last batch.
    """
    loss_sum = torch.zeros((), device=device)
    correct: Tensor | None = None
    samples = predictions = 0
    model.eval()
    try:
        with torch.no_grad():
            for batch in batches:
                inputs, targets = batch
                if must_end():
                    return None
                with autocast(precision, device):
                    outputs = call(model, inputs)
                    loss = loss_function(outputs, targets)
                count = batch_samples(batch)
                loss_sum += loss.float() * count
                samples += count
                if (found := hits(outputs, targets, count)) is not None:
                    correct = found[0] if correct is None else correct + found[0]
                    predictions += found[1]
    finally:
        model.train()
    # The only wait for the device, once per validation.
    accuracy = None if correct is None else correct.item() / predictions
    return Validation(loss=loss_sum.item() / samples, accuracy=accuracy)
