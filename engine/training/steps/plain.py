"""The plain optimizer step with its loss scaler, and the learning rate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from engine.experiment.experiment import Experiment, Optimizer, Precision, Schedule
from engine.experiment.problem import Kind
from engine.experiment.settings import RecipePart, joined
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.failures import problem_of
from engine.training.models.outputs import Forward, LossFunction, call_model
from engine.training.models.own import run_backward, with_forward_line
from engine.training.models.recompute import Offload
from engine.training.precision import autocast
from engine.training.ranks import (
    DistributedModel,
    full_tensor,
    is_sharded,
    set_gradient_sync,
    wrap_model,
)
from engine.training.steps.compile_watch import CompileWatch
from engine.training.steps.counters import HostCounters
from engine.training.steps.optimizers import uses_torchao

# PyTorch's defaults for one-cycle: it begins at a 25th of the peak and ends at a 10,000th of that.
_ONE_CYCLE_BEGIN, _ONE_CYCLE_END = 1 / 25, 1 / 250_000


def learning_rate_at(
    step: int, optimizer: Optimizer, schedule: Schedule, total_steps: int, steps_per_epoch: int
) -> float:
    """Return the learning rate of one optimizer step. `step` counts from 0.

    The curves are those of `torch.optim.lr_scheduler`: LinearLR for the warm-up (its first step has one part
    in `warmup_steps + 1`, the step after it the peak), then CosineAnnealingLR over the remaining steps,
    OneCycleLR over all steps, or StepLR, whose epochs count from the run's start.
    """
    peak, warm = optimizer.learning_rate, schedule.warmup_steps
    if step < warm:
        return peak * (step + 1) / (warm + 1)
    match schedule.name:
        case "cosine":
            last = total_steps - 1 - warm
            return peak * (_annealed(1.0, schedule.final_fraction, (step - warm) / last) if last > 0 else 1.0)
        case "one-cycle":
            top, last = schedule.rise_fraction * total_steps - 1, total_steps - 1
            if step < top:
                return peak * _annealed(_ONE_CYCLE_BEGIN, 1.0, step / top)
            return peak * _annealed(1.0, _ONE_CYCLE_END, (step - top) / (last - top))
        case "step":
            decays = step // (schedule.decay_epochs * steps_per_epoch)
            return peak * schedule.decay_factor**decays
        case "constant":
            return peak


def _annealed(begin: float, end: float, fraction: float) -> float:
    # the value at a fraction (0 to 1) of half a cosine wave
    return end + (begin - end) * (1 + math.cos(math.pi * min(fraction, 1.0))) / 2


def build_scaler(experiment: Experiment, device: torch.device) -> torch.amp.GradScaler:
    """Return the experiment's loss scaler. Without one, it is disabled and passes everything through."""
    settings = experiment.scaler
    return torch.amp.GradScaler(
        device=device.type,
        init_scale=settings.init_scale,
        growth_factor=settings.growth_factor,
        backoff_factor=settings.backoff_factor,
        growth_interval=settings.growth_interval,
        enabled=experiment.uses_scaler,
    )


_LONGEST = 120
# "InductorError: InvalidCxxCompiler: No working compiler" says enough from "No working" on.
_CLASS_NAMES = re.compile(r"^(?:[\w.]*(?:Error|Exception|Failed|Compiler|Missing)\w*:\s*)+")
_SAYS_NOTHING = re.compile(r"raised:?$|^$")


def error_reason(error: Exception) -> str:
    """Return the first informative line of an error. Raises the error itself if memory ran out."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if problem_of(cause).kind is Kind.OUT_OF_MEMORY:
            raise cause
        cause = cause.__cause__ or cause.__context__
    # the error that broke a capture comes first; ending the capture then fails too, and says less
    first: BaseException = error
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    lines = (line.strip() for line in str(first).splitlines())
    text = next((line for line in lines if not _SAYS_NOTHING.search(line)), type(error).__name__)
    text = _CLASS_NAMES.sub("", text).rstrip(".") or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


class RecipeRecord:
    """The optimizations (such as "fused") that a step uses, and those requested but left out.

    `left_out` maps an optimization to the reason, as a clause.
    """

    def __init__(self, wanted: Iterable[RecipePart]) -> None:
        self._active = list(wanted)
        self.left_out: dict[str, str] = {}
        self._notes: list[str] = []

    @property
    def recipe(self) -> str:
        """The active optimizations in one text, such as "channels_last+fused"."""
        return joined(self._active)

    def has(self, part: RecipePart) -> bool:
        """Return True for an optimization that was requested and is active."""
        return part in self._active

    def leave_out(self, part: RecipePart, reason: str) -> None:
        """Deactivate an optimization. Only the first reason is kept."""
        if part in self.left_out:
            return
        self._active = [other for other in self._active if other != part]
        self.left_out[part] = reason
        self._notes.append(f"{part} is not applied: {reason}.")

    def note(self, sentence: str) -> None:
        """Add a sentence for the next `pop_notes`."""
        self._notes.append(sentence)

    def pop_notes(self) -> list[str]:
        """Return the new notes since the last call: a sentence for each deactivated optimization and each
        `note`.
        """
        notes, self._notes = self._notes, []
        return notes


def found_inf_flag(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, device: torch.device
) -> Tensor:
    """Return 1, on the device, if the optimizer's gradients overflowed, else 0, before `scaler.update`."""
    if scaler.is_enabled():
        # there is no public way to it that would not wait for the device
        found: Tensor
        for found in scaler._found_inf_per_device(optimizer).values():
            return found
    return torch.zeros((), device=device)


def has_gradients(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if a parameter of the optimizer has a gradient, which GradScaler requires."""
    return any(it.grad is not None for group in optimizer.param_groups for it in group["params"])


class PlainStep:
    """The optimizer step as PyTorch's guides to mixed precision and gradient accumulation describe it.

    Only `GradScaler.step` synchronizes with the device: it reads found_inf once per step if the optimizer is
    not fused. That is part of the plain step and measured with it. The model is on `device`, in training
    mode. `call` returns its outputs for a batch's inputs. With `has_own_rates` the optimizer keeps its own
    learning rates, which a schedule multiplies. Load a saved state before the first call.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_function: LossFunction,
        experiment: Experiment,
        device: torch.device,
        *,
        optimizer: torch.optim.Optimizer,
        record: RecipeRecord,
        memory_format: torch.memory_format = torch.contiguous_format,
        cache_casts: bool = True,
        call: Forward = call_model,
        has_own_rates: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.record = record
        self.optimizer = optimizer
        self.scaler = build_scaler(experiment, device)
        self.memory_format = memory_format
        self.compile_seconds: float | None = None
        self.compile_watch: CompileWatch | None = None
        self.capture_seconds: float | None = None
        self.capture_failed = False  # not where a capture was ruled out before it was tried
        self.counters: HostCounters | None = None
        self._loss_function = loss_function
        # sharded, it casts by itself
        self.autocast_precision = Precision.FP32 if is_sharded(model) else experiment.precision
        self._clip_norm = experiment.step.clip_norm
        self._cache_casts = cache_casts
        self._is_torchaos = uses_torchao(experiment)
        self.experiment = experiment
        offloads = experiment.step.offload_activations
        self._stores: AbstractContextManager[Any] = Offload(model) if offloads else nullcontext()
        self._parameters = list(model.parameters())
        self._called = self._shared(experiment)
        self._learning_rate: float | None = None
        self._call = call
        peak, groups = experiment.optimizer.learning_rate, optimizer.param_groups
        self._factors = [float(group["lr"]) / peak if has_own_rates else 1.0 for group in groups]

    @property
    def compiles(self) -> bool:
        """True if a part of the step is compiled."""
        return self._is_torchaos

    def uncompiled_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the model itself, without the wrappers that compile or distribute it."""
        is_cached = self._cache_casts
        with self._stores, autocast(self.autocast_precision, self.device, cache_enabled=is_cached):
            return self._loss_function(self._call(self.model, batch[0]), batch[1])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values: "loss", then those of the scaler and of clipping, if any."""
        scaled = ("grad_scale", "found_inf") if self.scaler.is_enabled() else ()
        clipped = () if self._clip_norm is None else ("grad_norm",)
        return ("loss", *scaled, *clipped, *(("own_inf",) if self._looks_for_inf else ()))

    @property
    def watched(self) -> nn.Module:
        """The module whose hooks see every uncaptured forward pass."""
        return self.model

    @property
    def is_replayed(self) -> bool:
        """True once a captured graph is replayed instead of this code."""
        return False

    def next_phase(self) -> PhaseName | None:
        """The phase of the next call besides training. None once the step is steady."""
        # the first update of each weight compiles
        return PhaseName.COMPILING if self._is_torchaos and not self.optimizer.state else None

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        """Train on a group of batches. Return its values as float32 (columns,), valid until the next call.

        The loss is the mean over the group's samples, the loss scale is the one used by this step, and the
        norm is the one before clipping.
        """
        self.count_passes(batches)
        return self.update(self.gradients(batches))

    def count_passes(self, batches: Sequence[Batch]) -> None:
        """Count the passes of a group on the host, if BatchNorm's counters are there."""
        if self.counters is None:
            return
        try:
            self.counters.count(len(batches), lambda: self._pass(batches[0][0]))
        except Exception as error:  # noqa: BLE001 - a model that reads its own numbers fails in any way
            self.counters = None
            reason = f"a pass with fake tensors failed ({error_reason(error)})"
            self.record.leave_out("host_counters", reason)

    def _pass(self, inputs: Any) -> None:
        with autocast(self.autocast_precision, self.device):
            self._call(self.model, inputs)

    @property
    def rate_factor(self) -> float:
        """The first learning rate of an optimizer with its own rates, over the experiment's, else 1."""
        return self._factors[0]

    def set_learning_rate(self, value: float) -> None:
        """Set the learning rate of later steps without synchronizing with the device."""
        for group, factor in zip(self.optimizer.param_groups, self._factors, strict=True):
            rate = group["lr"]
            if not isinstance(rate, Tensor):
                group["lr"] = value * factor
            elif rate.device.type != self.device.type:  # a saved state may have brought it
                group["lr"] = torch.full((), value, device=self.device)
            elif value != self._learning_rate:
                rate.fill_(value)
        self._learning_rate = value

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Leave the group's scaled gradients in the parameters. Return its mean loss."""
        return with_forward_line(lambda: self._gradients(batches))

    def _gradients(self, batches: Sequence[Batch]) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        samples = sum(map(batch_samples, batches))
        total: Tensor | None = None
        for number, batch in enumerate(batches, 1):
            inputs, targets = batch
            if len(batches) > 1:
                # what is accumulated is sent once
                set_gradient_sync(self._called, number == len(batches))
            is_cached = self._cache_casts
            with self._stores, autocast(self.autocast_precision, self.device, cache_enabled=is_cached):
                loss = self._loss_function(self._forward(inputs), targets)
            if len(batches) > 1:
                loss = loss / (samples / batch_samples(batch))
            scaled = self.scaler.scale(loss)
            run_backward(scaled, scaled.backward)
            total = loss.detach() if total is None else total + loss.detach()
        if isinstance(self._called, DistributedModel):
            self._called.check_gradients_sent()
        assert total is not None, "a group has at least one batch"
        return total

    def note_communication(self) -> None:
        """Record the latest communication times, if ranks synchronize gradients."""
        if isinstance(self._called, DistributedModel):
            self._called.note_communication()

    def communication(self, step_ms: float) -> tuple[float, float] | None:
        """Return `DistributedModel.communication`. None on one device, and for shards."""
        return self._called.communication(step_ms) if isinstance(self._called, DistributedModel) else None

    @property
    def _looks_for_inf(self) -> bool:
        return isinstance(self._called, DistributedModel) and self._called.needs_local_inf

    def _shared(self, experiment: Experiment) -> nn.Module:
        return wrap_model(self.model, experiment, self.device)

    def _forward(self, inputs: Any) -> Any:
        return self._call(self._called, inputs)

    def update(self, loss: Tensor) -> Tensor:
        """Run the optimizer step on the gradients. Return the row of values."""
        if self.scaler.is_enabled() and not has_gradients(self.optimizer):
            self.optimizer.step()
            return self._row(loss, None if self._clip_norm is None else torch.zeros_like(loss))
        norm: Tensor | None = None
        if self._clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            # Raising on a non-finite norm would wait; the scaler skips such a step anyway.
            norm = full_tensor(clip_grad_norm_(self._parameters, self._clip_norm, error_if_nonfinite=False))
        self.scaler.step(self.optimizer)
        row = self._row(loss, norm)  # before the scale is updated, which happens in place
        self.scaler.update()
        return row

    def _found_inf(self) -> Tensor:
        return found_inf_flag(self.scaler, self.optimizer, self.device)

    def _row(self, loss: Tensor, norm: Tensor | None, *more: Tensor) -> Tensor:
        figures = [loss.float()]
        if self.scaler.is_enabled():
            # `get_scale()` would wait for the device
            scale = self.scaler._get_scale_async()
            if scale is None:  # no loss was scaled yet
                scale = torch.full((), self.scaler.get_scale(), device=self.device)
            figures += [scale, self._found_inf()]
        if norm is not None:
            figures.append(norm.float().to(self.device))
        if isinstance(self._called, DistributedModel) and self._called.needs_local_inf:
            figures.append(self._called.pop_local_inf())
        return torch.stack((*figures, *more))
