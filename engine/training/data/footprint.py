"""What a run's data take on its device, as tensors of the same sizes without content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import torch

from engine.catalog import DatasetEntry, ModelEntry
from engine.experiment import Experiment
from engine.training.data.batches import Batch, drawn_samples, turns_of
from engine.training.data.datasets import SYNTHETIC, SYNTHETIC_REGRESSION, DatasetFacts
from engine.training.data.image_folder import IMAGE_FOLDER
from engine.training.data.picture_sources import is_kept
from engine.training.data.text import SYNTHETIC_TOKENS, is_text
from engine.training.models.build import REGRESSION_FEATURES, input_channels

_LABEL_BYTES = 8
_SOURCE_BYTES = 4 * 2**20  # Python's own modules, about
_COPIED_AHEAD = 2  # of loaded pictures: the batch that is trained on, as bytes, and the one after it


@dataclass(frozen=True)
class Footprint:
    """What lies on the device: the batches of one optimizer step, and whatever else `held` keeps there."""

    batches: tuple[Batch, ...]
    held: tuple[torch.Tensor, ...]


def footprint(
    experiment: Experiment, model: ModelEntry, dataset: DatasetEntry, facts: DatasetFacts, batch_size: int
) -> Footprint:
    """The data of a resolved experiment in batches of `batch_size`; call it under fake tensors."""
    groups = experiment.step.gradient_accumulation
    if experiment.dataset in (SYNTHETIC, SYNTHETIC_TOKENS):
        drawn = _batch(experiment, model, facts, drawn_samples(batch_size))
        batches = tuple(islice(cycle(turns_of(drawn, batch_size)), groups))
        return Footprint(batches, (*drawn, *_captured_copies(experiment, batches)))
    batches = tuple(_batch(experiment, model, facts, batch_size) for _ in range(groups))
    kept, each = _other_bytes(experiment, dataset, facts)
    held = (torch.empty(kept, dtype=torch.uint8), torch.empty(each * batch_size, dtype=torch.uint8))
    return Footprint(batches, (*held, *_captured_copies(experiment, batches)))


def _captured_copies(experiment: Experiment, batches: tuple[Batch, ...]) -> Iterator[torch.Tensor]:
    """A graph reads its batches where it read them when captured: copies of its own."""
    if "capture" in experiment.step.parts and experiment.device.startswith("cuda"):
        yield from (torch.empty_like(part) for batch in batches for part in batch)


def _batch(experiment: Experiment, model: ModelEntry, facts: DatasetFacts, batch_size: int) -> Batch:
    if model.task == "language":
        shape = (batch_size, experiment.sequence_length)
        return torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.int64)
    if model.task == "regression":
        return torch.empty(batch_size, REGRESSION_FEATURES), torch.empty(batch_size, 1)
    channels = input_channels(model.name, facts.channels)
    inputs = torch.empty(batch_size, channels, facts.image_size, facts.image_size)
    return inputs, torch.empty(batch_size, dtype=torch.int64)


def _other_bytes(experiment: Experiment, dataset: DatasetEntry, facts: DatasetFacts) -> tuple[int, int]:
    """Bytes beside the batches: of the dataset as a whole, and for each sample of a batch."""
    if experiment.dataset == SYNTHETIC_REGRESSION:
        return facts.train_samples * (REGRESSION_FEATURES + 1) * 4, 0
    if is_text(experiment.dataset):
        return _SOURCE_BYTES, (experiment.sequence_length + 1) * _LABEL_BYTES
    is_folder = experiment.dataset == IMAGE_FOLDER
    side = facts.image_size if is_folder else dataset.image_size or facts.image_size
    picture = side * side * facts.channels
    if not is_kept(experiment):
        return 0, picture * _COPIED_AHEAD
    samples = facts.train_samples + facts.validation_samples
    return samples * (picture + _LABEL_BYTES), picture
