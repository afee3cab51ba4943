"""The plan of a run before it starts: its settings resolved, its workload and its length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from engine.experiment.checks import Catalog, accumulation_problem, dataset_of, resolve
from engine.experiment.experiment import Experiment, Precision, setting_error
from engine.experiment.problem import ProblemError
from engine.protocol.advice import LinearLayer
from engine.training.data.datasets import footprint
from engine.training.data.own import own_footprint
from engine.training.models.tensor_cores import convert, linear_layers
from engine.training.models.weightless import Weightless, fill_with_fakes
from engine.training.ranks import current_rank
from engine.training.runs.workload import Workload
from engine.training.steps.optimizers import check_torchao


class RunPlan:
    """The plan of a run before it starts: its experiment with all settings resolved, its workload and length.

    Each rank of a multi-device run has a plan for its own device, and `samples_per_epoch` counts that
    device's samples. Raises ProblemError if the experiment cannot run here.
    """

    def __init__(self, experiment: Experiment, catalog: Catalog) -> None:
        resolved = resolve(experiment, catalog)
        device, model = catalog.device(resolved.device), catalog.model(resolved.model)
        dataset = dataset_of(resolved, catalog)
        assert device is not None and model is not None and dataset is not None  # resolve() has checked it
        together = catalog.beginning_at(device) if device.is_gpu else (device,) * resolved.devices
        self.device_names = [each.name for each in together[: resolved.devices]]
        device = together[current_rank().number]
        resolved = resolved.model_copy(update={"device": device.name})
        self.device_entry, self.model_entry, self.dataset_entry = device, model, dataset
        self.workload = Workload(resolved, model)
        self.facts = self.workload.facts
        sizes = {name: getattr(self.facts, name) or None for name in ("image_size", "num_classes")}
        self.workload.experiment = self.experiment = resolved.model_copy(update=sizes)
        self.device = torch.device(self.device_entry.name)
        check_torchao(resolved, self.device)
        self.samples_per_epoch = self.facts.train_samples // resolved.devices
        self.steps_per_epoch = _steps_per_epoch(resolved, self.samples_per_epoch)
        self.total_steps = resolved.steps or (resolved.epochs or 1) * self.steps_per_epoch
        self.reads_sensors = True
        self.linear_layers: tuple[LinearLayer, ...] = ()  # those of the last model that was built for FP8

    @cached_property
    def tokens(self) -> Mapping[str, int]:
        """The number of input rows of each linear layer for a batch, by the layer's name.

        The model is called on tensors without content. If a layer is called several times, a number that is
        not a multiple of 16 counts first, then the largest. Empty for a model that reads its own numbers, or
        has its own step. Reseeds the random numbers.
        """
        workload = self.workload
        if workload.body is not None:
            return {}
        templates = workload.templates
        try:
            with Weightless():
                made = workload.build().train()
            with FakeTensorMode(), torch.no_grad():
                fill_with_fakes(made)
                asked, size = self.experiment, self.experiment.batch_size
                if templates is None:
                    data = footprint(asked, self.model_entry, self.dataset_entry, self.facts, size)
                else:
                    data = own_footprint(templates, asked, size)
                rows: dict[str, int] = {}
                for name, module in made.named_modules():
                    if isinstance(module, nn.Linear):
                        module.register_forward_pre_hook(_noting(rows, name))
                workload.call(made, data.batches[0][0])
                return rows
        except Exception:  # noqa: BLE001 - a model that reads its own numbers fails in any way
            return {}

    def to_precision(self, model: nn.Module, experiment: Experiment, device: torch.device) -> None:
        """Convert linear layers to FP8 if that is the precision. The model must be in FP32."""
        if experiment.precision is Precision.FP8:
            self.linear_layers = self.layers_of(model, experiment)
            convert(model, self.linear_layers, experiment.step, device, is_emulated=self.device.type == "cpu")

    @property
    def left_out(self) -> dict[str, str]:
        """The reason, as a clause, why FP8 has no effect on the built model, by the key "fp8". Else empty."""
        is_for_nothing = self.experiment.precision is Precision.FP8 and all(
            layer.reason for layer in self.linear_layers
        )
        return {"fp8": "no linear layer of the model is converted"} if is_for_nothing else {}

    def layers_of(self, model: nn.Module, experiment: Experiment) -> tuple[LinearLayer, ...]:
        """Return the linear layers of a model under FP8, before their conversion."""
        return linear_layers(model, experiment.step, self.tokens, is_emulated=self.device.type == "cpu")


def _steps_per_epoch(experiment: Experiment, samples: int) -> int:
    if experiment.batch_size > samples:
        has = f"{samples:,} samples" if experiment.devices == 1 else f"{samples:,} for each device"
        raise setting_error(
            "batch_size",
            f"is {experiment.batch_size:,}, but {experiment.dataset} has {has}.",
            f"Set it to at most {samples:,}.",
            value=experiment.batch_size,
            allowed=f"1 to {samples:,}",
        )
    batches = math.ceil(samples / experiment.batch_size)
    if experiment.step.gradient_accumulation > batches:
        raise ProblemError(accumulation_problem(experiment, batches))
    return math.ceil(batches / experiment.step.gradient_accumulation)


def _noting(rows: dict[str, int], name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(module, nn.Linear)
        if inputs and isinstance(inputs[0], Tensor):
            called = inputs[0].numel() // module.in_features
            rows[name] = max(called, rows.get(name, 0), key=lambda count: (count % 16 > 0, count))

    return note
