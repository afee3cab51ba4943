"""The grid of a draft with several values, and what is known of it before it is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from PySide6.QtCore import QObject, Signal

from engine.experiment.checks import Catalog, look_at_nothing, problems
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.library_models import ModelRef
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.repeats import MOST_REPEATS, Plan
from engine.experiment.sweep import VARIANT, Axis, Grid, axes_of, grid_of
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from engine.sweep.estimate import Fit, estimate_of_grid, fit_of
from engine.sweep.order import Estimate
from engine.words.numbers import clock_text, counted, duration, memory_text
from gui.session.background import Background
from gui.session.request import Request
from gui.setup.check import Outcome, check
from gui.setup.draft import Draft
from gui.setup.fields import cleaned

_SECONDS_PER_HOUR = 3_600
_LONGEST_HOURS = 10_000


@dataclass(frozen=True)
class Evidence:
    """Knowledge about this machine: forecasts of memory, and the saved runs, newest first."""

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
    """Knowledge about a grid: which cells are left out and why, the memory, and the time it takes.

    `problems` say by key what is wrong with it; there is no grid then, or no cell of it can be trained.
    """

    plan: Plan
    problems: Mapping[str, Problem] = field(default_factory=dict)
    grid: Grid | None = None
    fit: Fit = field(default_factory=Fit)
    estimate: Estimate | None = None

    @property
    def left_out(self) -> int:
        """The number of cells that are left out."""
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
        raise setting_error("model", message, remedy, value=draft.text("model"))
    return base, (*axes, *axes_of(values))


def size_of(draft: Draft, catalog: Catalog | None, sides: int) -> int:
    """How many cells the draft has with so many variants or precisions; 0 where it is no sweep."""
    keys = draft.swept(catalog)
    return max(1, sides) * math.prod(len(draft.values(key)) for key in keys) if keys else 0


def survey(question: Question, evidence: Evidence) -> Survey:
    """Surveys the draft's grid. It takes a while for thousands of cells."""
    draft, catalog = question.draft, question.catalog
    plan, wrong = plan_of(draft)
    try:
        base, axes = parts_of(draft, catalog)
        grid = grid_of(base, axes, catalog)
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
    return replace(first, title=title, grid=found.grid, plan=found.plan)


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


PENDING = "Checking the cells…"


def button_words(draft: Draft, count: int) -> str:
    """The button's text: "Compare 12 cells, 3 times each"."""
    compares = len(draft.ticked) > 1 or "step.recipe" in draft.several
    repeats = cleaned("repeat", draft.repeats)
    each = f", {repeats} times each" if repeats.isdecimal() and int(repeats) > 1 else ""
    return f"{'Compare' if compares else 'Train'} {counted(count, 'cell')}{each}"


def plan_words(survey: Survey) -> str:
    """The number of cells and runs: "12 cells, 24 runs"."""
    assert survey.grid is not None
    runs = (survey.grid.size - survey.left_out) * survey.plan.repeats
    at_least = "at least " if survey.plan.precision_percent is not None else ""
    return f"{counted(survey.grid.size, 'cell')}, {at_least}{counted(runs, 'run')}"


def left_out_words(survey: Survey) -> str:
    """How many cells are left out and why the first of them is; empty for none."""
    grid, why = survey.grid, survey.fit.why
    if grid is None or not why:
        return ""
    first = min(why)
    name, needed = grid.name(grid.cells[first].places), survey.fit.needed_mib
    count = f"{len(why):,} of {counted(grid.size, 'cell')}"
    if first in needed:
        verb = "will not fit" if all(index in needed for index in why) else "are left out"
        return f"{count} {verb}: {name} needs about {memory_text(needed[first])}."
    verb = "cannot be trained here" if not any(index in needed for index in why) else "are left out"
    return f"{count} {verb}. {name}: {why[first]}"


def memory_words(survey: Survey) -> str:
    """The memory that the cells to train need; empty while none is forecast."""
    needed = [mib for index, mib in survey.fit.needed_mib.items() if index not in survey.fit.why]
    if not needed:
        return ""
    least, most = memory_text(min(needed)), memory_text(max(needed))
    return f"Needs about {least}" + (f" to {most}" if most != least else "")


def time_words(survey: Survey, now: datetime) -> str:
    """How long the sweep takes and when it is over, as far as is known."""
    limit, estimate = survey.plan.time_limit_seconds, survey.estimate
    if estimate is None:
        return "The time is known after the pilots" + (
            "" if limit is None else f", at most {duration(limit)}"
        )
    end = now + timedelta(seconds=estimate.seconds_left)
    rough = "; more exactly after the pilots" if estimate.is_rough else ""
    return f"About {duration(estimate.seconds_left)}, until {clock_text(end, now)}{rough}"


class Surveyor(QObject):
    """`changed` when there is a new survey. The last one stays until the next question is answered."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self.evidence: Callable[[], Evidence] = Evidence
        """Finds forecasts and earlier runs."""
        self._question: Question | None = None
        self._answered: Question | None = None
        self._survey: Survey | None = None
        self._invalid: Mapping[str, Problem] = {}
        self.cells = 0
        """The number of cells of the draft; 0 where it is no sweep."""

    def follow(
        self,
        draft: Draft,
        catalog: Catalog | None,
        outcome: Outcome,
        refused: Mapping[Experiment, Problem],
        file_problem: Problem | None,
    ) -> None:
        """Surveys the draft's grid, if it is a sweep; `outcome` is that of its first values."""
        self.cells = size_of(draft, catalog, len(outcome.experiments))
        question = None
        if self.cells and catalog is not None:
            look, problem = look_at_nothing, file_problem
            first = check(draft, catalog, file_problem=problem, look=look, judges_machine=False)
            self._invalid = first.problems
            question = Question(draft, catalog, dict(refused))
        if question != self._question:
            self._question = question
            self.look_again()
        if (survey := self.survey()) is not None and survey.grid is not None:
            self.cells = survey.grid.size

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome of the first values, with what is wrong with any of the cells."""
        found = {} if (survey := self.survey()) is None else survey.problems
        return replace(outcome, problems={**found, **self._invalid})

    def knows_memory(self) -> bool:
        """Returns True if the memory of any cell is forecast."""
        return (survey := self.survey()) is not None and bool(survey.fit.needed_mib)

    def look_again(self) -> None:
        """Surveys the same grid once more, since more is known."""
        asked = self._question
        if asked is None:
            self._survey = self._answered = None
            return
        self._background.do(
            partial(self._work, asked, self.evidence()), partial(self._take, asked), self._refuse
        )

    def survey(self) -> Survey | None:
        """The survey of what was asked last; None while it is being made."""
        return self._survey if self._answered is self._question else None

    def stop(self) -> None:
        """Waits for the thread; a question that it was at is forgotten, and may be asked again."""
        if self._background.is_busy:
            self._background.stop()
            self._question = self._answered = self._survey = None

    def _work(self, asked: Question, evidence: Evidence) -> Survey | None:
        return survey(asked, evidence) if asked is self._question else None

    def _take(self, asked: Question, found: Survey | None) -> None:
        if found is not None and asked is self._question:
            self._answered, self._survey = asked, found
            self.changed.emit()

    def _refuse(self, problem: Problem) -> None:
        asked = self._question
        if asked is not None:
            self._take(asked, Survey(Plan(), {problem.key or "": problem}))
