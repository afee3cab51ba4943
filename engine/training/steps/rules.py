"""The rules of a loss scaler for the step of a model file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from engine.experiment.problem import ProblemError, request_problem
from engine.training.models.own import own_place
from engine.training.steps.plain import has_gradients


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
            optimizer.register_step_pre_hook(self._before_step)

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
        """Note that an optimizer has used its gradients, which may be those of other devices alone."""
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
