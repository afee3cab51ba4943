"""A run's state kept in memory, to go back to when the run goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from engine.experiment.settings import Scaler
from engine.protocol.numerics.nonfinite import most_skips
from engine.training.measuring.telemetry import Rows
from engine.training.runs.checkpoints import are_finite


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a state from `capture_state`, in the host's memory: the device's has other work. Waits for
    the device."""
    copy: dict[str, Any] = tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().to("cpu", copy=True), dict(state)
    )
    return copy


class Rewind:
    """Keeps a copy of a run's state every `every` steps, until the run goes wrong.

    That is when a loss is not finite, or `most_skips` steps in a row are skipped. The copy is always from
    before: no state is kept with weights that are not finite, nor while steps are skipped; it is kept later
    then. While a copy is made, the one before it is still there, so that they take twice the memory.
    """

    def __init__(self, every: int, scaler: Scaler) -> None:
        self._every = self._due = every
        self._most_skips = most_skips(scaler)
        self._skipped_in_a_row = 0
        self._is_over = False
        self.state: dict[str, Any] | None = None
        """The newest state kept, on the host."""

    @property
    def steps(self) -> int:
        """The steps before the state that is kept; 0 without one."""
        return 0 if self.state is None else int(self.state["progress"]["tally"]["steps"])

    def is_due(self, steps: int) -> bool:
        """True if the state is to be kept after so many steps."""
        return steps >= self._due and not self._is_over

    def keep(self, state: Mapping[str, Any]) -> None:
        """Keeps a copy of a state from `capture_state`; `meets_trouble` knows all steps before it."""
        if not self._is_over and not self._skipped_in_a_row and are_finite(state["model"]):
            self.state = copied(state)
            self._due = self.steps + self._every

    def meets_trouble(self, rows: Rows) -> bool:
        """True the first time that the run goes wrong in these steps."""
        if self._is_over:
            return False
        skipped = rows.figures.get("found_inf", np.zeros(len(rows.step))) > 0
        for is_skipped, loss in zip(skipped, rows.figures["loss"], strict=True):
            self._skipped_in_a_row = self._skipped_in_a_row + 1 if is_skipped else 0
            self._is_over |= self._skipped_in_a_row >= self._most_skips or not np.isfinite(loss)
        return self._is_over
