"""Data of a workload file: its synthetic batches, or datasets whose samples a loader collates."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import register_pytree_node, tree_leaves, tree_map, tree_map_only
from torch.utils.data import IterableDataset, default_collate

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import BATCH, DATASET
from engine.experiment.problem import ProblemError
from engine.training.data.batches import (
    Batch,
    BatchRequest,
    BatchSource,
    HostBatch,
    LoaderDataset,
    ReusedBatches,
    SizedBatch,
    derive_seed,
    has_to_method,
    move_batch,
    tensors_in,
)
from engine.training.data.datasets import DatasetFacts, Footprint
from engine.training.data.loader import LoadedSource
from engine.training.models.outputs import TARGETS, describe_value
from engine.training.models.own import OwnFile, own_details, own_problem, seed_host
from engine.training.precision import leaf_tensors
from engine.training.ranks import current_rank

BATCH_SIZE = "batch_size"
FEW, MORE = 3, 6  # samples of two batches that together show which dimensions grow with the samples
_SAY = f"define {BATCH_SIZE}(inputs, targets), which returns the number of samples"


def count_samples(
    own: OwnFile, call: str, batch: Batch, wanted: int, again: Callable[[int], Batch] | None
) -> int:
    """Return the number of samples in a batch that `call` made of `wanted` samples. Raises ProblemError.

    The file's `batch_size(inputs, targets)` decides. Else it is `wanted`, whatever dimension the samples are
    in, unless inputs and targets both have fewer. `again` makes a batch of another size.
    """
    _check_parts(own, call, tree_leaves(batch))
    if (count := own.function(BATCH_SIZE)) is not None:
        return _own_count(own, count(*batch))
    lengths = _lengths(batch)
    if set(lengths) <= {wanted} or any(type(side) in (tuple, list) and len(side) == wanted for side in batch):
        return wanted
    smaller = None
    if again is not None:
        other = wanted // 2 or 2
        smaller = again(other)
        if _shapes(smaller) == _shapes(batch):
            name = call.partition("(")[0]
            message = f"returned the same {lengths[0]:,} samples from {call} and {name}({other})"
            raise own.problem(message, f"Return tensors of size samples, or {_SAY}.")
    if len(set(lengths)) > 1 and _differ(batch, smaller, wanted):
        sizes = f"inputs of {lengths[0]:,} samples and targets of {lengths[1]:,}"
        raise own.problem(f"returned {sizes} from {call}", f"Return as many targets as inputs, or {_SAY}.")
    fewest = min(lengths)
    return fewest if len(set(lengths)) == 1 and 1 < fewest < wanted else wanted


def _check_parts(own: OwnFile, call: str, parts: list[Any]) -> None:
    for part in parts:
        if not isinstance(part, Tensor) and not has_to_method(part) and tensors_in(part):
            message = f"returned {describe_value(part)} from {call}, which cannot be moved to a GPU"
            method = f"Give {type(part).__name__} a method to(device) that returns it"
            raise own.problem(message, f"{method}, or return its tensors in a dict.")
    if not any(has_to_method(part) or (isinstance(part, Tensor) and part.dim()) for part in parts):
        raise own.problem(f"returned no tensor from {call}", "Return tensors of all samples.")


def _own_count(own: OwnFile, count: Any) -> int:
    if isinstance(count, Tensor) and count.numel() == 1:
        count = count.item()
    if isinstance(count, int) and count > 0:
        return int(count)
    shown = count if isinstance(count, int | float) else describe_value(count)
    message = f"returned {shown} from {BATCH_SIZE}(inputs, targets), but it must be a positive integer"
    raise own.problem(message, "Return the number of samples in the batch.")


def _lengths(batch: Batch) -> list[int]:
    # of inputs and targets: of both lists, where they are lists of samples, else of their first tensors
    sides = [[part for part in leaf_tensors(side) if part.dim()] for side in batch]
    are_lists = all(type(side) in (tuple, list) for side in batch) and len(batch[0]) == len(batch[1])
    if are_lists and len({len(part) for tensors in sides for part in tensors}) > 1:
        return [len(side) for side in batch]
    return [len(tensors[0]) for tensors in sides if tensors]


def _differ(batch: Batch, smaller: Batch | None, wanted: int) -> bool:
    # whether only the inputs or only the targets can belong to so many samples
    if not all(isinstance(side, Tensor) and side.dim() for side in batch):
        return False
    fits = []
    for side, less in zip(batch, smaller or (None, None), strict=True):
        if isinstance(less, Tensor):
            rows = [large for large, small in zip(side.shape, less.shape, strict=False) if large != small]
        else:
            rows = [len(side), *(size for size in side.shape[1:2] if size == wanted)]
        # several rows may belong to each sample, as the frames of a film do
        fits.append(any(size % wanted == 0 for size in rows))
    return len(set(fits)) > 1


def _shapes(batch: Any) -> Any:
    return tree_map(lambda part: part.shape if isinstance(part, Tensor) else part, batch)


def resize_batch(few: Any, more: Any, size: int) -> Any:
    """Return an empty batch of `size` samples, extrapolated from batches of `FEW` and of `MORE`.

    Call it in fake tensor mode.
    """
    if isinstance(more, Tensor):
        return torch.empty(_grown_shape(few.shape, more.shape, size), dtype=more.dtype)
    if isinstance(more, Mapping):
        made: Any = copy(more)
        made.update({name: resize_batch(few[name], part, size) for name, part in more.items()})
        return made
    if isinstance(more, tuple | list):
        if len(few) == len(more):
            parts = [resize_batch(*pair, size) for pair in zip(few, more, strict=True)]
        else:
            # a list of samples
            parts = [resize_batch(more[at % len(more)], more[at % len(more)], size) for at in range(size)]
        return type(more)(*parts) if hasattr(more, "_fields") else type(more)(parts)
    return size if (few, more) == (FEW, MORE) else more


def _grown_shape(few: torch.Size, more: torch.Size, size: int) -> list[int]:
    pairs = list(zip(few, more, strict=True))
    if (FEW, MORE) in pairs:
        samples = pairs.index((FEW, MORE))
        # the others are as long as the longest sample
        return [size if at == samples else max(pair) for at, pair in enumerate(pairs)]
    # the samples lie behind one another
    return [many if one == many else max(1, round(many * size / MORE)) for one, many in pairs]


VALIDATION = "validation_dataset"
_TURNS = 4


def facts_of_own_data(own: OwnFile, experiment: Experiment) -> DatasetFacts:
    """Return the facts of the file's data. Synthetic batches fill an epoch. Raises ProblemError."""
    if own.has(DATASET):
        samples = OwnDataset(own, experiment)
        train, validation = samples.train_samples, samples.validation_samples
    else:
        own.required(BATCH)
        together = experiment.batch_size * experiment.devices
        train, validation = -(-experiment.samples // together) * together, 0
    return DatasetFacts(train, validation, num_classes=0, image_size=0, channels=0)


def load_own_data(
    own: OwnFile, experiment: Experiment, device: torch.device, memory_format: torch.memory_format
) -> BatchSource:
    """Return the source of the file's data, with images in that memory format. Raises ProblemError."""
    prepare = partial(_formatted, memory_format=memory_format)
    if not own.has(DATASET):
        batches = [
            prepare(move_batch(synthetic_batch(own, experiment, turn), device)) for turn in range(_TURNS)
        ]
        return ReusedBatches(batches, facts_of_own_data(own, experiment).train_samples)
    samples = OwnDataset(own, experiment)
    if samples.is_iterable and experiment.data.workers > 1:
        # more processes would each go through all of it
        data = experiment.data.model_copy(update={"workers": 1})
        experiment = experiment.model_copy(update={"data": data})
    return LoadedSource(samples, experiment, device, prepare)


def synthetic_batch(own: OwnFile, experiment: Experiment, turn: int = 0, size: int | None = None) -> Batch:
    """Return a batch of the file's `batch(size)`, on the host, seeded for the turn. Raises ProblemError."""
    wanted = size or experiment.batch_size

    def make(count: int) -> Any:
        with seeded(derive_seed(experiment.seed, turn + current_rank().number * _TURNS)):
            return own.required(BATCH)(count)

    call = f"{BATCH}({wanted})"
    return _checked(own, call, make(wanted), wanted, lambda count: _parts(own, call, make(count)))


def own_batch(own: OwnFile, experiment: Experiment, count: int) -> Batch:
    """Return a batch of the file's data with that many samples, on the host. Raises ProblemError."""
    if not own.has(DATASET):
        return synthetic_batch(own, experiment, size=count)
    samples = OwnDataset(own, experiment)
    indices = tuple(number % samples.train_samples for number in range(count))
    return samples.batch(BatchRequest(is_training=True, epoch=1, number=0, indices=indices))


def own_footprint(templates: tuple[Batch, Batch], experiment: Experiment, batch_size: int) -> Footprint:
    """Estimate the data on the device from batches of `FEW` and `MORE` samples, in fake tensor mode."""
    groups = experiment.step.gradient_accumulation
    batches = tuple(
        SizedBatch(resize_batch(tuple(templates[0]), tuple(templates[1]), batch_size), batch_size, batch_size)
        for _ in range(max(groups, _TURNS))
    )
    return Footprint(batches[:groups], tuple(leaf_tensors(batches[groups:])))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all global generators on the host in this context, and restore them afterwards.

    Generators of other devices, used by the model's dropout, do not change.
    """
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        seed_host(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


class AttributeDict(dict[str, Any]):
    """A dict whose values are also attributes. It replaces mappings and dataclasses in a user's batches."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"the batch has no {name}, only {', '.join(map(str, self))}")


register_pytree_node(
    AttributeDict,
    lambda value: (list(value.values()), list(value)),
    lambda values, names: AttributeDict(zip(names, values, strict=True)),
)


def _plain(part: Any) -> Any:
    # in containers that PyTorch looks into; only so do their tensors reach the device
    if isinstance(part, Mapping):
        return AttributeDict({name: _plain(value) for name, value in part.items()})
    if is_dataclass(part) and not isinstance(part, type):
        return AttributeDict({field.name: _plain(getattr(part, field.name)) for field in fields(part)})
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(_plain, part))
    return type(part)(map(_plain, part)) if type(part) in (tuple, list) else part


def _parts(own: OwnFile, call: str, made: Any) -> Batch:
    # the inputs and the targets
    if isinstance(made, tuple) and hasattr(made, "_asdict") and len(made) != 2:
        made = made._asdict()
    made = _plain(made)
    if isinstance(made, AttributeDict):
        # as Hugging Face's models take it, with the labels among the inputs
        return made, _targets_in(made.get)
    if has_to_method(made):
        return made, _targets_in(partial(getattr, made))
    if isinstance(made, tuple | list) and len(made) == 2:
        return made[0], made[1]
    message = f"returned {describe_value(made)} from {call}, but a batch must be (inputs, targets)"
    remedy = "Return a tuple of two: tensors, or tuples, lists and dicts of tensors."
    raise own.problem(message, remedy)


def _targets_in(get: Callable[[str, None], Any]) -> Any:
    return next((found for name in TARGETS if (found := get(name, None)) is not None), None)


def _checked(
    own: OwnFile, call: str, made: Any, wanted: int, again: Callable[[int], Batch] | None = None
) -> Batch:
    batch = _parts(own, call, made)
    return SizedBatch(batch, count_samples(own, call, batch, wanted, again), wanted)


class OwnDataset(LoaderDataset):
    """The datasets that a workload file defines, collated into batches for a loader.

    Each loader process executes the saved text of the file again. A map-style dataset is read in the epoch's
    order, an iterable one from its start in each epoch.
    """

    def __init__(self, own: OwnFile, experiment: Experiment) -> None:
        self._file: OwnFile | None = own
        self._again, self._seed = (own.code, own.class_name, experiment.seed), experiment.seed
        self._splits: dict[bool, Any] = {}
        self._iterators: dict[bool, tuple[int, int, Iterator[Any]]] = {}
        self._rank = current_rank()  # also in a loader process, which has none
        train = self._split(True)
        self.is_iterable = _is_iterable(train)
        self.train_samples = _length(own, DATASET, train, experiment.samples)
        self.validation_samples = 0
        if own.has(VALIDATION):
            self.validation_samples = _length(own, VALIDATION, self._split(False), experiment.samples)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "_splits": {}, "_iterators": {}}

    def open(self) -> None:
        try:
            self._split(True)
        except (Exception, SystemExit) as error:
            raise _as_problem(error) from error

    def batch(self, draw: BatchRequest) -> HostBatch:
        place = (self._seed, int(draw.is_training), draw.epoch, draw.number)
        try:
            with seeded(derive_seed(*place)):
                samples = list(self._samples(draw))
                made = (self._own.function("collate") or default_collate)(samples)
            return _checked(self._own, "collate(samples)", made, len(samples))
        except (Exception, SystemExit) as error:
            raise _as_problem(error) from error

    @property
    def _own(self) -> OwnFile:
        if self._file is None:
            self._file = OwnFile(*self._again)
        return self._file

    def _split(self, is_training: bool) -> Any:
        if is_training not in self._splits:
            with seeded(self._seed):
                name = DATASET if is_training else VALIDATION
                self._splits[is_training] = self._own.required(name)()
        return self._splits[is_training]

    def _samples(self, draw: BatchRequest) -> Iterable[Any]:
        split = self._split(draw.is_training)
        if not _is_iterable(split):
            return (split[index] for index in draw.indices)
        # an iterable begins anew in each epoch, and again where it ends too soon
        epoch, number, iterator = self._iterators.get(draw.is_training, (-1, 0, iter(())))
        if epoch != draw.epoch or number > draw.number:
            number, iterator = 0, _endless(self._own, split)
            if draw.is_training:
                # each process goes through all of it, and takes its turns
                iterator = itertools.islice(iterator, self._rank.number, None, self._rank.count)
        size = len(draw.indices)
        # a resumed epoch begins with samples that were trained on before
        for _ in itertools.islice(iterator, (draw.number - number) * size):
            continue
        taken = list(itertools.islice(iterator, size))
        self._iterators[draw.is_training] = (draw.epoch, draw.number + 1, iterator)
        return taken


def _endless(own: OwnFile, split: Any) -> Iterator[Any]:
    while True:
        is_empty = True
        for sample in split:
            is_empty = False
            yield sample
        if is_empty:
            raise own.problem(f"has a {DATASET}() that yields no sample", "Make it yield at least one.")


def _is_iterable(split: Any) -> bool:
    return isinstance(split, IterableDataset) or not hasattr(split, "__getitem__")


def _length(own: OwnFile, name: str, split: Any, samples: int) -> int:
    if not hasattr(split, "__getitem__") and not hasattr(split, "__iter__"):
        message = f"returned {describe_value(split)} from {name}(), but it must be a dataset"
        remedy = "Return a torch.utils.data.Dataset, or an object with samples by index or by iteration."
        raise own.problem(message, remedy)
    if not hasattr(split, "__len__"):
        if not _is_iterable(split):
            raise own.problem(f"returned a dataset without a length from {name}()", "Give it a __len__.")
        return samples
    count = len(split)
    if not count:
        raise own.problem(f"returned a dataset of length 0 from {name}()", "Check what it reads.")
    return count


def _as_problem(error: BaseException) -> ProblemError:
    # one that can leave a loader process with its file and line
    if isinstance(error, ProblemError):
        return error
    problem = own_problem(error)
    if problem is None:
        raise error
    return ProblemError(problem, detail=own_details(error) or "")


def _formatted(inputs: Any, *, memory_format: torch.memory_format) -> Any:
    if memory_format is torch.contiguous_format:
        return inputs

    def place(part: Tensor) -> Tensor:
        is_picture = part.dim() == 4 and part.is_floating_point()
        return part.contiguous(memory_format=memory_format) if is_picture else part

    return tree_map_only(Tensor, place, inputs)
