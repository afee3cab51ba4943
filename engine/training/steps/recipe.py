"""Builds the step of a recipe, from those of its parts that are possible here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.experiment.experiment import Experiment, named
from engine.experiment.settings import FAST, RecipePart
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.models.outputs import call_model
from engine.training.steps.captured import CapturedStep
from engine.training.steps.optimizer import no_fused_form, optimizer_for
from engine.training.steps.own import Body, OwnStep, as_one
from engine.training.steps.plain import (
    Forward,
    LossFunction,
    PlainStep,
    RecipeRecord,
    TrainingStep,
    reason_of,
)


def build_step(
    model: nn.Module,
    loss_function: LossFunction,
    experiment: Experiment,
    device: torch.device,
    *,
    is_convolutional: bool,
    call: Forward = call_model,
    own_optimizers: Callable[[nn.Module], Any] = lambda model: None,
    body: Body | None = None,
) -> TrainingStep:
    """The experiment's step. Moves the model to the device, into its memory format and into training mode.

    `call` gives the model's outputs; `own_optimizers` makes the optimizers in place of the experiment's, or
    returns None, and `body` is a step of the model's own. Parts that are not possible here are left out; the
    step says which and why.
    """
    record = RecipeRecord(experiment.step.parts)
    if record.has("channels_last") and not is_convolutional:
        record.leave_out("channels_last", "the model has no convolutions")
    memory_format = torch.channels_last if record.has("channels_last") else torch.contiguous_format
    _place(model, device, memory_format)
    made = own_optimizers(model)
    if made is not None or body is not None:
        _leave_out_for_own(record, "optimizer" if body is None else "step", has_step=body is not None)
    is_fused = made is None and _is_fused(model, experiment, device, record)
    if _compiling_costs(experiment, device, is_convolutional):
        record.leave_out("compile", "no gain with convolutions on a CPU; the recipe `compile` forces it")
    if record.has("capture") and (reason := _not_capturable(experiment, device, is_fused)):
        record.leave_out("capture", reason)
    is_captured = record.has("capture")
    optimizer = (
        optimizer_for(model, experiment, fused=is_fused, capturable=is_captured) if made is None else None
    )
    settings: dict[str, Any] = {
        "optimizer": as_one(made) if optimizer is None else optimizer,
        "record": record,
        "memory_format": memory_format,
        # Capturing does not work with autocast's cache of cast weights.
        "cache_casts": not is_captured,
        "call": call,
        "has_own_rates": made is not None,
    }
    if body is not None:
        optimizers = optimizer if made is None else made
        return OwnStep(model, loss_function, experiment, device, body=body, optimizers=optimizers, **settings)
    step = _uncaptured(model, loss_function, experiment, device, **settings)
    return CapturedStep(step) if is_captured else step


def _leave_out_for_own(record: RecipeRecord, what: str, *, has_step: bool) -> None:
    """Leaves out the parts that an optimizer or a step of the model's own file rules out."""
    parts: tuple[RecipePart, ...] = ("fused", "capture", "compile") if has_step else ("fused", "capture")
    for part in parts:
        if record.has(part):
            record.leave_out(part, f"the {what} is the model file's own")


@contextmanager
def cudnn_search(experiment: Experiment) -> Iterator[None]:
    """Lets cuDNN try its algorithms for each new shape, under every recipe but the plain one."""
    with _cudnn_searches(bool(experiment.step.parts)):
        yield


@contextmanager
def no_cudnn_search() -> Iterator[None]:
    """The step for a group that is smaller than the others, such as an epoch's last.

    A search for it would come in the middle of the measured steps, which its memory would be counted in, and
    the host would wait for the device when that memory is freed.
    """
    with _cudnn_searches(False):
        yield


@contextmanager
def _cudnn_searches(searches: bool) -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = searches
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _place(model: nn.Module, device: torch.device, memory_format: torch.memory_format) -> None:
    model.to(device).train()
    if memory_format is torch.channels_last:
        model.to(memory_format=memory_format)


def _is_fused(model: nn.Module, experiment: Experiment, device: torch.device, record: RecipeRecord) -> bool:
    wanted = experiment.optimizer.fused
    if wanted is False:
        if record.has("fused"):
            record.leave_out("fused", f"{named('optimizer.fused')} is off")
        return False
    if not (wanted or record.has("fused")):
        return False
    reason = no_fused_form(model, device)
    if reason is not None:
        record.leave_out("fused", reason)
    return reason is None


def _compiling_costs(experiment: Experiment, device: torch.device, is_convolutional: bool) -> bool:
    # Compiled, a small CNN trained at 0.65 times the speed and ResNet-18 at 1.0, a language model at 1.3.
    return device.type == "cpu" and is_convolutional and experiment.step.recipe == FAST


def _not_capturable(experiment: Experiment, device: torch.device, is_fused: bool) -> str | None:
    if device.type != "cuda":
        return "only CUDA devices capture"
    if experiment.uses_scaler and not is_fused:
        return "the scaler waits for the device unless the optimizer is fused"
    if experiment.optimizer.name == "sgd" and not is_fused:
        return "SGD reads its learning rate on the host unless it is fused"
    return None


def _uncaptured(
    model: nn.Module,
    loss_function: LossFunction,
    experiment: Experiment,
    device: torch.device,
    *,
    record: RecipeRecord,
    **settings: Any,
) -> PlainStep:
    if record.has("compile"):
        try:
            return CompiledStep(model, loss_function, experiment, device, record=record, **settings)
        except RuntimeError as error:  # a Python or a system that the compiler does not support
            record.leave_out("compile", reason_of(error))
    return PlainStep(model, loss_function, experiment, device, record=record, **settings)


Shape = tuple[torch.Size, ...]


class ForwardState:
    """A copy of the model's buffers (such as BatchNorm's running means) and of the random state."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._device = device
        self._buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        self._random = torch.get_rng_state()
        self._device_random: Tensor | None = None
        if device.type != "cpu":
            self._device_random = torch.get_device_module(device).get_rng_state()

    def restore(self) -> None:
        """Restores everything in place."""
        with torch.no_grad():
            for buffer, saved in self._buffers:
                buffer.copy_(saved)
        torch.set_rng_state(self._random)
        if self._device_random is not None:
            torch.get_device_module(self._device).set_rng_state(self._device_random)


class CompiledStep(PlainStep):
    """A plain step whose model is compiled by `torch.compile` for batches of one shape.

    The first call compiles. If that fails, the same step is made uncompiled, as if it had never been tried.
    A smaller batch at the end of an epoch goes through the uncompiled model; a larger one than before
    compiles again. Raises RuntimeError where this Python cannot compile at all.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # A wrapper beside the model: compiled in place, validation would compile too, for its own shapes.
        with _quiet():
            self._compiled: nn.Module | None = cast(nn.Module, torch.compile(self.model, dynamic=False))
        self._shape: Shape | None = None
        self._samples = 0

    @property
    def watched(self) -> nn.Module:
        """The compiled wrapper: hooks on the model itself would cause a recompilation."""
        return self.model if self._compiled is None else self._compiled

    def next_phase(self) -> PhaseName | None:
        is_next = self._compiled is not None and self._shape is None
        return PhaseName.COMPILING if is_next else None

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Makes the plain step; compiles if the batches are larger than any before."""
        samples, inputs = max((batch_samples(batch), number) for number, batch in enumerate(batches))
        if self._compiled is None or (self._shape is not None and samples <= self._samples):
            return super().gradients(batches)
        self._samples = samples
        return self._compile(batches, _shape(batches[inputs][0]))

    def _forward(self, inputs: Any) -> Any:
        if self._compiled is None or _shape(inputs) != self._shape:
            return super()._forward(inputs)
        return self._call(self._compiled, inputs)

    def _compile(self, batches: Sequence[Batch], shape: Shape) -> Tensor:
        state = ForwardState(self.model, self.device)
        self._shape = shape
        _synchronize(self.device)
        began = time.perf_counter()
        try:
            with _quiet():
                loss = super().gradients(batches)
            _synchronize(self.device)  # errors of the kernels show here
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            reason = reason_of(error)
        else:
            self.compile_seconds = (self.compile_seconds or 0.0) + time.perf_counter() - began
            return loss
        # Outside `except`, whose traceback would keep the tensors of the failed pass.
        self._compiled = None
        state.restore()
        self.record.leave_out("compile", f"it failed here ({reason})")
        return super().gradients(batches)


def _shape(inputs: Any) -> Shape:
    if isinstance(inputs, Tensor):
        return (inputs.shape,)
    return tuple(part.shape for part in tree_leaves(inputs) if isinstance(part, Tensor))


@contextmanager
def _quiet() -> Iterator[None]:
    # The compiler's warnings are for the model's authors, or for PyTorch's.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
