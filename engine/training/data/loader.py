"""Loads batches, in loader processes if there are any, and copies them on their own stream."""

from __future__ import annotations

import faulthandler
import itertools
import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.settings import Data
from engine.training.data.batches import (
    Augment,
    Batch,
    BatchRequest,
    BatchSource,
    DataSplit,
    HostBatch,
    LoaderDataset,
    Prepare,
    evenly_spaced,
    move_batch,
    ordered_requests,
    replace_inputs,
    tensors_in,
    training_requests,
)


class Loader:
    """Loads batches ahead of their use, in the requested order, in `data.workers` processes.

    The constructor starts the processes, which take seconds to import PyTorch, and returns once each has read
    its dataset. Without persistent workers `begin` does so. Raises ProblemError if the samples cannot be
    read.
    """

    def __init__(self, samples: LoaderDataset, data: Data, device: torch.device) -> None:
        self._workers = data.workers
        self._is_persistent = data.persistent_workers and data.workers > 0
        self._plan = _Plan()
        self._iterator: Any = None
        self._loader = DataLoader(
            _Maker(samples),
            batch_size=None,
            # each index from this sampler is a whole batch
            sampler=self._plan,
            collate_fn=_unchanged,
            num_workers=data.workers,
            prefetch_factor=data.prefetch if data.workers else None,
            persistent_workers=self._is_persistent,
            multiprocessing_context="spawn" if data.workers else None,
            pin_memory=data.pin_memory and device.type in ("cuda", "xpu"),
            worker_init_fn=_begin_process,
            # otherwise each epoch would draw from the global generator and change dropout's draws
            generator=torch.Generator(),
        )
        if self._is_persistent:
            self.begin(())
        elif not self._workers:
            samples.open()

    def begin(self, draws: Iterable[BatchRequest]) -> Iterator[HostBatch]:
        """Start loading the requested batches and yield them. Drops earlier requests. Raises ProblemError."""
        if not self._is_persistent:
            self.close()
        to_start = self._workers if self._iterator is None else 0
        self._plan.draws = itertools.chain(itertools.repeat(None, to_start), draws)
        self._iterator = iter(self._loader)
        try:
            # batches go round the processes, so each of them answers once
            for _ in range(to_start):
                _or_raise(next(self._iterator))
        except BaseException:
            self.close()
            raise
        return map(_or_raise, self._iterator)

    def once(self, draw: BatchRequest) -> HostBatch | None:
        """Return one batch from processes that already run, or None if they would have to be started."""
        return next(self.begin((draw,))) if self._is_persistent else None

    def close(self) -> None:
        """End the processes and wait for them."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None and self._workers:
            # Otherwise they end with the last reference, which a traceback or a generator may hold.
            iterator._shutdown_workers()


class _Plan:
    # the sampler: each item is the next batch to make; None tells a process to open its dataset
    draws: Iterable[BatchRequest | None] = ()

    def __iter__(self) -> Iterator[BatchRequest | None]:
        return iter(self.draws)


@dataclass(frozen=True)
class _Problems:
    # on their way out of a loader process: PyTorch itself would pass on only text
    problems: tuple[Problem, ...]
    detail: str


class _Maker(Dataset[Any]):
    def __init__(self, samples: LoaderDataset) -> None:
        self._samples = samples

    def __getitem__(self, draw: BatchRequest | None) -> HostBatch | _Problems | None:
        try:
            if draw is None:
                self._samples.open()
                return None
            return self._samples.batch(draw)
        except ProblemError as error:
            return _Problems(error.problems, error.detail)


def _or_raise(item: Any) -> Any:
    if isinstance(item, _Problems):
        raise ProblemError(*item.problems, detail=item.detail)
    return item


def _unchanged(item: Any) -> Any:
    return item


def _begin_process(_worker: int) -> None:
    # it ends as soon as its parent is gone; a crash says where it was
    faulthandler.enable()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()


_KEPT_AT_ONCE = 64


class LoadedSource(BatchSource):
    """A batch source that reads data in the background while the model trains.

    Images are copied as bytes, then augmented and prepared on the device. The constructor raises ProblemError
    if the dataset cannot be opened, the iterators if a later read fails.
    """

    def __init__(
        self,
        samples: LoaderDataset,
        experiment: Experiment,
        device: torch.device,
        prepare: Prepare,
        augment: Augment | None = None,
    ) -> None:
        self._samples, self._batch_size, self._seed = samples, experiment.batch_size, experiment.seed
        self._device, self._prepare, self._augment = device, prepare, augment
        self._copying = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self.train_samples = samples.train_samples
        self.has_validation = samples.validation_samples > 0
        self._loader = Loader(samples, experiment.data, device)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        draws = training_requests(self.train_samples, self._batch_size, self._seed, number, skip)
        return self._training(self._loader.begin(draws), number, skip)

    def validation(self, limit: int | None) -> Iterator[Batch]:
        most = self._samples.validation_samples
        draws = ordered_requests(min(limit or most, most), self._batch_size, is_training=False)
        loaded = self._loader.begin(draws)
        return (replace_inputs(batch, self._prepare(batch[0])) for batch in self._moved(loaded))

    def examples(self, count: int) -> torch.Tensor | None:
        pictures = self._samples.examples(count)
        if pictures is not None:
            return pictures
        chosen = tuple(evenly_spaced(self.train_samples, count))
        batch = self._loader.once(BatchRequest(is_training=True, epoch=0, number=0, indices=chosen))
        return None if batch is None else batch[0]

    def close(self) -> None:
        self._loader.close()

    def _training(self, loaded: Iterator[HostBatch], epoch: int, skip: int) -> Iterator[Batch]:
        for number, batch in enumerate(self._moved(loaded), skip):
            pictures = batch[0] if self._augment is None else self._augment(batch[0], epoch, number)
            yield replace_inputs(batch, self._prepare(pictures))

    def _moved(self, loaded: Iterator[HostBatch]) -> Iterator[Batch]:
        if self._copying is not None:
            return _copied_ahead(loaded, self._copying)
        return (move_batch(batch, self._device) for batch in loaded)


def load_all_samples(samples: LoaderDataset, data: Data) -> tuple[DataSplit, DataSplit]:
    """Return all samples, training and validation, in this process. Raises ProblemError."""
    loader = Loader(samples, data, torch.device("cpu"))
    try:
        train, validation = (
            _gathered(loader.begin(ordered_requests(count, _KEPT_AT_ONCE, is_training=is_training)), count)
            for is_training, count in ((True, samples.train_samples), (False, samples.validation_samples))
        )
    finally:
        loader.close()
    return train, validation


def _gathered(batches: Iterator[HostBatch], count: int) -> DataSplit:
    inputs, targets = torch.empty(0), torch.empty(0, dtype=torch.long)
    filled = 0
    for pictures, labels in batches:
        if not filled:
            # allocated whole: joining parts at the end would take twice the memory
            inputs = pictures.new_empty((count, *pictures.shape[1:]))
            targets = labels.new_empty((count, *labels.shape[1:]))
        inputs[filled : filled + len(labels)] = pictures
        targets[filled : filled + len(labels)] = labels
        filled += len(labels)
    return DataSplit(inputs, targets)


def _copied_ahead(loaded: Iterator[HostBatch], copying: torch.cuda.Stream) -> Iterator[Batch]:
    # each batch is copied while the one before is trained on
    following: tuple[Batch, torch.cuda.Event] | None = None
    for batch in itertools.chain(loaded, (None,)):
        current = following
        following = None if batch is None else _copy(batch, copying)
        if current is not None:
            yield _arrived(*current, copying.device)


def _copy(batch: HostBatch, copying: torch.cuda.Stream) -> tuple[Batch, torch.cuda.Event]:
    with torch.cuda.stream(copying):
        copied = move_batch(batch, copying.device, non_blocking=True)
        is_there = torch.cuda.Event()  # type: ignore[no-untyped-call]
        is_there.record(copying)
    return copied, is_there


def _arrived(batch: Batch, is_there: torch.cuda.Event, device: torch.device) -> Batch:
    computing = torch.cuda.current_stream(device)
    computing.wait_event(is_there)
    for part in tree_leaves(batch):
        # Allocated on the copying stream, whose next copy must not overwrite it while it is in use.
        for held in [part] if hasattr(part, "record_stream") else tensors_in(part):
            if getattr(held, "is_cuda", False):
                held.record_stream(computing)
    return batch
