"""The rows of a batch that each linear layer multiplies, from tensors without content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from engine.experiment.checks import DatasetEntry, ModelEntry
from engine.experiment.experiment import Experiment
from engine.training.data.datasets import DatasetFacts, footprint
from engine.training.data.own import own_footprint
from engine.training.models.weightless import Weightless, fill_with_fakes
from engine.training.runs.workload import Workload


def batch_tokens(
    experiment: Experiment, workload: Workload, model: ModelEntry, dataset: DatasetEntry, facts: DatasetFacts
) -> dict[str, int]:
    """Return the rows by layer name, those of an odd call if a layer is called more than once.

    Empty for a model that reads its own numbers, or has its own step. Reseeds the random numbers.
    """
    if workload.body is not None:
        return {}
    templates = workload.templates
    try:
        with Weightless():
            made = workload.build().train()
        with FakeTensorMode(), torch.no_grad():
            fill_with_fakes(made)
            if templates is None:
                data = footprint(experiment, model, dataset, facts, experiment.batch_size)
            else:
                data = own_footprint(templates, experiment, experiment.batch_size)
            rows: dict[str, int] = {}
            for name, module in made.named_modules():
                if isinstance(module, nn.Linear):
                    module.register_forward_pre_hook(_noting(rows, name))
            workload.call(made, data.batches[0][0])
            return rows
    except Exception:  # noqa: BLE001 - a model that reads its own numbers fails in any way
        return {}


def _noting(rows: dict[str, int], name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(module, nn.Linear)
        if inputs and isinstance(inputs[0], Tensor):
            called = inputs[0].numel() // module.in_features
            rows[name] = max(called, rows.get(name, 0), key=lambda count: (count % 16 > 0, count))

    return note
