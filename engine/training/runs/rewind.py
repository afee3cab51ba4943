"""States of a training kept in memory, to go back to when it goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

SKIPS_IN_A_ROW = 10
"""So many skipped steps in a row are more than a loss scaler that looks for its scale: they divide it by
1,024."""


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a state from `capture_state`, in the host's memory: the device's has other work. Waits for
    the device."""
    copy: dict[str, Any] = tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().to("cpu", copy=True), dict(state)
    )
    return copy
