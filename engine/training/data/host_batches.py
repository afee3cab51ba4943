"""What loader processes make: batches in the host's memory, each drawn by its place in the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.training.data.batches import Split
from engine.training.data.order import epoch_order, spread

HostBatch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Draw:
    """One batch to be made: which samples, and where in the run, which its random numbers follow from.

    `indices` are into the training samples or, unless `is_training`, the others; `number` counts an epoch's
    batches from 0.
    """

    is_training: bool
    epoch: int
    number: int
    indices: tuple[int, ...]


class Pictures(Protocol):
    """A dataset as each loader process has it. It is sent there, so it can be pickled and is small."""

    train_samples: int
    validation_samples: int

    def open(self) -> None:
        """Reads what is read once, in the process that will make batches."""
        ...

    def batch(self, draw: Draw) -> HostBatch:
        """Bytes (batch, channels, height, width), all of one size, and classes. Raises ProblemError."""
        ...

    def examples(self, count: int) -> torch.Tensor | None:
        """At most `count` training pictures as bytes, spread over the split evenly, in any size.

        None where this process has not opened the dataset and would have to.
        """
        ...


class HeldPictures:
    """Samples that lie in memory as a whole once `open` has read them."""

    def __init__(self, read: SplitReader, train_samples: int, validation_samples: int) -> None:
        self._read = read
        self._splits: tuple[Split, Split] | None = None
        self.train_samples = train_samples
        self.validation_samples = validation_samples

    def open(self) -> None:
        self._splits = self._read()

    def batch(self, draw: Draw) -> HostBatch:
        assert self._splits is not None  # open() comes first
        split = self._splits[0 if draw.is_training else 1]
        chosen = torch.tensor(draw.indices)
        return split.inputs[chosen], split.targets[chosen]

    def examples(self, count: int) -> torch.Tensor | None:
        if self._splits is None:
            return None
        return self._splits[0].inputs[torch.tensor(spread(self.train_samples, count))]


class SplitReader(Protocol):
    """Reads the training and the validation split; can be pickled."""

    def __call__(self) -> tuple[Split, Split]: ...


def training_draws(samples: int, batch_size: int, seed: int, epoch: int, skip: int) -> Iterator[Draw]:
    """The batches of one epoch but for the first `skip`."""
    order = epoch_order(samples, seed, epoch)
    return (
        Draw(True, epoch, number, tuple(order[number * batch_size : (number + 1) * batch_size].tolist()))
        for number in range(skip, math.ceil(samples / batch_size))
    )


def draws_in_order(samples: int, batch_size: int, *, is_training: bool) -> Iterator[Draw]:
    """The samples of one part in their own order."""
    for number, start in enumerate(range(0, samples, batch_size)):
        yield Draw(is_training, 0, number, tuple(range(start, min(start + batch_size, samples))))
