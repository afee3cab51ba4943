"""The share of weights with a gradient that a step leaves unchanged, because rounding loses their updates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.training.ranks.sharded import local_shard

_SAMPLES = 8
_MOST_WEIGHTS = 2**16  # of each tensor: they tell the share to a fifth of a percent, and take next to nothing


class UnchangedWeights:
    """Measures the share of weights that a step leaves unchanged, in up to eight steps spread over a run.

    Of a large tensor, only evenly spaced weights are compared. It never synchronizes with the device.
    """

    def __init__(self, model: nn.Module, total_steps: int) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._total_steps = total_steps
        self._before: list[Tensor] = []
        self._counts: Tensor | None = None

    def is_due(self, steps: int) -> bool:
        """Return True if the step after `steps` steps is one of them."""
        return (steps + 1) * _SAMPLES // self._total_steps > steps * _SAMPLES // self._total_steps

    def begin(self) -> None:
        """Keep the weights before a step."""
        self._before = [_some(parameter).clone() for parameter in self._parameters]

    def end(self) -> None:
        """Compare the weights after the step, whose gradients are still there."""
        for before, parameter in zip(self._before, self._parameters, strict=True):
            if parameter.grad is not None:
                moved = _some(parameter.grad) != 0
                counts = torch.stack([(moved & (_some(parameter) == before)).sum(), moved.sum()])
                counts = counts * _distance(parameter)
                self._counts = counts if self._counts is None else self._counts + counts
        self._before = []

    @property
    def fraction(self) -> float | None:
        """Return the share over all compared steps. None without any. Synchronizes with the device."""
        unchanged, all_moved = (0, 0) if self._counts is None else self._counts.tolist()
        return unchanged / all_moved if all_moved else None


def _distance(tensor: Tensor) -> int:
    return -(-local_shard(tensor).numel() // _MOST_WEIGHTS) or 1


def _some(tensor: Tensor) -> Tensor:
    return local_shard(tensor).detach().flatten()[:: _distance(tensor)]
