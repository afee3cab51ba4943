"""Checks that an experiment fits a machine: its device, its dataset and its model.

Window and worker check against the same `Catalog`, which the worker fills. No torch here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from engine.experiment.catalog import (
    ARRAYS,
    OWN,
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    PrecisionEntry,
    Task,
)
from engine.experiment.experiment import Data, Experiment, named, setting_problem
from engine.experiment.own.arrays import FileSamples, samples_of_file
from engine.experiment.own.code import MODEL
from engine.experiment.own.folders import path_problem, shown_path
from engine.experiment.own.library_models import ModelRef, unknown_library_model
from engine.experiment.problem import Problem, ProblemError, unknown_name
from engine.experiment.value import MIB_PER_GIB


@dataclass(frozen=True)
class Found:
    """The data at an experiment's path: the samples of a file of arrays, and problems."""

    samples: FileSamples | None = None
    problems: tuple[Problem, ...] = ()


Look: TypeAlias = Callable[[Experiment, DatasetEntry], Found | None]
"""Finds what the path of an experiment with this dataset holds; None where that is not known yet."""


def look_at(experiment: Experiment, dataset: DatasetEntry) -> Found:
    """Reads the headers of a file of arrays, or looks through a folder, which may take seconds."""
    if dataset.name == ARRAYS and experiment.path is not None:
        try:
            return Found(array_samples(experiment))
        except ProblemError as error:
            return Found(problems=error.problems)
    problem = path_problem(experiment, dataset)
    return Found(problems=() if problem is None else (problem,))


def look_at_nothing(experiment: Experiment, dataset: DatasetEntry) -> None:
    """Looks at no disk, for which the window's thread must not wait: the run itself reports bad data."""


def _dataset_problems(
    experiment: Experiment, dataset: DatasetEntry, found: tuple[Problem, ...]
) -> Iterator[Problem]:
    """Settings that the dataset rules out, whatever the model, and what was `found` at its path."""
    yield from _size_problems(experiment, dataset)
    yield from _shape_problems(experiment, dataset)
    yield from found
    yield from _handling_problems(experiment, dataset)


_TAKES: dict[Task, str] = {
    "classification": "pictures of bytes or floats, with classes as whole numbers",
    "regression": "rows of numbers, with floats as targets",
    "language": "rows of tokens as whole numbers",
}


def _fit_problems(
    experiment: Experiment,
    model: ModelEntry,
    dataset: DatasetEntry,
    catalog: Catalog,
    samples: FileSamples | None,
) -> Iterator[Problem]:
    """Problems of the model with the dataset; `samples` are those of a file of arrays."""
    if ModelRef(model.name).file is not None:
        return  # only the file itself knows what it takes
    if model.task != dataset.task and samples is not None:
        yield setting_problem(
            "dataset",
            f"is '{ARRAYS}', which {model.name} cannot take: it takes {_TAKES[model.task]}, and "
            f"{experiment.path} has {samples.words}.",
            "Choose another model or file; a model file of your own takes any arrays.",
            value=ARRAYS,
        )
        return
    if model.task != dataset.task:
        fitting = [entry.name for entry in catalog.datasets if entry.task == model.task]
        yield setting_problem(
            "dataset",
            f"is '{dataset.name}', which {model.name} cannot take: it is for {_purpose(dataset)}, "
            f"and the model {'brings its own data' if model.task == OWN else f'does {model.task}'}.",
            f"With {model.name} choose one of: {', '.join(fitting)}.",
            value=dataset.name,
            allowed=", ".join(fitting),
        )
        return
    yield from _picture_problems(experiment, model, dataset)
    longest = model.max_sequence_length
    if longest is not None and experiment.sequence_length > longest:
        yield setting_problem(
            "sequence_length",
            f"is {experiment.sequence_length:,}, but {model.name} takes at most {longest:,}.",
            f"Set it to at most {longest:,}.",
            value=experiment.sequence_length,
            allowed=f"2 to {longest:,}",
        )


def _purpose(dataset: DatasetEntry) -> str:
    return "models that bring their own data" if dataset.task == OWN else dataset.task


def accumulation_problem(experiment: Experiment, batches: int) -> Problem:
    """Gradient accumulation over more batches than an epoch has."""
    accumulated = experiment.step.gradient_accumulation
    many = f"{batches:,} batches of {experiment.batch_size:,}" if batches > 1 else "a single batch"
    return setting_problem(
        "step.gradient_accumulation",
        f"is {accumulated:,}, but an epoch of {experiment.dataset} is {many}.",
        f"Set it to at most {batches:,}, or make the batches smaller.",
        value=accumulated,
        allowed=f"1 to {batches:,}",
    )


def _size_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    is_unread = dataset.needs_path and dataset.train_samples is None
    if is_unread or dataset.name == OWN:
        return  # only the folder, or the file of code, shows how much it holds
    available, size = dataset.train_samples or experiment.samples, experiment.batch_size
    if size > available:
        yield setting_problem(
            "batch_size",
            f"is {size:,}, but {dataset.name} has {available:,} samples.",
            f"Set it to at most {available:,}.",
            value=size,
            allowed=f"1 to {available:,}",
        )
        return
    batches = -(-available // size)
    if experiment.step.gradient_accumulation > batches:
        yield accumulation_problem(experiment, batches)


def _shape_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    classes = experiment.num_classes
    # only the folder itself shows how many it has; a saved run states that number
    is_read = dataset.needs_path and dataset.num_classes is None
    is_known = not (dataset.any_classes or is_read or dataset.name == OWN)
    if classes is not None and is_known and classes != dataset.num_classes:
        own = dataset.num_classes
        has = f"{own:,}" if own else "no classes"
        yield setting_problem(
            "num_classes",
            f"is {classes:,}, but {dataset.name} has {has}.",
            "Leave it empty.",
            value=classes,
            allowed=str(own) if own is not None else None,
        )
    if experiment.image_size is not None and dataset.image_size is None:
        yield setting_problem(
            "image_size",
            f"is {experiment.image_size}, but {dataset.name} has no pictures.",
            "Leave it empty.",
            value=experiment.image_size,
        )


def _handling_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    if experiment.label_smoothing and dataset.task == "regression":
        yield setting_problem(
            "label_smoothing",
            f"is {experiment.label_smoothing:g}, but {dataset.name} has no labels to smooth.",
            "Set it to 0.",
            value=experiment.label_smoothing,
        )
    if experiment.data.augment and not dataset.can_augment:
        yield setting_problem(
            "data.augment",
            f"is on, but samples of {dataset.name} cannot be shifted and flipped.",
            "Switch it off.",
            value="true",
        )
    if experiment.data.on_device and not dataset.fits_device:
        yield setting_problem(
            "data.on_device",
            f"is on, but {dataset.name} is too large to be kept on the device.",
            "Leave it empty, or switch it off.",
            value="true",
        )
    if experiment.checkpoint.best and (reason := _no_validation(experiment, dataset)):
        yield setting_problem(
            "checkpoint.best",
            f"is on, but {reason}: no accuracy shows which state is best.",
            "Switch it off, or let the run validate.",
            value="true",
        )


def _no_validation(experiment: Experiment, dataset: DatasetEntry) -> str | None:
    if not experiment.validation.every:
        return f"{named('validation.every')} is 0"
    code = experiment.own_code
    if dataset.name == OWN and code is not None:
        return None if "validation_dataset" in code.defines else f"{code.file} has no validation_dataset()"
    if dataset.validation_samples is None and not dataset.needs_path:
        return f"{dataset.name} has nothing to validate on"
    return None


def _picture_problems(experiment: Experiment, model: ModelEntry, dataset: DatasetEntry) -> Iterator[Problem]:
    size = experiment.image_size or dataset.image_size
    least, multiple = model.min_image_size, model.image_size_multiple or 1
    if size is None or least is None or (size >= least and size % multiple == 0):
        return
    allowed = f"{least} or more" + (f", in multiples of {multiple}" if multiple > 1 else "")
    nearest = max(least, -(-size // multiple) * multiple)
    yield setting_problem(
        "image_size",
        f"is {size}, but {model.name} needs pictures of {allowed} pixels a side.",
        f"Set it to {nearest}; the pictures are then resized.",
        value=size,
        allowed=allowed,
    )


__all__ = [
    "Catalog",
    "DatasetEntry",
    "DeviceEntry",
    "ModelEntry",
    "PrecisionEntry",
    "Task",
    "problems",
    "resolve",
]

_CLOSED_BRACKETS = re.compile(r"\[!?+\]?+[^\]]*\]")
"""As in fnmatch: an opening bracket inside, or a closing one at the very start, is an ordinary character."""


def dataset_of(experiment: Experiment, catalog: Catalog, look: Look = look_at) -> DatasetEntry | None:
    """The experiment's dataset; a file of arrays with what it holds. Raises ProblemError for such a file."""
    dataset = catalog.dataset(experiment.dataset)
    if dataset is None or dataset.name != ARRAYS:
        return dataset
    found = look(experiment, dataset)
    if found is None:
        return dataset
    if found.samples is None:
        raise ProblemError(*found.problems)
    return data_entry(experiment, dataset, found.samples)


def data_entry(experiment: Experiment, dataset: DatasetEntry, samples: FileSamples) -> DatasetEntry:
    """The entry of `arrays` with what the experiment's file holds."""
    entry = samples.described(dataset)
    if experiment.own_code is None:
        return entry
    # a model file of the user's own takes the arrays as they are
    return entry.model_copy(update={"image_size": None, "can_augment": False})


def array_samples(experiment: Experiment) -> FileSamples:
    """The samples in the experiment's file of arrays. Raises ProblemError."""
    return samples_of_file(experiment.path or "", experiment.data.inputs, experiment.data.targets)


def resolve(experiment: Experiment, catalog: Catalog) -> Experiment:
    """The experiment with its actual device, image size, classes and folder. Raises ProblemError."""
    obstacles = problems(experiment, catalog)
    if obstacles:
        raise ProblemError(*obstacles)
    device, dataset = catalog.device(experiment.device), dataset_of(experiment, catalog)
    assert device is not None and dataset is not None  # problems() would have named them
    path = experiment.path
    return experiment.model_copy(
        update={
            "device": device.name,
            "image_size": experiment.image_size or dataset.image_size,
            "num_classes": experiment.num_classes or dataset.num_classes,
            "sequence_length": dataset.sequence_length or experiment.sequence_length,
            "data": _data_with_names(experiment),
            # the same folder, whichever working directory the run is resumed from
            "path": None if path is None else str(Path(path).expanduser().absolute()),
        }
    )


def _data_with_names(experiment: Experiment) -> Data:
    """Names the arrays that were chosen, for who reads the run without its file."""
    if experiment.dataset != ARRAYS:
        return experiment.data
    return experiment.data.model_copy(update=array_samples(experiment).names)


def problems(experiment: Experiment, catalog: Catalog, look: Look = look_at) -> tuple[Problem, ...]:
    """Problems of the experiment on this machine; empty if it can run. At most one per setting.

    What `look` does not know of its data yet is no problem.
    """
    by_key: dict[str | None, Problem] = {}
    every_problem = (
        *_device_problems(experiment, catalog),
        *_data_problems(experiment, catalog, look),
        *_pattern_problems(experiment),
    )
    for problem in every_problem:
        by_key.setdefault(problem.key, problem)
    return tuple(by_key.values())


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
        yield setting_problem(
            "precision",
            f"is '{experiment.precision.value}', but {device.title} cannot do it: {entry.reason}.",
            f"Choose one of: {', '.join(able)}.",
            value=experiment.precision.value,
            allowed=", ".join(able),
        )
    cap = experiment.memory_cap_gib
    if cap is not None and cap * MIB_PER_GIB > device.memory_mib:
        most = f"{device.memory_mib / MIB_PER_GIB:.1f}"
        yield setting_problem(
            "memory_cap_gib",
            f"is {cap:g}, but {device.title} has {most} GiB.",
            f"Set it to at most {most}, or leave it empty.",
            value=cap,
            allowed=f"at most {most}",
        )


def _pattern_problems(experiment: Experiment) -> Iterator[Problem]:
    """Patterns that no name can match; whether a part of the model does, only the model knows."""
    for pattern in experiment.step.fp32_modules:
        if "[" in _CLOSED_BRACKETS.sub("", pattern):
            yield setting_problem(
                "step.fp32_modules",
                f"has '{pattern}', whose bracket is not closed.",
                "Close it, as in layer[34].*, or use a star.",
                value=pattern,
            )


def _data_problems(experiment: Experiment, catalog: Catalog, look: Look) -> Iterator[Problem]:
    model, dataset = catalog.model(experiment.model), catalog.dataset(experiment.dataset)
    if model is None:
        yield unknown_model(experiment.model, catalog)
    elif model.reason is not None:
        yield setting_problem(
            "model",
            f"is '{model.name}', which is not available: {model.reason}.",
            "Install what is missing, or choose another model.",
            value=model.name,
        )
    found: Found | None = None
    if dataset is None:
        yield unknown_name(
            "dataset", experiment.dataset, [entry.name for entry in catalog.datasets], "dataset"
        )
    else:
        found = look(experiment, dataset)
        if dataset.name == ARRAYS:
            samples = None if found is None else found.samples
            if found is not None and samples is None:
                yield from found.problems
            dataset = None if samples is None else data_entry(experiment, dataset, samples)
    if dataset is not None:
        yield from _dataset_problems(experiment, dataset, () if found is None else found.problems)
    if model is not None and model.reason is None and dataset is not None:
        yield from _fit_problems(experiment, model, dataset, catalog, found.samples if found else None)
    yield from code_problems(experiment)
    yield from override_problems(experiment)


def unknown_model(name: str, catalog: Catalog) -> Problem:
    """The problem of a name that no model has; it offers the nearest."""
    if (library := ModelRef(name).library) is not None:
        return unknown_library_model(name, library, (entry.name for entry in catalog.library_models))
    same = [entry.name for entry in catalog.library_models if entry.name.partition(":")[2] == name]
    return unknown_name("model", name, same or [entry.name for entry in catalog.models], "model")


def override_problems(experiment: Experiment) -> Iterator[Problem]:
    """Overrides of a model that takes none; which ones a library's model takes, only the library knows."""
    if experiment.overrides and experiment.model.library is None:
        yield setting_problem(
            "overrides",
            f"is {', '.join(experiment.overrides)}, but only models of timm and transformers take any.",
            "Leave it empty, or choose a model such as timm:resnet18 or hf:llama.",
            value=", ".join(experiment.overrides),
        )


def code_problems(experiment: Experiment) -> Iterator[Problem]:
    """Functions and classes missing from the model's own file, by its syntax."""
    if experiment.model.file is None:
        return
    code, name = experiment.own_code, experiment.model.class_name
    if code is None:
        message = f"is '{shown_path(experiment.model)}', but the text of that file is missing."
        yield setting_problem("model", message, "Choose the file again.", value=experiment.model)
    elif (name or MODEL) not in code.defines:
        what = f"class {name}" if name else "function model()"
        classes = ", ".join(f"{code.file}:{found}" for found in code.classes)
        yield setting_problem(
            "model",
            f"is '{experiment.model}', but {code.file} has no {what}.",
            f"Choose {classes}, or define model()."
            if classes
            else f"Define model(), or a class, and choose it as {code.file}:Net.",
            value=experiment.model,
            allowed=classes or None,
        )
    elif experiment.dataset == OWN and not code.brings_data:
        yield setting_problem(
            "dataset",
            f"is the model's own, but {code.file} has neither batch(size) nor dataset().",
            "Define one of them, or choose another dataset.",
            value=OWN,
        )
