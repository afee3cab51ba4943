"""The catalog of a machine: its devices with their precisions, models and datasets."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.own.code import OWN_DATA as OWN_DATA
from engine.experiment.own.library_models import Library, ModelRef, Reference
from engine.experiment.value import MOST_ENTRIES, Line, Message, Mib, Positive, Whole


class Precision(StrEnum):
    """The precision of a run.

    `FP32` turns TF32 off everywhere. `DEFAULT` keeps PyTorch's own flags. `FP8` is BF16 AMP with linear
    layers in FP8. `BF16_PURE` has weights, gradients and optimizer state in BF16. AMP keeps these in FP32.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    DEFAULT = "default"
    FP16 = "fp16"
    BF16 = "bf16"
    FP16_UNSCALED = "fp16-unscaled"
    FP8 = "fp8"
    BF16_PURE = "bf16-pure"

    @property
    def label(self) -> str:
        """The name on screen, such as "FP16 AMP"."""
        usual = f"{self.upper()} AMP" if self.is_autocast else self.upper()
        names = {
            "default": "Default FP32",
            "fp16-unscaled": "FP16 unscaled",
            "bf16-pure": "Pure BF16",
            "fp8": "FP8",
        }
        return names.get(self, usual)

    @property
    def is_autocast(self) -> bool:
        return self in (Precision.FP16, Precision.BF16, Precision.FP16_UNSCALED, Precision.FP8)

    @property
    def is_narrow(self) -> bool:
        """Return True if matmuls are computed in formats of fewer than 32 bits, by autocast or throughout."""
        return self.is_autocast or self is Precision.BF16_PURE

    @property
    def autocast(self) -> str | None:
        """The dtype that autocast casts to. None without autocast."""
        if not self.is_autocast:
            return None
        return "float16" if self in (Precision.FP16, Precision.FP16_UNSCALED) else "bfloat16"

    @property
    def formats(self) -> tuple[str, ...]:
        """The dtypes in which most matmuls should compute. With FP8, other layers than linear use BF16."""
        usual = self.autocast or ("bfloat16" if self.is_narrow else "float32")
        return ("float8", usual) if self is Precision.FP8 else (usual,)

    def contradicts(self, dtype: str) -> bool:
        """Return True if matmuls in this dtype are not what the precision's name says."""
        return dtype not in self.formats if self.is_narrow else dtype in NARROW_FORMATS


NARROW_FORMATS = ("float16", "bfloat16", "float8")
"""The dtypes of fewer than 32 bits. Both dtypes of FP8 count as one."""


NumericsPart = Literal["map", "range", "nan", "ladder", "islands"]  # advice comes with any of them
Task = Literal["classification", "regression", "language", "own"]  # "own": only the file knows

SYNTHETIC, SYNTHETIC_REGRESSION, SYNTHETIC_TOKENS = "synthetic", "synthetic-regression", "synthetic-tokens"
PYTHON_SOURCE, IMAGE_FOLDER = "python-source", "image-folder"
TEXT_FOLDER, ARRAYS = "text-folder", "arrays"
_NOT_IMAGES: dict[str, Task] = {
    SYNTHETIC_REGRESSION: "regression",
    SYNTHETIC_TOKENS: "language",
    PYTHON_SOURCE: "language",
    TEXT_FOLDER: "language",
    ARRAYS: "own",
    OWN_DATA: "own",
}


class DataRef(Reference):
    """The name of a dataset, as the text of a setting."""

    @property
    def task(self) -> Task:
        """The task that the dataset is for. Most datasets contain images to classify."""
        return _NOT_IMAGES.get(self, "classification")


class PrecisionEntry(Message):
    """Whether one precision is available on one device.

    `reason` says why it is not available, `note` how it behaves there, and `hardly_faster` why it saves
    little time.
    """

    precision: Precision
    available: bool
    reason: Line | None = None
    note: Line | None = None
    hardly_faster: Line | None = None


class DeviceEntry(Message):
    """A device. `name` is its name in settings ("cuda:0", "cpu"), `title` its product name."""

    name: Line
    title: Line
    memory_mib: Mib
    tensor_cores: bool = False
    precisions: Annotated[tuple[PrecisionEntry, ...], Field(max_length=MOST_ENTRIES)]

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    @property
    def kind(self) -> str:
        """The device's name without its number: "cuda"."""
        return self.name.partition(":")[0]

    def precision(self, precision: Precision) -> PrecisionEntry:
        return next(entry for entry in self.precisions if entry.precision is precision)


class ModelEntry(Message):
    """A model of the catalog: its family, usual number of parameters, and the inputs that it accepts.

    `reason` says why it is not available.
    """

    name: Line
    task: Task
    parameters: Whole | None = None
    family: Line = ""
    min_image_size: Positive | None = None
    image_size_multiple: Positive | None = None
    max_sequence_length: Positive | None = None
    is_convolutional: bool = False
    reason: Line | None = None


class DatasetEntry(Message):
    """A dataset of the catalog, and which settings apply to it.

    `any_classes`: the number of classes can be set. If `train_samples` is None, it depends on the setting
    `samples`, or with `needs_path` on the user's folder. `can_augment`: shifted and flipped images keep their
    class. `fits_device`: it is small enough to keep on the device. `loads`: loader processes can read it.
    """

    name: Line
    title: Line
    task: Task
    image_size: Positive | None = None
    channels: Positive | None = None
    num_classes: Positive | None = None
    sequence_length: Positive | None = None
    any_classes: bool = False
    train_samples: Whole | None = None
    validation_samples: Whole | None = None
    needs_download: bool = False
    needs_path: bool = False
    can_augment: bool = False
    fits_device: bool = True
    loads: bool = False


OWN_FAMILY = "Your own files"


class Catalog(Message):
    """The devices, models and datasets of a machine. `machine` is the name of a remote machine, or "".

    `library_models` are thousands of names from timm and transformers.
    """

    devices: Annotated[tuple[DeviceEntry, ...], Field(min_length=1, max_length=MOST_ENTRIES)]
    models: Annotated[tuple[ModelEntry, ...], Field(max_length=MOST_ENTRIES)]
    datasets: Annotated[tuple[DatasetEntry, ...], Field(max_length=MOST_ENTRIES)]
    library_models: Annotated[tuple[ModelEntry, ...], Field(max_length=MOST_ENTRIES)] = ()
    machine: Line = ""
    cores: Annotated[int | None, Field(ge=1, le=MOST_ENTRIES)] = None

    @property
    def has_gpu(self) -> bool:
        return any(device.is_gpu for device in self.devices)

    @property
    def has_several_gpus(self) -> bool:
        return sum(device.is_gpu for device in self.devices) > 1

    def device(self, name: str) -> DeviceEntry | None:
        """Return the device of that name. "auto" is the first device, "cuda" means "cuda:0"."""
        if name == "auto":
            return self.devices[0]
        return next((each for each in self.devices if name in (each.name, each.name.partition(":")[0])), None)

    def beginning_at(self, device: DeviceEntry) -> tuple[DeviceEntry, ...]:
        """Return the device and the later ones of its kind, which can train a run together."""
        alike = [each for each in self.devices if each.kind == device.kind]
        return tuple(alike[alike.index(device) :])

    def model(self, name: str) -> ModelEntry | None:
        """Return the model of that name. A model file or a model of a missing library has only a name."""
        known = next((entry for entry in (*self.models, *self.library_models) if entry.name == name), None)
        ref = ModelRef(name)
        if known is None and ref.file is not None:
            return ModelEntry(name=ref, task="own", family=OWN_FAMILY)
        if known is None and ref.library is not None and not any(self.models_of(ref.library)):
            return ModelEntry(name=ref, task="own", reason=ref.library.missing)
        return known

    def models_of(self, library: Library) -> Iterator[ModelEntry]:
        """Yield the models of an installed library."""
        return (entry for entry in self.library_models if entry.name.startswith(f"{library.prefix}:"))

    def dataset(self, name: str) -> DatasetEntry | None:
        return next((entry for entry in self.datasets if entry.name == name), None)
