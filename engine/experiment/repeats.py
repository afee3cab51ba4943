"""Repeats: each side of a comparison is trained several times, alternating, each time with the next seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.titles import setting_problem

MOST_REPEATS = 1_000

_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Turn:
    """One run of a side that is trained `repeats` times; `repeat` counts from 1."""

    label: str
    experiment: Experiment
    repeat: int
    repeats: int

    def name(self, common: str | None, *, is_alone: bool = False) -> str | None:
        """The run's name where the user named all of them `common`; None where they are numbered.

        `is_alone`: there is only one side.
        """
        if not common:
            return None
        label = [] if is_alone else [self.label]
        repeat = [f"repeat {self.repeat:,}"] if self.repeats > 1 else []
        return ", ".join([common, *label, *repeat])


def in_turns(sides: Sequence[tuple[str, Experiment]], repeats: int = 1) -> tuple[Turn, ...]:
    """The runs of the labelled sides in training order: A B, B A, A B, ...

    Each repeat reverses the order of the one before, so that a drift of the machine hits every side alike,
    and raises the seed of every side by one. Raises ProblemError where a seed would grow too large.
    """
    check_seeds(sides, repeats)
    turns: list[Turn] = []
    for repeat in range(repeats):
        one_round = [
            Turn(label, side.model_copy(update={"seed": side.seed + repeat}), repeat + 1, repeats)
            for label, side in sides
        ]
        turns += one_round if repeat % 2 == 0 else reversed(one_round)
    return tuple(turns)


def check_seeds(sides: Sequence[tuple[str, Experiment]], repeats: int) -> None:
    """Raises ProblemError where the seeds of so many repeats would grow too large."""
    seed = max((experiment.seed for _, experiment in sides), default=0)
    if seed + repeats - 1 > _LARGEST_SEED:
        message = f"is {seed}, but {repeats:,} repeats would need seeds beyond {_LARGEST_SEED}."
        raise ProblemError(setting_problem("seed", message, "Give a smaller seed.", value=seed))
