"""Samples in a file of the user's arrays: which arrays are inputs and targets, and for which task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.experiment.catalog import DatasetEntry, Task
from engine.experiment.experiment import setting_error, setting_problem
from engine.experiment.own.array_files import Array, file_error, read_headers
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import shortened


@dataclass(frozen=True)
class Layout:
    """The shape of images in an array, and whether the channels are the last dimension."""

    channels: int
    height: int
    width: int
    is_channels_last: bool


@dataclass(frozen=True)
class FileSamples:
    """The arrays of a data file: inputs and targets to train on, and optionally some to validate on.

    Token sequences need no targets.
    """

    inputs: Array
    targets: Array | None
    validation: tuple[Array, Array | None] | None = None

    @property
    def task(self) -> Task:
        """The task of the arrays. "own" fits only the user's own models."""
        inputs, targets = self.inputs, self.targets
        sides = len(inputs.shape)
        is_alike = targets is None or (targets.is_whole and targets.shape == inputs.shape)
        if inputs.is_whole and sides == 2 and is_alike:
            return "language"
        if targets is None:
            return "own"
        if targets.is_whole and targets.shape[1:] in ((), (1,)) and self.image_layout is not None:
            return "classification"
        if not targets.is_whole and sides == 2 and len(targets.shape) <= 2:
            return "regression"
        return "own"

    @property
    def image_layout(self) -> Layout | None:
        """The layout of images (samples, height, width), with 1, 3 or no channels. None without images."""
        if self.inputs.dtype != "|u1" and self.inputs.kind != "f":
            return None
        match self.inputs.shape[1:]:
            case (height, width):
                return Layout(1, height, width, is_channels_last=False)
            case (1 | 3 as channels, height, width):
                return Layout(channels, height, width, is_channels_last=False)
            case (height, width, 1 | 3 as channels):
                return Layout(channels, height, width, is_channels_last=True)
        return None

    @property
    def sequence_length(self) -> int:
        """The number of tokens in a sequence. Without targets, the last token is only a target."""
        return self.inputs.shape[1] - (self.targets is None)

    @property
    def arrays(self) -> tuple[Array, ...]:
        every = (self.inputs, self.targets, *(self.validation or ()))
        return tuple(array for array in every if array is not None)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, uncompressed."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def words(self) -> str:
        """Return a description: "inputs float32 (100, 20) and targets int64 (100)"."""
        targets = "no targets" if self.targets is None else f"targets {self.targets.words}"
        return f"inputs {self.inputs.words} and {targets}"

    @property
    def names(self) -> dict[str, str]:
        """Return the settings that name the arrays, if the file needs them."""
        columns = self.inputs.columns
        is_told = len(columns) > 1 and (len(self.inputs.name) > _LONGEST_NAMES or "," in "".join(columns))
        is_named = not self.inputs.file.lower().endswith(".npy") and not is_told
        inputs = {"inputs": self.inputs.name} if is_named else {}
        return inputs if self.targets is None else {**inputs, "targets": self.targets.name}

    def described(self, dataset: DatasetEntry) -> DatasetEntry:
        """Return the catalog's entry with the contents of this file, except for the number of classes."""
        layout = self.image_layout if self.task == "classification" else None
        held_out = held_out_count(self.inputs.shape[0])
        validation = held_out if self.validation is None else self.validation[0].shape[0]
        return dataset.model_copy(
            update={
                "task": self.task,
                "image_size": layout and min(layout.height, layout.width),
                "channels": layout and layout.channels,
                "can_augment": layout is not None,
                "sequence_length": self.sequence_length if self.task == "language" else None,
                "train_samples": self.inputs.shape[0] - (held_out if self.validation is None else 0),
                "validation_samples": validation,
            }
        )


def held_out_count(samples: int) -> int:
    """Return how many samples to hold out if the file has none for validation: a tenth."""
    return max(1, round(0.1 * samples))


_LONGEST_NAMES = 4_000
_INPUTS = ("x", "inputs", "input_ids", "input", "images", "image", "pictures", "features", "tokens", "data")
_TARGETS = ("y", "targets", "target", "labels", "label")
_TRAINING = ("train", "training")
_VALIDATION = ("val", "valid", "validation", "test")


def samples_of_file(path: str, inputs: str = "", targets: str = "") -> FileSamples:
    """Find a file's samples, by names or the usual names. Reads headers only. Raises ProblemError."""
    file = Path(path).expanduser().absolute()
    arrays = read_headers(file)
    if file.suffix.lower() == ".npy":
        chosen = _samples_beside_file(file, arrays[0], inputs, targets)
    else:
        chosen = _samples_in_file(file, {array.name: array for array in arrays}, inputs, targets)
    for array in chosen.arrays:
        _check_numbers(array)
    if chosen.targets is None and chosen.task != "language":
        raise ProblemError(_no_usual("data.targets", file, arrays))
    _check_lengths(chosen.inputs, chosen.targets)
    if chosen.validation is not None:
        _check_validation(chosen, chosen.validation)
    if chosen.inputs.shape[0] < 2:
        message = f"{file} has only one sample. Training and validation need at least one each."
        raise file_error(file, message, "Select a file with more samples.")
    return chosen


def validation_names(name: str) -> tuple[str, ...]:
    """Return the possible names of the validation array that belongs to array `name`."""
    swapped = tuple(_swapped_name(name, _TRAINING, _VALIDATION))
    return swapped or tuple(other for word in _VALIDATION for other in (f"{name}_{word}", f"{word}_{name}"))


def _samples_in_file(file: Path, arrays: dict[str, Array], inputs: str, targets: str) -> FileSamples:
    is_table = file.suffix.lower() == ".parquet"
    for key, name in (("data.inputs", inputs), ("data.targets", targets)):
        if name and not (
            _columns_array(arrays, name) if is_table and key == "data.inputs" else name in arrays
        ):
            raise ProblemError(_unknown_array_problem(key, name, file, arrays))
    if is_table:
        return _samples_in_table(file, arrays, inputs, targets)
    training = [name for name in arrays if not _find_word(name, _VALIDATION)] or [*arrays]
    first = inputs or _usual_inputs(training, targets, arrays)
    if not first:
        raise ProblemError(_no_usual("data.inputs", file, arrays.values()))
    second = targets or _usual_targets(training, first, arrays)
    return _with_validation(FileSamples(arrays[first], arrays[second] if second else None), arrays.get)


def _samples_in_table(file: Path, arrays: dict[str, Array], inputs: str, targets: str) -> FileSamples:
    # the inputs are a column with lists, or else all with numbers except the targets
    lists = [name for name, array in arrays.items() if len(array.shape) > 1]
    first = inputs or _usual_inputs(lists, targets, arrays)
    second = targets or _usual_targets([*arrays], first, arrays)
    if first:
        chosen = _columns_array(arrays, first)
    else:
        chosen = _joined_columns([array for name, array in arrays.items() if name != second])
        if not second or chosen is None:
            raise ProblemError(_no_usual("data.inputs" if second else "data.targets", file, arrays.values()))
    assert chosen is not None  # the names were looked up before
    return FileSamples(chosen, arrays[second] if second else None)


def _samples_beside_file(file: Path, array: Array, inputs: str, targets: str) -> FileSamples:
    # the inputs are the whole file, the targets a file next to it
    if inputs and inputs != file.stem:
        message = f"is '{shortened(inputs)}', but {file} contains a single array."
        raise setting_error("data.inputs", message, "Leave it empty.", value=inputs)

    def read(stem: str) -> Array | None:
        other = file.with_name(f"{stem}.npy")
        return read_headers(other)[0] if other.is_file() else None

    if targets:
        other = read(targets.removesuffix(".npy")) if "\0" not in targets else None
        if other is None:
            message = f"is '{shortened(targets)}', but there is no file of that name next to {file}."
            raise setting_error("data.targets", message, "Set it to the name of a .npy file.", value=targets)
    else:
        other = next(filter(None, map(read, _partners(file.stem))), None)
    return _with_validation(FileSamples(array, other), read)


def _with_validation(samples: FileSamples, find: Callable[[str], Array | None]) -> FileSamples:
    inputs, targets = (
        next(filter(None, map(find, validation_names(array.name))), None) if array else None
        for array in (samples.inputs, samples.targets)
    )
    if inputs is None or (samples.targets is not None and targets is None):
        return samples
    return replace(samples, validation=(inputs, targets))


def _usual_inputs(names: Sequence[str], targets: str, arrays: dict[str, Array]) -> str:
    left = [name for name in names if name != targets and not _find_word(name, _TARGETS)]
    best = _best_name(left, _INPUTS)
    if best or (len(left) == 1 and len(names) <= 2):
        return best or left[0]
    return max(left, key=lambda name: len(arrays[name].shape)) if len(left) == len(names) == 2 else ""


def _usual_targets(names: Sequence[str], inputs: str, arrays: dict[str, Array]) -> str:
    partner = next((name for name in _partners(inputs) if name in arrays), None) if inputs else None
    left = [name for name in names if name != inputs]
    return partner or _best_name(left, _TARGETS) or (left[0] if len(names) == 2 and inputs else "")


def _best_name(names: Sequence[str], words: Sequence[str]) -> str:
    # that of the first of these words which occurs; empty where several names have it, or none
    for word in words:
        having = [name for name in names if _find_word(name, (word,))]
        if having:
            return having[0] if len(having) == 1 else ""
    return ""


def _partners(name: str) -> Iterator[str]:
    yield from _swapped_name(name, _INPUTS, (*_TARGETS, "Y"))
    for word in _TARGETS:
        yield from (f"{name}_{word}", f"{name}-{word}")


def _swapped_name(name: str, words: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    match = _find_word(name, words)
    if match:
        yield from (f"{name[: match.start()]}{other}{name[match.end() :]}" for other in others)


def _find_word(name: str, words: Sequence[str]) -> re.Match[str] | None:
    return re.search(rf"(?<![a-z0-9])({'|'.join(words)})(?![a-z0-9])", name, re.IGNORECASE)


def _columns_array(arrays: dict[str, Array], name: str) -> Array | None:
    # or those whose names have commas between them; numbers become one column
    if name in arrays:
        return arrays[name] if len(arrays[name].shape) > 1 else _joined_columns([arrays[name]])
    names = [part.strip() for part in name.split(",")]
    return (
        _joined_columns([arrays[part] for part in names]) if all(part in arrays for part in names) else None
    )


def _joined_columns(columns: Sequence[Array]) -> Array | None:
    numbers = [column for column in columns if column.columns and column.nbytes and len(column.shape) == 1]
    if not numbers:
        return None
    names = tuple(column.name for column in numbers)
    shape = (numbers[0].shape[0], len(numbers))
    return Array(numbers[0].file, ", ".join(names), "<f4", shape, columns=names)


def _check_numbers(array: Array) -> None:
    if array.kind == "O":
        what = "contains Python objects, which Ammeter does not unpickle"
        remedy = "Save it as an array of numbers of one shape."
    elif array.kind == "":
        what = f"contains {shortened(array.dtype)}, which cannot be trained on"
        remedy = "Save it as integers or as float16, float32 or float64."
    elif not array.shape or 0 in array.shape:
        what = f"has no samples (shape {array.shape})"
        remedy = "Save it with its samples as the first dimension."
    else:
        return
    raise file_error(array.file, f"'{shortened(array.name)}' in {array.file} {what}.", remedy)


def _check_lengths(inputs: Array, targets: Array | None) -> None:
    if targets is not None and inputs.shape[0] != targets.shape[0]:
        message = (
            f"'{shortened(inputs.name)}' in {inputs.file} has {inputs.shape[0]:,} samples, but "
            f"'{shortened(targets.name)}' has {targets.shape[0]:,}."
        )
        raise file_error(inputs.file, message, "Save one target for each input.")


def _check_validation(samples: FileSamples, validation: tuple[Array, Array | None]) -> None:
    _check_lengths(*validation)
    for array, other in zip((samples.inputs, samples.targets), validation, strict=True):
        if array and other and (array.shape[1:], array.dtype) != (other.shape[1:], other.dtype):
            message = (
                f"'{shortened(other.name)}' in {other.file} is {other.words}, which differs from the "
                f"{array.words} of '{shortened(array.name)}'."
            )
            raise file_error(other.file, message, "Save both with the same dtype and sample shape.")


def _unknown_array_problem(key: str, name: str, file: Path, arrays: dict[str, Array]) -> Problem:
    listed = _array_names_text(arrays.values())
    message = f"is '{shortened(name)}', but {file} has no array of that name."
    return setting_problem(key, message, f"Set it to one of: {listed}.", value=name, allowed=listed)


def _no_usual(key: str, file: Path, arrays: Iterable[Array]) -> Problem:
    what = "inputs" if key == "data.inputs" else "targets"
    if file.suffix.lower() == ".npy":
        message = f"is empty, and there is no file with targets next to {file}."
        return setting_problem(
            key, message, f"Set it to the name of a file, e.g. {file.stem}_y.npy.", value=""
        )
    message = f"is empty, and the names in {file} do not show which array holds the {what}."
    remedy = f"Set it to one of: {_array_names_text(arrays)}."
    return setting_problem(key, message, remedy, value="", allowed=_array_names_text(arrays))


def _array_names_text(arrays: Iterable[Array]) -> str:
    return shortened(", ".join(array.name for array in arrays), most=300)
