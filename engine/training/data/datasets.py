"""The datasets: their facts, their sources of batches, and their memory on the device, from fake tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch

from engine.experiment import catalog
from engine.experiment.checks import DatasetEntry, ModelEntry, array_samples, data_entry
from engine.experiment.experiment import Experiment
from engine.training.data import image_folder
from engine.training.data import images as fakedata
from engine.training.data import images as fashion
from engine.training.data.arrays import array_facts
from engine.training.data.batches import (
    Batch,
    BatchSource,
    DataSplit,
    DeviceSource,
    ReusedBatches,
    SampleShape,
    cut_batches,
    generated_samples,
    rank_seed,
)
from engine.training.data.image_folder import check_image_folder, read_image_folder
from engine.training.data.image_sets import set_entries
from engine.training.data.image_sources import check_device_memory, is_kept_on_device, load_images
from engine.training.data.images import FAKEDATA, FASHION
from engine.training.data.text import load_text, text_bytes, text_entries
from engine.training.models.build import REGRESSION_FEATURES, input_channels

_NOISE = 0.1


@dataclass(frozen=True)
class DatasetFacts:
    """Facts of a dataset, 0 where one does not apply. `rows` are the shapes of a sample's arrays."""

    train_samples: int
    validation_samples: int
    num_classes: int
    image_size: int
    channels: int
    rows: tuple[SampleShape, SampleShape] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of inputs and outputs of a regression per sample."""
        match self.rows:
            case (SampleShape((features,)), SampleShape((width,))):
                return features, width
        return REGRESSION_FEATURES, 1


def dataset_entries() -> tuple[DatasetEntry, ...]:
    """Return all datasets. `needs_download`: the first run will download it."""
    pictures: dict[str, Any] = {"task": "classification", "channels": 3}
    loaded: dict[str, Any] = {"can_augment": True, "loads": True}
    return (
        DatasetEntry(
            name=FASHION,
            title="Fashion-MNIST, the built-in 7,000 images",
            task="classification",
            image_size=fashion.FASHION_IMAGE_SIZE,
            channels=1,
            num_classes=fashion.FASHION_CLASSES,
            train_samples=fashion.FASHION_TRAIN_SAMPLES,
            validation_samples=fashion.FASHION_VALIDATION_SAMPLES,
            **loaded,
        ),
        *set_entries(),
        DatasetEntry(
            name=catalog.SYNTHETIC,
            title="Synthetic images, generated on the device",
            image_size=224,
            num_classes=1_000,
            any_classes=True,
            **pictures,
        ),
        DatasetEntry(
            name=FAKEDATA,
            title="Fake images, generated one by one, as real ones are loaded",
            image_size=fakedata.FAKE_IMAGE_SIZE,
            num_classes=fakedata.FAKE_CLASSES,
            any_classes=True,
            train_samples=fakedata.FAKE_TRAIN_SAMPLES,
            validation_samples=fakedata.FAKE_VALIDATION_SAMPLES,
            **pictures,
            **loaded,
        ),
        DatasetEntry(
            name=catalog.IMAGE_FOLDER,
            title="A folder of your own images",
            image_size=image_folder.IMAGE_SIZE,
            needs_path=True,
            **pictures,
            **loaded,
        ),
        DatasetEntry(
            name=catalog.SYNTHETIC_REGRESSION,
            title="Synthetic regression, 10 numbers to 1",
            task="regression",
        ),
        *text_entries(),
        DatasetEntry(
            name=catalog.ARRAYS,
            title="A file of your own arrays",
            task="own",
            any_classes=True,
            needs_path=True,
            **loaded,
        ),
        DatasetEntry(name=catalog.OWN_DATA, title="The model's own data", task="own"),
    )


def facts_of(experiment: Experiment) -> DatasetFacts:
    """Return the facts of a resolved experiment's dataset. Lists the user's own data. Raises ProblemError."""
    entry = next(entry for entry in dataset_entries() if entry.name == experiment.dataset)
    train, validation = entry.train_samples or experiment.samples, entry.validation_samples or 0
    classes = experiment.num_classes or entry.num_classes or 0
    rows = None
    if experiment.dataset == catalog.ARRAYS:
        held = array_facts(experiment)
        classes, rows = held.num_classes, held.rows
        entry = data_entry(experiment, entry, array_samples(experiment))
        train, validation = entry.train_samples or 0, entry.validation_samples or 0
    elif experiment.dataset == catalog.IMAGE_FOLDER:
        folder = read_image_folder(experiment.path)
        check_image_folder(folder, experiment)
        train, validation, classes = len(folder.train), len(folder.validation), len(folder.classes)
    size, channels = experiment.image_size or entry.image_size or 0, entry.channels or 0
    facts = DatasetFacts(train, validation, classes, size, channels, rows)
    sample_bytes = facts.channels * facts.image_size**2 if rows is None else sum(row.nbytes for row in rows)
    check_device_memory(experiment, train + validation, sample_bytes)
    return facts


def load_source(
    experiment: Experiment,
    channels: int,
    device: torch.device,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> BatchSource:
    """Return the source of a resolved experiment, with images of that many channels. Raises ProblemError."""
    if experiment.dataset.task == "language":
        return load_text(experiment, device)
    if experiment.dataset == catalog.SYNTHETIC:
        return _synthetic(experiment, channels, device, memory_format)
    if experiment.dataset == catalog.SYNTHETIC_REGRESSION:
        generator, samples = torch.Generator().manual_seed(experiment.seed), experiment.samples
        inputs = torch.randn(samples, REGRESSION_FEATURES, generator=generator)
        weights = torch.randn(REGRESSION_FEATURES, 1, generator=generator)
        noise = torch.randn(samples, 1, generator=generator)
        return DeviceSource(DataSplit(inputs, inputs @ weights + _NOISE * noise), None, experiment, device)
    return load_images(experiment, channels, device, memory_format)


def _synthetic(
    experiment: Experiment, channels: int, device: torch.device, memory_format: torch.memory_format
) -> ReusedBatches:
    size, classes = experiment.image_size, experiment.num_classes
    assert size is not None and classes is not None  # a resolved experiment has both
    generator = torch.Generator(device=device).manual_seed(rank_seed(experiment.seed))
    samples = generated_samples(experiment.batch_size)
    pictures = torch.randn((samples, channels, size, size), generator=generator, device=device)
    labels = torch.randint(classes, (samples,), generator=generator, device=device)
    drawn = pictures.contiguous(memory_format=memory_format), labels
    return ReusedBatches(cut_batches(drawn, experiment.batch_size), experiment.samples)


_LABEL_BYTES = 8
_SOURCE_BYTES = 4 * 2**20  # Python's own modules, about
_COPIED_AHEAD = 2  # of loaded pictures, as bytes: the current batch and the next


@dataclass(frozen=True)
class Footprint:
    """Data on the device: the batches of one optimizer step, and other tensors in `held`."""

    batches: tuple[Batch, ...]
    held: tuple[torch.Tensor, ...]


def footprint(
    experiment: Experiment, model: ModelEntry, dataset: DatasetEntry, facts: DatasetFacts, batch_size: int
) -> Footprint:
    """Return the data of a resolved experiment in batches of `batch_size`. Call it in fake tensor mode."""
    groups = experiment.step.gradient_accumulation
    if experiment.dataset in (catalog.SYNTHETIC, catalog.SYNTHETIC_TOKENS):
        drawn = _batch(experiment, model, facts, generated_samples(batch_size))
        batches = tuple(islice(cycle(cut_batches(drawn, batch_size)), groups))
        return Footprint(batches, (*drawn, *_captured_copies(experiment, batches)))
    batches = tuple(_batch(experiment, model, facts, batch_size) for _ in range(groups))
    fixed_bytes, sample_bytes = _other_bytes(experiment, dataset, facts)
    held = (torch.empty(size, dtype=torch.uint8) for size in (fixed_bytes, sample_bytes * batch_size))
    return Footprint(batches, (*held, *_captured_copies(experiment, batches)))


def _captured_copies(experiment: Experiment, batches: tuple[Batch, ...]) -> Iterator[torch.Tensor]:
    # a graph reads its batches from copies of its own, where they were at the capture
    if "capture" in experiment.step.parts and experiment.device.startswith("cuda"):
        yield from (torch.empty_like(part) for batch in batches for part in batch)


def _batch(experiment: Experiment, model: ModelEntry, facts: DatasetFacts, batch_size: int) -> Batch:
    if facts.rows is not None and not facts.image_size:
        inputs, targets = facts.rows
        return inputs.batch(batch_size), targets.batch(batch_size)
    if model.task == "language":
        shape = (batch_size, experiment.sequence_length)
        return torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.int64)
    if model.task == "regression":
        return torch.empty(batch_size, REGRESSION_FEATURES), torch.empty(batch_size, 1)
    channels = input_channels(model.name, facts.channels)
    pictures = torch.empty(batch_size, channels, facts.image_size, facts.image_size)
    return pictures, torch.empty(batch_size, dtype=torch.int64)


def _other_bytes(experiment: Experiment, dataset: DatasetEntry, facts: DatasetFacts) -> tuple[int, int]:
    """Return the bytes besides the batches: for the full dataset, and per sample of a batch."""
    if experiment.dataset == catalog.SYNTHETIC_REGRESSION:
        return facts.train_samples * (REGRESSION_FEATURES + 1) * 4, 0
    if experiment.dataset.task == "language":
        source = (
            text_bytes(experiment.path or "") if experiment.dataset == catalog.TEXT_FOLDER else _SOURCE_BYTES
        )
        return source, (experiment.sequence_length + 1) * _LABEL_BYTES
    samples = facts.train_samples + facts.validation_samples
    if facts.rows is not None:
        inputs, targets = facts.rows
        gathered = inputs.nbytes if facts.image_size else 0  # before they are prepared
        if is_kept_on_device(experiment):
            return samples * (inputs.nbytes + targets.nbytes), gathered
        return 0, gathered + inputs.nbytes + targets.nbytes
    is_folder = experiment.dataset == catalog.IMAGE_FOLDER
    side = facts.image_size if is_folder else dataset.image_size or facts.image_size
    picture = side * side * facts.channels
    if not is_kept_on_device(experiment):
        return 0, picture * _COPIED_AHEAD
    return samples * (picture + _LABEL_BYTES), picture
