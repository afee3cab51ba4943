"""The questions that the form can ask: their titles, fields, and what their button does. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.protocol.profiles import MOST_SIDES
from engine.words.numbers import counted
from gui.session.request import Request
from gui.setup.check import Outcome, button_words, limit_request, plan_words
from gui.setup.draft import Draft
from gui.setup.survey import Survey
from gui.setup.survey import button_words as sweep_words
from gui.setup.survey import plan_words as sweep_plan

Question = Literal["compare", "limit", "numerics", "profile", "sweep", "tune"]


class Entry(NamedTuple):
    """A question as its box names it; `absent` are the fields of the form that it does without."""

    title: str
    about: str
    icon: str
    absent: frozenset[str] = frozenset()


_LENGTH = frozenset({"length", "epochs", "steps"})
QUESTIONS: Mapping[Question, Entry] = {
    "compare": Entry("Compare precisions", "Which is faster, and does it still learn", "compare"),
    "limit": Entry("Largest batch", "What fits into memory", "limit", _LENGTH | {"batch_size", "repeat"}),
    "numerics": Entry("Numerics", "Where precision is lost", "pulse", frozenset({"repeat"})),
    "profile": Entry("Profile", "Where the time goes", "profile", _LENGTH | {"repeat"}),
    "sweep": Entry("Sweep", "How it changes with any setting", "sweep"),
    "tune": Entry("Tune", "The fastest settings", "tune", _LENGTH | {"repeat"}),
}
_NO_AXIS = "Give a setting several values, such as 32, 64, 128, or press + beside its name."
_SWEEP_BUTTON = "Start the sweep"


def examined(outcome: Outcome) -> Experiment | None:
    """The experiment whose model or numerics are examined: the first in half precision, else the first."""
    experiments = [experiment for _, experiment in outcome.experiments]
    halves = (experiment for experiment in experiments if experiment.precision.is_autocast)
    return next(halves, next(iter(experiments), None))


def ordered(
    question: Question, draft: Draft, outcome: Outcome, catalog: Catalog, cpu_limit_gib: float | None
) -> Request | Experiment | tuple[Experiment, ...] | None:
    """Returns the request of a limit, or the experiments to examine, profile or tune."""
    if question == "limit":
        return limit_request(draft, outcome, catalog, cpu_limit_gib)
    if question == "profile":
        # those in strict FP32 first, as in a comparison
        experiments = (experiment for _, experiment in outcome.experiments)
        return tuple(sorted(experiments, key=lambda experiment: experiment.precision is not Precision.FP32))
    return examined(outcome) if question == "numerics" else outcome.experiments[0][1]


def offer(outcome: Outcome) -> tuple[str, str, tuple[tuple[Precision, str], ...]]:
    """Returns the question that a comparison answers, what it does, and its sides, for an empty page."""
    sides = tuple((experiment.precision, label) for label, experiment in outcome.experiments)
    if not outcome.experiments:
        return "Which precision is the fastest here?", "Choose on the left what to compare.", ()
    first = outcome.experiments[0][1]
    if len(sides) > 2:
        question = f"Which of {len(sides)} is the fastest on this machine?"
    elif len(sides) > 1:
        question = f"What does {sides[1][1]} gain on this machine?"
    else:
        question = f"How fast does {first.model} train in {sides[0][1]}?"
    compares = "\nIt compares time, memory and accuracy." if len(sides) > 1 else ""
    return question, f"Trains {first.model}: {plan_words(outcome)}.{compares}", sides


def words(question: Question, draft: Draft, outcome: Outcome, cells: int = 0) -> str:
    """The button's text; `cells` are those of a sweep."""
    match question:
        case "compare":
            return button_words(draft, outcome)
        case "limit":
            return "Find the largest batch"
        case "profile":
            return f"Profile {_sides(outcome)}".rstrip()
        case "sweep":
            return sweep_words(draft, cells) if cells else _SWEEP_BUTTON
        case "tune":
            return "Tune"
    experiment = examined(outcome)
    return "Examine the numerics" if experiment is None else f"Examine {experiment.precision.label}"


def _sides(outcome: Outcome) -> str:
    experiments = [experiment for _, experiment in outcome.experiments]
    precisions = dict.fromkeys(experiment.precision for experiment in experiments)
    if len(experiments) > len(precisions):
        return counted(len(experiments), "run")
    return next(iter(precisions)).label if len(precisions) == 1 else counted(len(precisions), "precision")


def plan(question: Question, draft: Draft, outcome: Outcome, survey: Survey | None = None) -> str:
    """Says what the button will do; `survey` is that of a sweep."""
    match question:
        case "limit":
            return "A few trials in each precision" if len(draft.ticked) > 1 else "A few trials"
        case "numerics":
            return "Examines the parts that are ticked"
        case "profile":
            return "Records a few steps" + (" of each" if len(outcome.experiments) > 1 else "")
        case "tune":
            return "Short runs of many settings, then proof that the fastest is"
        case "sweep" if survey is not None and survey.grid is not None:
            return sweep_plan(survey)
    return plan_words(outcome)


def reason(question: Question, outcome: Outcome, cells: int = 0) -> str | None:
    """Why the button can do nothing, in a sentence; None if it can."""
    if question == "sweep" and not cells and outcome.reason is None:
        return _NO_AXIS
    if question == "profile" and len(outcome.experiments) > MOST_SIDES:
        return f"At most {MOST_SIDES} runs are profiled side by side."
    return outcome.reason
