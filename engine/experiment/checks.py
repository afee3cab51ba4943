"""Check that an experiment fits a machine: its device, dataset, model and model file.

Window and worker check against the same `Catalog`, which the worker fills. This module does not import torch.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from engine.experiment.catalog import (
    ARRAYS,
    OWN_DATA,
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    Precision,
    PrecisionEntry,
    Task,
)
from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, named, setting_problem, setting_title
from engine.experiment.own.arrays import FileSamples, samples_of_file
from engine.experiment.own.code import MODEL
from engine.experiment.own.folders import exists_here, path_problem, remote_path_problem, shown_path
from engine.experiment.own.library_models import ModelRef, unknown_library_model
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Problem, ProblemError, unknown_name
from engine.experiment.value import MIB_PER_GIB

__all__ = ["Catalog", "DatasetEntry", "DeviceEntry", "ModelEntry", "PrecisionEntry", "Task"]


@dataclass(frozen=True)
class DataLookup:
    """The result of reading an experiment's data path: the samples in a file of arrays, or problems."""

    samples: FileSamples | None = None
    problems: tuple[Problem, ...] = ()


Lookup: TypeAlias = Callable[[Experiment, DatasetEntry], DataLookup | None]
"""Look up the data at an experiment's path. Returns None while it is not known."""


def look_up(experiment: Experiment, dataset: DatasetEntry) -> DataLookup:
    """Read the headers of a file of arrays, or search a folder, which may take seconds."""
    path = experiment.path
    if path is not None and dataset.needs_path and not TrustedCode().may_look(path):
        return DataLookup(problems=(_not_opened("path", path),))
    if dataset.name == ARRAYS and path is not None:
        try:
            return DataLookup(array_samples(experiment))
        except ProblemError as error:
            return DataLookup(problems=error.problems)
    problem = path_problem(experiment, dataset)
    return DataLookup(problems=() if problem is None else (problem,))


def _not_opened(key: str, path: str) -> Problem:
    message = (
        f"is '{shown_path(path)}' on a remote machine. It came with a run or a file, so it was not opened."
    )
    return setting_problem(key, message, "To use it, type or select it yourself.", value=path)


def skip_lookup(experiment: Experiment, dataset: DatasetEntry) -> None:
    """Read nothing, because the window's thread must not wait for a disk. The run itself reports bad data."""


def problems(experiment: Experiment, catalog: Catalog, look: Lookup = look_up) -> tuple[Problem, ...]:
    """Return the problems, at most one per setting. A remote worker checks its own data."""
    by_key: dict[str | None, Problem] = {}
    look = skip_lookup if catalog.machine else look
    if experiment.is_script:
        return () if look is skip_lookup else tuple(_folder_problems(experiment.command))
    for problem in _all_problems(experiment, catalog, look):
        by_key.setdefault(problem.key, problem)
    return tuple(by_key.values())


def resolve(experiment: Experiment, catalog: Catalog) -> Experiment:
    """Return the experiment with its actual device, image size, classes and folder. Raises ProblemError."""
    obstacles = problems(experiment, catalog)
    if obstacles:
        raise ProblemError(*obstacles)
    device, dataset = catalog.device(experiment.device), dataset_of(experiment, catalog)
    assert device is not None and dataset is not None  # problems() would have named them
    path, names = experiment.path, {}
    if experiment.dataset == ARRAYS and not catalog.machine:
        # those that were chosen, for who reads the run without its file
        names = array_samples(experiment).names
    return experiment.model_copy(
        update={
            "device": device.name,
            "devices": device_count(experiment, catalog),
            "image_size": experiment.image_size or dataset.image_size,
            "num_classes": experiment.num_classes or dataset.num_classes,
            "sequence_length": dataset.sequence_length or experiment.sequence_length,
            "data": experiment.data.model_copy(update=names),
            # the same folder, whichever working directory the run is resumed from
            "path": None if path is None else whole_path(path, catalog),
        }
    )


def whole_path(path: str, catalog: Catalog) -> str:
    """Return the absolute path of data. A path on a remote machine stays as it is."""
    return path if catalog.machine else str(Path(path).expanduser().absolute())


def device_count(experiment: Experiment, catalog: Catalog) -> int:
    """Return the number of devices that train the experiment together. 0 in its settings means all."""
    device = catalog.device(experiment.device)
    every = 1 if device is None else len(catalog.beginning_at(device))
    return experiment.devices or every


def most_devices(device: DeviceEntry, catalog: Catalog) -> int:
    """Return how many devices, from this one on, can train a run together. A CPU has one per core."""
    # several processes on one processor show how it works, not what it gains
    return len(catalog.beginning_at(device)) if device.is_gpu else core_count(catalog)


def core_count(catalog: Catalog) -> int:
    """Return the number of CPU cores of the catalog's machine."""
    return catalog.cores or os.cpu_count() or 1


def dataset_of(experiment: Experiment, catalog: Catalog, look: Lookup = look_up) -> DatasetEntry | None:
    """Return the experiment's dataset, with the contents of a file of arrays. Raises ProblemError."""
    dataset = catalog.dataset(experiment.dataset)
    look = skip_lookup if catalog.machine else look
    if dataset is None or dataset.name != ARRAYS or (found := look(experiment, dataset)) is None:
        return dataset
    if found.samples is None:
        raise ProblemError(*found.problems)
    return data_entry(experiment, dataset, found.samples)


def data_entry(experiment: Experiment, dataset: DatasetEntry, samples: FileSamples) -> DatasetEntry:
    """Return the entry of `arrays` with the contents of the experiment's file."""
    entry = samples.described(dataset)
    # a model file of the user's own takes the arrays as they are
    as_they_are = {"image_size": None, "can_augment": False}
    return entry if experiment.own_code is None else entry.model_copy(update=as_they_are)


def array_samples(experiment: Experiment) -> FileSamples:
    """Read the samples in the experiment's file of arrays. Raises ProblemError."""
    return samples_of_file(experiment.path or "", experiment.data.inputs, experiment.data.targets)


def accumulation_problem(experiment: Experiment, batches: int) -> Problem:
    """Create the problem of gradient accumulation over more batches than an epoch has."""
    many = f"{batches:,} batches of {experiment.batch_size:,}" if batches > 1 else "a single batch"
    but = f"an epoch of {experiment.dataset} has only {many}."
    remedy = f"Set it to at most {batches:,}, or use smaller batches."
    return _setting_problem(experiment, "step.gradient_accumulation", but, remedy, f"1 to {batches:,}")


def _setting_problem(
    experiment: Experiment, key: str, but: str, remedy: str, allowed: str | None = None
) -> Problem:
    """A problem with the value of a setting: "Batch size is 64, but ..."."""
    value = attrgetter(key)(experiment)
    shown = f"'{value}'" if isinstance(value, str) else f"{value:,}" if type(value) is int else f"{value:g}"
    if value is True:
        value, shown = "true", "on"
    return setting_problem(key, f"is {shown}, but {but}", remedy, value=value, allowed=allowed)


def _folder_problems(command: Command) -> Iterator[Problem]:
    """Yield the problem of a script's folder. Of a script, nothing else is known before it trains."""
    if not TrustedCode().may_look(command.folder):
        yield _not_opened("command.folder", command.folder)
    elif not exists_here(command.folder):
        message = f"is '{shown_path(command.folder)}', which does not exist on this machine."
        yield setting_problem("command.folder", message, "Select another folder.", value=command.folder)


def _all_problems(experiment: Experiment, catalog: Catalog, look: Lookup) -> Iterator[Problem]:
    yield from _device_problems(experiment, catalog)
    model, dataset = catalog.model(experiment.model), catalog.dataset(experiment.dataset)
    if model is None:
        yield _unknown_model(experiment.model, catalog)
    elif model.reason is not None:
        message = f"is '{model.name}', which is not available: {model.reason}."
        remedy = "Install the missing package, or select another model."
        yield setting_problem("model", message, remedy, value=model.name)
    found: DataLookup | None = None
    if dataset is None:
        names = [entry.name for entry in catalog.datasets]
        yield unknown_name("dataset", experiment.dataset, names, "dataset")
    else:
        if catalog.machine and (problem := remote_path_problem(experiment, dataset, catalog.machine)):
            yield problem
        found = look(experiment, dataset)
        if dataset.name == ARRAYS:
            samples = None if found is None else found.samples
            if found is not None and samples is None:
                yield from found.problems
            dataset = None if samples is None else data_entry(experiment, dataset, samples)
    if dataset is not None:
        yield from _size_problems(experiment, dataset)
        yield from found.problems if found else ()
        yield from _handling_problems(experiment, dataset)
    if model is not None and model.reason is None and dataset is not None:
        yield from _fit_problems(experiment, model, dataset, catalog, found.samples if found else None)
    yield from _code_problems(experiment)
    if experiment.overrides and experiment.model.library is None:
        given = ", ".join(experiment.overrides)
        message = f"is {given}, but only models of timm and transformers have such settings."
        remedy = "Leave it empty, or select a model such as timm:resnet18 or hf:llama."
        yield setting_problem("overrides", message, remedy, value=given)
    for pattern in experiment.step.fp32_modules:
        # whether a name matches, only the model knows; without its end no name can
        if "[" in _CLOSED_BRACKETS.sub("", pattern):
            message = f"has '{pattern}' with an unclosed bracket."
            remedy = "Close the bracket, as in layer[34].*, or use a star."
            yield setting_problem("step.fp32_modules", message, remedy, value=pattern)


# as in fnmatch: an opening bracket inside, or a closing one at the very start, is an ordinary character
_CLOSED_BRACKETS = re.compile(r"\[!?+\]?+[^\]]*\]")


def _device_problems(experiment: Experiment, catalog: Catalog) -> Iterator[Problem]:
    device = catalog.device(experiment.device)
    if device is None:
        known = ["auto", *(entry.name for entry in catalog.devices)]
        yield unknown_name("device", experiment.device, known, "device")
        return
    entry = device.precision(experiment.precision)
    if not entry.available:
        able = ", ".join(other.precision.value for other in device.precisions if other.available)
        but = f"it is not available on {device.title}: {entry.reason}."
        yield _setting_problem(experiment, "precision", but, f"Use one of: {able}.", able)
    if experiment.precision is Precision.BF16_PURE and experiment.step.fp32_modules:
        kept = ", ".join(experiment.step.fp32_modules)
        message = f"is {kept}, but in {experiment.precision.label} every module is in BF16."
        yield setting_problem("step.fp32_modules", message, "Leave it empty, or use bf16.", value=kept)
    if experiment.step.attention in ("efficient", "cudnn") and not device.is_gpu:
        allowed = "auto, flash, math"
        yield _setting_problem(
            experiment, "step.attention", "a CPU has no such kernel.", f"Use one of: {allowed}.", allowed
        )
    if experiment.step.offload_activations and device.kind not in _REDUCING:
        but = f"on {device.title} activations are in system memory already."
        yield _setting_problem(experiment, "step.offload_activations", but, "Turn it off.", "off")
    yield from _several_problems(experiment, device, catalog)
    cap = experiment.memory_cap_gib
    if cap is not None and cap * MIB_PER_GIB > device.memory_mib:
        most = f"{device.memory_mib / MIB_PER_GIB:.1f}"
        remedy = f"Set it to at most {most}, or leave it empty."
        but = f"{device.title} has {most} GiB."
        yield _setting_problem(experiment, "memory_cap_gib", but, remedy, f"at most {most}")


_REDUCING = ("cuda", "xpu")


def _several_problems(experiment: Experiment, device: DeviceEntry, catalog: Catalog) -> Iterator[Problem]:
    if experiment.devices <= 1:
        return
    if device.is_gpu and device.kind not in _REDUCING:
        but = f"PyTorch synchronizes gradients only between devices of {' and '.join(_REDUCING)}."
        yield _setting_problem(experiment, "devices", but, "Set it to 1.", "1")
        return
    if device.is_gpu and sys.platform == "win32" and not catalog.machine:
        but = "PyTorch on Windows has no NCCL, with which GPUs synchronize gradients."
        yield _setting_problem(experiment, "devices", but, "Set it to 1, or train on Linux or in WSL.", "1")
        return
    most = most_devices(device, catalog)
    if experiment.devices > most:
        are = "is 1" if most == 1 else f"are {most:,}"
        cores = f"{most:,} core{'s' * (most > 1)}"
        but = f"starting with {device.name}, there {are}." if device.is_gpu else f"the CPU has {cores}."
        yield _setting_problem(experiment, "devices", but, f"Set it to at most {most:,}.", f"1 to {most:,}")
    if experiment.rounds_stochastically:
        but = "each device would round its copy of the weights differently."
        yield _setting_problem(
            experiment, "optimizer.stochastic_rounding", but, "Turn it off, or use one device."
        )
    if experiment.ranks.strategy == "fsdp":
        yield from _sharding_problems(experiment)
    elif experiment.ranks.static_graph:
        yield from _static_graph_problems(experiment)


def _static_graph_problems(experiment: Experiment) -> Iterator[Problem]:
    key, accumulated = "ranks.static_graph", experiment.step.gradient_accumulation
    if accumulated > 1:
        # pytorch/pytorch#143580
        but = f"{named('step.gradient_accumulation')} is {accumulated:,}, and PyTorch cannot combine them."
        yield _setting_problem(experiment, key, but, "Turn it off, or set gradient accumulation to 1.", "off")
    elif experiment.ranks.find_unused_parameters:
        but = f"{setting_title('ranks.find_unused_parameters')} needs steps that use different parameters."
        yield _setting_problem(experiment, key, but, "Turn one of them off.", "off")


def _sharding_problems(experiment: Experiment) -> Iterator[Problem]:
    code, to_ddp = experiment.own_code, f"set {named('ranks.strategy')} to DDP"
    own = next((name for name in ("step", "optimizer") if code is not None and name in code.defines), None)
    if own is not None and code is not None:
        message = f"is FSDP2, but {code.file} defines {own}(), which needs the full model."
        yield setting_problem("ranks.strategy", message, "Set it to DDP.", value="fsdp", allowed="ddp")
    kind = experiment.optimizer.kind
    if kind.is_low_bit or kind.takes_model:
        name = "low-bit optimizers" if kind.is_low_bit else kind.label
        but = f"Ammeter does not yet combine {name} with FSDP2."
        yield _setting_problem(experiment, "optimizer.name", but, f"Use adamw, or {to_ddp}.")
    if experiment.step.offload_activations:
        but = "Ammeter does not yet combine it with FSDP2."
        yield _setting_problem(experiment, "step.offload_activations", but, f"Turn it off, or {to_ddp}.")
    if experiment.step.activation_budget is not None:
        but = "Ammeter does not compile a model sharded by FSDP2."
        remedy = f"Set it to selective or full, or {to_ddp}."
        yield _setting_problem(experiment, "step.activation_checkpointing", but, remedy)
    if experiment.precision is Precision.FP8:
        but = "Ammeter does not yet combine FP8 with FSDP2."
        yield _setting_problem(experiment, "precision", but, f"Use another precision, or {to_ddp}.")
    if experiment.step.fp32_modules and experiment.precision.is_autocast:
        kept = ", ".join(experiment.step.fp32_modules)
        message = f"is {kept}, but FSDP2 casts whole blocks and cannot keep single modules in FP32."
        yield setting_problem("step.fp32_modules", message, f"Leave it empty, or {to_ddp}.", value=kept)


def _size_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    # only the folder, or the file of code, shows how much it holds
    is_unread = dataset.needs_path and dataset.train_samples is None
    if not is_unread and dataset.name != OWN_DATA:
        sharing, size = max(1, experiment.devices), experiment.batch_size
        available = (dataset.train_samples or experiment.samples) // sharing
        batches = -(-available // size)
        if size > available:
            but = f"{dataset.name} has {available:,} samples{' for each device' if sharing > 1 else ''}."
            remedy = f"Set it to at most {available:,}."
            yield _setting_problem(experiment, "batch_size", but, remedy, f"1 to {available:,}")
        elif experiment.step.gradient_accumulation > batches:
            yield accumulation_problem(experiment, batches)
    # only the folder itself shows how many classes it has; a saved run states that number
    classes, own = experiment.num_classes, dataset.num_classes
    is_unread = dataset.needs_path and own is None
    is_known = not (dataset.any_classes or is_unread or dataset.name == OWN_DATA)
    if classes is not None and is_known and classes != own:
        but = f"{dataset.name} has {f'{own:,}' if own else 'no classes'}."
        allowed = None if own is None else str(own)
        yield _setting_problem(experiment, "num_classes", but, "Leave it empty.", allowed)
    if experiment.image_size is not None and dataset.image_size is None:
        yield _setting_problem(experiment, "image_size", f"{dataset.name} has no images.", "Leave it empty.")


def _handling_problems(experiment: Experiment, dataset: DatasetEntry) -> Iterator[Problem]:
    name = dataset.name
    if experiment.label_smoothing and dataset.task == "regression":
        yield _setting_problem(
            experiment, "label_smoothing", f"{name} has no labels to smooth.", "Set it to 0."
        )
    if experiment.data.augment and not dataset.can_augment:
        but = f"samples of {name} cannot be shifted and flipped."
        yield _setting_problem(experiment, "data.augment", but, "Turn it off.")
    if experiment.data.on_device and not dataset.fits_device:
        but = f"{name} is too large to keep on the device."
        yield _setting_problem(experiment, "data.on_device", but, "Leave it empty, or turn it off.")
    if experiment.checkpoint.best and (reason := _no_validation(experiment, dataset)):
        but = f"{reason}, so no accuracy shows which state is best."
        yield _setting_problem(experiment, "checkpoint.best", but, "Turn it off, or enable validation.")


def _no_validation(experiment: Experiment, dataset: DatasetEntry) -> str | None:
    if not experiment.validation.every:
        return f"{named('validation.every')} is 0"
    code = experiment.own_code
    if dataset.name == OWN_DATA and code is not None:
        return None if "validation_dataset" in code.defines else f"{code.file} has no validation_dataset()"
    is_known = dataset.validation_samples is not None or dataset.needs_path
    return None if is_known else f"{dataset.name} has no validation samples"


_TAKES: dict[Task, str] = {
    "classification": "images of bytes or floats, with classes as whole numbers",
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
    if ModelRef(model.name).file is not None:
        return  # only the file itself knows what it takes
    if model.task != dataset.task and samples is not None:
        takes = f"it needs {_TAKES[model.task]}, but {experiment.path} has {samples.words}"
        message = f"is '{ARRAYS}', which {model.name} cannot use: {takes}."
        remedy = "Select another model or file. A model file of your own can use any arrays."
        yield setting_problem("dataset", message, remedy, value=ARRAYS)
        return
    if model.task != dataset.task:
        fitting = ", ".join(entry.name for entry in catalog.datasets if entry.task == model.task)
        purpose = "models that provide their own data" if dataset.task == OWN_DATA else dataset.task
        does = "provides its own data" if model.task == OWN_DATA else f"is for {model.task}"
        message = (
            f"is '{dataset.name}', which {model.name} cannot use: the dataset is for {purpose}, "
            f"but the model {does}."
        )
        remedy = f"With {model.name}, use one of: {fitting}."
        yield setting_problem("dataset", message, remedy, value=dataset.name, allowed=fitting)
        return
    size, least = experiment.image_size or dataset.image_size, model.min_image_size
    multiple = model.image_size_multiple or 1
    if size is not None and least is not None and (size < least or size % multiple):
        allowed = f"{least} or more" + (f", in multiples of {multiple}" if multiple > 1 else "")
        message = f"is {size}, but {model.name} needs images of {allowed} pixels per side."
        remedy = f"Set it to {max(least, -(-size // multiple) * multiple)}. Images are then resized."
        yield setting_problem("image_size", message, remedy, value=size, allowed=allowed)
    longest = model.max_sequence_length
    if longest is not None and experiment.sequence_length > longest:
        but, remedy = f"{model.name} takes at most {longest:,}.", f"Set it to at most {longest:,}."
        yield _setting_problem(experiment, "sequence_length", but, remedy, f"2 to {longest:,}")


def _unknown_model(name: str, catalog: Catalog) -> Problem:
    if (library := ModelRef(name).library) is not None:
        return unknown_library_model(name, library, (entry.name for entry in catalog.library_models))
    same = [entry.name for entry in catalog.library_models if entry.name.partition(":")[2] == name]
    return unknown_name("model", name, same or [entry.name for entry in catalog.models], "model")


def _code_problems(experiment: Experiment) -> Iterator[Problem]:
    """Find functions and classes that are missing from the model file, by its syntax."""
    if experiment.model.file is None:
        return
    code, name = experiment.own_code, experiment.model.class_name
    if code is None:
        message = f"is '{shown_path(experiment.model)}', but the source code of that file is missing."
        yield setting_problem("model", message, "Select the file again.", value=experiment.model)
    elif (name or MODEL) not in code.defines:
        but = f"{code.file} has no {f'class {name}' if name else 'function model()'}."
        classes = ", ".join(f"{code.file}:{found}" for found in code.classes)
        remedy = f"Define model(), or a class, and select it as {code.file}:Net."
        if classes:
            remedy = f"Select {classes}, or define model()."
        yield _setting_problem(experiment, "model", but, remedy, classes or None)
    elif experiment.dataset == OWN_DATA and not code.brings_data:
        message = f"is the model's own, but {code.file} defines neither batch(size) nor dataset()."
        remedy = "Define one of them, or select another dataset."
        yield setting_problem("dataset", message, remedy, value=OWN_DATA)
