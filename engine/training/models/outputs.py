"""Calls a model, and computes the loss and accuracy of its outputs if its file defines none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel

from engine.experiment.problem import ProblemError, request_error
from engine.training.models.forward import original_class
from engine.words.names import listed

LossFunction = Callable[[Any, Any], Tensor]
Forward = Callable[[nn.Module, Any], Any]

Hits = tuple[Tensor, int]  # the right predictions of a batch, on its device, and how many it has


TARGETS = ("labels", "label", "targets", "target", "y")  # names of the targets in a batch that is one dict


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Return the model's outputs. Inputs are passed by name, by position, or whole. Raises ProblemError."""
    if isinstance(inputs, Tensor):  # the usual case first
        return model(inputs)
    if isinstance(inputs, Mapping):
        return _call_with_mapping(model, inputs)
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


@dataclass(frozen=True)
class _Arguments:
    names: frozenset[str] | None  # those that a `forward` takes by name; None for any
    required: frozenset[str]
    listed: tuple[str, ...]


def _call_with_mapping(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    # what torch.compile wraps has the signature
    within = getattr(model, "_orig_mod", model)
    owner = original_class(within.module if isinstance(within, DistributedDataParallel) else within)
    arguments = _arguments_of(getattr(owner, "forward", None))
    names = arguments.names
    named = {name: value for name, value in inputs.items() if names is None or name in names}
    if arguments.required <= named.keys() and inputs.keys() - named.keys() <= set(TARGETS):
        return model(**named)
    if len(arguments.listed) == 1 and arguments.listed[0] not in inputs:
        return model(inputs)
    takes, given = listed(arguments.listed) or "nothing", listed(tuple(map(str, inputs)))
    message = f"{owner.__name__}.forward takes {takes}, but the inputs are a dict of {given}."
    remedy = "Use the same names, or define forward(model, inputs) in the model's file, to call the model."
    raise request_error(message, remedy, key="model")


@lru_cache(64)
def _arguments_of(forward: Any) -> _Arguments:
    try:
        _, *parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # of a scripted model, for one
        return _Arguments(None, frozenset(), ())
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return _Arguments(
        names=None if takes_any else frozenset(one.name for one in named),
        required=frozenset(one.name for one in named if one.default is one.empty),
        listed=tuple(one.name for one in parameters if one.kind is not one.VAR_KEYWORD),
    )


def describe_value(value: object) -> str:
    """Describe a value for a sentence: "a tensor of shape (8, 3)", "a dict"."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    if value is None:
        return "nothing"
    if isinstance(value, dict | list | tuple):
        inner = ", ".join(
            describe_value(part) for part in list(getattr(value, "values", lambda: value)())[:3]
        )
        kind = "dict" if isinstance(value, dict) else type(value).__name__
        return f"a {kind} of {len(value)}" + (f" ({inner})" if inner else "")
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def scalar_loss(loss: Any, call: str, *, needs_gradient: bool = False) -> Tensor:
    """The loss returned by `call` of a model's file, as a scalar. Raises ProblemError if it is not one."""
    is_scalar = isinstance(loss, Tensor) and loss.numel() == 1 and loss.is_floating_point()
    if is_scalar and (loss.requires_grad or not needs_gradient):
        scalar: Tensor = loss.reshape(())
        return scalar
    if is_scalar:
        raise no_gradient_error(f"in the model's {call}")
    message = (
        f"The loss in the model's {call} is {describe_value(loss)}, but it must be a floating-point scalar."
    )
    remedy = "Reduce it, for example with .mean(), and do not detach it."
    if isinstance(loss, int | float):
        remedy = KEEPS_GRADIENT
    raise request_error(message, remedy, key="model")


KEEPS_GRADIENT = "For a batch without targets, return outputs.sum() * 0, which keeps the gradient."


def no_gradient_error(where: str = "") -> ProblemError:
    """Return the error of a loss that does not depend on a parameter. `where` follows "The loss"."""
    message = f"The loss{' ' * bool(where)}{where} has no gradient: it does not depend on a parameter."
    return request_error(message, f"Do not detach it. {KEEPS_GRADIENT}", key="model")


def default_loss(
    outputs: Any, targets: Any, *, label_smoothing: float = 0.0, is_text: bool = False
) -> Tensor:
    """Return the loss in the outputs, or the default loss for their shapes.

    It is cross-entropy for class indices (batch, ...) with logits (batch, classes, ...), or for text (batch,
    ..., classes). For floats of equal shape it is the mean squared error. Raises ProblemError, with both
    shapes, for others.
    """
    own = _field(outputs, "loss")
    if isinstance(own, Tensor):
        return scalar_loss(own, "outputs", needs_gradient=torch.is_grad_enabled())
    logits, aligned = _logits(outputs), _aligned(outputs, targets, is_text=is_text)
    if aligned is not None:
        return cross_entropy(*aligned, label_smoothing=label_smoothing)
    are_floats = isinstance(targets, Tensor) and targets.is_floating_point()
    if logits is not None and are_floats and logits.shape == targets.shape:
        return mse_loss(logits, targets)
    message = (
        f"No default loss fits outputs ({describe_value(outputs)}) and targets ({describe_value(targets)})."
    )
    remedy = "Define loss(outputs, targets) in the model's file, which returns a scalar tensor."
    raise request_error(message, remedy, key="model")


def count_correct(outputs: Any, targets: Any, samples: int = 0, *, is_text: bool = False) -> Hits | None:
    """Return the number of right most likely classes. None if the targets are not class indices."""
    aligned = _aligned(outputs, targets, is_text=is_text)
    return None if aligned is None else ((aligned[0].argmax(dim=1) == aligned[1]).sum(), targets.numel())


def _field(outputs: Any, name: str) -> Any:
    if isinstance(outputs, Tensor):
        return None
    return outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)


def _logits(outputs: Any) -> Tensor | None:
    found = outputs if isinstance(outputs, Tensor) else _field(outputs, "logits")
    return found if isinstance(found, Tensor) and found.is_floating_point() else None


def _aligned(outputs: Any, targets: Any, *, is_text: bool) -> tuple[Tensor, Tensor] | None:
    """Return logits with classes in the second dimension, and class indices. None if they are not that."""
    logits = _logits(outputs)
    if logits is None or not isinstance(targets, Tensor) or targets.dtype is torch.bool or logits.dim() < 2:
        return None
    if targets.is_floating_point() or targets.is_complex():
        return None
    targets = targets if targets.dtype is torch.int64 else targets.long()
    are_last = logits.shape[:-1] == targets.shape
    # where there are as many classes as places, both fit
    if logits.shape[:1] + logits.shape[2:] == targets.shape and not (are_last and is_text):
        return logits, targets
    return (logits.flatten(0, -2), targets.flatten()) if are_last else None
