"""The learning rate of a script where one line says it, and how long the run is that it depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.experiment import Experiment, Schedule
from engine.exports.script.literals import literal
from engine.problem import ProblemError, request_problem


@dataclass(frozen=True)
class ShortSchedule:
    """A learning rate that depends on `step`: the line before it, and an expression."""

    before: str
    expression: str


def steps_per_epoch(experiment: Experiment, samples: int | None, told: int | None) -> int:
    """Optimizer steps of an epoch of that many samples; as it was `told` where only the run itself says it.

    Raises ProblemError where neither is known.
    """
    if samples is not None:
        return math.ceil(samples / experiment.step_samples)
    if told is None:
        name = experiment.schedule.name
        message = f"schedule.name is '{name}', which depends on how many pictures the folder holds."
        remedy = "Train it first, so that this is known, or choose a constant learning rate."
        raise ProblemError(request_problem(message, remedy, key="schedule.name", value=name))
    return told


def short_schedule(schedule: Schedule, decay_steps: int | None) -> ShortSchedule | None:
    """The schedule where one line says it; a decay by epochs is after each `decay_steps` steps."""
    if schedule.warmup_steps or schedule.final_fraction:
        return None
    if schedule.name == "cosine":
        return ShortSchedule(
            "fraction = step / max(1, STEPS - 1)  # of half a cosine wave, from the peak to nothing",
            "LEARNING_RATE * (1 + math.cos(math.pi * fraction)) / 2",
        )
    if schedule.name == "step":
        factor = literal(schedule.decay_factor)
        return ShortSchedule(
            f"# multiplied by {factor} after each {schedule.decay_epochs:,} epochs",
            f"LEARNING_RATE * {factor} ** (step // {decay_steps})",
        )
    return None
