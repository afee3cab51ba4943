"""What the form's button does: it trains, searches for the largest batch, or diagnoses. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from gui.setup.check import Outcome, button_words, limit_plan, limit_reason, limit_words, plan_words
from gui.setup.draft import Draft

Purpose = Literal["train", "limit", "diagnose"]
OF_PRESETS: Mapping[str, Purpose] = {"probe": "limit", "diagnose": "diagnose"}
"""Of the kinds of presets that do not train."""


def diagnosable(outcome: Outcome) -> Experiment | None:
    """The experiment to check or diagnose: the first in half precision, where more can be wrong, else the
    first."""
    experiments = [experiment for _, experiment in outcome.experiments]
    halves = (experiment for experiment in experiments if experiment.precision.is_autocast)
    return next(halves, next(iter(experiments), None))


def words(purpose: Purpose, draft: Draft, outcome: Outcome) -> str:
    """The button's text."""
    if purpose == "limit":
        return limit_words(draft)
    if purpose == "train":
        return button_words(draft, outcome)
    experiment = diagnosable(outcome)
    return "Diagnose" if experiment is None else f"Diagnose {experiment.precision.label}"


def plan(purpose: Purpose, draft: Draft | None, outcome: Outcome, catalog: Catalog | None) -> str:
    """What the button will do."""
    if purpose == "diagnose":
        return "Diagnoses the parts that are ticked in Numerics"
    return limit_plan(draft) if purpose == "limit" and draft is not None else plan_words(outcome, catalog)


def reason(purpose: Purpose, outcome: Outcome) -> str | None:
    """Why the button can do nothing, in a sentence; None if it can."""
    return limit_reason(outcome) if purpose == "limit" else outcome.reason
