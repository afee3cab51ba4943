"""The datasets: their facts, text for language models, sources of batches, and memory on the device."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import psutil
import torch

from engine.experiment import catalog
from engine.experiment.built_in import DATASETS, VALIDATION_SEQUENCES
from engine.experiment.catalog import PYTHON_SOURCE, SYNTHETIC_TOKENS, TEXT_FOLDER
from engine.experiment.checks import DatasetEntry, ModelEntry, array_samples, data_entry
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.folders import no_text_problem, text_files
from engine.experiment.problem import ProblemError, request_error
from engine.training.data.arrays import array_facts
from engine.training.data.batches import (
    Batch,
    BatchSource,
    DataSplit,
    DeviceSource,
    ReusedBatches,
    SampleShape,
    cut_batches,
    derive_seed,
    generated_samples,
    rank_seed,
)
from engine.training.data.image_folder import check_image_folder, read_image_folder
from engine.training.data.image_sets import SETS, is_downloaded
from engine.training.data.image_sources import check_device_memory, is_kept_on_device, load_images
from engine.training.models.build import REGRESSION_FEATURES, input_channels
from engine.training.ranks import rank_indices
from engine.words.numbers import size_text

_HELD_OUT = 10  # every tenth file is for validation


class Corpus(BatchSource):
    """A source of byte-level text batches for language models. Each target is the byte after its input.

    The text is on the device and cut into sequences that do not overlap.
    """

    has_validation = True

    def __init__(self, train: bytes, validation: bytes, experiment: Experiment, device: torch.device) -> None:
        self._train, self._validation = (
            torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy()).to(device)
            for text in (train, validation)
        )
        self._length, self._batch_size = experiment.sequence_length, experiment.batch_size
        self._seed, self.train_samples = experiment.seed, experiment.samples
        self._offsets = torch.arange(self._length + 1, device=device)
        self.is_waited_for = device.type == "cpu"

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(derive_seed(self._seed, number))
        sequences = self._sequences(self._train)
        turns = -(-self.train_samples // sequences)
        orders = [torch.randperm(sequences, generator=generator) for _ in range(turns)]
        order = rank_indices(torch.cat(orders)[: self.train_samples], self._batch_size)
        order = order[skip * self._batch_size :]
        return self._batches(self._train, order.to(self._offsets.device))

    def validation(self, limit: int | None) -> Iterator[Batch]:
        """Batches of text that no epoch trains on, at most `limit` and never more than 256 sequences."""
        most = min(self._sequences(self._validation), VALIDATION_SEQUENCES)
        order = torch.arange(min(limit or most, most), device=self._offsets.device)
        return self._batches(self._validation, order)

    def _sequences(self, text: torch.Tensor) -> int:
        return (len(text) - 1) // self._length

    def _batches(self, text: torch.Tensor, order: torch.Tensor) -> Iterator[Batch]:
        for start in range(0, len(order), self._batch_size):
            begins = order[start : start + self._batch_size] * self._length
            pieces = text[begins.unsqueeze(1) + self._offsets].long()
            yield pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def load_text(experiment: Experiment, device: torch.device) -> BatchSource:
    """Return the source of a resolved experiment: tokens and their successors, int64. Raises ProblemError."""
    if experiment.dataset == SYNTHETIC_TOKENS:
        return _synthetic_tokens(experiment, device)
    is_own = experiment.dataset == TEXT_FOLDER
    train, validation = folder_text(experiment.path or "") if is_own else python_source()
    shortest = min(len(train), len(validation)) - 1
    if shortest < experiment.sequence_length:
        raise _too_little(experiment, shortest)
    return Corpus(train, validation, experiment, device)


def python_source(folder: Path | None = None) -> tuple[bytes, bytes]:
    """Return the top-level modules of Python's standard library, by name, for training and validation."""
    library = folder or Path(sysconfig.get_path("stdlib"))
    return _split_files([path.read_bytes() for path in sorted(library.glob("*.py")) if path.is_file()])


def folder_text(path: str) -> tuple[bytes, bytes]:
    """Return a folder's text for training and for validation (every tenth file). Raises ProblemError."""
    files = sorted(map(Path, text_files(Path(path).expanduser().absolute())))
    if not files:
        raise ProblemError(no_text_problem(path))
    try:
        _require_memory(path, sum(file.stat().st_size for file in files))
        read = [file.read_bytes() for file in files]
    except OSError as error:
        message = f"{error.filename} cannot be read: {error.strerror}."
        raise request_error(message, "Check its permissions, or remove it.", key="path", value=path) from None
    if len(read) >= _HELD_OUT:
        return _split_files(read)
    text = b"".join(read)
    del read
    kept = len(text) - len(text) // _HELD_OUT
    return text[:kept], text[kept:]


def _require_memory(path: str, size_bytes: int) -> None:
    free_bytes = psutil.virtual_memory().available
    if 2 * size_bytes > free_bytes:  # it is copied once
        held, free = (size_text(count) for count in (size_bytes, free_bytes))
        message = f"{path} has {held} of text, which must fit in memory, but only {free} are free."
        raise request_error(message, "Choose a folder with less text.", key="path", value=path)


def text_bytes(path: str) -> int:
    """Return the bytes of all text below a folder."""
    return sum(Path(file).stat().st_size for file in text_files(Path(path).expanduser().absolute()))


def _split_files(files: list[bytes]) -> tuple[bytes, bytes]:
    held_out = files[_HELD_OUT - 1 :: _HELD_OUT]
    kept = [text for index, text in enumerate(files, 1) if index % _HELD_OUT]
    return b"".join(kept), b"".join(held_out)


def _synthetic_tokens(experiment: Experiment, device: torch.device) -> BatchSource:
    vocabulary = experiment.num_classes
    assert vocabulary is not None  # a resolved experiment has one
    generator = torch.Generator(device=device).manual_seed(rank_seed(experiment.seed))
    shape = (generated_samples(experiment.batch_size), experiment.sequence_length + 1)
    pieces = torch.randint(vocabulary, shape, generator=generator, device=device)
    drawn = pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
    return ReusedBatches(cut_batches(drawn, experiment.batch_size), experiment.samples)


def _too_little(experiment: Experiment, shortest: int) -> ProblemError:
    if shortest < 2 and experiment.dataset == PYTHON_SOURCE:
        message = f"is '{PYTHON_SOURCE}', but this Python does not include its source."
        return setting_error("dataset", message, f"Choose {SYNTHETIC_TOKENS}.", value=PYTHON_SOURCE)
    if shortest < 2:
        message = f"{experiment.path} has too little text for training and validation."
        return request_error(message, "Choose a folder with more text.", key="path", value=experiment.path)
    name = PYTHON_SOURCE if experiment.dataset == PYTHON_SOURCE else f"the text in {experiment.path}"
    length, most = experiment.sequence_length, f"{shortest:,}"
    message = f"is {length:,}, but {name} is too short for it."
    remedy = f"Set it to at most {most}."
    return setting_error("sequence_length", message, remedy, value=length, allowed=f"2 to {most}")


_NOISE = 0.1


@dataclass(frozen=True)
class DatasetFacts:
    """The sizes of a dataset: samples, classes, image size and channels. A size that does not apply is 0.

    `rows` are the shapes of a sample's input and target, if they are known.
    """

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
    return tuple(
        entry.model_copy(update={"needs_download": name in SETS and not is_downloaded(name)})
        for name, entry in DATASETS.items()
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
    """The tensors of a run's data on the device, for a memory forecast.

    `batches` are those of one optimizer step. `held` are all others, such as a dataset kept on the device.
    """

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
    """Return the bytes of data in addition to batches: of the full dataset, and per sample of a batch."""
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
