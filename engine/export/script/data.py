"""The data of a script: facts of a dataset, and the code that loads and batches it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

from engine.experiment.built_in import (
    DATASETS,
    FAKE_TRAIN_SAMPLES,
    FAKE_VALIDATION_SAMPLES,
    NORMALIZATIONS,
    Normalization,
)
from engine.experiment.catalog import ARRAYS, OWN_DATA, DatasetEntry
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.arrays import validation_names
from engine.experiment.problem import ProblemError, unknown_name
from engine.export.script.source import OwnFacts, call, literal, own_facts

_Downloaded = Literal["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100"]
DOWNLOADED: tuple[_Downloaded, ...] = get_args(_Downloaded)
_Made = Literal["fake", "pictures", "regression", "tokens", "text"]
Reader = _Downloaded | _Made | Literal["npz", "folder", "own", "texts", "arrays"]


_READERS: dict[str, Reader] = {
    "fashion": "npz",
    "fashion-mnist": "FashionMNIST",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "fakedata": "fake",
    "image-folder": "folder",
    "synthetic": "pictures",
    "synthetic-regression": "regression",
    "synthetic-tokens": "tokens",
    "python-source": "text",
    OWN_DATA: "own",
    "text-folder": "texts",
    "arrays": "arrays",
}


@dataclass(frozen=True)
class KnownDataset:
    """A built-in dataset, and how an exported script reads it.

    A field of `entry` is None if it does not apply, or if only the run knows its value.
    """

    reader: Reader
    entry: DatasetEntry
    colors: Normalization | None

    @property
    def channels(self) -> int:
        return self.entry.channels or 0


Form = Literal["memory", "loaded", "turns", "text", "own"]
_FORMS: dict[Reader, Form] = {
    "fake": "loaded",
    "folder": "loaded",
    "pictures": "turns",
    "tokens": "turns",
    "text": "text",
    "own": "own",
    "texts": "text",
}
_READ: tuple[Reader, ...] = ("folder", "arrays")


@dataclass(frozen=True)
class DataFacts:
    """The properties of a run's data that decide the script's code. Sizes are in pixels.

    `own` is the user's model file, if there is one.
    """

    experiment: Experiment
    known: KnownDataset
    own: OwnFacts | None = None

    @property
    def form(self) -> Form:
        """The source of batches: all data in `memory`, a loader, a cycle of batches, ..."""
        return _FORMS.get(self.known.reader, "memory")

    @property
    def samples(self) -> int | None:
        """The samples of an epoch, or None if they depend on the user's data or model file."""
        if self.own is not None:
            size = self.experiment.batch_size * self.experiment.devices
            return None if self.own.defines("dataset") else math.ceil(self.experiment.samples / size) * size
        return (
            None if self.known.reader in _READ else self.known.entry.train_samples or self.experiment.samples
        )

    @property
    def is_synthetic(self) -> bool:
        """True if an epoch cycles through a few synthetic batches, which each device generates itself."""
        return self.form == "turns" or (self.own is not None and not self.own.defines("dataset"))

    @property
    def validates(self) -> bool:
        has_some = bool(self.known.entry.validation_samples) or self.known.reader in _READ
        if self.own is not None:
            has_some = self.own.defines("dataset") and self.own.defines("validation_dataset")
        return has_some and self.experiment.validation.every > 0

    @property
    def limit(self) -> int | None:
        """The number of samples to validate on, or None for all."""
        limit, samples = self.experiment.validation.limit, self.known.entry.validation_samples
        return None if limit is None or (samples and limit >= samples) else limit

    @property
    def size(self) -> int:
        return self.experiment.image_size or self.known.entry.image_size or 0

    @property
    def resize_to(self) -> int | None:
        """The size that batches are resized to. Decoded images already have the right size."""
        is_made = self.known.reader in ("fake", "folder")
        return None if is_made or self.size == (self.known.entry.image_size or 0) else self.size

    @property
    def resize_before(self) -> int:
        """The shorter side of a folder's images before their center is cropped."""
        return round(256 / 224 * self.size)

    @property
    def ending(self) -> str:
        """The ending of the file of arrays, which decides how it is read."""
        return PurePath(self.experiment.path or "").suffix.lower()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that are the inputs."""
        return tuple(name.strip() for name in self.experiment.data.inputs.split(","))

    @property
    def targets(self) -> str:
        """The name of the target array, empty if the target is the next token."""
        return self.experiment.data.targets

    @property
    def names(self) -> tuple[str, ...]:
        """The names of inputs, and of targets if any, as source: for training, then for validation."""
        if self.ending == ".parquet":
            return (literal(self.columns),)
        inputs = self.experiment.data.inputs or PurePath(self.experiment.path or "").stem
        return tuple(literal((name, *validation_names(name))) for name in (inputs, self.targets) if name)

    @property
    def classes(self) -> int:
        """The number of classes, or of tokens in the vocabulary for text."""
        return self.experiment.num_classes or self.known.entry.num_classes or 0

    @property
    def augments(self) -> bool:
        """True if batches are shifted and flipped."""
        return self.experiment.data.augment and not self.loader_augments

    @property
    def loader_augments(self) -> bool:
        """True if images are augmented as they are decoded."""
        data = self.experiment.data
        return data.augment and self.known.reader == "folder" and not data.on_device

    @property
    def loader(self) -> str:
        """An expression for a loader of `draws`."""
        data = self.experiment.data
        settings = {"num_workers": str(data.workers)}
        if data.pin_memory and self.experiment.device.startswith(("cuda", "xpu")):
            settings["pin_memory"] = "True"
        decode = "made" if self.known.reader == "fake" else "decoded"
        named = {"batch_size": "None", "collate_fn": decode, **settings, "generator": "torch.Generator()"}
        return call("DataLoader", "draws", **named)


def data_facts(experiment: Experiment) -> DataFacts:
    """Return the data of an experiment. Raises ProblemError for an unknown dataset or number of classes."""
    own = own_facts(experiment)
    if experiment.dataset not in DATASETS or (experiment.dataset == OWN_DATA and own is None):
        raise ProblemError(unknown_name("dataset", experiment.dataset, DATASETS, "dataset"))
    if experiment.devices != 1 and (experiment.devices == 0 or experiment.device in ("auto", "mps")):
        fault = "is not known until the run has started."
        raise setting_error("devices", fault, "Train the run first.")
    name, has_colors = experiment.dataset, experiment.dataset != ARRAYS or experiment.image_size is not None
    known = KnownDataset(_READERS[name], DATASETS[name], NORMALIZATIONS.get(name) if has_colors else None)
    data = DataFacts(experiment, known, own if experiment.dataset == OWN_DATA else None)
    is_arrays = known.reader == "arrays"
    if known.reader == "folder" and not data.classes:
        key, fault = "num_classes", "is not known until the run has read its folder of images."
    elif is_arrays and not (data.targets or data.classes):
        key, fault = "data.targets", "is not known until the run has read its file of arrays."
    elif is_arrays and data.ending == ".parquet" and not experiment.data.inputs:
        fault = "is empty, because the table has too many columns, or column names with commas."
        raise setting_error("data.inputs", fault, "Save the table with fewer columns or other names.")
    else:
        return data
    raise setting_error(key, fault, "Train the run first.")


_GIVEN = "parser.parse_args().data"


def data_argument(data: DataFacts) -> str | None:
    """Return the declaration of `--data`, or None if the script does not need it."""
    if data.known.reader == "npz":
        return 'default=Path(__file__).with_suffix(".npz")'
    if data.known.reader in DOWNLOADED:
        return 'default="data"'
    return "required=True" if data.known.reader in (*_READ, "texts") else None


def loading_lines(data: DataFacts) -> tuple[str, ...]:
    """Return the statements that define `train` and, if needed, `validation`."""
    both = f"train, {'validation' if data.validates else '_'}"
    match data.known.reader:
        case "regression" | "pictures" | "tokens":
            return ("train = load_data()",)
        case "text":
            return (f"{both} = load_data()",)
        case "own" if data.own is not None and not data.own.defines("dataset"):
            return ("train = load_data()",)
        case "own":
            train, validation = "load_data(dataset)", "load_data(validation_dataset)"
        case "texts" | "arrays":
            return (f"{both} = load_data({_GIVEN})",)
        case "folder":
            return (f"{both} = listed({_GIVEN})",)
        case "npz":
            train, validation = f'load_data({_GIVEN}, "train")', f'load_data({_GIVEN}, "test")'
        case "fake":
            count, total = FAKE_TRAIN_SAMPLES, FAKE_TRAIN_SAMPLES + FAKE_VALIDATION_SAMPLES
            train, validation = f"torch.arange({count})", f"torch.arange({count}, {total})"
        case _:
            train, validation = f"load_data({_GIVEN}, True)", f"load_data({_GIVEN}, False)"
    lines = (f"train = {train}", f"validation = {validation}")
    return lines if data.validates else lines[:1]
