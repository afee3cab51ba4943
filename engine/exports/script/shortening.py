"""What a script goes without where it would become too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.experiment import Checkpoint, Experiment
from engine.exports.script.data import data_facts


def shortened(experiment: Experiment) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """The experiment with ever more left out of it, and what that is in words; first what changes no loss."""
    told: tuple[str, ...] = ()
    for shorten, sentence in _WAYS:
        shorter = shorten(experiment)
        if shorter != experiment:
            experiment, told = shorter, (*told, sentence)
            yield experiment, told


def _without_checkpoints(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"checkpoint": Checkpoint()})


def _without_nan_check(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"on_nan": "continue"})


def _without_memory_cap(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"memory_cap_gib": None})


def _without_recomputing(experiment: Experiment) -> Experiment:
    step = experiment.step.model_copy(update={"activation_checkpointing": False})
    return experiment.model_copy(update={"step": step})


def _without_validation(experiment: Experiment) -> Experiment:
    if not data_facts(experiment).validates:
        return experiment
    validation = experiment.validation.model_copy(update={"every": 0})
    return experiment.model_copy(update={"validation": validation})


def _without_float32_modules(experiment: Experiment) -> Experiment:
    if not experiment.precision.is_autocast:
        return experiment
    return experiment.model_copy(update={"step": experiment.step.model_copy(update={"fp32_modules": ()})})


def _without_augmenting(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"data": experiment.data.model_copy(update={"augment": False})})


_WAYS: tuple[tuple[Callable[[Experiment], Experiment], str], ...] = (
    (_without_checkpoints, "its checkpoints"),
    (_without_nan_check, "its end at a NaN"),
    (_without_memory_cap, "its limit of memory"),
    (_without_recomputing, "activation checkpointing"),
    (_without_validation, "its validation"),
    (_without_float32_modules, "the parts kept in FP32 (so losses differ)"),
    (_without_augmenting, "the augmentation (so losses differ)"),
)
