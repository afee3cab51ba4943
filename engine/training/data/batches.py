"""Batches of samples: kept on the device, generated once and reused in turn, or made by loader processes.

Random numbers of a run depend only on its seed and the place in the run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import register_pytree_node, tree_leaves, tree_map
from torch.utils.data._utils.pin_memory import pin_memory

from engine.experiment.experiment import Experiment
from engine.experiment.own.arrays import held_out_count
from engine.training.ranks.rank import current_rank, own_share


def seed_of(*place: int) -> int:
    """A 63-bit seed that depends on all of `place`, such as (seed, epoch, batch). It is never negative."""
    return int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> np.uint64(1))


def own_seed(seed: int) -> int:
    """The seed for this process's own random numbers. For the only process of a run, it is the run's."""
    rank = current_rank()
    return seed if rank.is_first else seed_of(seed, rank.number, 2**32)


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return the indices (samples,) of the samples in the order of that epoch, for all devices together."""
    # on the CPU, so that it is the same for every precision and device
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))


def spread(samples: int, count: int) -> list[int]:
    """Return at most `count` sample indices, ascending and evenly spaced. No random number is used."""
    count = min(count, samples)
    return [place * samples // count for place in range(count)]


Batch = tuple[Any, Any]  # inputs and targets: tensors, or nested in tuples, lists and dicts, samples first


class SizedBatch(tuple[Any, Any]):
    """A batch of the user's own with its number of samples, which no dimension has to show.

    `asked` is the requested number. A file that drops samples returns fewer `samples`.
    """

    samples: int
    asked: int

    def __new__(cls, parts: Iterable[Any], samples: int, asked: int) -> SizedBatch:
        made = super().__new__(cls, parts)
        made.samples, made.asked = samples, asked
        return made

    def __getnewargs__(self) -> tuple[Batch, int, int]:
        return tuple(self), self.samples, self.asked

    def of(self, parts: Iterable[Any]) -> SizedBatch:
        """Return a batch of as many samples with other parts."""
        return SizedBatch(parts, self.samples, self.asked)

    def pin_memory(self) -> SizedBatch:
        """Return the batch in pinned memory. A DataLoader calls this."""
        return self.of(map(pin_memory, self))


register_pytree_node(
    SizedBatch,
    lambda batch: (list(batch), (batch.samples, batch.asked)),
    lambda parts, counts: SizedBatch(parts, *counts),
)


def batch_samples(batch: Batch) -> int:
    """Return the number of samples in a batch: its own number, or else the length of its first tensor."""
    if isinstance(batch, SizedBatch):
        return batch.samples
    targets = batch[1]
    if isinstance(targets, Tensor) and targets.dim():
        return len(targets)
    tensors = (part for side in (targets, batch[0]) for part in tree_leaves(side))
    return next((len(part) for part in tensors if isinstance(part, Tensor) and part.dim()), 1)


def asked_samples(batch: Batch) -> int:
    """Return the number of samples that a batch was asked for: a smaller one ends an epoch."""
    return batch.asked if isinstance(batch, SizedBatch) else batch_samples(batch)


def with_inputs(batch: Batch, inputs: Any) -> Batch:
    """Return the batch with other inputs and its own targets and number of samples."""
    other = (inputs, batch[1])
    return batch.of(other) if isinstance(batch, SizedBatch) else other


def moves_itself(part: Any) -> bool:
    """Return whether a part of a batch has a `to(device)`, as a graph of PyTorch Geometric has."""
    return not isinstance(part, Tensor) and callable(getattr(type(part), "to", None))


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors of a value, also those that are attributes of its objects."""
    parts = [
        vars(part) if hasattr(part, "__dict__") and not isinstance(part, Tensor) else part
        for part in tree_leaves(value)
    ]
    return [part for part in tree_leaves(parts) if isinstance(part, Tensor)]


def batch_on(batch: Batch, device: torch.device, *, non_blocking: bool = False) -> Batch:
    """Return the batch on a device. With `non_blocking`, copies from pinned memory do not wait."""

    def moved(part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.to(device, non_blocking=non_blocking)
        return part.to(device) if moves_itself(part) else part

    result: Batch = tree_map(moved, batch, is_leaf=moves_itself)
    return result


Prepare = Callable[[Any], Any]
Augment = Callable[[Tensor, int, int], Tensor]  # of training inputs, given their epoch and batch number

_TURNS = 4
# Samples from one turn to the next. Four of float32 or int64 are a multiple of 16 bytes for any shape, so the
# widest loads can read each turn in place, and compiled code copies none.
_SHIFT = 4


class Source:
    """The source of a run's batches. Each is (inputs, targets) on the device, ready for the model.

    The compute stream already waits for the copy of a returned batch. Close the source when done.
    """

    train_samples: int
    has_validation = False
    is_waited_for = True  # False where batches are on the device already, so that no step waits for one

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the training batches of epoch `number` (from 1) after the first `skip`, by the seed alone."""
        raise NotImplementedError

    def validation(self, limit: int | None) -> Iterator[Batch]:
        """Yield the validation batches, with at most `limit` samples in total."""
        return iter(())

    def examples(self, count: int) -> Tensor | None:
        """Return at most `count` stored training inputs, evenly spaced over the split, on the host.

        None if they would have to be generated. Uses no device memory and no random number.
        """
        return None

    def close(self) -> None:
        """End all processes that load data, and wait for their end."""


@dataclass(frozen=True)
class DataSplit:
    """Inputs (samples, ...) and their targets (samples, ...), on one device."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> DataSplit:
        return DataSplit(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Row:
    """The shape and dtype of one sample in a batch."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def batch(self, size: int) -> Tensor:
        """Return an empty batch of such samples."""
        return torch.empty((size, *self.shape), dtype=self.dtype)


def held_out(samples: int) -> tuple[Tensor, Tensor]:
    """Return the indices for training and, for a tenth, for validation, the same for every seed."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed_of(0)))
    kept = samples - held_out_count(samples)
    return order[:kept].sort().values, order[kept:].sort().values


class Resident(Source):
    """A dataset kept on the device and shuffled for each epoch. `prepare` makes a model's inputs."""

    def __init__(
        self,
        train: DataSplit,
        validation: DataSplit | None,
        experiment: Experiment,
        device: torch.device,
        prepare: Prepare = lambda inputs: inputs,
        augment: Augment | None = None,
    ) -> None:
        self._train = train.to(device)
        self._validation = None if validation is None else validation.to(device)
        self._batch_size, self._seed = experiment.batch_size, experiment.seed
        self._device, self._prepare, self._augment = device, prepare, augment
        self.is_waited_for = augment is not None or device.type == "cpu"
        self.train_samples = len(train.targets)
        self.has_validation = validation is not None and len(validation.targets) > 0

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        # Drawn before the first batch is requested, so that no step's time contains the shuffle.
        order = own_share(epoch_order(self.train_samples, self._seed, number), self._batch_size)
        # CUDA stages pageable memory before it returns, so the host need not wait for the device here.
        placed = order.to(self._device, non_blocking=self._device.type == "cuda")
        return self._training(placed, number, skip)

    def validation(self, limit: int | None) -> Iterator[Batch]:
        if self._validation is None:
            return
        inputs, targets = self._validation.inputs, self._validation.targets
        samples = min(limit or len(targets), len(targets))
        for start in range(0, samples, self._batch_size):
            chosen = slice(start, min(start + self._batch_size, samples))
            yield self._prepare(inputs[chosen]), targets[chosen]

    def examples(self, count: int) -> Tensor:
        # one by one: copying a contiguous sample takes no memory on the device
        return torch.stack([self._train.inputs[at].cpu() for at in spread(self.train_samples, count)])

    def _training(self, order: Tensor, epoch: int, skip: int) -> Iterator[Batch]:
        for number in range(skip, math.ceil(len(order) / self._batch_size)):
            chosen = order[number * self._batch_size : (number + 1) * self._batch_size]
            inputs = self._train.inputs[chosen]
            if self._augment is not None:
                inputs = self._augment(inputs, epoch, number)
            yield self._prepare(inputs), self._train.targets[chosen]


def drawn_samples(batch_size: int) -> int:
    """Return the number of samples to generate for batches that are reused in turn."""
    return batch_size + (_TURNS - 1) * _SHIFT


def turns_of(drawn: Batch, batch_size: int) -> tuple[Batch, ...]:
    """Return four batches. Each is a slice of the generated samples, shifted by a few samples.

    They share memory, which nothing writes to. Four separate batches would take more memory than many models,
    and the model is to be measured.
    """
    starts = range(0, _TURNS * _SHIFT, _SHIFT)
    inputs, targets = drawn
    return tuple((inputs[at : at + batch_size], targets[at : at + batch_size]) for at in starts)


class Turns(Source):
    """Batches reused in turn for an epoch of `samples`. Only two tensors may end with a smaller batch."""

    def __init__(self, batches: Sequence[Batch], samples: int) -> None:
        self._batches = batches
        self.train_samples = samples
        self.is_waited_for = False

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        size = asked_samples(self._batches[0])
        left = self.train_samples // current_rank().count - skip * size
        for batch in itertools.islice(itertools.cycle(self._batches), skip, None):
            if left <= 0:
                return
            yield batch if left >= size else (batch[0][:left], batch[1][:left])
            left -= size


HostBatch = Batch  # in the host's memory


@dataclass(frozen=True)
class Draw:
    """A batch to make: indices in one split, and its place in the run, which seeds its random numbers."""

    is_training: bool
    epoch: int
    number: int
    indices: tuple[int, ...]


class Pictures:
    """A dataset for a loader process. It is sent there, so it is small and can be pickled."""

    train_samples: int
    validation_samples: int

    def open(self) -> None:
        """Read the data that is read only once, in the process that will make batches."""

    def batch(self, draw: Draw) -> HostBatch:
        """Bytes (batch, channels, height, width) of one size, and classes (batch,). Raises ProblemError."""
        raise NotImplementedError

    def examples(self, count: int) -> Tensor | None:
        """Return at most `count` training images as bytes, evenly spaced over the split, of any size.

        None if this process would have to open the dataset first.
        """
        return None


class HeldPictures(Pictures):
    """Samples that `open` reads completely into memory. `read` can be pickled."""

    def __init__(
        self, read: Callable[[], tuple[DataSplit, DataSplit]], train_samples: int, validation_samples: int
    ) -> None:
        self._read = read
        self._splits: tuple[DataSplit, DataSplit] | None = None
        self.train_samples, self.validation_samples = train_samples, validation_samples

    def open(self) -> None:
        self._splits = self._read()

    def batch(self, draw: Draw) -> HostBatch:
        assert self._splits is not None  # open() comes first
        split = self._splits[0 if draw.is_training else 1]
        chosen = torch.tensor(draw.indices)
        return split.inputs[chosen], split.targets[chosen]

    def examples(self, count: int) -> Tensor | None:
        if self._splits is None:
            return None
        return self._splits[0].inputs[torch.tensor(spread(self.train_samples, count))]


def training_draws(samples: int, batch_size: int, seed: int, epoch: int, skip: int) -> Iterator[Draw]:
    """Return the batches of an epoch without the first `skip`."""
    order = own_share(epoch_order(samples, seed, epoch), batch_size)
    return (
        Draw(True, epoch, number, tuple(order[number * batch_size : (number + 1) * batch_size].tolist()))
        for number in range(skip, math.ceil(len(order) / batch_size))
    )


def draws_in_order(samples: int, batch_size: int, *, is_training: bool) -> Iterator[Draw]:
    """Return the batches of one split in its own order."""
    for number, start in enumerate(range(0, samples, batch_size)):
        yield Draw(is_training, 0, number, tuple(range(start, min(start + batch_size, samples))))
