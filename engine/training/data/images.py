"""Images as the model's input: bytes prepared and augmented on the device, and two built-in sources.

Shifts and flips are generated for full batches on the device. The fake images are random, but made on the
host one at a time, like real ones. The built-in part of Fashion-MNIST is from Xiao, Rasul and Vollgraf,
"Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms", 2017.
"""

from __future__ import annotations

import importlib.resources
import io

import numpy as np
import torch
from torch.nn.functional import interpolate, pad

from engine.experiment.built_in import FAKE_TRAIN_SAMPLES, FAKE_VALIDATION_SAMPLES, Normalization
from engine.training.data.batches import BatchRequest, DataSplit, HostBatch, LoaderDataset, derive_seed

PADDING = 4  # pixels per side, as usual for pictures of 32 x 32


class ShiftAndFlip:
    """Shifts each image by up to 4 pixels in both directions, fills with black, and mirrors half of them.

    The random numbers depend only on the seed, the epoch and the batch, so a resumed run and every precision
    see the same images on the same device. It never synchronizes with the device.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._generator = torch.Generator(device)

    def __call__(self, pictures: torch.Tensor, epoch: int, number: int) -> torch.Tensor:
        """Return the shifted and mirrored images (batch, channels, height, width). Batches count from 0."""
        # number + 1, since (seed, epoch) alone seeds the epoch's order
        generator = self._generator.manual_seed(derive_seed(self._seed, epoch, number + 1))
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


class PrepareImages:
    """Turns image bytes (batch, channels, height, width) into the model's float32 input, on their device."""

    def __init__(
        self,
        normalization: Normalization | None,
        image_size: int,
        channels: int,
        device: torch.device,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self._image_size, self._channels, self._memory_format = image_size, channels, memory_format
        self._scale = self._shift = None
        if normalization is not None:
            deviation = torch.tensor(normalization.deviation)
            self._scale = (1 / (255 * deviation)).view(1, -1, 1, 1).to(device)
            self._shift = (-torch.tensor(normalization.mean) / deviation).view(1, -1, 1, 1).to(device)

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        size = (self._image_size, self._image_size)
        if pictures.shape[-2:] != size:
            pictures = interpolate(pictures.float(), size, mode="bilinear", antialias=True)
        if pictures.shape[1] != self._channels:
            pictures = pictures.expand(-1, self._channels, -1, -1)
        # one pass converts, repeats and lays out; it always copies, so the rest may be in place
        prepared = pictures.to(torch.float32, memory_format=self._memory_format, copy=True)
        if self._scale is None or self._shift is None:
            return prepared
        return prepared.mul_(self._scale).add_(self._shift)


class FakeImages(LoaderDataset):
    """Random images with random classes, one seed for each, like torchvision's FakeData.

    Unlike FakeData it does not reseed the global random generators.
    """

    train_samples = FAKE_TRAIN_SAMPLES
    validation_samples = FAKE_VALIDATION_SAMPLES

    def __init__(self, image_size: int, classes: int) -> None:
        self._image_size, self._classes = image_size, classes

    def batch(self, draw: BatchRequest) -> HostBatch:
        offset = 0 if draw.is_training else FAKE_TRAIN_SAMPLES
        pictures, labels = zip(*(self._picture(offset + index) for index in draw.indices), strict=True)
        return torch.stack(pictures), torch.stack(labels)

    def _picture(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.randn(3, self._image_size, self._image_size, generator=generator)
        label = torch.randint(self._classes, (1,), generator=generator)[0]
        return picture.mul(255).byte(), label


def built_in() -> tuple[DataSplit, DataSplit]:
    """Return the first 6,000 training and 1,000 test images: bytes (samples, 1, 28, 28) and classes."""
    packed = importlib.resources.files("resources").joinpath("fashion", "fashion.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        held = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    train, test = (
        DataSplit(held[f"{part}_pictures"].unsqueeze(1), held[f"{part}_labels"].long())
        for part in ("train", "test")
    )
    return train, test
