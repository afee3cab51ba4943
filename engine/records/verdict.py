"""The outcome of a comparison in one plain and true sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What the sentence is made of; accuracies are fractions, one a repeat, `trouble` ends a sentence."""

    label: str
    baseline: str
    is_baseline: bool
    repeats: int
    speed: float | None
    speedup: float | None
    interval: tuple[float, float] | None
    memory_ratio: float | None
    accuracies: tuple[float, ...]
    base_accuracies: tuple[float, ...]
    trouble: str | None


def verdict(facts: Facts) -> str:
    """One sentence that claims no more than was measured."""
    if facts.is_baseline:
        return _of_baseline(facts)
    if facts.speedup is None:
        return f"{facts.label} and {facts.baseline} cannot be compared in speed, since {facts.trouble}."
    sides = f"{facts.label} trained {facts.speedup:.2f} times as fast as {facts.baseline}"
    memory = f" in {100 * facts.memory_ratio:.0f} % of the memory" if facts.memory_ratio is not None else ""
    accuracy = f"; {_accuracy(facts)}" if facts.accuracies and facts.base_accuracies else ""
    caution = f"; with caution, since {facts.trouble}" if facts.trouble else ""
    return f"{sides} ({_certainty(facts)}){memory}{accuracy}{caution}."


def _of_baseline(facts: Facts) -> str:
    if facts.speed is None:
        return f"{facts.label} is the baseline, but {facts.trouble}."
    accuracy = f" and reached an accuracy of {_spread(facts.accuracies)}" if facts.accuracies else ""
    return f"{facts.label} is the baseline: it trained {facts.speed:,.0f} samples a second{accuracy}."


def _certainty(facts: Facts) -> str:
    if facts.repeats == 1:
        return "one repeat, so no interval"
    if facts.interval is None:
        return f"{facts.repeats} repeats, too short for an interval"
    low, high = facts.interval
    unclear = ", so no difference is shown" if low <= 1.0 <= high else ""
    return f"95 % interval {low:.2f} to {high:.2f} over {facts.repeats} repeats{unclear}"


def _accuracy(facts: Facts) -> str:
    unknown = "" if len(facts.accuracies) > 1 else ", no spread known"
    return f"accuracy {_spread(facts.accuracies)} against {_spread(facts.base_accuracies)}{unknown}"


def _spread(accuracies: tuple[float, ...]) -> str:
    mean = f"{100 * sum(accuracies) / len(accuracies):.1f} %"
    if len(accuracies) == 1:
        return mean
    return f"{mean} ({100 * min(accuracies):.1f} to {100 * max(accuracies):.1f})"
