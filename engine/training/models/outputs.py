"""What a model's outputs say: how it is called, its loss and its accuracy where nobody defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.experiment.problem import ProblemError, request_problem

LossFunction = Callable[[Any, Any], Tensor]
Forward = Callable[[nn.Module, Any], Any]

Hits = tuple[Tensor, int]
"""The right predictions of a batch, on its device, and how many predictions it has."""


def call_model(model: nn.Module, inputs: Any) -> Any:
    """The model's outputs: a mapping is passed by name, a tuple or list by place."""
    if isinstance(inputs, Tensor):
        return model(inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


def default_loss(
    outputs: Any, targets: Any, *, label_smoothing: float = 0.0, is_text: bool = False
) -> Tensor:
    """The loss that the outputs have themselves, or else follows from the shapes.

    Cross-entropy for class indices (batch, ...) and logits (batch, classes, ...) or (batch, ..., classes),
    the latter first for text; mean squared error for floats of one shape. Raises ProblemError, which names
    both shapes, for all else.
    """
    own = _field(outputs, "loss")
    if isinstance(own, Tensor):
        return own
    logits = _logits(outputs)
    if _are_indices(targets) and logits is not None:
        aligned = _aligned(logits, targets, is_text=is_text)
        if aligned is not None:
            return cross_entropy(*aligned, label_smoothing=label_smoothing)
    elif logits is not None and _are_floats(targets) and logits.shape == targets.shape:
        return mse_loss(logits, targets)
    raise ProblemError(
        request_problem(
            f"No loss follows from outputs ({_shape(outputs)}) and targets ({_shape(targets)}).",
            "Define loss(outputs, targets) in the model's file, which returns a scalar tensor.",
            key="model",
        )
    )


def default_hits(outputs: Any, targets: Any, samples: int = 0, *, is_text: bool = False) -> Hits | None:
    """The most likely classes that are right; None where the targets are no class indices."""
    logits = _logits(outputs)
    if logits is None or not _are_indices(targets):
        return None
    aligned = _aligned(logits, targets, is_text=is_text)
    if aligned is None:
        return None
    return (aligned[0].argmax(dim=1) == aligned[1]).sum(), targets.numel()


def _field(outputs: Any, name: str) -> Any:
    if isinstance(outputs, Tensor):
        return None
    return outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)


def _logits(outputs: Any) -> Tensor | None:
    found = outputs if isinstance(outputs, Tensor) else _field(outputs, "logits")
    return found if isinstance(found, Tensor) and found.is_floating_point() else None


def _are_floats(targets: Any) -> bool:
    return isinstance(targets, Tensor) and targets.is_floating_point()


def _are_indices(targets: Any) -> bool:
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.is_complex():
        return False
    return targets.dtype is not torch.bool


def _aligned(logits: Tensor, targets: Tensor, *, is_text: bool) -> tuple[Tensor, Tensor] | None:
    """Logits with their classes in the second dimension, and targets as cross-entropy takes them."""
    if logits.dim() < 2:
        return None
    targets = targets if targets.dtype is torch.int64 else targets.long()
    are_last = logits.shape[:-1] == targets.shape
    # where there are as many classes as places, both fit
    if logits.shape[:1] + logits.shape[2:] == targets.shape and not (are_last and is_text):
        return logits, targets
    return (logits.flatten(0, -2), targets.flatten()) if are_last else None


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}" if value is not None else "missing"
