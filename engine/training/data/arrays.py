"""A file of the user's own arrays as a source of batches: memory-mapped if large, else kept on the device.

Floats become float32 and integers int64. Images of bytes stay bytes until they are on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from engine.experiment.built_in import NORMALIZATIONS, Normalization
from engine.experiment.catalog import ARRAYS
from engine.experiment.checks import array_samples
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.array_files import Array, file_error
from engine.experiment.own.arrays import FileSamples, held_out_count
from engine.experiment.value import BYTES_PER_GIB, BYTES_PER_MIB
from engine.training.data.batches import (
    BatchRequest,
    HostBatch,
    LoaderDataset,
    SampleShape,
    evenly_spaced,
    split_indices,
)

_SMALL_BYTES = 512 * BYTES_PER_MIB
_SCANNED_BYTES = 64 * BYTES_PER_MIB
_MOST_CLASSES = 1_000_000


def is_small(experiment: Experiment) -> bool:
    """Return True for arrays small enough to be kept on the device."""
    return array_samples(experiment).nbytes <= _SMALL_BYTES


def has_images(experiment: Experiment) -> bool:
    """Return True for images to classify, which are prepared like those of other datasets."""
    return experiment.own_code is None and array_samples(experiment).task == "classification"


def image_preprocessing(experiment: Experiment) -> tuple[Normalization | None, int]:
    """Return the normalization of images in an array file (none for floats), and their pixels per side."""
    samples = array_samples(experiment)
    layout = samples.image_layout
    assert layout is not None  # has_pictures() said so
    return None if samples.inputs.kind == "f" else NORMALIZATIONS[ARRAYS], min(layout.height, layout.width)


@dataclass(frozen=True)
class ArrayFacts:
    """The sizes of a user's array file: its number of classes, and the shapes of an input and a target.

    `num_classes` is the vocabulary size for tokens, and 0 for a regression.
    """

    num_classes: int
    rows: tuple[SampleShape, SampleShape]


def array_facts(experiment: Experiment) -> ArrayFacts:
    """Read the targets of a resolved experiment, and one sample. Raises ProblemError."""
    samples = array_samples(experiment)
    _check_room(experiment, samples)
    reader = ArraySamples(experiment)
    has_classes = experiment.own_code is None and samples.task in ("classification", "language")
    classes = _classes(experiment, samples) if has_classes else 0
    reader.open()
    inputs, targets = reader.batch(BatchRequest(is_training=True, epoch=0, number=0, indices=(0,)))
    rows = [SampleShape(tuple(side.shape[1:]), side.dtype) for side in (inputs, targets)]
    return ArrayFacts(classes, (rows[0], rows[1]))


class ArraySamples(LoaderDataset):
    """Reads a user's array file in the form that the model takes: image bytes, tokens, or plain arrays."""

    def __init__(self, experiment: Experiment) -> None:
        self._samples = samples = array_samples(experiment)
        self._task = "own" if experiment.own_code is not None else samples.task
        count = samples.inputs.shape[0]
        self._split = split_indices(count) if samples.validation is None else None
        self.validation_samples = held_out_count(count)
        self.train_samples = count - self.validation_samples
        if samples.validation is not None:
            self.train_samples, self.validation_samples = count, samples.validation[0].shape[0]
        self._parts: Sequence[Sequence[Any]] = ()

    def open(self) -> None:
        samples = self._samples
        pairs = ((samples.inputs, samples.targets), samples.validation)
        opened = [[_opened(array) if array else None for array in pair] for pair in pairs if pair]
        self._parts = (opened[0], opened[-1])

    def batch(self, draw: BatchRequest) -> HostBatch:
        part = 0 if draw.is_training else 1
        chosen = np.asarray(draw.indices)
        if self._split is not None:
            chosen = self._split[part].numpy()[chosen]
        inputs, targets = self._parts[part]
        first = _tensor(inputs[chosen], keeps_bytes=True)
        if targets is None:
            tokens = first.long()
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        return self._formed(first, _tensor(targets[chosen]))

    def examples(self, count: int) -> torch.Tensor | None:
        """Return at most `count` training images as bytes. None without images, or before `open`."""
        if not self._parts or self._samples.image_layout is None:
            return None
        chosen = tuple(evenly_spaced(self.train_samples, count))
        images: torch.Tensor = self.batch(BatchRequest(True, 0, 0, chosen))[0]
        return images

    def _formed(self, inputs: torch.Tensor, targets: torch.Tensor) -> HostBatch:
        layout = self._samples.image_layout
        match self._task:
            case "classification" if layout is not None:
                if inputs.dim() == 3:
                    inputs = inputs.unsqueeze(1)
                if layout.is_channels_last:
                    inputs = inputs.permute(0, 3, 1, 2)
                return inputs.contiguous(), targets.reshape(len(targets))
            case "regression":
                return inputs.float(), targets.reshape(len(targets), -1)
            case "language":
                return inputs.long(), targets
        return inputs, targets


def _classes(experiment: Experiment, samples: FileSamples) -> int:
    # reads all targets, or all tokens
    least = most = 0
    arrays = samples.arrays
    if samples.task == "classification":
        arrays = tuple(array for array in arrays if len(array.shape) <= 2)
    for values in map(_opened, arrays):
        rows = max(1, _SCANNED_BYTES // max(1, values[:1].nbytes))
        for start in range(0, len(values), rows):
            part = values[start : start + rows]
            least, most = min(least, int(part.min())), max(most, int(part.max()))
    file, noun = samples.inputs.file, "classes" if samples.task == "classification" else "tokens"
    if least < 0:
        message = f"{file} has the number {least:,} among its {noun}, which start at 0."
        raise file_error(file, message, f"Number the {noun} from 0.")
    classes = experiment.num_classes or max(2, most + 1)
    if most >= classes:
        message = f"is {classes:,}, but {file} has the number {most:,} among its {noun}, which start at 0."
        remedy = f"Leave it empty, or set it to {most + 1:,} or more."
        raise setting_error("num_classes", message, remedy, value=classes)
    if classes > _MOST_CLASSES:
        message = f"{file} has the number {most:,} among its {noun}. At most {_MOST_CLASSES:,} are allowed."
        raise file_error(file, message, f"Number the {noun} from 0 without gaps.")
    return classes


def _check_room(experiment: Experiment, samples: FileSamples) -> None:
    unmapped = [array for array in samples.arrays if array.offset is None]
    processes = max(1, experiment.data.workers)
    needed, free = sum(array.nbytes for array in unmapped) * processes, psutil.virtual_memory().available
    if needed > free:
        file, where = unmapped[0].file, f" in {processes:,} processes" if processes > 1 else ""
        takes = f"takes {needed / BYTES_PER_GIB:,.2f} GiB unpacked{where}"
        message = f"{file} {takes}, and only {free / BYTES_PER_GIB:,.2f} GiB are free."
        remedy = "Save it with numpy.savez or as .safetensors, which do not need to be unpacked."
        raise file_error(file, message, remedy)


def _opened(array: Array) -> NDArray[Any]:
    # mapped if it can be, else read
    try:
        if array.offset is not None:
            order: Any = "F" if array.is_fortran else "C"
            return np.memmap(array.file, array.dtype, "r", array.offset, array.shape, order)
        if array.columns:
            return _read_columns(array)
        with np.load(array.file, allow_pickle=False) as arrays:
            read: NDArray[Any] = arrays[array.name]
    except Exception as error:
        message = f"'{array.name}' in {array.file} cannot be read."
        raise file_error(array.file, message, "Save the file again.") from error
    if read.shape != array.shape:
        message = f"{array.file} changed while it was read."
        raise file_error(array.file, message, "Start again when it is complete.")
    return read


def _read_columns(array: Array) -> NDArray[Any]:
    # side by side, or one column of lists, which must be equally long
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(array.file, columns=list(array.columns))
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            message = f"'{name}' in {array.file} has {column.null_count:,} empty cells."
            raise file_error(array.file, message, "Fill them, or remove their rows.")
    if not pyarrow.types.is_nested(table.column(0).type):
        numbers = np.stack([column.to_numpy() for column in table.columns], axis=1)
        return numbers.astype(array.dtype).reshape(array.shape)
    values = table.column(0).combine_chunks()
    while pyarrow.types.is_nested(values.type):
        lengths = pyarrow.compute.unique(pyarrow.compute.list_value_length(values))
        if len(lengths) > 1:
            message = f"'{array.name}' in {array.file} has lists of different lengths."
            raise file_error(array.file, message, "Cut or fill them to one length.")
        values = values.flatten()
    if values.null_count:
        message = f"'{array.name}' in {array.file} has lists with missing values."
        raise file_error(array.file, message, "Fill them, or remove their rows.")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(array.shape)


def _tensor(rows: NDArray[Any], *, keeps_bytes: bool = False) -> torch.Tensor:
    wanted = rows.dtype
    if wanted.kind == "f":
        wanted = np.dtype(np.float32)
    elif not (keeps_bytes and wanted == np.uint8):
        wanted = np.dtype(np.int64)
    return torch.from_numpy(np.ascontiguousarray(rows, wanted))
