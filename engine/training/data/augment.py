"""Random shifts and flips of whole batches of pictures, on the device."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from engine.training.data.order import seed_of

PADDING = 4  # pixels a side, as is usual for pictures of 32 x 32


class ShiftAndFlip:
    """Shifts each picture by up to 4 pixels in both directions, on black, and mirrors half of them.

    What is drawn depends on the seed, the epoch and the batch alone, so that a resumed run and every
    precision see the same pictures on the same device. The host never waits for the device.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._generator = torch.Generator(device)

    def __call__(self, pictures: torch.Tensor, epoch: int, number: int) -> torch.Tensor:
        """The changed pictures (batch, channels, height, width), of the same dtype; batches count from 0."""
        # one more than the number: (seed, epoch) alone is the seed of the epoch's order
        generator = self._generator.manual_seed(seed_of(self._seed, epoch, number + 1))
        batch, channels, height, width = pictures.shape
        device = pictures.device
        drawn = torch.randint(2 * PADDING + 1, (2, batch, 1), generator=generator, device=device)
        is_mirrored = torch.rand((batch, 1), generator=generator, device=device) < 0.5
        rows = drawn[0] + torch.arange(height, device=device)
        columns = torch.arange(width, device=device).expand(batch, width)
        columns = drawn[1] + torch.where(is_mirrored, width - 1 - columns, columns)
        return pad(pictures, (PADDING,) * 4)[
            torch.arange(batch, device=device).view(batch, 1, 1, 1),
            torch.arange(channels, device=device).view(1, channels, 1, 1),
            rows.view(batch, 1, height, 1),
            columns.view(batch, 1, 1, width),
        ]
