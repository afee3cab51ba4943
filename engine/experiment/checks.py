"""Whether an experiment fits a machine: its device, its dataset and its model.

Window and worker check against the same `Catalog`, which the worker fills. No torch here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.catalog import (
    OWN,
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    PrecisionEntry,
    Task,
)
from engine.experiment.code import MODEL, model_file
from engine.experiment.experiment import Experiment
from engine.experiment.library_models import library_of, unknown_library_model
from engine.experiment.picture_folders import folders, is_picture, parts
from engine.experiment.problem import Problem, ProblemError, request_problem, unknown_name
from engine.experiment.text import shortened
from engine.experiment.titles import named, setting_problem
from engine.experiment.value import MIB_PER_GIB

_MOST_LOOKED_AT = 2_000
"""Files and folders; few, since the form checks at every key press."""


def _shown(path: str) -> str:
    return shortened(path, most=300)


def dataset_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    """Settings that the dataset rules out, whatever the model."""
    yield from _size_problems(experiment, dataset)
    yield from _shape_problems(experiment, dataset)
    yield from _path_problems(experiment, dataset)
    yield from _handling_problems(experiment, dataset)


def fit_problems(
    experiment: Experiment, model: ModelEntry, dataset: DatasetEntry, catalog: Catalog
) -> Iterator[Problem]:
    """Why the model cannot take the dataset."""
    if model_file(model.name) is not None:
        return  # only the file itself knows what it takes
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
    if dataset.needs_path or dataset.task == "own":
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
    is_known = not dataset.any_classes and not dataset.needs_path and dataset.task != "own"
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


def _path_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    path = experiment.path
    if dataset.needs_path and path is None:
        message = f"is empty, but {dataset.name} needs a folder of pictures."
        yield setting_problem(
            "path", message, "Set it to a folder that has one folder of pictures for each class."
        )
    elif dataset.needs_path and path is not None and not _is_folder(path):
        message = f"is '{_shown(path)}', but no folder of that name can be read."
        yield setting_problem("path", message, "Check its spelling, and that you may read it.", value=path)
    elif dataset.needs_path and path is not None:
        problem = _folder_problem(path)
        if problem is not None:
            yield problem
    elif path is not None:
        message = f"is '{_shown(path)}', but {dataset.name} is not read from a folder."
        yield setting_problem("path", message, "Leave it empty, or choose image-folder.", value=path)


def classes_problem(root: Path, classes: Sequence[str]) -> Problem | None:
    """The problem of a folder of pictures with fewer than two classes; None for two or more."""
    if len(classes) >= 2:
        return None
    if classes:
        message = f"{root} has only one class, '{classes[0]}'; a classifier needs two or more."
    else:
        message = f"{root} has no folders with pictures."
    remedy = f"Put the pictures of each class in a folder of its own, such as {root}/cats and {root}/dogs."
    return request_problem(message, remedy, key="path", value=root)


def _folder_problem(path: str) -> Problem | None:
    """A problem that a short look at the folder shows; the worker looks at all of it."""
    root = Path(path).expanduser().absolute()
    left, classes = _MOST_LOOKED_AT, []
    try:
        root, _ = parts(root)
        for name in folders(root):
            for _, inside, files in os.walk(root / name):
                inside[:] = [folder for folder in inside if not folder.startswith(".")]
                left -= 1 + len(files)
                if any(is_picture(file) for file in files):
                    classes.append(name)
                    break
                if left < 0:
                    return None
            if len(classes) == 2:
                return None
    except (OSError, ProblemError):
        return None
    return classes_problem(root, classes)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        # a parent folder that may not be opened, the home of no user, an impossible name
        return False


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
    if dataset.task == "own" and code is not None:
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


def resolve(experiment: Experiment, catalog: Catalog) -> Experiment:
    """The experiment with its actual device, image size, classes and folder. Raises ProblemError."""
    obstacles = problems(experiment, catalog)
    if obstacles:
        raise ProblemError(*obstacles)
    device, dataset = catalog.device(experiment.device), catalog.dataset(experiment.dataset)
    assert device is not None and dataset is not None  # problems() would have named them
    path = experiment.path
    return experiment.model_copy(
        update={
            "device": device.name,
            "image_size": experiment.image_size or dataset.image_size,
            "num_classes": experiment.num_classes or dataset.num_classes,
            # the same folder, whichever working directory the run is resumed from
            "path": None if path is None else str(Path(path).expanduser().absolute()),
        }
    )


def problems(experiment: Experiment, catalog: Catalog) -> tuple[Problem, ...]:
    """Why this machine cannot run the experiment; empty if it can. At most one problem per setting."""
    by_key: dict[str | None, Problem] = {}
    every_problem = (
        *_device_problems(experiment, catalog),
        *_data_problems(experiment, catalog),
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


def _data_problems(experiment: Experiment, catalog: Catalog) -> Iterator[Problem]:
    model, dataset = catalog.model(experiment.model), catalog.dataset(experiment.dataset)
    if model is None:
        yield _unknown_model(experiment.model, catalog)
    elif model.reason is not None:
        yield setting_problem(
            "model",
            f"is '{model.name}', which is not available: {model.reason}.",
            "Install what is missing, or choose another model.",
            value=model.name,
        )
    if dataset is None:
        yield unknown_name(
            "dataset", experiment.dataset, [entry.name for entry in catalog.datasets], "dataset"
        )
    if dataset is not None:
        yield from dataset_problems(experiment, dataset)
    if model is not None and model.reason is None and dataset is not None:
        yield from fit_problems(experiment, model, dataset, catalog)
    yield from _code_problems(experiment)
    yield from _override_problems(experiment)


def _unknown_model(name: str, catalog: Catalog) -> Problem:
    library = library_of(name)
    if library is not None:
        return unknown_library_model(name, library, (entry.name for entry in catalog.library_models))
    same = [entry.name for entry in catalog.library_models if entry.name.partition(":")[2] == name]
    return unknown_name("model", name, same or [entry.name for entry in catalog.models], "model")


def _override_problems(experiment: Experiment) -> Iterator[Problem]:
    """Overrides of a model that takes none; which ones a library's model takes, only the library knows."""
    if experiment.overrides and library_of(experiment.model) is None:
        yield setting_problem(
            "overrides",
            f"is {', '.join(experiment.overrides)}, but only models of timm and transformers take any.",
            "Leave it empty, or choose a model such as timm:resnet18 or hf:llama.",
            value=", ".join(experiment.overrides),
        )


def _code_problems(experiment: Experiment) -> Iterator[Problem]:
    """What the syntax of the model's own file shows to be missing."""
    split = model_file(experiment.model)
    if split is None:
        return
    code, name = experiment.own_code, split[1]
    if code is None:
        message = f"is '{_shown(experiment.model)}', but the text of that file is missing."
        yield setting_problem("model", message, "Choose the file again.", value=experiment.model)
    elif (name or MODEL) not in code.defines:
        what = f"class {name}" if name else "function model()"
        classes = ", ".join(f"{code.file}:{found}" for found in code.classes)
        yield setting_problem(
            "model",
            f"is '{experiment.model}', but {code.file} has no {what}.",
            f"Choose {classes}, or define model()."
            if classes
            else "Define model(), which returns the model.",
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
