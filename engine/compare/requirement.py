"""Requirements on a comparison, such as "speed >= 1.05", decided by the interval and never by the point."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import DoubtKind
from engine.compare.metrics import LOSS, PEAK_MEMORY, SPEED, Metric
from engine.compare.sides import Side
from engine.experiment.problem import request_error
from engine.experiment.value import shortened
from engine.statistics import Interval
from engine.store.record import Status
from engine.words.numbers import times

Operator = Literal[">=", "<="]
Decision = tuple[bool | None, str]
"""Whether a requirement is met (None: undecided), and the reason in a sentence."""

_METRICS = {"speed": SPEED, "memory": PEAK_MEMORY, "loss": LOSS}
_RATIO = re.compile(r"(speed|memory)\s*(>=|<=)\s*(\d{1,6}(?:\.\d{1,9})?)\s*(%?)")
_TOLERANCE = 1e-9  # of a ratio, which is computed by logarithms
_WORDS = {True: "Yes", False: "No", None: "Cannot tell"}


@dataclass(frozen=True)
class Requirement:
    """A bound of a ratio to the baseline, or the loss, which may not be worse and has no `operator`."""

    metric: Metric
    text: str
    operator: Operator | None = None
    bound: float = 1.0


def parse(text: str) -> Requirement:
    """Parse a requirement: "speed >= 1.05", "memory <= 80%" or "loss". Raises ProblemError."""
    words = text.strip().lower()
    if words == "loss":
        return Requirement(LOSS, words)
    match = _RATIO.fullmatch(words)
    bound = float(match[3]) / (100.0 if match[4] else 1.0) if match else 0.0
    if match is None or bound <= 0:
        message = f"The requirement is '{shortened(text)}', but it must be a metric, >= or <=, and a ratio."
        remedy = 'Write "speed >= 1.05", "memory <= 0.8" or "loss".'
        raise request_error(message, remedy, key="require", value=text)
    operator: Operator = ">=" if match[2] == ">=" else "<="
    return Requirement(_METRICS[match[1]], f"{match[1]} {operator} {bound:.10g}", operator, bound)


@dataclass(frozen=True)
class Outcome:
    """Whether one side meets one requirement. `is_met` is None if that is undecided.

    `name` is the requirement, with the side if there are several.
    """

    requirement: Requirement
    side: Side
    name: str
    is_met: bool | None
    reason: str

    @property
    def word(self) -> str:
        """The answer in a word: "Yes", "No" or "Cannot tell"."""
        return _WORDS[self.is_met]

    @property
    def sentence(self) -> str:
        """The answer with its reason: "Yes: speed >= 1.05. The lower end of the interval ..."."""
        return f"{self.word}: {self.name}. {self.reason}"


@dataclass(frozen=True)
class Judgement:
    """The outcomes of all requirements, for each side except the baseline."""

    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool | None:
        """True if all requirements are met, False if one is not met, else None, also without outcomes."""
        if any(outcome.is_met is False for outcome in self.outcomes):
            return False
        return True if self.outcomes and all(outcome.is_met for outcome in self.outcomes) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes and the result as JSON values."""
        rows = [
            {
                "requirement": outcome.requirement.text,
                "side": outcome.side.title,
                "met": outcome.is_met,
                "sentence": outcome.reason,
            }
            for outcome in self.outcomes
        ]
        return {"requirements": rows, "passed": self.passed}


def judge(comparison: Comparison, requirements: Sequence[Requirement]) -> Judgement:
    """Decide the requirements for each side relative to the baseline."""
    others = [report for report in comparison.reports if not report.is_baseline]
    outcomes = []
    for requirement in requirements:
        for report in others:
            name = requirement.text if len(others) == 1 else f"{requirement.text} ({report.side.title})"
            outcomes.append(
                Outcome(requirement, report.side, name, *_decide(requirement, comparison, report))
            )
    return Judgement(tuple(outcomes))


def _decide(requirement: Requirement, comparison: Comparison, report: SideReport) -> Decision:
    side, baseline, metric = report.side, comparison.baseline, requirement.metric
    if unfinished := _doubts(report, "unfinished"):
        has_failed = any(run.status is Status.FAILED for run in (*side.runs, *baseline.runs))
        return (False if has_failed else None), unfinished
    if unlike := _doubts(report, "workload"):
        return None, unlike
    if requirement.operator is None:
        return _decide_loss(comparison, side)
    if metric.is_of_time and report.disqualifiers:
        return None, f"{report.disqualifiers[0].sentence} Measure again."
    cell = comparison.cells(side.id)[metric.name]
    if cell.ratio is None:
        reason = _doubts(report, "too-short", "no-speed") if metric.is_of_time else ""
        return None, reason or f"{side.title} and {baseline.title} have no {metric.title.lower()} to compare."
    if cell.ratio_interval is None:
        reason = _doubts(report, "order", "outliers", "node") if metric.is_of_time else ""
        return None, reason or _too_few_runs(side, baseline)
    return _decide_interval(requirement.operator, requirement.bound, cell.ratio_interval)


def _doubts(report: SideReport, *kinds: DoubtKind) -> str:
    return " ".join(dict.fromkeys(doubt.sentence for doubt in report.doubts if doubt.kind in kinds))


def _too_few_runs(side: Side, baseline: Side) -> str:
    is_single = len(side.runs) == len(baseline.runs) == 1
    return f"{'Only one run' if is_single else 'Too few runs'} of each. Add --repeats 5."


def _decide_interval(operator: Operator, bound: float, interval: Interval) -> Decision:
    low, high = interval
    is_least = operator == ">="
    names, ends = ("lower", "upper"), (low, high)
    if not is_least:
        names, ends = names[::-1], ends[::-1]

    def holds(end: float) -> bool:
        return math.isclose(end, bound, rel_tol=_TOLERANCE) or (end > bound) is is_least

    # if the nearer end holds, all of the interval does, and if the farther one does not, none of it
    for name, end, is_met in ((names[0], ends[0], True), (names[1], ends[1], False)):
        if holds(end) is is_met:
            return is_met, f"The {name} end of the 95% interval, {_end_text(end, bound)}."
    return None, f"The 95% interval, {_number(low, bound)} to {_number(high, bound)}, includes {bound:.10g}."


def _end_text(end: float, bound: float) -> str:
    if math.isclose(end, bound, rel_tol=_TOLERANCE):
        return f"{times(end)}, is equal to it"
    return f"{_number(end, bound)}, is {'above' if end > bound else 'below'} it"


def _number(end: float, bound: float) -> str:
    # with as many decimals as show on which side of the bound it is
    texts = (times(end), *(f"{end:.{decimals}f}" for decimals in (3, 4, 6, 9)))
    return next(
        (text for text in texts if (float(text.replace(",", "")) - bound) * (end - bound) > 0), texts[0]
    )


def _decide_loss(comparison: Comparison, side: Side) -> Decision:
    baseline = comparison.baseline
    cell, base_cell = (comparison.cells(each.id)[LOSS.name] for each in (side, baseline))
    if cell.value is not None and not math.isfinite(cell.value):
        return False, f"The loss of {side.title} is {LOSS.text(cell.value)}."
    if cell.value is None or base_cell.value is None or cell.difference is None:
        return None, f"{side.title} and {baseline.title} have no losses to compare."
    if not math.isfinite(base_cell.value):
        return None, f"The loss of {baseline.title} is {LOSS.text(base_cell.value)}."
    both = f"The loss is {LOSS.text(cell.value)} vs. {LOSS.text(base_cell.value)}"
    if cell.within_spread is None:
        return None, _too_few_runs(side, baseline)
    if cell.difference <= 0:
        return True, f"{both}, which is not higher."
    spread = max(base_cell.known) - min(base_cell.known)
    if not spread:
        return None, f"{both}. All runs of {baseline.title} have the same, so their variation is unknown."
    if cell.difference <= spread:
        return True, f"{both}, within the variation between runs."
    if cell.within_spread:
        return None, f"{both}, and the runs of {side.title} vary more than those of {baseline.title}."
    return False, f"{both}, higher by more than the variation between runs."
