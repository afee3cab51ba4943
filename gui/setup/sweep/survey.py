"""The grid of a draft with axes, and its problems, memory and time before training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from PySide6.QtCore import QObject, Signal

from engine.experiment.checks import Catalog, problems, skip_lookup
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.own.library_models import ModelRef
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.sweep import MOST_REPEATS, VARIANT, Axis, Grid, Plan, axes_of, grid_of
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from engine.sweep.estimate import Fit, estimate_of_grid, fit_of
from engine.sweep.order import Estimate
from engine.words.numbers import clock_text, counted, duration, memory_text
from gui.session.background import Background
from gui.session.request import Request
from gui.setup.check import Outcome, check
from gui.setup.draft import Draft
from gui.setup.fields import SETTINGS, clean

_SECONDS_PER_HOUR = 3_600
_LONGEST_HOURS = 10_000


@dataclass(frozen=True)
class EstimateData:
    """The data from which a sweep's memory and time are estimated: memory forecasts and saved runs.

    Runs are ordered newest first.
    """

    forecasts: Forecasts | None = None
    runs: Sequence[RunRecord] = ()


@dataclass(frozen=True)
class Question:
    """The input of a survey: a draft of a sweep, and experiments that the worker refused with the reason."""

    draft: Draft
    catalog: Catalog
    refused: Mapping[Experiment, Problem]


@dataclass(frozen=True)
class Survey:
    """The estimate for a sweep before it starts: its grid, skipped cells with reasons, memory and time.

    If there are `problems` (by setting), there is no grid, or none of its cells can be trained.
    """

    plan: Plan
    problems: Mapping[str, Problem] = field(default_factory=dict)
    grid: Grid | None = None
    fit: Fit = field(default_factory=Fit)
    estimate: Estimate | None = None

    @property
    def skipped(self) -> int:
        """Return the number of skipped cells."""
        return len(self.fit.why)


def base_and_axes(draft: Draft, catalog: Catalog | None) -> tuple[dict[str, Any], tuple[Axis, ...]]:
    """Return the shared settings and the axes: variants or precisions first, then in the form's order.

    Raises ProblemError.
    """
    sides = list(draft.variants(catalog))
    base, axes = (sides[0][1] if sides else {}), []
    if len({label for label, _ in sides}) > len(draft.selected):
        base = draft.preset.base(draft.has_gpu)
        labels, settings = zip(*sides, strict=True)
        axes.append(Axis(key=VARIANT, values=labels, overrides=settings))
    elif len(sides) > 1:
        axes.append(Axis(key="precision", values=tuple(precision.value for precision in draft.selected)))
    values = {key: tuple(clean(key, value) for value in draft.axes[key]) for key in draft.swept(catalog)}
    if any(ModelRef(name).file for name in values.get("model", ())):
        message = "includes your own model file, which the form cannot sweep together with other models."
        remedy = "Select models of the catalog, or use `ammeter sweep`."
        raise setting_error("model", message, remedy, value=", ".join(values["model"]))
    return base, (*axes, *axes_of(values))


def count_cells(draft: Draft, catalog: Catalog | None, sides: int) -> int:
    """Return the number of cells of a draft with `sides` variants or precisions. 0 if it is not a sweep."""
    keys = draft.swept(catalog)
    return max(1, sides) * math.prod(len(draft.axes[key]) for key in keys) if keys else 0


def survey(question: Question, evidence: EstimateData) -> Survey:
    """Survey the draft's grid. This takes a while for thousands of cells."""
    draft, catalog = question.draft, question.catalog
    plan, wrong = read_plan(draft)
    try:
        base, axes = base_and_axes(draft, catalog)
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
    message = f"None of the {grid.size:,} combinations can be trained. {grid.name(first.places)}: {why[0]}"
    return request_problem(message, "Use smaller values.", key="sweep")


def sweep_request(draft: Draft, first: Request, found: Survey) -> Request:
    """Create the request of a valid grid. `first` is the request with its first values."""
    assert found.grid is not None
    title = draft.text("name").strip() or " × ".join(axis.title for axis in found.grid.axes)
    return replace(first, title=title, grid=found.grid, plan=found.plan)


class _Given(BaseModel):
    repeat: int = Field(1, ge=1, le=MOST_REPEATS)
    within: float | None = Field(None, gt=0, le=100)
    hours: float | None = Field(None, gt=0, le=_LONGEST_HOURS)


def read_plan(draft: Draft) -> tuple[Plan, dict[str, Problem]]:
    """Return the plan, and its problems by key."""
    texts = {key: clean(key, draft.text(key)) for key in _Given.model_fields}
    given = {key: text for key, text in texts.items() if text or key == "repeat"}
    titles = {key: SETTINGS[key].title for key in texts}
    try:
        read = _Given.model_validate(given)
    except ValidationError as error:
        return Plan(), {problem.key or "": problem for problem in problems_from_validation(error, titles)}
    seconds = None if read.hours is None else read.hours * _SECONDS_PER_HOUR
    return Plan(repeats=read.repeat, precision_percent=read.within, time_limit_seconds=seconds), {}


PENDING = "Checking the combinations…"


def button_words(draft: Draft, count: int) -> str:
    """Return the button's text: "Compare 12 combinations"."""
    compares = len(draft.selected) > 1 or "step.recipe" in draft.axes
    return f"{'Compare' if compares else 'Train'} {counted(count, 'combination')}"


def plan_words(survey: Survey) -> str:
    """Return the number of combinations and runs: "12 combinations, 24 runs"."""
    assert survey.grid is not None
    runs = (survey.grid.size - survey.skipped) * survey.plan.repeats
    at_least = "at least " if survey.plan.precision_percent is not None else ""
    return f"{counted(survey.grid.size, 'combination')}, {at_least}{counted(runs, 'run')}"


def skipped_words(survey: Survey) -> str:
    """Say how many cells are skipped, and why the first one is. Empty if none are."""
    grid, why = survey.grid, survey.fit.why
    if grid is None or not why:
        return ""
    first = min(why)
    name, needed = grid.name(grid.cells[first].places), survey.fit.needed_mib
    count = f"{len(why):,} of {counted(grid.size, 'combination')}"
    if first in needed:
        verb = "will not fit" if all(index in needed for index in why) else "are skipped"
        return f"{count} {verb}: {name} needs about {memory_text(needed[first])}."
    verb = "cannot be trained here" if not any(index in needed for index in why) else "are skipped"
    return f"{count} {verb}. {name}: {why[first]}"


def memory_words(survey: Survey) -> str:
    """Return the memory that the cells need. Empty while there is no forecast."""
    needed = [mib for index, mib in survey.fit.needed_mib.items() if index not in survey.fit.why]
    if not needed:
        return ""
    least, most = memory_text(min(needed)), memory_text(max(needed))
    return f"Needs about {least}" + (f" to {most}" if most != least else "")


def time_words(survey: Survey, now: datetime) -> str:
    """Return the estimated duration and end of the sweep."""
    limit, estimate = survey.plan.time_limit_seconds, survey.estimate
    if estimate is None:
        return "The time is estimated after the pilots" + (
            "" if limit is None else f", at most {duration(limit)}"
        )
    end = now + timedelta(seconds=estimate.seconds_left)
    rough = " (more precise after the pilots)" if estimate.is_rough else ""
    return f"About {duration(estimate.seconds_left)}, until {clock_text(end, now)}{rough}"


class SurveyThread(QObject):
    """Surveys drafts of sweeps in a thread. `changed` is emitted for each new survey."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self.evidence: Callable[[], EstimateData] = EstimateData
        """Returns memory forecasts and earlier runs."""
        self._question: Question | None = None
        self._answered: Question | None = None
        self._survey: Survey | None = None
        self._invalid: Mapping[str, Problem] = {}
        self.cells = 0
        """The number of cells of the draft. 0 if it is not a sweep."""

    def follow(
        self,
        draft: Draft,
        catalog: Catalog | None,
        outcome: Outcome,
        refused: Mapping[Experiment, Problem],
        file_problem: Problem | None,
    ) -> None:
        """Survey the draft's grid, if it is a sweep. `outcome` is the check of its first values."""
        self.cells = count_cells(draft, catalog, len(outcome.experiments))
        question = None
        if self.cells and catalog is not None:
            look, problem = skip_lookup, file_problem
            first = check(draft, catalog, file_problem=problem, look=look, judges_machine=False)
            self._invalid = first.problems
            question = Question(draft, catalog, dict(refused))
        if question != self._question:
            self._question = question
            self.survey_again()
        if (survey := self.survey()) is not None and survey.grid is not None:
            self.cells = survey.grid.size

    def with_cell_problems(self, outcome: Outcome) -> Outcome:
        """Return the outcome of the first values, with the problems of all cells added."""
        found = {} if (survey := self.survey()) is None else survey.problems
        return replace(outcome, problems={**found, **self._invalid})

    def knows_memory(self) -> bool:
        """Return True if the memory of any cell is forecast."""
        return (survey := self.survey()) is not None and bool(survey.fit.needed_mib)

    def survey_again(self) -> None:
        """Survey the same grid again, because there is new evidence."""
        asked = self._question
        if asked is None:
            self._survey = self._answered = None
            return
        self._background.do(
            partial(self._work, asked, self.evidence()), partial(self._on_surveyed, asked), self._on_failed
        )

    def survey(self) -> Survey | None:
        """Return the survey of the latest draft. None while it is in progress."""
        return self._survey if self._answered is self._question else None

    def stop(self) -> None:
        """Wait for the thread. A survey in progress is dropped and can be requested again."""
        if self._background.is_busy:
            self._background.stop()
            self._question = self._answered = self._survey = None

    def _work(self, asked: Question, evidence: EstimateData) -> Survey | None:
        return survey(asked, evidence) if asked is self._question else None

    def _on_surveyed(self, asked: Question, found: Survey | None) -> None:
        if found is not None and asked is self._question:
            self._answered, self._survey = asked, found
            self.changed.emit()

    def _on_failed(self, problem: Problem) -> None:
        asked = self._question
        if asked is not None:
            self._on_surveyed(asked, Survey(Plan(), {problem.key or "": problem}))
