"""Validation: mean loss and accuracy over samples that the model does not train on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.experiment.experiment import Precision
from engine.training.data.batches import Batch
from engine.training.measuring.speed import Validation, validate
from engine.training.models.build import loss_for

CPU = torch.device("cpu")


class Echo(nn.Module):
    """Is sure of what it is given; remembers how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(10.0))
        self.was_training = True
        self.autocasts: list[bool] = []

    def forward(self, classes: torch.Tensor) -> torch.Tensor:
        self.was_training = self.training
        self.autocasts.append(torch.is_autocast_enabled("cpu"))
        return nn.functional.one_hot(classes, 4) * self.weight


def validated(batches: list[Batch], precision: Precision = Precision.FP32) -> Validation:
    found = validate(
        Echo(), batches, loss_for("classification"), precision=precision, device=CPU, must_end=lambda: False
    )
    assert found is not None
    return found


def test_a_small_last_batch_counts_for_its_samples_alone() -> None:
    right, wrong = torch.tensor([0, 1, 2]), torch.tensor([3])
    found = validated([(right, right), (wrong, torch.tensor([0]))])
    assert found.accuracy == 0.75
    sure = torch.tensor([10.0, 0, 0, 0]).log_softmax(0)
    assert found.loss == pytest.approx(-(3 * float(sure[0]) + float(sure[1])) / 4)


def test_a_sequence_counts_each_of_its_tokens() -> None:
    inputs = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
    targets = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    found = validate(
        Echo(),
        [(inputs, targets)],
        loss_for("language"),
        precision=Precision.FP32,
        device=CPU,
        must_end=lambda: False,
    )
    assert found is not None and found.accuracy == 0.75


def test_the_model_is_in_evaluation_mode_meanwhile_and_trains_again_afterwards() -> None:
    model, classes = Echo(), torch.tensor([0, 1])
    found = validate(
        model,
        [(classes, classes)],
        loss_for("classification"),
        precision=Precision.BF16,
        device=CPU,
        must_end=lambda: False,
    )
    assert found is not None and found.accuracy == 1
    assert not model.was_training and model.training and model.weight.grad is None
    assert model.autocasts == [True]


def test_it_ends_early_when_asked() -> None:
    model, classes = Echo(), torch.tensor([0, 1])
    found = validate(
        model,
        [(classes, classes)] * 3,
        loss_for("classification"),
        precision=Precision.FP32,
        device=CPU,
        must_end=lambda: bool(model.autocasts),
    )
    assert found is None and len(model.autocasts) == 1 and model.training
