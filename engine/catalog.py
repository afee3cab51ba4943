"""What can be chosen on a machine, as values, and whether an experiment fits it. No torch here.

The worker fills a `Catalog` in (engine.training.catalog); the window and the worker check against the
same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.experiment import Experiment, Precision
from engine.problem import Problem, ProblemError, request_problem, unknown_name

Task = Literal["classification", "regression"]


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
    """A model; `parameters` counts them for its usual number of classes.

    It takes pictures of at least `min_image_size` pixels a side, in multiples of `image_size_multiple`
    (both None for a model that does not look at pictures).
    """

    name: str
    task: Task
    parameters: int
    min_image_size: int | None = None
    image_size_multiple: int | None = None


class DatasetEntry(_Entry):
    """A dataset. `image_size` and `num_classes` are its own; `any_classes` says that they can be chosen.

    `train_samples` of None means as many as the experiment's `samples`.
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


def resolve(experiment: Experiment, catalog: Catalog) -> Experiment:
    """The experiment with its device, image size and classes as they will be. Raises ProblemError."""
    found = problems(experiment, catalog)
    if found:
        raise ProblemError(*found)
    device, dataset = catalog.device(experiment.device), catalog.dataset(experiment.dataset)
    assert device is not None and dataset is not None  # problems() would have named them
    return experiment.model_copy(
        update={
            "device": device.name,
            "image_size": experiment.image_size or dataset.image_size,
            "num_classes": experiment.num_classes or dataset.num_classes,
        }
    )


def problems(experiment: Experiment, catalog: Catalog) -> tuple[Problem, ...]:
    """Why this machine cannot run the experiment; empty if it can. At most one problem a setting."""
    return (*_device_problems(experiment, catalog), *_data_problems(experiment, catalog))


def _device_problems(experiment: Experiment, catalog: Catalog) -> Iterator[Problem]:
    device = catalog.device(experiment.device)
    if device is None:
        yield unknown_name(
            "device", experiment.device, ["auto", *(entry.name for entry in catalog.devices)], "device"
        )
        return
    entry = device.precision(experiment.precision)
    if not entry.available:
        able = [other.precision.value for other in device.precisions if other.available]
        yield request_problem(
            f"precision is '{experiment.precision.value}', but {device.title} cannot do it: {entry.reason}.",
            f"Choose one of: {', '.join(able)}.",
            key="precision",
            value=experiment.precision.value,
            allowed=", ".join(able),
        )
    cap = experiment.memory_cap_gib
    if cap is not None and cap * 1024 > device.memory_mib:
        most = f"{device.memory_mib / 1024:.1f}"
        yield request_problem(
            f"memory_cap_gib is {cap:g}, but {device.title} has {most} GiB.",
            f"Set memory_cap_gib to at most {most}, or leave it empty.",
            key="memory_cap_gib",
            value=cap,
            allowed=f"at most {most}",
        )


def _data_problems(experiment: Experiment, catalog: Catalog) -> Iterator[Problem]:
    model, dataset = catalog.model(experiment.model), catalog.dataset(experiment.dataset)
    if model is None:
        yield unknown_name("model", experiment.model, [entry.name for entry in catalog.models], "model")
    if dataset is None:
        yield unknown_name(
            "dataset", experiment.dataset, [entry.name for entry in catalog.datasets], "dataset"
        )
    if dataset is not None:
        yield from _size_problems(experiment, dataset)
    if model is not None and dataset is not None:
        yield from _fit_problems(experiment, model, dataset, catalog)


def _size_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    available = dataset.train_samples or experiment.samples
    if experiment.batch_size > available:
        yield request_problem(
            f"batch_size is {experiment.batch_size:,}, but {dataset.name} has {available:,} samples.",
            f"Set batch_size to at most {available:,}.",
            key="batch_size",
            value=experiment.batch_size,
            allowed=f"1 to {available:,}",
        )
    classes = experiment.num_classes
    if classes is not None and not dataset.any_classes and classes != dataset.num_classes:
        own = dataset.num_classes
        yield request_problem(
            f"num_classes is {classes:,}, but {dataset.name} has {own if own is not None else 'no classes'}.",
            "Leave num_classes empty.",
            key="num_classes",
            value=classes,
            allowed=str(own) if own is not None else None,
        )
    if experiment.image_size is not None and dataset.image_size is None:
        yield request_problem(
            f"image_size is {experiment.image_size}, but {dataset.name} has no pictures.",
            "Leave image_size empty.",
            key="image_size",
            value=experiment.image_size,
        )


def _fit_problems(
    experiment: Experiment, model: ModelEntry, dataset: DatasetEntry, catalog: Catalog
) -> Iterator[Problem]:
    if model.task != dataset.task:
        fitting = [entry.name for entry in catalog.datasets if entry.task == model.task]
        yield request_problem(
            f"dataset is '{dataset.name}', which {model.name} cannot take: "
            f"it is for {dataset.task}, and the model does {model.task}.",
            f"With {model.name} choose one of: {', '.join(fitting)}.",
            key="dataset",
            value=dataset.name,
            allowed=", ".join(fitting),
        )
        return
    size = experiment.image_size or dataset.image_size
    least, multiple = model.min_image_size, model.image_size_multiple or 1
    if size is None or least is None or (size >= least and size % multiple == 0):
        return
    allowed = f"{least} or more" + (f", in multiples of {multiple}" if multiple > 1 else "")
    nearest = max(least, -(-size // multiple) * multiple)
    yield request_problem(
        f"image_size is {size}, but {model.name} needs pictures of {allowed} pixels a side.",
        f"Set image_size to {nearest}; the pictures are then resized.",
        key="image_size",
        value=size,
        allowed=allowed,
    )
