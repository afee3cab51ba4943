"""What can be chosen on a machine, and whether an experiment fits it. No torch here.

The worker fills a `Catalog` in (engine.training.catalog); the window and the worker check against the
same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.data_checks import dataset_problems, fit_problems
from engine.entries import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry, Task
from engine.experiment import Experiment
from engine.problem import Problem, ProblemError, request_problem, unknown_name

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
"""As fnmatch has it: within them an opening bracket, and a closing one right at the begin, are letters."""


def resolve(experiment: Experiment, catalog: Catalog) -> Experiment:
    """The experiment with its device, image size, classes and folder as they will be. Raises ProblemError."""
    found = problems(experiment, catalog)
    if found:
        raise ProblemError(*found)
    device, dataset = catalog.device(experiment.device), catalog.dataset(experiment.dataset)
    assert device is not None and dataset is not None  # problems() would have named them
    path = experiment.path
    return experiment.model_copy(
        update={
            "device": device.name,
            "image_size": experiment.image_size or dataset.image_size,
            "num_classes": experiment.num_classes or dataset.num_classes,
            # so that it names the same folder wherever the run goes on from
            "path": None if path is None else str(Path(path).expanduser().absolute()),
        }
    )


def problems(experiment: Experiment, catalog: Catalog) -> tuple[Problem, ...]:
    """Why this machine cannot run the experiment; empty if it can. At most one problem a setting."""
    found: dict[str | None, Problem] = {}
    against = (
        *_device_problems(experiment, catalog),
        *_data_problems(experiment, catalog),
        *_pattern_problems(experiment),
    )
    for problem in against:
        found.setdefault(problem.key, problem)
    return tuple(found.values())


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


def _pattern_problems(experiment: Experiment) -> Iterator[Problem]:
    """Patterns that no name can match; whether a part of the model does, only the model knows."""
    for pattern in experiment.step.fp32_modules:
        if "[" in _CLOSED_BRACKETS.sub("", pattern):
            yield request_problem(
                f"step.fp32_modules has '{pattern}', whose bracket is not closed.",
                "Close it, as in layer[34].*, or use a star.",
                key="step.fp32_modules",
                value=pattern,
            )


def _data_problems(experiment: Experiment, catalog: Catalog) -> Iterator[Problem]:
    model, dataset = catalog.model(experiment.model), catalog.dataset(experiment.dataset)
    if model is None:
        yield unknown_name("model", experiment.model, [entry.name for entry in catalog.models], "model")
    elif model.reason is not None:
        yield request_problem(
            f"model is '{model.name}', but it cannot be had: {model.reason}.",
            "Install what is missing, or choose another model.",
            key="model",
            value=model.name,
        )
    if dataset is None:
        yield unknown_name(
            "dataset", experiment.dataset, [entry.name for entry in catalog.datasets], "dataset"
        )
    if dataset is not None:
        yield from dataset_problems(experiment, dataset)
    if model is not None and dataset is not None:
        yield from fit_problems(experiment, model, dataset, catalog)
