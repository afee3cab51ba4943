"""Which settings bear on a speed: what of an experiment must be the same for two speeds to be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from engine.experiment import Experiment, flattened
from engine.parts import Checkpoint, Measure, Optimizer, Scaler, Schedule, Validation
from engine.records.record import RunRecord
from engine.records.words import setting_value

Axis = Literal["precision", "recipe", "batch"]
AXES: tuple[Axis, ...] = ("precision", "recipe", "batch")

_OF_AXES = ("precision", "step.recipe", "batch_size")
_HARMLESS = (
    "seed",
    "device",
    "on_nan",
    "validation.every",
    "checkpoint.best",
    "checkpoint.last",
    "checkpoint.every",
)
_OF_PRECISION = ("step.fp32_modules", "step.autocast_tf32")


def differing_axes(one: Experiment, other: Experiment) -> tuple[Axis, ...]:
    """In which of precision, recipe and batch two experiments differ."""
    return tuple(axis for axis in AXES if _place(one, axis) != _place(other, axis))


def moved(experiment: Experiment, axes: Iterable[Axis], target: Experiment) -> Experiment:
    """The experiment with those axes as `target` has them."""
    for axis in axes:
        if axis == "precision":
            step = experiment.step.model_copy(
                update={
                    "fp32_modules": target.step.fp32_modules,
                    "autocast_tf32": target.step.autocast_tf32,
                }
            )
            update = {"precision": target.precision, "step": step, "scaler": target.scaler}
        elif axis == "recipe":
            step = experiment.step.model_copy(update={"recipe": target.step.recipe})
            update = {"step": step}
        else:
            update = {"batch_size": target.batch_size}
        experiment = experiment.model_copy(update=update)
    return experiment


def for_speed(experiment: Experiment) -> Experiment:
    """The experiment without what does not bear on its speed, so that equal ones ought to be equally fast."""
    optimizer = experiment.optimizer
    step = experiment.step
    if not experiment.precision.is_autocast:
        step = step.model_copy(update={"fp32_modules": (), "autocast_tf32": False})
    return experiment.model_copy(
        update={
            "seed": 0,
            "steps": None,
            "epochs": 1,
            "device": "auto",
            "on_nan": "continue",
            "label_smoothing": 0.0,
            "optimizer": Optimizer(
                name=optimizer.name, momentum=0.9 if optimizer.momentum else 0.0, fused=optimizer.fused
            ),
            "schedule": Schedule(),
            "scaler": Scaler(mode="on" if experiment.uses_scaler else "off"),
            "step": step,
            "measure": Measure(),
            "validation": Validation(),
            "checkpoint": Checkpoint(),
        }
    )


def same_machine(one: RunRecord, other: RunRecord) -> bool:
    """Whether both runs were made on devices of one name by one version of torch."""
    mine, theirs = one.environment, other.environment
    if mine is None or theirs is None:
        return False
    return (mine.device_name, mine.torch) == (theirs.device_name, theirs.torch)


def unlike_settings(one: Experiment, other: Experiment) -> tuple[tuple[str, object, object], ...]:
    """The settings that matter and differ beside precision, recipe and batch: key, `one`'s and `other`'s."""
    mine, theirs = flattened(one), flattened(other)
    ignored = {*_OF_AXES, *_HARMLESS}
    if one.precision is not other.precision:
        ignored |= {*_OF_PRECISION, *(key for key in mine if key.startswith("scaler."))}
    if not (one.uses_scaler or other.uses_scaler):
        ignored |= {key for key in mine if key.startswith("scaler.") and key != "scaler.mode"}
    return tuple(
        (key, mine[key], theirs[key]) for key in mine if key not in ignored and mine[key] != theirs[key]
    )


class Work(NamedTuple):
    """What of the work differs, in the plural, and the values of two experiments."""

    what: str
    one: str
    other: str


_WORK = {
    "model": "models",
    "dataset": "datasets",
    "path": "folders",
    "image_size": "image sizes",
    "num_classes": "numbers of classes",
}


def is_work(key: str) -> bool:
    """Whether the setting of that key makes it another training, whatever it is trained with."""
    return key in _WORK


def differing_work(one: Experiment, other: Experiment) -> tuple[Work, ...]:
    """What makes two experiments different trainings, the most telling first."""
    return tuple(
        Work(_WORK[key], setting_value(mine), setting_value(theirs))
        for key, mine, theirs in unlike_settings(one, other)
        if is_work(key)
    )


def _place(experiment: Experiment, axis: Axis) -> object:
    if axis == "precision":
        return experiment.precision
    return experiment.step.recipe if axis == "recipe" else experiment.batch_size
