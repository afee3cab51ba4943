"""Problems of a model that is not in the catalog: of its name, its overrides or its file."""

from __future__ import annotations

from collections.abc import Iterator

from engine.experiment.catalog import OWN, Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.model_ref import ModelRef
from engine.experiment.own.code import MODEL
from engine.experiment.own.folders import shown_path
from engine.experiment.own.library_models import unknown_library_model
from engine.experiment.problem import Problem, unknown_name
from engine.experiment.titles import setting_problem


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
