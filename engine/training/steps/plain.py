"""The plain optimizer step, and the record of which parts of the recipe are in force, or why not.

A step trains on a group of batches and leaves a row of figures on the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind
from engine.experiment.settings import RecipePart, joined
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.failures import problem_of
from engine.training.models.outputs import Forward, LossFunction, call_model
from engine.training.precision import autocast
from engine.training.steps.optimizer import optimizer_for, scaler_for

_LONGEST = 120
# "InductorError: InvalidCxxCompiler: No working compiler" says enough from "No working" on.
_CLASS_NAMES = re.compile(r"^(?:[\w.]*(?:Error|Exception|Failed|Compiler|Missing)\w*:\s*)+")
_SAYS_NOTHING = re.compile(r"raised:?$|^$")


def reason_of(error: Exception) -> str:
    """The first informative line of an error. Raises the error itself where memory ran out."""
    for cause in _with_causes(error):
        if problem_of(cause).kind is Kind.OUT_OF_MEMORY:
            raise cause
    lines = (line.strip() for line in str(_first_of(error)).splitlines())
    text = next((line for line in lines if not _SAYS_NOTHING.search(line)), type(error).__name__)
    text = _CLASS_NAMES.sub("", text).rstrip(".") or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _first_of(error: BaseException) -> BaseException:
    # The error that broke a capture comes first; ending the capture then fails too, and says less.
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


class RecipeRecord:
    """The requested parts of the recipe, and what became of them."""

    def __init__(self, wanted: Iterable[RecipePart]) -> None:
        self._in_force = list(wanted)
        self._left_out: dict[str, str] = {}
        self._notes: list[str] = []

    @property
    def recipe(self) -> str:
        """The parts in force, by the name that `joined` gives them."""
        return joined(self._in_force)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Requested parts that are not in force, each with the reason as a short clause."""
        return self._left_out

    def has(self, part: RecipePart) -> bool:
        """True for a part that was requested and is still in force."""
        return part in self._in_force

    def leave_out(self, part: RecipePart, reason: str) -> None:
        """Takes a part out of force; only the first reason is kept."""
        if part in self._left_out:
            return
        self._in_force = [other for other in self._in_force if other != part]
        self._left_out[part] = reason
        self._notes.append(f"The recipe goes without {part}: {reason}.")

    def take_notes(self) -> list[str]:
        """A sentence on each part left out since the last call."""
        notes, self._notes = self._notes, []
        return notes


__all__ = ["Forward", "LossFunction", "PlainStep", "TrainingStep", "optimizer_for", "scaler_for"]


def found_inf_of(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, device: torch.device
) -> Tensor:
    """1 on the device if the optimizer's gradients overflowed, else 0; call it before `scaler.update`."""
    if not scaler.is_enabled():
        return torch.zeros((), device=device)
    # there is no public way to it that would not wait for the device
    found: Tensor = next(iter(scaler._found_inf_per_device(optimizer).values()))
    return found


class TrainingStep(Protocol):
    """An optimizer step; the loop calls it.

    Load a saved state of the optimizer or the scaler before the first call.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The figures' names: "loss", then those of the scaler and of clipping, if any."""
        ...

    @property
    def model(self) -> nn.Module:
        """The module itself, neither compiled nor captured: what to validate and to save."""
        ...

    @property
    def watched(self) -> nn.Module:
        """The module whose hooks see every uncaptured forward pass."""
        ...

    @property
    def running(self) -> PlainStep | None:
        """The step whose code runs at each call; None once a captured graph is replayed instead."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer: ...

    @property
    def scaler(self) -> torch.amp.GradScaler: ...

    @property
    def memory_format(self) -> torch.memory_format:
        """The memory format that pictures should have."""
        ...

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        """Trains on a group of batches; returns its figures as float32 (columns,), valid until the next call.

        The loss is the mean over the group's samples, the grad scale is the one this step used, and the norm
        is the one before clipping.
        """
        ...

    def next_phase(self) -> PhaseName | None:
        """The phase of the next call besides training; None once the step is steady."""
        ...

    def set_learning_rate(self, value: float) -> None:
        """Sets the rate of later steps without waiting for the device."""
        ...

    @property
    def rate_factor(self) -> float:
        """The first rate of an optimizer with rates of its own, over the experiment's; else 1."""
        ...

    @property
    def recipe(self) -> str:
        """The parts in force now."""
        ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """The reason why each requested part that is missing was left out."""
        ...

    @property
    def compile_seconds(self) -> float | None: ...

    @property
    def capture_seconds(self) -> float | None: ...

    def take_notes(self) -> list[str]:
        """A sentence on each part left out since the last call."""
        ...


class PlainStep:
    """The step as in PyTorch's own guides to mixed precision and gradient accumulation.

    Only `GradScaler.step` waits for the device: it reads found_inf once per step if the optimizer is not
    fused. That wait belongs to the plain recipe and is measured with it. The model is on `device`, in
    training mode; `call` gives its outputs for a batch's inputs. With `has_own_rates` the optimizer keeps its
    own learning rates, which a schedule multiplies.
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
        self.scaler = scaler_for(experiment, device)
        self.memory_format = memory_format
        self.compile_seconds: float | None = None
        self.capture_seconds: float | None = None
        self._loss_function = loss_function
        self._precision = experiment.precision
        self._clip_norm = experiment.step.clip_norm
        self._cache_casts = cache_casts
        self._parameters = list(model.parameters())
        self._learning_rate: float | None = None
        self._call = call
        peak, groups = experiment.optimizer.learning_rate, optimizer.param_groups
        self._factors = [float(group["lr"]) / peak if has_own_rates else 1.0 for group in groups]

    @property
    def columns(self) -> tuple[str, ...]:
        scaled = ("grad_scale", "found_inf") if self.scaler.is_enabled() else ()
        clipped = () if self._clip_norm is None else ("grad_norm",)
        return ("loss", *scaled, *clipped)

    @property
    def watched(self) -> nn.Module:
        return self.model

    @property
    def running(self) -> PlainStep | None:
        return self

    @property
    def recipe(self) -> str:
        return self.record.recipe

    @property
    def left_out(self) -> Mapping[str, str]:
        return self.record.left_out

    def take_notes(self) -> list[str]:
        return self.record.take_notes()

    def next_phase(self) -> PhaseName | None:
        return None

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        return self.update(self.gradients(batches))

    @property
    def rate_factor(self) -> float:
        return self._factors[0]

    def set_learning_rate(self, value: float) -> None:
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
        """Leaves the group's scaled gradients in the parameters; returns its mean loss."""
        self.optimizer.zero_grad(set_to_none=True)
        samples = sum(map(batch_samples, batches))
        total: Tensor | None = None
        for batch in batches:
            inputs, targets = batch
            with autocast(self._precision, self.device, cache_enabled=self._cache_casts):
                loss = self._loss_function(self._forward(inputs), targets)
            if len(batches) > 1:
                loss = loss / (samples / batch_samples(batch))
            self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total = loss.detach() if total is None else total + loss.detach()
        assert total is not None, "a group has at least one batch"
        return total

    def _forward(self, inputs: Any) -> Any:
        return self._call(self.model, inputs)

    def update(self, loss: Tensor) -> Tensor:
        """Makes the optimizer step of the gradients that are left; returns the row of figures."""
        norm: Tensor | None = None
        if self._clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            # Raising on a non-finite norm would wait; the scaler skips such a step anyway.
            norm = clip_grad_norm_(self._parameters, self._clip_norm, error_if_nonfinite=False)
        self.scaler.step(self.optimizer)
        row = self._row(loss, norm)  # before the scale is updated, which happens in place
        self.scaler.update()
        return row

    def _found_inf(self) -> Tensor:
        return found_inf_of(self.scaler, self.optimizer, self.device)

    def _row(self, loss: Tensor, norm: Tensor | None) -> Tensor:
        figures = [loss.float()]
        if self.scaler.is_enabled():
            # `get_scale()` would wait for the device
            scale = self.scaler._get_scale_async()
            assert scale is not None, "scaling the loss has made it"
            figures += [scale, self._found_inf()]
        if norm is not None:
            figures.append(norm.float())
        return torch.stack(figures)
