"""The guard: what speaks against a comparison, and which of it spoils a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.busyness import TOLERATED_MIB
from engine.events import Summary
from engine.experiment import LEAST_BLOCKS
from engine.records.evidence import Evidence
from engine.records.record import RunRecord, Status
from engine.records.sides import Side, is_in_turns
from engine.records.speed_settings import differing_work, is_work, unlike_settings
from engine.records.words import setting_value, setting_words
from engine.steadiness import drift
from engine.text import shortened

DoubtKind = Literal[
    "other-program",
    "throttled",
    "drift",
    "order",
    "device",
    "version",
    "workload",
    "setting",
    "too-short",
    "unfinished",
    "no-speed",
    "nan",
]

SPOILING: frozenset[DoubtKind] = frozenset({"other-program", "throttled"})
"""What makes a speed another than the machine's own: nothing can be concluded from it, only measured again.
The other kinds qualify what is concluded."""

_STEADY_CLOCKS = 0.95
"""Repeats do the same work, so that their mean clocks are this much alike unless something held one down."""


@dataclass(frozen=True)
class Doubt:
    """One reason to trust a figure less, a sentence; `side_id` is None where it is not of one side."""

    side_id: str | None
    kind: DoubtKind
    sentence: str

    @property
    def spoils(self) -> bool:
        """Whether the measurement was disturbed, so that it gives no verdict, advice or reason."""
        return self.kind in SPOILING


def doubts_of(side: Side, baseline: Side, evidence: Mapping[str, Evidence]) -> tuple[Doubt, ...]:
    """What speaks against the figures of `side` and of the baseline that they are measured against.

    `evidence` is that of each run by its id.
    """
    found = [*_of_side(side, evidence)]
    if side is not baseline:
        found += [*_of_side(baseline, evidence), *_between(side, baseline)]
    return tuple(found)


def is_spoiled(summary: Measured | None) -> bool:
    """Whether something on the machine is known to have slowed down a run of that summary."""
    return any(kind in SPOILING for kind, _ in about_machine(summary))


def _of_side(side: Side, evidence: Mapping[str, Evidence]) -> Iterator[Doubt]:
    told: dict[tuple[DoubtKind, int], list[str]] = {}
    for run in side.runs:
        known = evidence.get(run.id)
        kinds: list[DoubtKind] = []
        for kind, what in (*_about_end(run, known), *about_machine(run.summary), *_about_drift(known)):
            sentence = f"“{shortened(run.name)}” ({side.title}) {what.rstrip('.')}."
            told.setdefault((kind, kinds.count(kind)), []).append(sentence)
            kinds.append(kind)
    for (kind, _), (first, *more) in told.items():
        alike = f" {len(more):,} more of its runs raise a doubt of this kind." if more else ""
        yield Doubt(side.id, kind, first + alike)
    clocks = [run.summary.clock_mhz for run in side.runs if run.summary and run.summary.clock_mhz]
    if clocks and min(clocks) < _STEADY_CLOCKS * max(clocks):
        apart = f"{min(clocks):,.0f} and {max(clocks):,.0f} MHz"
        yield Doubt(side.id, "throttled", f"The card's clock was between {apart} in repeats of {side.title}.")


def _about_end(run: RunRecord, evidence: Evidence | None) -> Iterator[tuple[DoubtKind, str]]:
    summary = run.summary
    if run.status is not Status.FINISHED:
        reason = f": {run.problem.message}" if run.problem else ""
        yield "unfinished", f"{_ENDINGS[run.status]}{reason}"
    elif summary is None or summary.samples_per_second is None:
        blocks = 0 if evidence is None else len(evidence.block_speeds)
        note = f": {_within(summary.speed_note)}" if summary and summary.speed_note else ""
        yield "too-short" if blocks < LEAST_BLOCKS else "no-speed", f"has no speed{note}"
    if summary is not None and _has_nan(summary):
        since = f" since step {summary.first_nan_step:,}" if summary.first_nan_step is not None else ""
        yield "nan", f"has a loss that is NaN or infinite{since}"


class Measured(Protocol):
    """What tells whether a run was disturbed, of a `Summary` or of less."""

    @property
    def samples_per_second(self) -> float | None: ...
    @property
    def speed_note(self) -> str | None: ...
    @property
    def other_programs_mib(self) -> float | None: ...


def about_machine(summary: Measured | None) -> Iterator[tuple[DoubtKind, str]]:
    """What slowed a run down, each with its kind: "suffered: other programs took ..."."""
    if summary is None:
        return
    note = summary.speed_note
    if note and summary.samples_per_second is not None:
        yield "other-program" if note.startswith("other programs") else "throttled", f"suffered: {note}"
    others_mib = summary.other_programs_mib
    if others_mib is not None and others_mib > TOLERATED_MIB:
        yield (
            "other-program",
            f"shared the GPU: other programs held {others_mib / 1024:,.1f} GiB of its memory",
        )


def _about_drift(evidence: Evidence | None) -> Iterator[tuple[DoubtKind, str]]:
    change = None if evidence is None else drift(evidence.block_speeds)
    if change is not None:
        by = f"{100 * abs(change):.0f} % {'faster' if change > 0 else 'slower'}"
        yield "drift", f"was {by} at its end than at its beginning"


def _between(side: Side, baseline: Side) -> Iterator[Doubt]:
    if not is_in_turns(side, baseline):
        # told of the two alike, whichever is the baseline
        both = " and ".join(sorted((side.title, baseline.title)))
        yield Doubt(
            side.id,
            "order",
            f"The repeats of {both} were not made in turns: a change of the machine would look like a "
            "difference, so there is no interval.",
        )
    mine, theirs = first_begun(side), first_begun(baseline)
    if mine.environment is not None and theirs.environment is not None:
        for name, kind, words in _FACTS:
            values = [getattr(run.environment, name) for run in (mine, theirs)]
            if values[0] != values[1]:
                told = [value or "none" for value in values]
                yield Doubt(side.id, kind, f"{side.title} {words} {told[0]}, and {baseline.title} {told[1]}.")
    for work in differing_work(theirs.experiment, mine.experiment):
        yield Doubt(side.id, "workload", f"Different {work.what}: {work.other} against {work.one}.")
    for key, value, other in unlike_settings(mine.experiment, theirs.experiment):
        if is_work(key):
            continue
        told = [setting_value(value), setting_value(other)]
        what = _within(setting_words(key))
        # alike for all sides of which it is so: a report tells it once
        yield Doubt(side.id, "setting", f"Unlike the baseline in {what}: {told[0]} against {told[1]}.")
    recipes = [run.summary.recipe if run.summary else None for run in (mine, theirs)]
    asked = [run.experiment.step.recipe for run in (mine, theirs)]
    if asked[0] == asked[1] and None not in recipes and recipes[0] != recipes[1]:
        yield Doubt(
            side.id,
            "setting",
            f"Of the recipe, {side.title} had {recipes[0]}, and {baseline.title} {recipes[1]}.",
        )


def first_begun(side: Side) -> RunRecord:
    """Its first run that has a machine, which one that never began has not."""
    return next((run for run in side.runs if run.environment is not None), side.runs[0])


def _within(words: str) -> str:
    """Words that begin a sentence, as they stand within one; an abbreviation stays as it is."""
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def _has_nan(summary: Summary) -> bool:
    loss = summary.final_train_loss
    return summary.first_nan_step is not None or (loss is not None and not math.isfinite(loss))


_FACTS: tuple[tuple[str, DoubtKind, str], ...] = (
    ("device_name", "device", "was measured on"),
    ("torch", "version", "was measured with torch"),
    ("cuda", "version", "was measured with CUDA"),
    ("driver", "version", "was measured with the driver"),
)

_ENDINGS = {
    Status.QUEUED: "has not run yet",
    Status.RUNNING: "is still running",
    Status.STOPPED: "was stopped before its end",
    Status.FAILED: "failed",
    Status.INTERRUPTED: "was interrupted",
}
