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
from engine.training.precision import leaf_tensors
from engine.training.ranks import current_rank, rank_indices


def derive_seed(*place: int) -> int:
    """Return a non-negative 63-bit seed derived from the numbers in `place`, such as (seed, epoch, batch)."""
    return int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> np.uint64(1))


def rank_seed(seed: int) -> int:
    """Return the seed of this rank's random numbers. Rank 0 of 1 has the run's own seed."""
    rank = current_rank()
    return seed if rank.is_first else derive_seed(seed, rank.number, 2**32)


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return the indices (samples,) of the samples in the order of that epoch, for all devices together."""
    # on the CPU, so that it is the same for every precision and device
    return torch.randperm(samples, generator=torch.Generator().manual_seed(derive_seed(seed, epoch)))


def evenly_spaced(samples: int, count: int) -> list[int]:
    """Return at most `count` sample indices, ascending and evenly spaced. No random number is used."""
    count = min(count, samples)
    return [place * samples // count for place in range(count)]


Batch = tuple[Any, Any]  # inputs and targets: tensors, or nested in tuples, lists and dicts, samples first


class SizedBatch(tuple[Any, Any]):
    """A batch of a workload file with its own number of samples, e.g. a batched graph, whose shape hides it.

    `asked` is the number that was requested. `samples` is lower if the file dropped samples.
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
        """Return a batch of other parts with the same numbers of samples."""
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
    """Return the number of samples in a batch: its own count, or the length of its first tensor."""
    if isinstance(batch, SizedBatch):
        return batch.samples
    targets = batch[1]
    if isinstance(targets, Tensor) and targets.dim():
        return len(targets)
    return next((len(part) for part in leaf_tensors((targets, batch[0])) if part.dim()), 1)


def requested_samples(batch: Batch) -> int:
    """Return the number of samples requested for a batch. It is smaller at the end of an epoch."""
    return batch.asked if isinstance(batch, SizedBatch) else batch_samples(batch)


def replace_inputs(batch: Batch, inputs: Any) -> Batch:
    """Return the batch with other inputs and its own targets and number of samples."""
    other = (inputs, batch[1])
    return batch.of(other) if isinstance(batch, SizedBatch) else other


def has_to_method(part: Any) -> bool:
    """Return True if a part of a batch has its own `to(device)`, like a graph of PyTorch Geometric."""
    return not isinstance(part, Tensor) and callable(getattr(type(part), "to", None))


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors of a value, including attributes of its objects."""
    parts = [
        vars(part) if hasattr(part, "__dict__") and not isinstance(part, Tensor) else part
        for part in tree_leaves(value)
    ]
    return leaf_tensors(parts)


def move_batch(batch: Batch, device: torch.device, *, non_blocking: bool = False) -> Batch:
    """Return the batch on a device. With `non_blocking`, copies from pinned memory do not wait."""

    def moved(part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.to(device, non_blocking=non_blocking)
        return part.to(device) if has_to_method(part) else part

    result: Batch = tree_map(moved, batch, is_leaf=has_to_method)
    return result


Prepare = Callable[[Any], Any]
Augment = Callable[[Tensor, int, int], Tensor]  # of training inputs, given their epoch and batch number

_TURNS = 4
# Samples from one turn to the next. Four of float32 or int64 are a multiple of 16 bytes for any shape, so the
# widest loads can read each turn in place, and compiled code copies none.
_SHIFT = 4


class BatchSource:
    """The base class of the sources of a run's batches: (inputs, targets) on the device, ready for the model.

    A yielded batch can be used at once on the current stream, which waits for its copy. Close the source
    after use.
    """

    train_samples: int
    has_validation = False
    is_waited_for = True  # False where batches are on the device already, so that no step waits for one

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of epoch `number` (from 1) after the first `skip`, depending only on the seed."""
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
    """The training or the validation part of a dataset: inputs (samples, ...) and targets (samples, ...)."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> DataSplit:
        return DataSplit(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class SampleShape:
    """The shape and dtype of one sample in a batch."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def batch(self, size: int) -> Tensor:
        """Return an empty batch of such samples."""
        return torch.empty((size, *self.shape), dtype=self.dtype)


def split_indices(samples: int) -> tuple[Tensor, Tensor]:
    """Return the sample indices of the training and the validation split (a tenth), equal for every seed."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(derive_seed(0)))
    kept = samples - held_out_count(samples)
    return order[:kept].sort().values, order[kept:].sort().values


class DeviceSource(BatchSource):
    """A batch source whose whole dataset is on the device, and is shuffled for each epoch.

    `prepare` turns stored inputs into model inputs, e.g. by normalizing images.
    """

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
        order = rank_indices(epoch_order(self.train_samples, self._seed, number), self._batch_size)
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
        return torch.stack([self._train.inputs[at].cpu() for at in evenly_spaced(self.train_samples, count)])

    def _training(self, order: Tensor, epoch: int, skip: int) -> Iterator[Batch]:
        for number in range(skip, math.ceil(len(order) / self._batch_size)):
            chosen = order[number * self._batch_size : (number + 1) * self._batch_size]
            inputs = self._train.inputs[chosen]
            if self._augment is not None:
                inputs = self._augment(inputs, epoch, number)
            yield self._prepare(inputs), self._train.targets[chosen]


def generated_samples(batch_size: int) -> int:
    """Return how many samples to generate for `ReusedBatches`, of which all its batches are slices."""
    return batch_size + (_TURNS - 1) * _SHIFT


def cut_batches(drawn: Batch, batch_size: int) -> tuple[Batch, ...]:
    """Return four batches, overlapping slices of the generated samples.

    They share memory, which nothing writes to. Four separate batches would take more memory than many models,
    and the model is to be measured.
    """
    starts = range(0, _TURNS * _SHIFT, _SHIFT)
    inputs, targets = drawn
    return tuple((inputs[at : at + batch_size], targets[at : at + batch_size]) for at in starts)


class ReusedBatches(BatchSource):
    """A batch source that repeats a few generated batches until an epoch has `samples` samples.

    The last batch of an epoch is cut to size, which requires that each batch is two tensors.
    """

    def __init__(self, batches: Sequence[Batch], samples: int) -> None:
        self._batches = batches
        self.train_samples = samples
        self.is_waited_for = False

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        size = requested_samples(self._batches[0])
        left = self.train_samples // current_rank().count - skip * size
        for batch in itertools.islice(itertools.cycle(self._batches), skip, None):
            if left <= 0:
                return
            yield batch if left >= size else (batch[0][:left], batch[1][:left])
            left -= size


HostBatch = Batch  # in the host's memory


@dataclass(frozen=True)
class BatchRequest:
    """A request for one batch: its sample indices, and its place in the run, which seeds its augmentation."""

    is_training: bool
    epoch: int
    number: int
    indices: tuple[int, ...]


class LoaderDataset:
    """The base class of datasets that loader processes read.

    Each process gets a pickled copy, so keep it small and read the data in `open`.
    """

    train_samples: int
    validation_samples: int

    def open(self) -> None:
        """Read the data that is read only once, in the process that will make batches."""

    def batch(self, draw: BatchRequest) -> HostBatch:
        """Return images, bytes (batch, channels, height, width), and classes. Raises ProblemError."""
        raise NotImplementedError

    def examples(self, count: int) -> Tensor | None:
        """Return at most `count` training images as bytes, evenly spaced over the split, of any size.

        None if this process would have to open the dataset first.
        """
        return None


class InMemoryDataset(LoaderDataset):
    """A dataset that each loader process reads completely into memory. `read` must be picklable."""

    def __init__(
        self, read: Callable[[], tuple[DataSplit, DataSplit]], train_samples: int, validation_samples: int
    ) -> None:
        self._read = read
        self._splits: tuple[DataSplit, DataSplit] | None = None
        self.train_samples, self.validation_samples = train_samples, validation_samples

    def open(self) -> None:
        self._splits = self._read()

    def batch(self, draw: BatchRequest) -> HostBatch:
        assert self._splits is not None  # open() comes first
        split = self._splits[0 if draw.is_training else 1]
        chosen = torch.tensor(draw.indices)
        return split.inputs[chosen], split.targets[chosen]

    def examples(self, count: int) -> Tensor | None:
        if self._splits is None:
            return None
        return self._splits[0].inputs[torch.tensor(evenly_spaced(self.train_samples, count))]


def training_requests(
    samples: int, batch_size: int, seed: int, epoch: int, skip: int
) -> Iterator[BatchRequest]:
    """Return requests for the batches of an epoch without the first `skip`."""
    order = rank_indices(epoch_order(samples, seed, epoch), batch_size)
    parts = order.split(batch_size)  # type: ignore[no-untyped-call]
    return (
        BatchRequest(True, epoch, number, tuple(part.tolist()))
        for number, part in enumerate(parts[skip:], skip)
    )


def ordered_requests(samples: int, batch_size: int, *, is_training: bool) -> Iterator[BatchRequest]:
    """Return requests for the batches of one split in its own order."""
    for number, start in enumerate(range(0, samples, batch_size)):
        yield BatchRequest(is_training, 0, number, tuple(range(start, min(start + batch_size, samples))))
