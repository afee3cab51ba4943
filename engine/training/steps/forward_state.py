"""What a forward and backward pass changes besides gradients, kept so that it can be put back."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ForwardState:
    """The model's buffers (such as BatchNorm's running means) and the random state, as they are now."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._device = device
        self._buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        self._random = torch.get_rng_state()
        self._device_random: Tensor | None = None
        if device.type != "cpu":
            self._device_random = torch.get_device_module(device).get_rng_state()

    def restore(self) -> None:
        """Puts everything back, in place."""
        with torch.no_grad():
            for buffer, saved in self._buffers:
                buffer.copy_(saved)
        torch.set_rng_state(self._random)
        if self._device_random is not None:
            torch.get_device_module(self._device).set_rng_state(self._device_random)
