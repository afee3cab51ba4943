"""The loss of each task, and what it is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import cross_entropy, mse_loss

from engine.catalog import Task

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_NAMES: dict[Task, tuple[str, str]] = {
    "classification": ("cross-entropy", "nats"),
    "regression": ("mean squared error", ""),
    "language": ("cross-entropy", "nats"),
}


def loss_for(task: Task, label_smoothing: float = 0.0) -> LossFunction:
    """The mean loss over a batch's samples, or over all tokens of its sequences.

    `label_smoothing` is the share of probability (0 to 1) that is spread evenly over all classes. It means
    nothing to a regression, and is refused there before a run starts.
    """
    if task == "regression":
        return mse_loss
    if task == "language":
        return partial(_token_loss, label_smoothing=label_smoothing)
    return partial(cross_entropy, label_smoothing=label_smoothing)


def loss_name(task: Task) -> str:
    """What the loss is called, such as "cross-entropy"."""
    return _NAMES[task][0]


def loss_unit(task: Task) -> str:
    """The loss's unit; empty where it has none."""
    return _NAMES[task][1]


def _token_loss(logits: torch.Tensor, targets: torch.Tensor, *, label_smoothing: float) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=label_smoothing)
