"""Batches on the device: from data that lie there whole, or from a few drawn ones taken in turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import interpolate

Batch = tuple[torch.Tensor, torch.Tensor]
SYNTHETIC_BATCHES = 4


class Source(Protocol):
    """Where a run's batches come from; each is (inputs, targets) on the device, ready for the model."""

    train_samples: int
    has_validation: bool

    def epoch(self) -> Iterator[Batch]:
        """The training batches of the next epoch; the last may be smaller."""
        ...

    def validation(self, limit: int | None) -> Iterator[Batch]:
        """The validation batches, of at most `limit` samples in all."""
        ...


@dataclass(frozen=True)
class Split:
    """Inputs (samples, ...) and their targets (samples, ...), in one place."""

    inputs: torch.Tensor
    targets: torch.Tensor

    def to(self, device: torch.device) -> Split:
        return Split(self.inputs.to(device), self.targets.to(device))


class Resident:
    """A dataset that lies on the device whole and is shuffled anew for each epoch.

    The order is drawn on the CPU from the seed alone, so that it is the same for every precision and device.
    """

    def __init__(
        self,
        train: Split,
        validation: Split | None,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        prepare: Callable[[torch.Tensor], torch.Tensor] = lambda inputs: inputs,
    ) -> None:
        self._train = train.to(device)
        self._validation = None if validation is None else validation.to(device)
        self._batch_size = batch_size
        self._device = device
        self._prepare = prepare
        self._generator = torch.Generator().manual_seed(seed)
        self.train_samples = len(train.targets)
        self.has_validation = validation is not None

    def epoch(self) -> Iterator[Batch]:
        # Drawn before the first batch is asked for, so that no step's time contains the shuffle.
        order = torch.randperm(self.train_samples, generator=self._generator).to(self._device)
        return self._batches(self._train, order)

    def validation(self, limit: int | None) -> Iterator[Batch]:
        if self._validation is None:
            return iter(())
        samples = min(limit or len(self._validation.targets), len(self._validation.targets))
        return self._batches(self._validation, torch.arange(samples, device=self._device))

    def _batches(self, split: Split, order: torch.Tensor) -> Iterator[Batch]:
        for start in range(0, len(order), self._batch_size):
            chosen = order[start : start + self._batch_size]
            yield self._prepare(split.inputs[chosen]), split.targets[chosen]


class Turns:
    """A few batches drawn once and taken in turns, for an epoch of `samples`; there is no validation."""

    has_validation = False

    def __init__(self, batches: tuple[Batch, ...], samples: int) -> None:
        self._batches = batches
        self.train_samples = samples

    def epoch(self) -> Iterator[Batch]:
        left = self.train_samples
        for inputs, targets in itertools.cycle(self._batches):
            size = min(left, len(targets))
            yield inputs[:size], targets[:size]
            left -= size
            if left == 0:
                return

    def validation(self, limit: int | None) -> Iterator[Batch]:
        return iter(())


@dataclass(frozen=True)
class PreparePictures:
    """Makes bytes (batch, channels, height, width) the model's float32 input, on their own device.

    Normalised by `mean` and `deviation` (of pixels from 0 to 1), resized to `image_size` where that differs,
    and grey pictures repeated to `channels`.
    """

    mean: float
    deviation: float
    image_size: int
    channels: int

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        prepared = (pictures.float() / 255 - self.mean) / self.deviation
        if prepared.shape[-1] != self.image_size:
            size = (self.image_size, self.image_size)
            prepared = interpolate(prepared, size, mode="bilinear", antialias=True)
        if prepared.shape[1] != self.channels:
            prepared = prepared.repeat(1, self.channels, 1, 1)
        return prepared
