"""The workload of a run: its model, data, loss and accuracy, from the catalog or the user's own file."""

from __future__ import annotations

import math
from copy import deepcopy
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.catalog import OWN_DATA
from engine.experiment.checks import ModelEntry, Task
from engine.experiment.experiment import Experiment
from engine.training.data.batches import (
    Batch,
    BatchSource,
    ReusedBatches,
    cut_batches,
    generated_samples,
    move_batch,
    rank_seed,
)
from engine.training.data.datasets import DatasetFacts, facts_of, load_source
from engine.training.data.own import FEW, MORE, facts_of_own_data, load_own_data, own_batch
from engine.training.models.build import build_loss, build_model, input_channels, loss_name, loss_unit
from engine.training.models.outputs import (
    Forward,
    Hits,
    LossFunction,
    call_model,
    count_correct,
    default_loss,
    describe_value,
    scalar_loss,
)
from engine.training.models.own import OwnFile
from engine.training.models.tensor_cores import CONVOLUTIONS
from engine.training.models.transformers import drawn_batch
from engine.training.steps.optimizers import list_optimizers
from engine.training.steps.own import Body
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

_MOST_COPIED = 250_000_000  # weights, of which the host then keeps 1 GiB
_built = lru_cache(maxsize=1)(build_model)


def _copy_of_built(*named: Any, **settings: Any) -> nn.Module:
    return deepcopy(_built(*named, **settings))


class Workload:
    """The model, data, loss and accuracy of an experiment, from the catalog or from the user's own file.

    Executes the user's file. With `copies_model`, a model of the catalog is initialized once in this process
    and then copied, because generating random weights takes several times as long. Raises ProblemError if the
    data cannot be used, and the errors of the file.
    """

    def __init__(self, experiment: Experiment, entry: ModelEntry) -> None:
        code, model = experiment.own_code, experiment.model
        self.experiment = experiment
        self.entry = entry
        is_own = code is not None and model.file is not None
        self.own = OwnFile(code, model.class_name, experiment.seed) if code and is_own else None
        self.copies_model = False
        self._is_of_library = model.library is not None
        self._draws_data = self._is_of_library and entry.task == OWN_DATA == experiment.dataset
        self._task: Task = "classification" if self._draws_data else entry.task
        self._brings_data = self.own is not None and experiment.dataset == OWN_DATA
        self.facts: DatasetFacts = (
            facts_of_own_data(self.own, experiment)
            if self.own and self._brings_data
            else facts_of(experiment)
        )

    @property
    def channels(self) -> int:
        """The number of image channels of the model's input."""
        return input_channels(self.experiment.model, self.facts.channels or 0)

    def build(self) -> nn.Module:
        """Return the model on the CPU. Its random weights depend only on the seed and the settings."""
        if self.own is not None:
            return self.own.build()
        experiment = self.experiment
        is_small = (self.entry.parameters or math.inf) <= _MOST_COPIED
        copies = self.copies_model and is_small and not self._is_of_library
        return (_copy_of_built if copies else build_model)(
            experiment.model,
            image_size=experiment.image_size or self.facts.image_size,
            channels=self.channels,
            num_classes=experiment.num_classes or self.facts.num_classes,
            sequence_length=experiment.sequence_length,
            overrides=experiment.overrides,
            seed=experiment.seed,
            sizes=self.facts.sizes,
        )

    def is_convolutional(self, model: nn.Module) -> bool:
        """Return True if the model gains from channels_last."""
        if self.own is None and not self._is_of_library:
            return self.entry.is_convolutional
        convolutions = sum(isinstance(module, CONVOLUTIONS) for module in model.modules())
        # a transformer's only one cuts pictures into patches
        return convolutions > (1 if self._is_of_library else 0)

    def source(self, device: torch.device, memory_format: torch.memory_format) -> BatchSource:
        """Return the run's batches. Raises ProblemError. Close the source."""
        if self.own is not None and self._brings_data:
            return load_own_data(self.own, self.experiment, device, memory_format)
        if self._draws_data:
            batch_size = self.experiment.batch_size
            drawn = move_batch(self._drawn(generated_samples(batch_size)), device)
            return ReusedBatches(cut_batches(drawn, batch_size), self.experiment.samples)
        return load_source(self.experiment, self.channels, device, memory_format)

    def small_own_batch(self, count: int = FEW) -> Batch | None:
        """Return a small batch of the workload file's data, on the host. None for data of the catalog."""
        if self._draws_data:
            return self._drawn(count)
        if self.own is None or not self._brings_data:
            return None
        return own_batch(self.own, self.experiment, count)

    @cached_property
    def templates(self) -> tuple[Batch, Batch] | None:
        """Return batches of `FEW` and of `MORE` samples for `own_footprint`. None for data of the catalog."""
        few, more = self.small_own_batch(FEW), self.small_own_batch(MORE)
        return None if few is None or more is None else (few, more)

    def _drawn(self, samples: int) -> Batch:
        experiment = self.experiment
        return drawn_batch(
            experiment.model,
            samples,
            num_classes=experiment.num_classes or 0,
            sequence_length=experiment.sequence_length,
            overrides=experiment.overrides,
            seed=rank_seed(experiment.seed),
        )

    @property
    def call(self) -> Forward:
        """The function that returns a model's outputs for a batch's inputs."""
        return self._function("forward") or call_model

    @property
    def loss(self) -> LossFunction:
        """The function that returns the scalar mean loss of outputs and targets."""
        own = self._function("loss")
        if own is not None:
            return partial(_checked_loss, own)
        if self._task == OWN_DATA:
            smoothing = self.experiment.label_smoothing
            return partial(default_loss, label_smoothing=smoothing, is_text=self._is_text)
        return build_loss(self._task, self.experiment.label_smoothing)

    @property
    def loss_name_and_unit(self) -> tuple[str, str]:
        """The loss's name and unit. Both are empty if they depend on the model's outputs."""
        if self.own is not None and (self.own.has("loss") or self.own.has("step")):
            return f"loss of {self.own.code.file}", ""
        return ("", "") if self._task == OWN_DATA else (loss_name(self._task), loss_unit(self._task))

    def hits(self, outputs: Any, targets: Any, samples: int) -> Hits | None:
        """Return the numbers of correct and of all predictions in a batch. None without classes."""
        own = self._function("accuracy")
        if own is None:
            return count_correct(outputs, targets, samples, is_text=self._is_text)
        fraction = own(outputs, targets)
        if isinstance(fraction, Tensor) and fraction.numel() == 1:
            return fraction.detach().float().reshape(()) * samples, samples
        if isinstance(fraction, int | float):
            return torch.tensor(float(fraction) * samples), samples
        assert self.own is not None  # the function is its
        raise self.own.problem(
            f"returned {describe_value(fraction)} from accuracy(outputs, targets), but it must be one number",
            "Return the fraction of right predictions, from 0 to 1.",
        )

    @property
    def _is_text(self) -> bool:
        return "language" in (self._task, self.experiment.dataset.task)

    @property
    def body(self) -> Body | None:
        """The file's own step, if it has one."""
        body: Body | None = self._function("step")
        return body

    def optimizers(self, model: nn.Module) -> Any:
        """Return the result of the file's own `optimizer(model)`. None without such a function.

        Raises ProblemError if it is not an optimizer, or several in a tuple, list or dict.
        """
        make = self._function("optimizer")
        if make is None:
            return None
        assert self.own is not None  # the function is its
        made = make(model)
        members = list_optimizers(made)
        if not members or not all(isinstance(member, torch.optim.Optimizer) for member in members):
            raise self.own.problem(
                f"returned {describe_value(made)} from optimizer(model), but it must be an optimizer",
                "Return a torch.optim optimizer, or several in a tuple, list or dict.",
            )
        if len(members) > 1 and self.body is None:
            raise self.own.problem(
                f"returned {len(members)} optimizers from optimizer(model), but has no step(train, batch)",
                "Define step(train, batch) to step each of them, or return one optimizer.",
            )
        return made

    def step(
        self,
        model: nn.Module,
        experiment: Experiment,
        device: torch.device,
        *,
        is_convolutional: bool = False,
    ) -> PlainStep:
        """Return the step of a model with the settings of `experiment`, from `build_step`."""
        return build_step(
            model,
            self.loss,
            experiment,
            device,
            is_convolutional=is_convolutional,
            call=self.call,
            own_optimizers=self.optimizers,
            body=self.body,
        )

    def _function(self, name: str) -> Any:
        return None if self.own is None else self.own.function(name)


def _checked_loss(own: Any, outputs: Any, targets: Any) -> Tensor:
    return scalar_loss(
        own(outputs, targets), "loss(outputs, targets)", needs_gradient=torch.is_grad_enabled()
    )
