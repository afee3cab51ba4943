"""The grid of a draft with several values, and what is known of it before it is trained. No Qt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from engine.experiment.checks import Catalog, problems
from engine.experiment.experiment import Experiment
from engine.experiment.model_ref import ModelRef
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.repeats import MOST_REPEATS
from engine.experiment.sweep.axes import axes_of
from engine.experiment.sweep.grid import VARIANT, Axis, Grid, grid_of
from engine.experiment.sweep.plan import Plan
from engine.experiment.titles import setting_problem
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from engine.sweep.estimate import estimate_of_grid
from engine.sweep.events import Estimate
from engine.sweep.fit import Fit, fit_of
from gui.session.request import Request
from gui.setup.draft import Draft
from gui.setup.grid.values import cleaned

_SECONDS_PER_HOUR = 3_600
_LONGEST_HOURS = 10_000


@dataclass(frozen=True)
class Evidence:
    """What is known on this machine: forecasts of memory, and the saved runs, newest first."""

    forecasts: Forecasts | None = None
    runs: Sequence[RunRecord] = ()


@dataclass(frozen=True)
class Question:
    """A draft to survey, with the problems of experiments that the engine refused before."""

    draft: Draft
    catalog: Catalog
    refused: Mapping[Experiment, Problem]


@dataclass(frozen=True)
class Survey:
    """What is known of a grid: which cells are left out and why, the memory, and the time it takes.

    `problems` say by key what is wrong with it; there is no grid then, or no cell of it can be trained.
    """

    plan: Plan
    problems: Mapping[str, Problem] = field(default_factory=dict)
    grid: Grid | None = None
    fit: Fit = field(default_factory=Fit)
    estimate: Estimate | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it can be trained."""
        return self.grid is not None and not self.problems

    @property
    def left_out(self) -> int:
        """How many cells are left out."""
        return len(self.fit.why)


def parts_of(draft: Draft, catalog: Catalog | None) -> tuple[dict[str, Any], tuple[Axis, ...]]:
    """The settings that all cells share, and the axes: variants or precisions first, then as in the form.

    Raises ProblemError.
    """
    sides = list(draft.variants(catalog))
    base, axes = (sides[0][1] if sides else {}), []
    if len({label for label, _ in sides}) > len(draft.ticked):
        base = draft.preset.base(draft.has_gpu)
        labels, settings = zip(*sides, strict=True)
        axes.append(Axis(key=VARIANT, values=labels, overrides=settings))
    elif len(sides) > 1:
        axes.append(Axis(key="precision", values=tuple(precision.value for precision in draft.ticked)))
    values = {key: tuple(cleaned(key, value) for value in draft.values(key)) for key in draft.swept(catalog)}
    if any(ModelRef(name).file for name in values.get("model", ())):
        message = "has a file of your own among several models, which the form cannot sweep."
        remedy = "Choose models of the catalog, or use `ammeter sweep`."
        raise ProblemError(setting_problem("model", message, remedy, value=draft.text("model")))
    return base, (*axes, *axes_of(values))


def size_of(draft: Draft, catalog: Catalog | None, sides: int) -> int:
    """How many cells the draft has with so many variants or precisions; 0 where it is no sweep."""
    keys = draft.swept(catalog)
    return max(1, sides) * math.prod(len(draft.values(key)) for key in keys) if keys else 0


def survey(question: Question, evidence: Evidence) -> Survey:
    """What is known of the draft's grid. It takes a while for thousands of cells."""
    draft, catalog = question.draft, question.catalog
    plan, wrong = plan_of(draft)
    try:
        base, axes = parts_of(draft, catalog)
        grid = grid_of(base, axes)
    except ProblemError as error:
        return Survey(plan, wrong | {problem.key or "": problem for problem in reversed(error.problems)})
    fit = fit_of(grid, catalog, evidence.forecasts)
    why = fit.why | {
        cell.index: question.refused[cell.experiment].message
        for cell in grid.cells
        if cell.experiment in question.refused
    }
    if len(why) == grid.size:
        wrong = {problem.key or "": problem for problem in (_nothing_left(grid, catalog, why),)} | wrong
    estimate = None if wrong else estimate_of_grid(grid, plan, evidence.runs, why)
    return Survey(plan, wrong, grid, replace(fit, why=why), estimate)


def _nothing_left(grid: Grid, catalog: Catalog, why: Mapping[int, str]) -> Problem:
    first = grid.cells[0]
    obstacles = problems(first.experiment, catalog)
    if obstacles:
        return obstacles[0]
    message = f"None of the {grid.size:,} cells can be trained. {grid.name(first.places)}: {why[0]}"
    return request_problem(message, "Give smaller values.", key="sweep")


def sweep_request(draft: Draft, first: Request, found: Survey) -> Request:
    """The request of a sound grid; `first` is that of its first values."""
    assert found.grid is not None
    title = draft.name.strip() or " × ".join(axis.title for axis in found.grid.axes)
    return replace(first, title=title, is_comparison=True, grid=found.grid, plan=found.plan)


class _Given(BaseModel):
    repeat: int = Field(1, ge=1, le=MOST_REPEATS)
    within: float | None = Field(None, gt=0, le=100)
    hours: float | None = Field(None, gt=0, le=_LONGEST_HOURS)


_TITLES = {"repeat": "Repeat", "within": "To within", "hours": "At most"}


def plan_of(draft: Draft) -> tuple[Plan, dict[str, Problem]]:
    """The plan, and by key what is wrong with it."""
    texts = {"repeat": draft.repeats, "within": draft.within_percent, "hours": draft.most_hours}
    given = {key: text.strip() for key, text in texts.items() if text.strip() or key == "repeat"}
    try:
        read = _Given.model_validate(given)
    except ValidationError as error:
        return Plan(), {problem.key or "": problem for problem in problems_from_validation(error, _TITLES)}
    seconds = None if read.hours is None else read.hours * _SECONDS_PER_HOUR
    return Plan(repeats=read.repeat, precision_percent=read.within, time_limit_seconds=seconds), {}
