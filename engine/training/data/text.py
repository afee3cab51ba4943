"""Text for language models: synthetic tokens, Python's own source, and a folder of the user's own."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import torch

from engine.experiment.catalog import PYTHON_SOURCE, SYNTHETIC_TOKENS, TEXT_FOLDER
from engine.experiment.checks import DatasetEntry
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.folders import no_text_problem, text_files
from engine.experiment.problem import ProblemError, request_error
from engine.experiment.value import BYTES_PER_MIB
from engine.training.data.batches import Batch, Source, Turns, drawn_samples, own_seed, seed_of, turns_of
from engine.training.models.language import USUAL_VOCABULARY
from engine.training.ranks.rank import own_share
from engine.words.numbers import memory_text

BYTES = 256
VALIDATION_SEQUENCES = 256
_HELD_OUT = 10  # every tenth file is for validation


class Corpus(Source):
    """Bytes of text on the device in sequences without overlap. Each target is the byte after its input."""

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
        generator = torch.Generator().manual_seed(seed_of(self._seed, number))
        sequences = self._sequences(self._train)
        turns = -(-self.train_samples // sequences)
        orders = [torch.randperm(sequences, generator=generator) for _ in range(turns)]
        order = own_share(torch.cat(orders)[: self.train_samples], self._batch_size)
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


def text_entries() -> tuple[DatasetEntry, ...]:
    """Return the text datasets. An epoch of each has the experiment's `samples`."""
    return (
        DatasetEntry(
            name=SYNTHETIC_TOKENS,
            title="Synthetic tokens, generated on the device",
            task="language",
            num_classes=USUAL_VOCABULARY,
            any_classes=True,
        ),
        DatasetEntry(
            name=PYTHON_SOURCE,
            title="Python's standard library, byte by byte",
            task="language",
            num_classes=BYTES,
            validation_samples=VALIDATION_SEQUENCES,
        ),
        DatasetEntry(
            name=TEXT_FOLDER,
            title="A folder of your own text, byte by byte",
            task="language",
            num_classes=BYTES,
            needs_path=True,
            validation_samples=VALIDATION_SEQUENCES,
        ),
    )


def load_text(experiment: Experiment, device: torch.device) -> Source:
    """The batches of a resolved experiment: tokens and their successors, int64. Raises ProblemError."""
    if experiment.dataset == SYNTHETIC_TOKENS:
        return _synthetic(experiment, device)
    is_own = experiment.dataset == TEXT_FOLDER
    train, validation = folder_text(experiment.path or "") if is_own else python_source()
    shortest = min(len(train), len(validation)) - 1
    if shortest < experiment.sequence_length:
        raise _too_little(experiment, shortest)
    return Corpus(train, validation, experiment, device)


def python_source(folder: Path | None = None) -> tuple[bytes, bytes]:
    """Return the top-level modules of Python's standard library, by name, for training and validation."""
    library = folder or Path(sysconfig.get_path("stdlib"))
    return _split([path.read_bytes() for path in sorted(library.glob("*.py")) if path.is_file()])


def folder_text(path: str) -> tuple[bytes, bytes]:
    """A folder's text, sorted, for training and, every tenth file, for validation. Raises ProblemError."""
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
        return _split(read)
    text = b"".join(read)
    del read
    kept = len(text) - len(text) // _HELD_OUT
    return text[:kept], text[kept:]


def _require_memory(path: str, size_bytes: int) -> None:
    free_bytes = psutil.virtual_memory().available
    if 2 * size_bytes > free_bytes:  # it is copied once
        held, free = (memory_text(count / BYTES_PER_MIB) for count in (size_bytes, free_bytes))
        message = f"{path} has {held} of text, which must fit in memory, but only {free} are free."
        raise request_error(message, "Choose a folder with less text.", key="path", value=path)


def text_bytes(path: str) -> int:
    """Return the bytes of all text below a folder."""
    return sum(Path(file).stat().st_size for file in text_files(Path(path).expanduser().absolute()))


def _split(files: list[bytes]) -> tuple[bytes, bytes]:
    held_out = files[_HELD_OUT - 1 :: _HELD_OUT]
    kept = [text for index, text in enumerate(files, 1) if index % _HELD_OUT]
    return b"".join(kept), b"".join(held_out)


def _synthetic(experiment: Experiment, device: torch.device) -> Source:
    vocabulary = experiment.num_classes
    assert vocabulary is not None  # a resolved experiment has one
    generator = torch.Generator(device=device).manual_seed(own_seed(experiment.seed))
    shape = (drawn_samples(experiment.batch_size), experiment.sequence_length + 1)
    pieces = torch.randint(vocabulary, shape, generator=generator, device=device)
    drawn = pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
    return Turns(turns_of(drawn, experiment.batch_size), experiment.samples)


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
