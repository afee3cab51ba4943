"""Batches that loader processes make and a stream of their own brings to the device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from engine.parts import Data
from engine.training.data.batches import Augment, Batch, Prepare, Split
from engine.training.data.host_batches import Draw, HostBatch, Pictures, draws_in_order, training_draws
from engine.training.data.loader import Loader
from engine.training.data.order import spread

_KEPT_AT_ONCE = 64


class Loaded:
    """A `Source` of pictures that are loaded while the model trains.

    They travel as bytes; `augment` and `prepare` work on the device. Raises ProblemError where the first
    reading fails; so do its iterators where a later one does.
    """

    def __init__(
        self,
        samples: Pictures,
        *,
        batch_size: int,
        seed: int,
        data: Data,
        device: torch.device,
        prepare: Prepare,
        augment: Augment | None = None,
    ) -> None:
        self._batch_size = batch_size
        self._seed = seed
        self._device = device
        self._prepare = prepare
        self._augment = augment
        self._copying = _new_stream(device) if device.type == "cuda" else None
        self._samples = samples
        self._validation_samples = samples.validation_samples
        self.train_samples = samples.train_samples
        self.has_validation = samples.validation_samples > 0
        self._loader = Loader(samples, data, device)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        draws = training_draws(self.train_samples, self._batch_size, self._seed, number, skip)
        return self._training(self._loader.begin(draws), number, skip)

    def validation(self, limit: int | None) -> Iterator[Batch]:
        samples = min(limit or self._validation_samples, self._validation_samples)
        loaded = self._loader.begin(draws_in_order(samples, self._batch_size, is_training=False))
        return ((self._prepare(pictures), labels) for pictures, labels in self._moved(loaded))

    def examples(self, count: int) -> torch.Tensor | None:
        pictures = self._samples.examples(count)
        if pictures is not None:
            return pictures
        chosen = tuple(spread(self.train_samples, count))
        made = self._loader.once(Draw(is_training=True, epoch=0, number=0, indices=chosen))
        return None if made is None else made[0]

    def close(self) -> None:
        self._loader.close()

    def _training(self, loaded: Iterator[HostBatch], epoch: int, skip: int) -> Iterator[Batch]:
        for number, (pictures, labels) in enumerate(self._moved(loaded), skip):
            augmented = pictures if self._augment is None else self._augment(pictures, epoch, number)
            yield self._prepare(augmented), labels

    def _moved(self, loaded: Iterator[HostBatch]) -> Iterator[Batch]:
        if self._copying is not None:
            return _copied_ahead(loaded, self._copying)
        return ((pictures.to(self._device), labels.to(self._device)) for pictures, labels in loaded)


def kept(samples: Pictures, data: Data) -> tuple[Split, Split]:
    """All of the samples, training and validation, in this process. Raises ProblemError."""
    loader = Loader(samples, data, torch.device("cpu"))
    try:
        train, validation = (
            _gathered(loader.begin(draws_in_order(count, _KEPT_AT_ONCE, is_training=is_training)), count)
            for is_training, count in ((True, samples.train_samples), (False, samples.validation_samples))
        )
    finally:
        loader.close()
    return train, validation


def _gathered(batches: Iterator[HostBatch], count: int) -> Split:
    inputs, targets = torch.empty(0), torch.empty(0, dtype=torch.long)
    filled = 0
    for pictures, labels in batches:
        if not filled:
            # of their whole size at once: parts put together in the end would need twice the memory
            inputs = pictures.new_empty((count, *pictures.shape[1:]))
            targets = labels.new_empty(count)
        inputs[filled : filled + len(labels)] = pictures
        targets[filled : filled + len(labels)] = labels
        filled += len(labels)
    return Split(inputs, targets)


def _new_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _copied_ahead(loaded: Iterator[HostBatch], copying: torch.cuda.Stream) -> Iterator[Batch]:
    """The batches on the stream's device, each copied while the one before it is trained on."""
    following: tuple[Batch, torch.cuda.Event] | None = None
    for batch in itertools.chain(loaded, (None,)):
        current = following
        following = None if batch is None else _copy(batch, copying)
        if current is not None:
            yield _arrived(*current)


def _copy(batch: HostBatch, copying: torch.cuda.Stream) -> tuple[Batch, torch.cuda.Event]:
    with torch.cuda.stream(copying):
        pictures, labels = (part.to(copying.device, non_blocking=True) for part in batch)
        is_there = torch.cuda.Event()  # type: ignore[no-untyped-call]
        is_there.record(copying)
    return (pictures, labels), is_there


def _arrived(batch: Batch, is_there: torch.cuda.Event) -> Batch:
    computing = torch.cuda.current_stream(batch[0].device)
    computing.wait_event(is_there)
    for part in batch:
        # It was allocated for the copying stream, whose next copy must not overwrite it while it is used.
        part.record_stream(computing)
    return batch
