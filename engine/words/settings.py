"""The settings of an experiment as they are shown: only those that apply, and their values as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.experiment.experiment import Experiment, Precision, all_settings, flattened
from engine.experiment.own.code import code_from
from engine.experiment.setting import Chosen
from engine.words.names import dataset_words, recipe_words


def applies(key: str, chosen: Chosen) -> bool:
    """A setting that means nothing beside the others is shown nowhere."""
    return all_settings()[key].when(chosen)


def comparable_settings(experiment: Experiment) -> dict[str, Any]:
    """Every setting by its dotted key, as plain JSON values.

    The code of a file is its name and hash, "net.py, 3f2a1c9d": equal for the same code in another folder.
    """
    values = flattened(experiment)
    if experiment.own_code is not None:
        values["code"] = experiment.own_code.short
    return values


def applying_settings(experiment: Experiment) -> dict[str, Any]:
    """The `comparable_settings` that apply; of the two lengths the one that is set."""
    values = comparable_settings(experiment)
    chosen = _chosen(experiment, values)
    del values["steps" if experiment.steps is None else "epochs"]
    return {key: value for key, value in values.items() if applies(key, chosen)}


def is_validated(experiment: Experiment) -> bool:
    """Runs that are validated may have an accuracy."""
    return _chosen(experiment, flattened(experiment)).is_validated()


def _chosen(experiment: Experiment, values: Mapping[str, Any]) -> Chosen:
    code = experiment.own_code if experiment.model.file is not None else None
    return Chosen(
        lambda key: str(values[key]),
        (experiment.precision,),
        experiment.device == "cpu",
        frozenset() if code is None else code.defines,
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
