"""Builds a step with the optimizations that are possible here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import Experiment, Precision, named
from engine.experiment.settings import FAST, RecipePart
from engine.training.models.outputs import Forward, LossFunction, call_model
from engine.training.models.recompute import make_bfloat16
from engine.training.ranks import shard_model, uses_fsdp
from engine.training.steps.captured import CapturedStep, CompiledStep
from engine.training.steps.low_bit_optimizers import uses_torchao
from engine.training.steps.own import Body, OwnStep, combine_optimizers
from engine.training.steps.plain import PlainStep, RecipeRecord, build_optimizer, no_fused_form

_NOT_SHARDED: dict[RecipePart, str] = {
    "channels_last": "FSDP2 shards only contiguous weights",
    "compile": "Ammeter does not compile a model sharded by FSDP2",
}


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
) -> PlainStep:
    """Return the experiment's step. Moves the model to the device, memory format and training mode.

    `call` returns the model's outputs. `own_optimizers` makes the optimizers instead of the experiment's, or
    returns None. `body` is a step of the model's own. Optimizations that are not possible here are skipped.
    The step says which and why.
    """
    record = RecipeRecord(experiment.step.parts)
    if record.has("channels_last") and not is_convolutional:
        record.leave_out("channels_last", "the model has no convolutions")
    if record.has("channels_last") and experiment.optimizer.kind.is_low_bit:
        record.leave_out("channels_last", "torchao's low-bit state needs contiguous weights")
    for part in _NOT_SHARDED if uses_fsdp(experiment) else ():
        if record.has(part):
            record.leave_out(part, _NOT_SHARDED[part])
    memory_format = torch.channels_last if record.has("channels_last") else torch.contiguous_format
    model.to(device).train()
    if experiment.precision is Precision.BF16_PURE:
        make_bfloat16(model)
    if memory_format is torch.channels_last:
        model.to(memory_format=memory_format)
    if uses_fsdp(experiment):
        shard_model(model, experiment, device)
    made = own_optimizers(model)
    own = "step" if body is not None else "optimizer" if made is not None else None
    ruled_out: tuple[RecipePart, ...] = ("fused", "capture", "compile") if body else ("fused", "capture")
    for part in ruled_out:
        if own is not None and record.has(part):
            record.leave_out(part, f"the model file defines its own {own}")
    is_fused = made is None and _is_fused(model, experiment, device, record)
    # Compiled, a small CNN trained at 0.65 times the speed and ResNet-18 at 1.0, a language model at 1.3.
    if device.type == "cpu" and is_convolutional and experiment.step.recipe == FAST:
        record.leave_out("compile", "no gain with convolutions on a CPU (select only `compile` to force it)")
    if record.has("capture") and (reason := _not_capturable(experiment, device, is_fused)):
        record.leave_out("capture", reason)
    is_captured = record.has("capture")
    optimizer = (
        build_optimizer(model, experiment, fused=is_fused, capturable=is_captured) if made is None else None
    )
    settings: dict[str, Any] = {
        "optimizer": combine_optimizers(made) if optimizer is None else optimizer,
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
    kind = CapturedStep if is_captured else CompiledStep if record.has("compile") else PlainStep
    return kind(model, loss_function, experiment, device, **settings)


@contextmanager
def cudnn_search(searches: bool) -> Iterator[None]:
    """Set whether cuDNN tries its algorithms for each new shape. The plain step does not."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = searches
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _is_fused(model: nn.Module, experiment: Experiment, device: torch.device, record: RecipeRecord) -> bool:
    wanted = experiment.optimizer.fused
    if wanted is False:
        if record.has("fused"):
            record.leave_out("fused", f"{named('optimizer.fused')} is off")
        return False
    if not (wanted or record.has("fused")):
        return False
    reason = no_fused_form(model, device)
    if uses_torchao(experiment):
        reason = "torchao's optimizers are compiled and have no fused form"
    kind = experiment.optimizer.kind
    if not kind.has_fused:
        reason = f"PyTorch has no fused {kind.label}"
    if reason is None and uses_fsdp(experiment) and not kind.fuses_sharded:
        reason = f"PyTorch has no fused {kind.label} for weights sharded by FSDP2"
    if reason is not None:
        record.leave_out("fused", reason)
    return reason is None


def _not_capturable(experiment: Experiment, device: torch.device, is_fused: bool) -> str | None:
    if experiment.devices > 1:
        return "a step that synchronizes gradients is not captured"
    if device.type != "cuda":
        return "only CUDA devices support CUDA graphs"
    if uses_torchao(experiment):
        return "torchao's optimizers count their steps on the host"
    if experiment.uses_scaler and not is_fused:
        return "the loss scaler synchronizes with the GPU unless the optimizer is fused"
    kind = experiment.optimizer.kind
    if not kind.is_capturable and not is_fused:
        return f"{kind.label} reads its learning rate on the host unless it is fused"
    return None
