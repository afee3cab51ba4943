"""Requirements on a comparison, such as "speed >= 1.05", decided by the 95% interval, not the ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.compare.comparison import Comparison, SideReport
from engine.compare.evidence import DoubtKind
from engine.compare.metrics import LOSS, PEAK_MEMORY, SECONDS, SPEED, Metric, MetricCell
from engine.compare.sides import Side, all_runs
from engine.experiment.command import (
    REQUIREMENT,
    REQUIREMENT_EXAMPLES,
    REQUIREMENT_RULE,
    requirement_texts,
)
from engine.experiment.problem import request_error
from engine.experiment.value import shortened
from engine.statistics import Interval
from engine.store.record import Status
from engine.words.numbers import times

Operator = Literal[">=", "<="]
Decision = tuple[bool | None, *tuple[str, ...]]
"""Whether a requirement is met (None: undecided), and the sentences of the reason."""

_TOLERANCE = 1e-9  # of a ratio, which is computed by logarithms


@dataclass(frozen=True)
class Requirement:
    """A bound on a metric's ratio to the baseline. Without `operator`: the loss, which must not be worse."""

    metric: Metric
    text: str
    operator: Operator | None = None
    bound: float = 1.0


def parse(text: str) -> Requirement:
    """Parse a requirement: "speed >= 1.05", "memory <= 80%" or "loss". Raises ProblemError."""
    match = REQUIREMENT.fullmatch(text.strip().lower())
    if match is None:
        message = f"The requirement is '{shortened(text)}', but it {REQUIREMENT_RULE}"
        raise request_error(message, REQUIREMENT_EXAMPLES, key="require", value=text)
    if match[5]:
        return Requirement(LOSS, match[5])
    bound = float(match[3]) / (100.0 if match[4] else 1.0)
    operator: Operator = ">=" if match[2] == ">=" else "<="
    return Requirement(_METRICS[match[1]], f"{match[1]} {operator} {bound:.10g}", operator, bound)


_METRICS = {"speed": SPEED, "memory": PEAK_MEMORY, "time": SECONDS}


def parse_list(text: str) -> tuple[Requirement, ...]:
    """Parse requirements separated by commas: "speed >= 1.05, loss". Raises ProblemError."""
    return tuple(map(parse, requirement_texts(text)))


@dataclass(frozen=True)
class Outcome:
    """Whether one side meets one requirement. `is_met` is None if that is undecided.

    `name` is the requirement, with the side if there are several. `cell` has the ratio that it bounds, None
    without a reliable one. `reasons` are the sentences of the reason.
    """

    requirement: Requirement
    side: Side
    name: str
    cell: MetricCell | None
    is_met: bool | None
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The reason as running text."""
        return " ".join(self.reasons)

    @property
    def word(self) -> str:
        """The answer in a word: "Yes", "No" or "Cannot tell"."""
        return {True: "Yes", False: "No", None: "Cannot tell"}[self.is_met]

    @property
    def sentence(self) -> str:
        """The answer with its reason: "Yes: speed >= 1.05. The lower end of the interval ..."."""
        return f"{self.word}: {self.name}. {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        names = {"requirement": self.requirement.text, "side": self.side.title}
        return {**names, "met": self.is_met, "sentence": self.reason}


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

    @property
    def exit_status(self) -> int:
        """The exit status of the command line: 0 if all are met, 1 if one is not met, else 3."""
        return {True: 0, False: 1, None: 3}[self.passed]

    @property
    def words(self) -> str:
        """Whether all requirements are met, in words. Empty without requirements."""
        words = {True: "requirements met", False: "requirements not met", None: "requirements undecided"}
        return words[self.passed] if self.outcomes else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes as JSON values."""
        return {"requirements": [each.to_dict() for each in self.outcomes], "passed": self.passed}


def judge(comparison: Comparison, requirements: Sequence[Requirement]) -> Judgement:
    """Decide the requirements for each side relative to the baseline."""
    others = [report for report in comparison.reports if not report.is_baseline]
    outcomes = []
    for requirement in requirements:
        for report in others:
            name = requirement.text if len(others) == 1 else f"{requirement.text} ({report.side.title})"
            cell = comparison.cells(report.side.id).get(requirement.metric.name)
            has_ratio = requirement.operator is not None and cell is not None and cell.ratio is not None
            is_sound = not report.caution(requirement.metric) and not _doubts(report, "unfinished")
            bounded = cell if has_ratio and is_sound else None
            is_met, *reasons = _decide(requirement, comparison, report)
            outcomes.append(Outcome(requirement, report.side, name, bounded, is_met, tuple(reasons)))
    return Judgement(tuple(outcomes))


def judge_saved(comparison: Comparison) -> Judgement:
    """Decide the requirements that the newest of the compared runs was started with."""
    newest = max(all_runs(comparison.sides), key=lambda run: run.number)
    return judge(comparison, parse_list(newest.experiment.command.require))


def _decide(requirement: Requirement, comparison: Comparison, report: SideReport) -> Decision:
    side, baseline, metric = report.side, comparison.baseline, requirement.metric
    for each in (side, baseline):
        if any(run.status is Status.FAILED for run in each.runs):
            # the verdict says why
            return False, f"{each.title} failed."
    if unfinished := _doubts(report, "unfinished"):
        return None, *unfinished
    if unlike := _doubts(report, "workload"):
        return None, *unlike
    if requirement.operator is None:
        return _decide_loss(comparison, side)
    if metric.is_of_time and report.disqualifiers:
        return None, report.disqualifiers[0].sentence, "Measure again."
    cell = comparison.cells(side.id).get(metric.name)
    if cell is None or cell.ratio is None:
        why = _doubts(report, "too-short", "no-speed") if metric.is_of_time else ()
        missing = f"{side.title} and {baseline.title} have no {metric.title.lower()} to compare."
        return None, *(why or (missing,))
    if cell.ratio_interval is None:
        why = _doubts(report, "order", "outliers", "node") if metric.is_of_time else ()
        return None, *(why or _too_few_runs(side, baseline))
    return _decide_interval(requirement.operator, requirement.bound, cell.ratio_interval)


def _doubts(report: SideReport, *kinds: DoubtKind) -> tuple[str, ...]:
    return tuple(dict.fromkeys(doubt.sentence for doubt in report.doubts if doubt.kind in kinds))


def _too_few_runs(side: Side, baseline: Side) -> tuple[str, str]:
    is_single = len(side.runs) == len(baseline.runs) == 1
    why = "Each side has only one run." if is_single else "A side has too few runs."
    return why, "Use 5 repeats."


def _decide_interval(operator: Operator, bound: float, interval: Interval) -> Decision:
    (low, high), is_least = interval, operator == ">="
    # an end that is equal but for rounding is on the good side
    limit = bound * (1 - _TOLERANCE if is_least else 1 + _TOLERANCE)
    if low < limit < high:
        between = f"{_number(low, bound)} to {_number(high, bound)}"
        return None, f"The 95% interval, {between}, includes {bound:.10g}."
    is_above = low >= limit
    name, end = ("lower", low) if is_above else ("upper", high)
    is_equal = math.isclose(end, bound, rel_tol=2 * _TOLERANCE)
    relation = "equal to" if is_equal else "above" if is_above else "below"
    return (
        is_above is is_least,
        f"The {name} end of the 95% interval, {_number(end, bound)}, is {relation} {bound:.10g}.",
    )


def _number(end: float, bound: float) -> str:
    # with as many decimals as show on which side of the bound it is
    shown = (digits for digits in range(2, 10) if (round(end, digits) - bound) * (end - bound) > 0)
    digits = next(shown, 2)
    return times(end) if digits == 2 else f"{end:.{digits}f}"


def _decide_loss(comparison: Comparison, side: Side) -> Decision:
    baseline = comparison.baseline
    cell, base_cell = (comparison.cells(each.id)[LOSS.name] for each in (side, baseline))
    if cell.value is None or cell.difference is None:
        return None, f"{side.title} and {baseline.title} have no losses to compare."
    both = f"The loss is {LOSS.text(cell.value)} vs. {LOSS.text(base_cell.value)}"
    if not math.isfinite(cell.difference):
        return (None if math.isfinite(cell.value) else False), f"{both}."
    if min(len(cell.known), len(base_cell.known)) < 2:
        return None, *_too_few_runs(side, baseline)
    if cell.difference <= 0:
        return True, f"{both}, which is not higher."
    spread = max(base_cell.known) - min(base_cell.known)
    if not spread:
        unknown = f"All runs of {baseline.title} have the same loss, so its variation is unknown."
        return None, f"{both}.", unknown
    if cell.difference <= spread:
        return True, f"{both}, within the variation between runs."
    if cell.within_spread:
        return None, f"{both}, and the runs of {side.title} vary more than those of {baseline.title}."
    return False, f"{both}, higher by more than the variation between runs."
