"""The form's request. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiment.experiment import Experiment
from engine.experiment.repeats import Plan
from engine.experiment.sweep import Grid


@dataclass(frozen=True)
class Request:
    """A request to train: labelled experiments, each trained `repeats` times, in turns.

    `name` is the user's name for the runs, None to number them. `title` is that of the comparison, or the
    name of a single run; empty for a numbered one. With a `grid` and its `plan` it asks for a sweep instead;
    `experiments` then are those of the first value of every setting but the precision.
    """

    title: str
    experiments: tuple[tuple[str, Experiment], ...]
    is_comparison: bool
    name: str | None = None
    repeats: int = 1
    grid: Grid | None = None
    plan: Plan | None = None
