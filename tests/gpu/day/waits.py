"""Count the host's synchronizations with the GPU in a step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from engine.training.steps.plain import PlainStep

WARM = 8
"""Steps after which every recipe here is steady."""


def waits_in(step: PlainStep, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> int:
    """Return how often the host synchronizes in steady steps, one per batch; 0 on a CPU."""
    for _ in range(WARM):
        step([batches[0]])
    if not torch.cuda.is_available():
        for batch in batches:
            step([batch])
        return 0
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            for number, batch in enumerate(batches):
                step.set_learning_rate(1e-3 / (number + 1))
                step([batch])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing CUDA operation" in str(warning.message) for warning in told)
