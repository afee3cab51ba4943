"""The step that a workload file defines itself: several losses or optimizers, counted like any other step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError, request_error
from engine.training.data.batches import Batch
from engine.training.models.backward import run_backward, with_forward_line
from engine.training.models.outputs import scalar_loss
from engine.training.precision import autocast
from engine.training.ranks.sharing import average_gradients
from engine.training.steps.plain import PlainStep, found_inf_of

Body = Callable[["Train", Batch], Any]
_STEP = "step(train, batch)"


class Optimizers:
    """Several optimizers as one: what is restored, listed and cleared of them together."""

    def __init__(self, members: Iterable[torch.optim.Optimizer]) -> None:
        self.members = tuple(members)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.members for group in optimizer.param_groups]

    @property
    def state(self) -> dict[Any, Any]:
        return {key: value for member in self.members for key, value in member.state.items()}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.members:
            optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state as of one optimizer: the parameters of all members are numbered through."""
        state: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        for first, saved in self._numbered():
            state |= {first + number: values for number, values in saved["state"].items()}
            groups += [
                {**group, "params": [first + number for number in group["params"]]}
                for group in saved["param_groups"]
            ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for member, (first, own) in zip(self.members, self._numbered(), strict=True):
            count = sum(len(group["params"]) for group in own["param_groups"])
            numbers = range(first, first + count)
            state = {number - first: saved["state"][number] for number in numbers if number in saved["state"]}
            member.load_state_dict({"state": state, "param_groups": own["param_groups"]})

    def _numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        # the number of each member's first parameter, and its state
        first = 0
        for member in self.members:
            saved = member.state_dict()
            yield first, saved
            first += sum(len(group["params"]) for group in saved["param_groups"])


class Train:
    """The argument of `step(train, batch)`: the model, its optimizers, and the parts of a step under AMP.

    `optimizer` is the only one or the first, `optimizers` are those that the file's `optimizer(model)`
    returned, as it returned them. Gradients are cleared before the body runs, and those that an optimizer has
    used before the next backward pass.
    """

    def __init__(self, step: OwnStep, optimizers: Any) -> None:
        self.model = step.model
        self.device = step.device
        self.optimizers = optimizers
        self.optimizer: torch.optim.Optimizer = members_in(optimizers)[0]
        self._step = step

    def autocast(self) -> AbstractContextManager[object]:
        """The context for the forward pass and the loss; does nothing in a precision without autocast."""
        return self._step.autocast()

    def backward(self, loss: Tensor, **settings: Any) -> None:
        """The backward pass of a scalar loss, scaled where the run has a loss scaler."""
        self._step.backward(loss, settings)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divides the optimizer's gradients by the loss scale; call it before looking at or clipping them."""
        self._step.unscale(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Clips the gradients if the run does, and makes the optimizer's step unless they overflowed."""
        self._step.make(optimizer)

    def was_skipped(self, optimizer: torch.optim.Optimizer) -> bool:
        """True if the optimizer's last step was skipped for an overflow. Waits for the device."""
        return self._step.was_skipped(optimizer)


class OwnStep(PlainStep):
    """Runs the body of a workload file for each batch, and records what it did.

    The loss is what the body returns, or else the sum of the losses that went backward.
    """

    def __init__(self, *args: Any, body: Body, optimizers: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._averaged: set[int] = set()
        self._body = body
        self._train = Train(self, optimizers)
        self._unscaled: set[int] = set()
        self._stepped: set[int] = set()
        self._found: dict[int, Tensor] = {}
        self._spent: list[torch.optim.Optimizer] = []
        self._worst: Tensor | None = None
        self._norm: Tensor | None = None
        self._total: Tensor | None = None

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        return with_forward_line(lambda: self._make(batches))

    def _make(self, batches: Sequence[Batch]) -> Tensor:
        self.model.zero_grad(set_to_none=True)
        self.optimizer.zero_grad(set_to_none=True)
        self._worst = self._norm = self._total = None
        self._spent.clear()
        returned = [self._body(self._train, batch) for batch in batches][-1]
        if self._total is None or self._worst is None:
            raise _incomplete("train.backward(loss)" if self._total is None else "train.step(optimizer)")
        loss = self._total if returned is None else scalar_loss(returned, _STEP)
        row = self._row(loss.detach(), self._norm)
        self.end_cycle()
        return row

    def _shared(self, experiment: Experiment) -> nn.Module:
        # its passes are not known beforehand: the gradients are averaged once an optimizer uses them
        return self.model

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Makes the step as a whole, which cannot be parted; returns the loss."""
        return self(batches)[0]

    def autocast(self) -> AbstractContextManager[object]:
        return autocast(self.autocast_precision, self.device, cache_enabled=self._cache_casts)

    def backward(self, loss: Tensor, settings: Mapping[str, Any]) -> None:
        loss = scalar_loss(loss, _STEP, needs_gradient=True)
        # no sooner: given back to the system after each step, their memory would have to be taken again
        for optimizer in self._spent:
            optimizer.zero_grad(set_to_none=True)
        self._spent.clear()
        scaled = self.scaler.scale(loss)
        run_backward(scaled, partial(scaled.backward, **settings))
        self._total = loss.detach() if self._total is None else self._total + loss.detach()

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) in self._stepped:
            # the scaler takes each optimizer once between two updates
            self.end_cycle()
        self._average(optimizer)
        if self.scaler.is_enabled() and id(optimizer) not in self._unscaled:
            self.scaler.unscale_(optimizer)
            self._unscaled.add(id(optimizer))

    def make(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) in self._stepped:
            self.end_cycle()
        self._average(optimizer)
        if self._clip_norm is not None:
            self.unscale(optimizer)
            norm = clip_grad_norm_(_parameters_of(optimizer), self._clip_norm, error_if_nonfinite=False)
            self._norm = norm if self._norm is None else torch.maximum(self._norm, norm)
        self.scaler.step(optimizer)
        self._stepped.add(id(optimizer))
        found = found_inf_of(self.scaler, optimizer, self.device)
        self._found[id(optimizer)] = found
        self._worst = found if self._worst is None else torch.maximum(self._worst, found)
        self._spent.append(optimizer)

    def _average(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) not in self._averaged:
            average_gradients(_parameters_of(optimizer))
            self._averaged.add(id(optimizer))

    def was_skipped(self, optimizer: torch.optim.Optimizer) -> bool:
        found = self._found.get(id(optimizer))
        return found is not None and bool(found.item() > 0)

    def _found_inf(self) -> Tensor:
        assert self._worst is not None  # the body has made a step
        return self._worst

    def end_cycle(self) -> None:
        if self._stepped:
            self.scaler.update()
        for done in (self._stepped, self._unscaled, self._averaged):
            done.clear()


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def members_in(made: Any) -> list[Any]:
    """The optimizers in what a file's `optimizer(model)` returned."""
    if isinstance(made, Mapping):
        return list(made.values())
    return list(made) if isinstance(made, tuple | list) else [made]


def as_one(made: Any) -> torch.optim.Optimizer:
    """The optimizers of a file's `optimizer(model)` as one, which is saved and restored as a whole."""
    members = members_in(made)
    # several are used as one only where the step's own parts are: restored, listed and cleared
    return members[0] if len(members) == 1 else Optimizers(members)  # type: ignore[return-value]


def _incomplete(call: str) -> ProblemError:
    message = f"The model's {_STEP} did not call {call}."
    return request_error(message, f"Call {call} in it: nothing was trained.", key="model")
