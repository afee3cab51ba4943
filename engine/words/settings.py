"""The settings of an experiment as they are shown: only those that apply, and their values as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.experiment.catalog import (
    ARRAYS,
    IMAGE_FOLDER,
    OWN,
    SYNTHETIC,
    SYNTHETIC_REGRESSION,
    SYNTHETIC_TOKENS,
    TEXT_FOLDER,
    task_of,
)
from engine.experiment.experiment import Experiment, Precision, flattened
from engine.experiment.own.code import DATASET, code_from, model_file
from engine.experiment.own.library_models import library_of
from engine.words.names import dataset_words, recipe_words


@dataclass(frozen=True)
class Chosen:
    """What is chosen: the text of each setting ("true", "0", "sgd"), and the precisions it is to run in.

    `defines` are the names that the model's own file defines, some of them in place of settings.
    """

    text: Callable[[str], str]
    precisions: Sequence[Precision]
    is_on_cpu: bool = False
    defines: frozenset[str] = frozenset()

    def has(self, key: str, *texts: str) -> bool:
        """Whether the setting is one of `texts`."""
        return self.text(key).strip().lower() in texts

    @property
    def has_pictures(self) -> bool:
        """Whether it has, or a file of arrays may have, pictures."""
        return self.has("dataset", ARRAYS) or task_of(self.text("dataset")) == "classification"

    @property
    def is_library_data(self) -> bool:
        """Whether a model of a library makes its own batches."""
        return self.has("dataset", OWN) and library_of(self.text("model")) is not None

    @property
    def loads_own(self) -> bool:
        """Whether a loader brings the datasets of the model's own file."""
        return self.has("dataset", OWN) and DATASET in self.defines

    @property
    def loads(self) -> bool:
        """Whether a loader can bring the dataset, which is not drawn on the device."""
        return self.has_pictures and not self.has("dataset", SYNTHETIC)

    @property
    def uses_loader(self) -> bool:
        return self.loads_own or (self.loads and not self.has("data.on_device", "true"))

    @property
    def has_labels(self) -> bool:
        """Whether the loss is Ammeter's own and compares classes."""
        return not self.has("dataset", SYNTHETIC_REGRESSION) and not {"loss", "step"} & self.defines

    @property
    def has_validation_samples(self) -> bool:
        if self.has("dataset", OWN):
            return "validation_dataset" in self.defines
        return not self.has("dataset", SYNTHETIC, SYNTHETIC_REGRESSION, SYNTHETIC_TOKENS)

    @property
    def is_validated(self) -> bool:
        return self.has_validation_samples and not self.has("validation.every", "0")

    @property
    def uses_autocast(self) -> bool:
        return any(precision.is_autocast for precision in self.precisions)

    @property
    def uses_scaler(self) -> bool:
        """Whether any of the runs has a loss scaler, as `Experiment.uses_scaler` says of one."""
        return self.has("scaler.mode", "on") or (
            self.has("scaler.mode", "auto") and Precision.FP16 in self.precisions
        )


def _takes_optimizer(chosen: Chosen) -> bool:
    return "optimizer" not in chosen.defines


_CONDITIONS: Mapping[str, Callable[[Chosen], bool]] = MappingProxyType(
    {
        "overrides": lambda chosen: library_of(chosen.text("model")) is not None,
        "code": lambda chosen: model_file(chosen.text("model")) is not None,
        "path": lambda chosen: chosen.has("dataset", IMAGE_FOLDER, TEXT_FOLDER, ARRAYS),
        "image_size": lambda chosen: chosen.has_pictures,
        "num_classes": lambda chosen: not chosen.has("dataset", SYNTHETIC_REGRESSION, OWN),
        "samples": lambda chosen: not chosen.loads,
        "sequence_length": lambda chosen: (
            task_of(chosen.text("dataset")) == "language" or chosen.is_library_data
        ),
        "label_smoothing": lambda chosen: chosen.has_labels,
        "optimizer.name": _takes_optimizer,
        "optimizer.learning_rate": _takes_optimizer,
        "optimizer.weight_decay": _takes_optimizer,
        "optimizer.momentum": lambda chosen: _takes_optimizer(chosen) and chosen.has("optimizer.name", "sgd"),
        "optimizer.fused": _takes_optimizer,
        "step.gradient_accumulation": lambda chosen: "step" not in chosen.defines,
        "schedule.warmup_steps": lambda chosen: not chosen.has("schedule.name", "one-cycle"),
        "schedule.final_fraction": lambda chosen: chosen.has("schedule.name", "cosine"),
        "schedule.rise_fraction": lambda chosen: chosen.has("schedule.name", "one-cycle"),
        "schedule.decay_epochs": lambda chosen: chosen.has("schedule.name", "step"),
        "schedule.decay_factor": lambda chosen: chosen.has("schedule.name", "step"),
        "scaler.init_scale": lambda chosen: chosen.uses_scaler,
        "scaler.growth_factor": lambda chosen: chosen.uses_scaler,
        "scaler.backoff_factor": lambda chosen: chosen.uses_scaler,
        "scaler.growth_interval": lambda chosen: chosen.uses_scaler,
        "step.fp32_modules": lambda chosen: chosen.uses_autocast,
        "step.autocast_tf32": lambda chosen: chosen.uses_autocast,
        "data.inputs": lambda chosen: chosen.has("dataset", ARRAYS),
        "data.targets": lambda chosen: chosen.has("dataset", ARRAYS),
        "data.on_device": lambda chosen: chosen.loads,
        "data.workers": lambda chosen: chosen.uses_loader,
        "data.prefetch": lambda chosen: chosen.uses_loader,
        "data.pin_memory": lambda chosen: chosen.uses_loader and not chosen.is_on_cpu,
        "data.persistent_workers": lambda chosen: chosen.uses_loader and not chosen.has("data.workers", "0"),
        "data.augment": lambda chosen: chosen.loads,
        "data.skip_broken": lambda chosen: chosen.has("dataset", IMAGE_FOLDER),
        "checkpoint.best": lambda chosen: chosen.is_validated,
        "checkpoint.every": lambda chosen: chosen.has("checkpoint.last", "true"),
    }
)
"""When a setting means anything beside the others; one that is not here always does."""


def applies(key: str, chosen: Chosen) -> bool:
    """Whether the setting means anything beside the others; one that does not is shown nowhere."""
    condition = _CONDITIONS.get(key)
    return condition is None or condition(chosen)


def comparable_settings(experiment: Experiment) -> dict[str, Any]:
    """Every setting by its dotted key, as plain JSON values.

    The code of a file is its name and hash, "net.py, 3f2a1c9d": equal for the same code in another folder.
    """
    values = flattened(experiment)
    if experiment.own_code is not None:
        values["code"] = experiment.own_code.short
    return values


def _defined_names(experiment: Experiment) -> frozenset[str]:
    """The names that the file of the experiment's model defines; none for a model of the catalog."""
    code = experiment.own_code if model_file(experiment.model) is not None else None
    return frozenset() if code is None else code.defines


def applying_settings(experiment: Experiment) -> dict[str, Any]:
    """The `comparable_settings` that apply; of the two lengths that holds."""
    values = comparable_settings(experiment)
    chosen = _chosen(experiment, values)
    del values["steps" if experiment.steps is None else "epochs"]
    return {key: value for key, value in values.items() if applies(key, chosen)}


def is_validated(experiment: Experiment) -> bool:
    """Whether a run of it is validated, so that it may have an accuracy."""
    return _chosen(experiment, flattened(experiment)).is_validated


def _chosen(experiment: Experiment, values: Mapping[str, Any]) -> Chosen:
    return Chosen(
        lambda key: str(values[key]),
        (experiment.precision,),
        experiment.device == "cpu",
        _defined_names(experiment),
    )


_SWITCHES_LEFT_OPEN = ("optimizer.fused", "data.on_device")


def setting_text(key: str, value: Any) -> str:
    """The value of a setting, or of a fact of the machine, as text."""
    if value is None or value == [] or value == ():
        return "auto" if key in _SWITCHES_LEFT_OPEN else "none"
    if key == "precision":
        return Precision(value).label
    if key == "dataset":
        return dataset_words(str(value))
    if key == "code" and value.startswith("{"):
        return code_from(value).short
    if key == "step.recipe":
        return recipe_words(str(value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if key == "seed" or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def as_typed(value: object) -> str:
    """A setting's value as --set takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
