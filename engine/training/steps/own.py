"""The step that a workload file defines itself, counted like any step, and its rules for a loss scaler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.hooks import RemovableHandle

from engine.experiment.experiment import Experiment, named
from engine.experiment.problem import ProblemError, request_error, request_problem
from engine.training.data.batches import Batch
from engine.training.models.outputs import scalar_loss
from engine.training.models.own import own_place, run_backward, with_forward_line
from engine.training.precision import autocast
from engine.training.ranks import average_gradients, is_sharded
from engine.training.steps.optimizers import list_optimizers
from engine.training.steps.plain import PlainStep, found_inf_flag, has_gradients


class Rule(NamedTuple):
    """A rule of using a loss scaler that a step broke: a clause that follows "In FP16, ", and the remedy."""

    message: str
    remedy: str


BACKWARD_AFTER_UNSCALE = Rule(
    "train.backward adds scaled gradients to gradients already divided by the loss scale (train.unscale).",
    "Call train.unscale(optimizer) after the last train.backward and before train.step(optimizer).",
)
BACKWARD_BESIDE = Rule(
    "gradients that train.backward did not make are divided by the loss scale.",
    "Call train.backward(loss) instead of loss.backward().",
)
STEP_BESIDE = Rule(
    "optimizer.step() ignores the loss scaler, so scaled gradients and overflows reach the weights.",
    "Call train.step(optimizer) instead of optimizer.step().",
)
STEP_TWICE = Rule(
    "train.step uses gradients again that it has already divided by the loss scale.",
    "Call train.step(optimizer) once after train.backward(loss).",
)
UNSCALE_AFTER_STEP = Rule(
    "train.unscale divides gradients that train.step has already divided by the loss scale.",
    "Call train.unscale(optimizer) before train.step(optimizer).",
)

_WATCHED_CALLS = 10


class BrokenRuleError(ProblemError):
    """Raised when a workload file's step uses the loss scaler wrongly, so it would train wrongly."""


class ScalerRules:
    """Checks that a workload file's step uses the loss scaler correctly. Raises BrokenRuleError.

    In a run without a loss scaler, broken rules are only recorded in `broken`. Only the first calls check
    which backward pass made each gradient, because that takes time.
    """

    def __init__(
        self, optimizers: Sequence[torch.optim.Optimizer], *, is_scaled: bool, is_watched: bool
    ) -> None:
        self.broken: dict[Rule, tuple[str, int] | None] = {}
        self._is_scaled = is_scaled
        self._calls_left = _WATCHED_CALLS if is_watched else 0
        self._optimizers = optimizers
        self._is_of_train = False  # the backward pass or step in progress
        self._adds_to_unscaled = False
        # for each watched gradient: whether train.backward made a part of it, and whether another pass did
        self._made: dict[Tensor, set[bool]] = {}
        self._ever_scaled: set[int] = set()
        self._unscaled: set[Tensor] = set()
        self._spent: list[torch.optim.Optimizer] = []
        for optimizer in optimizers:
            for member in getattr(optimizer, "members", (optimizer,)):
                member.register_step_pre_hook(self._before_step)

    @contextmanager
    def in_call(self) -> Iterator[None]:
        """Check one call of the file's step in this context. Gradients are cleared before."""
        self._unscaled.clear()
        self._spent.clear()
        handles: list[RemovableHandle] = []
        if self._calls_left > 0:
            self._calls_left -= 1
            every = {it for optimizer in self._optimizers for it in parameters_of(optimizer)}
            self._made = {parameter: set() for parameter in every if parameter.requires_grad}
            handles = [
                parameter.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]
                for parameter in self._made
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._made.clear()

    @contextmanager
    def of_train(self) -> Iterator[None]:
        """Mark the backward pass or optimizer step in this context as made by `train`."""
        self._is_of_train, self._adds_to_unscaled = True, False
        try:
            yield
        finally:
            self._is_of_train = False
        if self._adds_to_unscaled:
            self._break(BACKWARD_AFTER_UNSCALE)

    def clear_used(self) -> None:
        """Clear the gradients that optimizers have used."""
        for optimizer in self._spent:
            optimizer.zero_grad(set_to_none=True)
        self._spent.clear()

    def check_unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Check a call of `train.unscale` for an optimizer with gradients, before it runs."""
        self._check(optimizer, UNSCALE_AFTER_STEP)
        if self._made:
            self._unscaled.update(parameters_of(optimizer))

    def check_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Check a call of `train.step` for an optimizer with gradients, before it runs."""
        self._check(optimizer, STEP_TWICE)

    def note_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Record that an optimizer has used its gradients, which may come from other devices only."""
        self._unscaled.difference_update(parameters_of(optimizer) if self._unscaled else ())
        self._spent.append(optimizer)

    def _check(self, optimizer: torch.optim.Optimizer, if_spent: Rule) -> None:
        if optimizer in self._spent:
            self._break(if_spent)
        elif any(made != {True} for made in self._makers(optimizer)):
            self._break(BACKWARD_BESIDE)

    def _makers(self, optimizer: torch.optim.Optimizer) -> Iterator[set[bool]]:
        for parameter in parameters_of(optimizer) if self._made else ():
            if parameter.grad is not None and parameter in self._made:
                yield self._made[parameter]

    def _note(self, parameter: Tensor) -> None:
        if parameter.grad is not None and parameter.grad._version == 0:
            self._made[parameter].clear()  # a new one, since the last was cleared
        self._made[parameter].add(self._is_of_train)
        if self._is_of_train:
            self._adds_to_unscaled |= parameter in self._unscaled
            self._ever_scaled.add(id(parameter))

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._is_of_train or not has_gradients(optimizer):
            return
        if self._made:
            is_scaled = any(True in made for made in self._makers(optimizer))
        else:
            is_scaled = any(id(parameter) in self._ever_scaled for parameter in parameters_of(optimizer))
        if is_scaled:
            self._break(STEP_BESIDE)

    def _break(self, rule: Rule) -> None:
        if self._is_scaled:
            raise BrokenRuleError(request_problem(f"In FP16, {rule.message}", rule.remedy, key="model"))
        if rule not in self.broken:
            self.broken[rule] = own_place()


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


Body = Callable[["StepContext", Batch], Any]
IDLE_CALLS = 16
"""The first calls that may all go without an optimizer step, as after a loss that is not finite."""
_STEP = "step(train, batch)"
ADDED_UP = (
    f"{_STEP} ended without train.step, so its batch counts as skipped, and its gradients are cleared.",
    f"To accumulate the gradients of several batches, set {named('step.gradient_accumulation')}.",
)
"""The note on a step that seems to accumulate gradients by itself, and its remedy."""


class StepContext:
    """The argument `train` of a workload file's `step(train, batch)`: model, optimizers and AMP functions.

    `optimizers` is the return value of the file's `optimizer(model)`, and `optimizer` its only or first one.
    Gradients are cleared before the step function runs. Those that an optimizer has used are cleared before
    the next backward pass.
    """

    def __init__(self, step: OwnStep, optimizers: Any) -> None:
        self.model = step.model
        self.device = step.device
        self.optimizers = optimizers
        self.optimizer: torch.optim.Optimizer = list_optimizers(optimizers)[0]
        self._step = step

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context for the forward pass and the loss, without effect if there is no autocast."""
        return self._step.autocast()

    def backward(self, loss: Tensor, **settings: Any) -> None:
        """Run the backward pass of a scalar loss, scaled if the run has a loss scaler."""
        self._step.backward(loss, settings)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the optimizer's gradients by the loss scale. Call it before reading or clipping them."""
        self._step.unscale(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip the gradients if the run does, and run the optimizer's step unless they overflowed."""
        self._step.make(optimizer)

    def was_skipped(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return True if an overflow skipped the optimizer's last step. Synchronizes with the device."""
        return self._step.was_skipped(optimizer)


class OwnStep(PlainStep):
    """The step that a workload file defines as a function, `body`, which is called with each batch.

    The loss is the function's return value, or else the sum of the losses of its backward passes.
    """

    def __init__(self, *args: Any, body: Body, optimizers: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._averaged: set[int] = set()
        self._body = body
        self.has_autocast = False  # True once the body has entered train.autocast()
        self._train = StepContext(self, optimizers)
        self._unscaled: set[int] = set()
        self._stepped: set[int] = set()
        self._found: dict[int, Tensor] = {}
        self.rules = ScalerRules(
            list_optimizers(optimizers),
            is_scaled=self.scaler.is_enabled(),
            is_watched=not is_sharded(self.model),
        )
        self._worst: Tensor | None = None
        self._norm: Tensor | None = None
        self._total: Tensor | None = None
        # in this call: a step, with gradients or without, and a look at gradients
        self._has_made = self._has_unscaled = False
        self.adds_up = False  # True once a call has left gradients that it did not look at
        self._idle_calls: int | None = 0  # so far without a gradient that was used; None after one with it
        self._is_idle = torch.tensor([0.0, 1.0], device=self.device)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the plain step, and "own_skip": 1 if the body made no optimizer step."""
        return (*super().columns, "own_skip")

    @property
    def has_stepped(self) -> bool:
        """True once the body has made an optimizer step."""
        return self._idle_calls is None

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        return with_forward_line(lambda: self._make(batches))

    def _make(self, batches: Sequence[Batch]) -> Tensor:
        self.model.zero_grad(set_to_none=True)
        self.optimizer.zero_grad(set_to_none=True)
        self._worst = self._norm = self._total = None
        self._has_made = self._has_unscaled = False
        with self.rules.in_call(), self._stores:
            returned = [self._body(self._train, batch) for batch in batches][-1]
        if self._worst is not None:
            self._idle_calls = None
        else:
            self._count_idle_call()
        loss = self._total if returned is None else scalar_loss(returned, _STEP)
        if loss is None:
            loss = torch.full((), torch.nan, device=self.device)
        if self._clip_norm is not None and self._norm is None:
            self._norm = torch.zeros((), device=self.device)
        row = self._row(loss.detach(), self._norm, self._is_idle[int(self._worst is None)])
        self.end_cycle()
        return row

    def _count_idle_call(self) -> None:
        if self._total is not None and not (self._has_made or self._has_unscaled or self.adds_up):
            self.adds_up = True
            self.record.note(" ".join(ADDED_UP))
        if self._idle_calls is not None:
            self._idle_calls += 1
            if self._idle_calls == IDLE_CALLS:
                raise _idle(has_gone_back=self._total is not None, has_made=self._has_made)

    def _shared(self, experiment: Experiment) -> nn.Module:
        # its passes are not known beforehand: the gradients are averaged once an optimizer uses them
        return self.model

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Run the full step, which cannot be divided. Return the loss."""
        return self(batches)[0]

    def autocast(self) -> AbstractContextManager[object]:
        self.has_autocast = True
        return autocast(self.autocast_precision, self.device, cache_enabled=self._cache_casts)

    def backward(self, loss: Tensor, settings: Mapping[str, Any]) -> None:
        loss = scalar_loss(loss, _STEP, needs_gradient=True)
        # no sooner: given back to the system after each step, their memory would have to be taken again
        self.rules.clear_used()
        with self.rules.of_train():
            scaled = self.scaler.scale(loss)
            run_backward(scaled, partial(scaled.backward, **settings))
        self._total = loss.detach() if self._total is None else self._total + loss.detach()

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        self._has_unscaled = True
        self._begin_cycle_of(optimizer)
        if has_gradients(optimizer) and id(optimizer) not in self._unscaled:
            self.rules.check_unscale(optimizer)
        self._divide(optimizer)

    def make(self, optimizer: torch.optim.Optimizer) -> None:
        self._begin_cycle_of(optimizer)
        if has_gradients(optimizer):
            self.rules.check_step(optimizer)
        self._average(optimizer)
        found, is_trained = torch.zeros((), device=self.device), has_gradients(optimizer)
        if is_trained and self._clip_norm is not None:
            self._divide(optimizer)
            norm = clip_grad_norm_(parameters_of(optimizer), self._clip_norm, error_if_nonfinite=False)
            self._norm = norm if self._norm is None else torch.maximum(self._norm, norm)
        with self.rules.of_train():
            if is_trained:
                self.scaler.step(optimizer)
            else:
                optimizer.step()  # which does nothing, where the scaler asserts gradients
        if is_trained:
            self.rules.note_step(optimizer)
            self._stepped.add(id(optimizer))
            found = found_inf_flag(self.scaler, optimizer, self.device)
            self._worst = found if self._worst is None else torch.maximum(self._worst, found)
        self._found[id(optimizer)] = found
        self._has_made = True

    def _begin_cycle_of(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) not in self._stepped:
            return
        # the scaler takes each optimizer once between two updates; those that are to step remain divided
        waiting = self._unscaled - self._stepped
        states = {key: self.scaler._per_optimizer_states[key] for key in waiting if self.scaler.is_enabled()}
        self.end_cycle()
        self._unscaled |= waiting
        if states:
            self.scaler._per_optimizer_states.update(states)

    def _divide(self, optimizer: torch.optim.Optimizer) -> None:
        self._average(optimizer)
        if has_gradients(optimizer) and id(optimizer) not in self._unscaled:
            self.scaler.unscale_(optimizer)
            self._unscaled.add(id(optimizer))

    def _average(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) not in self._averaged:
            average_gradients(parameters_of(optimizer))
            self._averaged.add(id(optimizer))

    def was_skipped(self, optimizer: torch.optim.Optimizer) -> bool:
        found = self._found.get(id(optimizer))
        return found is not None and bool(found.item() > 0)

    def _found_inf(self) -> Tensor:
        return torch.zeros((), device=self.device) if self._worst is None else self._worst

    def end_cycle(self) -> None:
        if self._stepped or self._unscaled:
            self.scaler.update()
        for done in (self._stepped, self._unscaled, self._averaged):
            done.clear()


def _idle(*, has_gone_back: bool, has_made: bool) -> ProblemError:
    message, remedy = (
        f"The model's {_STEP} did not call train.step(optimizer).",
        "Call it. Nothing was trained.",
    )
    if not has_gone_back:
        message = f"The model's {_STEP} did not call train.backward(loss)."
    elif has_made:
        message = f"No optimizer in the model's {_STEP} got a gradient, so nothing was trained."
        remedy = "Make the loss depend on the parameters of the optimizer that steps."
    return request_error(message, remedy, key="model")
