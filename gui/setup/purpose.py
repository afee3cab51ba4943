"""What the form's button does: it trains, searches, diagnoses, profiles or tunes. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.timing.timing import MOST_SIDES
from gui.session.request import Request
from gui.setup.check import (
    Outcome,
    button_words,
    limit_plan,
    limit_reason,
    limit_request,
    limit_words,
    plan_words,
)
from gui.setup.draft import Draft
from gui.setup.grid.survey import Survey
from gui.setup.grid.words import button_words as sweep_words
from gui.setup.grid.words import plan_words as sweep_plan

Purpose = Literal["train", "limit", "diagnose", "explain", "tune"]
OF_WORKSPACES: Mapping[str, Purpose] = {
    "memory": "limit",
    "numerics": "diagnose",
    "timing": "explain",
    "sweep": "tune",
}
"""Of the workspaces in which the button does not train."""
OF_PRESETS: Mapping[str, Purpose] = {"probe": "limit", "diagnose": "diagnose"}
"""Of the kinds of presets that do not train."""


def diagnosable(outcome: Outcome) -> Experiment | None:
    """The experiment to check or diagnose: the first in half precision, where more can be wrong, else the
    first."""
    experiments = [experiment for _, experiment in outcome.experiments]
    halves = (experiment for experiment in experiments if experiment.precision.is_autocast)
    return next(halves, next(iter(experiments), None))


def explainable(outcome: Outcome) -> tuple[Experiment, ...]:
    """The experiments to profile side by side, those in strict FP32 first, as in a comparison."""
    experiments = (experiment for _, experiment in outcome.experiments)
    return tuple(sorted(experiments, key=lambda experiment: experiment.precision is not Precision.FP32))


def ordered(
    purpose: Purpose, draft: Draft, outcome: Outcome, catalog: Catalog, cpu_limit_gib: float | None
) -> Request | Experiment | tuple[Experiment, ...] | None:
    """What a workspace takes of the form: the request of a search, or experiments to look at or begin with.

    `cpu_limit_gib` replaces the usual limit of a search on a CPU.
    """
    if purpose == "limit":
        return limit_request(draft, outcome, catalog, cpu_limit_gib)
    if purpose == "explain":
        return explainable(outcome)
    return diagnosable(outcome) if purpose == "diagnose" else outcome.experiments[0][1]


def words(purpose: Purpose, draft: Draft, outcome: Outcome, cells: int = 0) -> str:
    """The button's text; `cells` are those of a sweep."""
    if purpose == "train" and cells:
        return sweep_words(draft, cells)
    if purpose == "limit":
        return limit_words(draft)
    if purpose == "train":
        return button_words(draft, outcome)
    if purpose == "explain":
        return "Explain the time"
    if purpose == "tune":
        return "Find the fastest"
    experiment = diagnosable(outcome)
    return "Diagnose" if experiment is None else f"Diagnose {experiment.precision.label}"


def plan(
    purpose: Purpose,
    draft: Draft | None,
    outcome: Outcome,
    survey: Survey | None = None,
) -> str:
    """What the button will do; `survey` is that of a sweep."""
    if purpose == "train" and survey is not None and survey.grid is not None:
        return sweep_plan(survey)
    if purpose == "diagnose":
        return "Diagnoses the parts that are ticked in Numerics"
    if purpose == "explain":
        count = len(outcome.experiments)
        return f"Profiles a few steps{' in each of ' + format(count, ',') + ' runs' if count > 1 else ''}"
    if purpose == "tune":
        return "Tries precisions, recipes and batch sizes by short runs, and proves the fastest"
    return limit_plan(draft) if purpose == "limit" and draft is not None else plan_words(outcome)


def reason(purpose: Purpose, outcome: Outcome) -> str | None:
    """Why the button can do nothing, in a sentence; None if it can."""
    if purpose == "explain" and len(outcome.experiments) > MOST_SIDES:
        return f"At most {MOST_SIDES} runs are profiled side by side."
    return limit_reason(outcome) if purpose == "limit" else outcome.reason
