"""Builds the step of a recipe, from those of its parts that are possible here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import Experiment
from engine.experiment.settings import FAST, RecipePart
from engine.experiment.titles import named
from engine.training.models.outputs import call_model
from engine.training.steps.captured import CapturedStep
from engine.training.steps.compiled import CompiledStep
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
