"""The subject of a check: a model and its loss on the CPU, and two small batches."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from engine.training.data.batches import Batch
from engine.training.models.build import REGRESSION_FEATURES
from engine.training.runs.prepare import RunPlan
from engine.training.runs.workload import Workload

SAMPLES = 2
"""In a batch: the fewest with which a batch norm can be trained."""

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Subject:
    """The model in training mode and a batch for each pass, all on the CPU; it is to run on `target`."""

    plan: RunPlan
    model: nn.Module
    batches: tuple[Batch, ...]

    @property
    def workload(self) -> Workload:
        return self.plan.workload

    @property
    def is_cuda(self) -> bool:
        return self.plan.device.type == "cuda"

    @property
    def is_on_accelerator(self) -> bool:
        return self.plan.device.type != "cpu"

    def loss(self, outputs: Any, targets: Any) -> Any:
        """The loss, not yet validated where it is the user's own."""
        own = self.workload.own
        function = own.function("loss") if own is not None else None
        return (function or self.workload.loss)(outputs, targets)


def built(plan: RunPlan) -> nn.Module:
    """The plan's model on the CPU. Raises what its code raises, and ProblemError."""
    return plan.workload.build().to(CPU).train()


def small_batches(plan: RunPlan) -> tuple[Batch, ...]:
    """Two small batches of the plan's data on the CPU. Raises what its code raises, and ProblemError."""
    return tuple(tree_map_only(torch.Tensor, _on_cpu, batch) for batch in islice(_batches(plan), 2))


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(CPU)


def _batches(plan: RunPlan) -> Iterator[Batch]:
    few = plan.workload.few_samples()
    if few is not None:
        yield from (few, few)
    elif plan.dataset_entry.needs_path:
        yield from _read(plan)
    else:
        yield from (_drawn(plan, number) for number in range(2))


def _read(plan: RunPlan) -> Iterator[Batch]:
    """The first batches of the user's files."""
    data = plan.experiment.data.model_copy(update={"workers": 0, "on_device": False})
    workload = copy.copy(plan.workload)
    workload.experiment = plan.experiment.model_copy(update={"batch_size": SAMPLES, "data": data})
    with closing(workload.source(CPU, torch.contiguous_format)) as source:
        yield from islice(source.epoch(1), 2)


def _drawn(plan: RunPlan, number: int) -> Batch:
    """Made-up samples with the shapes of the catalog's dataset, which may have to be downloaded."""
    experiment, generator = plan.experiment, torch.Generator().manual_seed(number)
    classes = (0, max(1, experiment.num_classes or 1))
    task = experiment.dataset.task
    if task == "language":
        shape = (SAMPLES, experiment.sequence_length)
        tokens = torch.randint(*classes, shape, generator=generator)
        return tokens, torch.randint(*classes, shape, generator=generator)
    if task == "regression":
        inputs = torch.randn(SAMPLES, REGRESSION_FEATURES, generator=generator)
        return inputs, torch.randn(SAMPLES, 1, generator=generator)
    side = plan.facts.image_size
    pictures = torch.randn(SAMPLES, plan.workload.channels, side, side, generator=generator)
    return pictures, torch.randint(*classes, (SAMPLES,), generator=generator)
