"""From bytes to the model's input, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import interpolate


@dataclass(frozen=True)
class Colours:
    """The mean and standard deviation of each channel, of pixels from 0 to 1."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


class PreparePictures:
    """Makes bytes (batch, channels, height, width) the model's float32 input, on their own device.

    Normalised by `colours`, resized to `image_size` a side where that differs, grey pictures repeated to
    `channels`, and laid out in `memory_format`.
    """

    def __init__(
        self,
        colours: Colours,
        *,
        image_size: int,
        channels: int,
        device: torch.device,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self._image_size = image_size
        self._channels = channels
        self._memory_format = memory_format
        deviation = torch.tensor(colours.deviation)
        self._scale = (1 / (255 * deviation)).view(1, -1, 1, 1).to(device)
        self._shift = (-torch.tensor(colours.mean) / deviation).view(1, -1, 1, 1).to(device)

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        if pictures.shape[-1] != self._image_size:
            size = (self._image_size, self._image_size)
            pictures = interpolate(pictures.float(), size, mode="bilinear", antialias=True)
        if pictures.shape[1] != self._channels:
            pictures = pictures.expand(-1, self._channels, -1, -1)
        # one pass converts, repeats and lays out; the copy is its own, so that the rest may be in place
        prepared = pictures.to(torch.float32, memory_format=self._memory_format, copy=True)
        return prepared.mul_(self._scale).add_(self._shift)
