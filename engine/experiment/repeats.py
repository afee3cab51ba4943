"""Repeats: the runs of a comparison are trained several times, alternating, each time with the next seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.value import Message, Seconds

MOST_REPEATS = 1_000

_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Turn:
    """One of the `repeats` runs of an experiment. `repeat` is its number, from 1."""

    label: str
    experiment: Experiment
    repeat: int
    repeats: int

    def name(self, common: str | None, *, is_alone: bool = False) -> str | None:
        """Return the run's name, given the name `common` of all runs. None if runs are numbered instead."""
        if not common:
            return None
        label = [] if is_alone else [self.label]
        repeat = [f"repeat {self.repeat:,}"] if self.repeats > 1 else []
        return ", ".join([common, *label, *repeat])


def alternating_turns(sides: Sequence[tuple[str, Experiment]], repeats: int = 1) -> tuple[Turn, ...]:
    """Return the runs in training order, A B, B A, A B, so drift affects all alike. Raises ProblemError."""
    check_seeds(sides, repeats)
    return tuple(
        Turn(label, side.model_copy(update={"seed": side.seed + repeat}), repeat + 1, repeats)
        for repeat in range(repeats)
        for label, side in (sides if repeat % 2 == 0 else reversed(sides))
    )


def check_seeds(sides: Sequence[tuple[str, Experiment]], repeats: int) -> None:
    """Check that the seeds of all repeats are in range. Raises ProblemError."""
    seed = max((experiment.seed for _, experiment in sides), default=0)
    if seed + repeats - 1 > _LARGEST_SEED:
        message = f"is {seed}, but {repeats:,} repeats would need seeds above {_LARGEST_SEED}."
        raise setting_error("seed", message, "Use a smaller seed.", value=seed)


MOST_EXTRA_REPEATS = 20  # of a cell for the sake of a wanted precision, unless `repeats` asks for more


class Plan(Message):
    """The stopping rule of a sweep: a number of repeats, a precision of its ratios, and a time limit.

    Each cell first gets a pilot. The runs of compared cells then alternate.
    """

    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    precision_percent: Annotated[float | None, Field(gt=0, le=100)] = None
    time_limit_seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None


class Pilot(Message):
    """The measurements of a pilot, a short run of a cell to estimate its time and memory. None: unknown."""

    steps: Annotated[int, Field(ge=1)]
    seconds: Seconds
    start_seconds: Seconds
    step_ms: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    samples_per_second: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    peak_mib: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    validation_seconds: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    final_loss: float | None = None
    steps_per_epoch: Annotated[int | None, Field(ge=1)] = None
