"""When a step is captured: after how many steps, for which batches, and when it is given up."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import torch

from engine.events import PhaseName
from engine.training.data.batches import Batch

LEAST_WARMUP = 3
Shapes = tuple[tuple[torch.Size, torch.dtype, torch.Size, torch.dtype], ...]


class Action(Enum):
    """What is done with one group of batches."""

    WARM_UP = auto()
    """Train uncaptured: the graph needs the optimizer's state and tuned kernels to exist."""
    CAPTURE = auto()
    """Capture for groups like this one, then replay."""
    REPLAY = auto()
    BESIDE = auto()
    """Train uncaptured, since the group is shaped otherwise; what is captured stays as it is."""
    GO_WITHOUT = auto()
    """Train as though capture had not been asked for."""


class CapturePlan:
    """Decides from the batches' shapes alone.

    The largest group so far is the one to capture, after at least `LEAST_WARMUP` like it; a larger one
    begins anew. Where most groups are shaped otherwise, capture is given up.
    """

    def __init__(self, warmup_steps: int) -> None:
        self._warmup_steps = max(LEAST_WARMUP, warmup_steps)
        self._is_given_up = False
        self._begin((), 0)

    def _begin(self, shapes: Shapes, samples: int) -> None:
        self._shapes, self._samples = shapes, samples
        self._warm_steps = self._odd_steps = 0
        self._is_captured = False

    @property
    def is_given_up(self) -> bool:
        return self._is_given_up

    @property
    def phase(self) -> PhaseName | None:
        """What the next group is for; None where it changes nothing any more."""
        if self._is_given_up or self._is_captured:
            return None
        return PhaseName.WARMING_UP if self._warm_steps < self._warmup_steps else PhaseName.CAPTURING

    def give_up(self) -> None:
        """From now on every group goes without."""
        self._is_given_up = True

    def action_for(self, batches: Sequence[Batch]) -> Action:
        """What to do with the group; counts it as done."""
        if self._is_given_up:
            return Action.GO_WITHOUT
        shapes = shapes_of(batches)
        samples = sum(len(targets) for _, targets in batches)
        if samples > self._samples:
            self._begin(shapes, samples)
        if shapes != self._shapes:
            return self._beside()
        if self._is_captured:
            return Action.REPLAY
        if self._warm_steps < self._warmup_steps:
            self._warm_steps += 1
            return Action.WARM_UP
        self._is_captured = True
        return Action.CAPTURE

    def _beside(self) -> Action:
        if not self._is_captured:
            self._odd_steps += 1
            if self._odd_steps > 2 * self._warmup_steps:
                self.give_up()
                return Action.GO_WITHOUT
        return Action.BESIDE


def shapes_of(batches: Sequence[Batch]) -> Shapes:
    """What two groups must have in common for one graph to do for both."""
    return tuple((inputs.shape, inputs.dtype, targets.shape, targets.dtype) for inputs, targets in batches)
