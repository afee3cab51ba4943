"""What is checked: a model and its loss on the CPU, with small made-up batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from engine.training.data.batches import Batch
from engine.training.models.build import (
    REGRESSION_FEATURES,
    build_model,
    input_channels,
    loss_for,
)
from engine.training.models.outputs import LossFunction
from engine.training.prepare import Plan

SAMPLES = 2
"""In a batch: the fewest with which a batch norm can be trained."""


@dataclass(frozen=True)
class Subject:
    """The model in training mode, its loss, and its batches, all on the CPU; it is to run on `target`."""

    model: nn.Module
    loss: LossFunction
    batches: tuple[Batch, ...]
    target: torch.device

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def inputs(self) -> Any:
        return self.batches[0][0]

    @property
    def is_cuda(self) -> bool:
        return self.target.type == "cuda"

    @property
    def is_on_accelerator(self) -> bool:
        return self.target.type != "cpu"

    def batch(self, place: int) -> Batch:
        """One of the batches."""
        return self.batches[place]

    def forward(self, inputs: Any) -> Any:
        """The model's outputs."""
        return self.model(inputs)

    @property
    def loss_place(self) -> tuple[str | None, int | None]:
        """Where the user's file defines its loss."""
        return None, None


def subject_of(plan: Plan) -> Subject:
    """The model of a plan. Raises ProblemError where it cannot be built."""
    experiment = plan.experiment
    model = build_model(
        experiment.model,
        image_size=experiment.image_size or 0,
        channels=input_channels(experiment.model, plan.facts.channels),
        num_classes=experiment.num_classes or 0,
        sequence_length=experiment.sequence_length,
        seed=experiment.seed,
    )
    loss = loss_for(plan.model_entry.task, experiment.label_smoothing)
    return Subject(model.train(), loss, (_drawn(plan, 0), _drawn(plan, 1)), plan.device)


def _drawn(plan: Plan, place: int) -> Batch:
    experiment, generator = plan.experiment, torch.Generator().manual_seed(place)
    classes = (0, max(1, experiment.num_classes or 1))
    if plan.model_entry.task == "language":
        shape = (SAMPLES, experiment.sequence_length)
        return (
            torch.randint(*classes, shape, generator=generator),
            torch.randint(*classes, shape, generator=generator),
        )
    if plan.model_entry.task == "regression":
        inputs = torch.randn(SAMPLES, REGRESSION_FEATURES, generator=generator)
        return inputs, torch.randn(SAMPLES, 1, generator=generator)
    channels = input_channels(experiment.model, plan.facts.channels)
    side = plan.facts.image_size
    pictures = torch.randn(SAMPLES, channels, side, side, generator=generator)
    return pictures, torch.randint(*classes, (SAMPLES,), generator=generator)
