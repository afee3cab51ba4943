"""What can be chosen on a machine, as values: devices with their precisions, models and datasets."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.parts import Precision

Task = Literal["classification", "regression", "language"]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PrecisionEntry(_Entry):
    """A precision on one device; `reason` says why it is not available, `note` what to expect where it is."""

    precision: Precision
    available: bool
    reason: str | None = None
    note: str | None = None


class DeviceEntry(_Entry):
    """A device: `name` as the experiment has it ("cuda:0", "cpu"), `title` as people know it.

    `memory_mib` is the card's memory, or the machine's for a CPU.
    """

    name: str
    title: str
    memory_mib: float
    tensor_cores: bool = False
    precisions: tuple[PrecisionEntry, ...]

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    def precision(self, precision: Precision) -> PrecisionEntry:
        return next(entry for entry in self.precisions if entry.precision is precision)


class ModelEntry(_Entry):
    """A model; `parameters` counts them for its usual number of classes, `family` is what its kind is called.

    It takes pictures of at least `min_image_size` pixels a side, in multiples of `image_size_multiple`
    (both None for a model that does not look at pictures), or text of at most `max_sequence_length` tokens.
    `is_convolutional` says that it gains from channels_last. `reason` says why it cannot be had here.
    """

    name: str
    task: Task
    parameters: int
    family: str = ""
    min_image_size: int | None = None
    image_size_multiple: int | None = None
    max_sequence_length: int | None = None
    is_convolutional: bool = False
    reason: str | None = None


class DatasetEntry(_Entry):
    """A dataset. `image_size` and `num_classes` are its own; `any_classes` says that they can be chosen.

    `train_samples` of None means as many as the experiment's `samples`, or with `needs_path` as many as the
    folder holds. `can_augment` says that shifted and flipped pictures still show their class; `fits_device`
    that it is small enough to be kept on the device, `loads` that loader processes can bring it.
    """

    name: str
    title: str
    task: Task
    image_size: int | None = None
    channels: int | None = None
    num_classes: int | None = None
    any_classes: bool = False
    train_samples: int | None = None
    validation_samples: int | None = None
    needs_download: bool = False
    needs_path: bool = False
    can_augment: bool = False
    fits_device: bool = True
    loads: bool = False


class Catalog(_Entry):
    """All that can be chosen; the first device is the one that `auto` means."""

    devices: tuple[DeviceEntry, ...]
    models: tuple[ModelEntry, ...]
    datasets: tuple[DatasetEntry, ...]

    @property
    def has_gpu(self) -> bool:
        return any(device.is_gpu for device in self.devices)

    def device(self, name: str) -> DeviceEntry | None:
        """The device of that name; `auto` is the first, and "cuda" means "cuda:0"."""
        if name == "auto":
            return self.devices[0]
        return next(
            (entry for entry in self.devices if name in (entry.name, entry.name.partition(":")[0])), None
        )

    def model(self, name: str) -> ModelEntry | None:
        return next((entry for entry in self.models if entry.name == name), None)

    def dataset(self, name: str) -> DatasetEntry | None:
        return next((entry for entry in self.datasets if entry.name == name), None)
