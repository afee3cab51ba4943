"""timm's classifiers: all its architectures, for images of given channels, size and classes."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import setting_problem
from engine.experiment.own.library_models import TIMM, is_plain, may_set, override_of, override_value
from engine.experiment.problem import Problem, ProblemError, alternatives
from engine.training.models import libraries
from engine.training.models.libraries import quiet, refusal
from engine.training.models.weightless import Weightless

_UNKNOWN = re.compile(r"unexpected keyword argument(?:\(s\))?:? \[?'(\w+)'")
_SET_HERE = ("num_classes", "in_chans", "img_size")
_NOT_ITS_OWN = frozenset({*_SET_HERE, "features_only", "out_indices", "pretrained_strict", "self"})


def is_timm_model(name: str) -> bool:
    return name.startswith(f"{TIMM.prefix}:")


def build_timm_model(
    name: str, *, image_size: int, channels: int, num_classes: int, overrides: Sequence[str], seed: int
) -> nn.Module:
    """Return a classifier with random weights, on the CPU, tried on two images. Raises ProblemError."""
    timm = libraries.import_library(TIMM.package)
    settings = {"num_classes": num_classes, "in_chans": channels, **_arguments(timm, name, overrides)}

    def construct() -> nn.Module:
        with quiet():
            try:
                return _created(timm, name, {**settings, "img_size": image_size})
            except TypeError as error:
                if "img_size" not in str(error):
                    raise
            # an architecture whose weights do not depend on the size
            torch.manual_seed(seed)
            return _created(timm, name, settings)

    problem: Problem | None = None
    try:
        model = libraries.build_with_weights(name, construct, seed)
        logits = libraries.probe_outputs(model, torch.zeros(2, channels, image_size, image_size))
        if logits is not None and getattr(logits, "shape", None) != (2, num_classes):
            problem = _refused(timm, name, image_size, overrides, "it returns something other than logits")
    except Exception as error:  # noqa: BLE001 - an architecture refuses a size in any way
        unknown = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
        if unknown is not None:
            problem = _not_taken(timm, name, unknown[1], overrides)
        else:
            problem = _refused(timm, name, image_size, overrides, libraries.library_reason(error))
    if problem is not None:
        raise ProblemError(problem)
    return model


def _created(timm: Any, name: str, settings: dict[str, Any]) -> nn.Module:
    model: nn.Module = timm.create_model(name.partition(":")[2], pretrained=False, **settings)
    return model


def _arguments(timm: Any, name: str, overrides: Sequence[str]) -> dict[str, Any]:
    arguments = {}
    for override in overrides:
        key, text = override_of(override)
        value = override_value(text)
        if key in _NOT_ITS_OWN:
            message = f"but {key} is set by the dataset or by Ammeter."
            raise ProblemError(libraries.override_problem(override, message, f"Remove {key}."))
        if not may_set(key) or "." in key:
            raise ProblemError(_not_taken(timm, name, key, overrides))
        if not is_plain(value):
            raise ProblemError(libraries.unsafe_value_problem(override))
        arguments[key] = value
    return arguments


def _not_taken(timm: Any, name: str, key: str, overrides: Sequence[str]) -> Problem:
    names: list[str] = []
    with suppress(Exception), Weightless(), quiet():
        model = _created(timm, name, {})
        names = sorted(filter(may_set, set(inspect.signature(type(model)).parameters) - _NOT_ITS_OWN))
    near = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    override = next((text for text in overrides if override_of(text)[0] == key), key)
    remedy = f"Did you mean {alternatives(near)}?" if near else f"Remove {key}."
    if names and not near:
        remedy += f" It takes {', '.join(names)}."
    return libraries.override_problem(
        override, f"but {name} has no setting of that name that can be set here.", remedy
    )


def _refused(timm: Any, name: str, image_size: int, overrides: Sequence[str], reason: str) -> Problem:
    published = timm.get_pretrained_cfg(name.partition(":")[2])
    size = None if published is None else published.input_size[-1]
    if size not in (None, image_size):
        also = ", or change the model settings" if overrides else ""
        message = f"is {image_size}, but {name} cannot take it: {reason}."
        remedy = f"Set it to {size}, for which {name} was made{also}. Images are then resized."
        return setting_problem("image_size", message, remedy, value=image_size)
    return refusal(name, overrides, reason, "Choose another model.")
