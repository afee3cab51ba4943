"""The model of a script."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.experiment.built_in import LANGUAGE_SIZES, constructor_settings
from engine.experiment.catalog import ARRAYS
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.library_models import (
    TIMM,
    ModelRef,
    is_plain,
    may_set,
    override_of,
    override_value,
)
from engine.export.script.source import OwnFacts, call, literal, own_facts

ModelKind = Literal["linear", "small-cnn", "torchvision", "language", "timm", "transformers", "own"]


@dataclass(frozen=True)
class ModelFacts:
    """The properties of a run's model that decide the script's code.

    `settings` are the arguments of its constructor. For text, `classes` is the vocabulary size. It
    `has_own_sizes` if its channels, or numbers of inputs and outputs, depend on the loaded samples.
    """

    kind: ModelKind
    name: str
    channels: int
    classes: int
    settings: Mapping[str, Any]
    image_size: int
    is_of_text: bool
    float32_modules: tuple[str, ...]
    own: OwnFacts | None = None
    has_own_sizes: bool = False

    @property
    def has_statistics(self) -> bool:
        """True if running a block twice would update its normalization statistics twice."""
        if self.kind == "own":
            return True
        if self.kind in ("timm", "transformers"):
            return not self.is_of_text
        return self.kind == "torchvision" and not self.name.startswith(("vit_", "swin", "convnext"))

    @property
    def has_named_logits(self) -> bool:
        """True if the model returns an object with logits and other fields."""
        return self.kind in ("language", "transformers")

    @property
    def constructor(self) -> str | None:
        """The expression for a model that needs no function to build it."""
        if self.own is not None:
            return "make_model()"
        if self.kind == "linear":
            sizes = "train[0].shape[1], train[1].shape[1]" if self.has_own_sizes else "10, 1"
            return f"nn.Linear({sizes})"
        if self.kind != "torchvision":
            return None
        settings = {key: literal(value) for key, value in self.settings.items()}
        return call(f"torchvision.models.{self.name}", num_classes=str(self.classes), **settings)

    @property
    def float32_call(self) -> str:
        return call("keep_in_float32", "model", *map(literal, self.float32_modules))

    @property
    def copies_lists(self) -> bool:
        """True if the model's modules take lists and append to them."""
        return self.kind == "torchvision" and self.name.startswith("densenet")

    @property
    def passes_structures(self) -> bool:
        """True if the model's modules take other inputs than floating-point tensors."""
        return self.kind in ("language", "timm", "transformers", "own") or self.copies_lists


def model_facts(experiment: Experiment, *, channels: int, classes: int, image_size: int) -> ModelFacts:
    """Return the model of an experiment for images of these channels. Raises ProblemError if unknown."""
    if experiment.is_script:
        remedy = "It is a script already. Run it, or export another run."
        raise setting_error("command.line", f"is '{experiment.command.name}'.", remedy)
    own = own_facts(experiment)
    kind = _model_kind(experiment.model) if own is None else "own"
    is_of_library = kind in ("timm", "transformers")
    if is_of_library and experiment.dataset == ARRAYS:
        message = f"is '{experiment.model}', which scripts do not support for arrays of unknown shape."
        raise setting_error("model", message, "Export another run.", value=experiment.model)
    settings = _overrides(experiment) if is_of_library else constructor_settings(experiment.model, image_size)
    return ModelFacts(
        kind=kind,
        name=experiment.model.partition(":")[2] if is_of_library else experiment.model,
        channels=channels if kind == "small-cnn" or is_of_library else 3,
        has_own_sizes=experiment.dataset == ARRAYS and kind in ("linear", "small-cnn"),
        classes=classes,
        settings=settings,
        image_size=image_size,
        is_of_text=kind == "language" or experiment.dataset.task == "language",
        float32_modules=experiment.step.fp32_modules if experiment.precision.is_autocast else (),
        own=own,
    )


def _model_kind(name: ModelRef) -> ModelKind:
    if name == "linear":
        return "linear"
    if name == "small-cnn":
        return "small-cnn"
    if name in LANGUAGE_SIZES:
        return "language"
    if name.library is not None and re.fullmatch(r"[\w-]+", name.partition(":")[2], re.ASCII):
        return "timm" if name.library is TIMM else "transformers"
    if re.fullmatch(r"[a-z][a-z0-9_]{1,60}", name) and not keyword.iskeyword(name):
        return "torchvision"
    fault = f"is '{name}', which scripts do not support."
    remedy = "Select a run of a model in the catalog."
    raise setting_error("model", fault, remedy, value=name)


def _overrides(experiment: Experiment) -> dict[str, Any]:
    settings = {key: override_value(text) for key, text in map(override_of, experiment.overrides)}
    for key, value in settings.items():
        message = None
        if "." in key:
            message = f"has '{key}', but scripts do not support nested settings of {experiment.model} yet."
        elif not may_set(key) or not is_plain(value):
            message = f"has '{key}' with a name or value that could be a file or code."
        if message is not None:
            raise setting_error("overrides", message, "Export another run.", value=key)
    return settings
