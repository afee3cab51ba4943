"""What each change gained: short runs in turns, in which the changes are made one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from engine.protocol.tune import CHANGE_KINDS, Gain, Proof, TuningTrial
from engine.statistics import paired_ratio_interval, typical_ratio
from engine.tune.candidates import BASELINE, Places, Space, value_of, with_value

ROUNDS = 3

REMAINDER = "Whole runs against short ones"


def path(space: Space, winner: Places) -> tuple[Places, ...]:
    """From the plain FP32 loop to the winner, a change at a time: precision, recipe, and so on."""
    steps = [BASELINE]
    for kind in CHANGE_KINDS:
        if place := value_of(winner, kind):
            steps.append(with_value(steps[-1], kind, place))
    return tuple(steps)


def in_order(steps: Sequence[Places]) -> Iterator[Places]:
    """The trials that measure a path: its steps in turns, every second time backwards.

    A single change needs none: it gained what the proof shows.
    """
    for number in range(ROUNDS if len(steps) > 2 else 0):
        yield from steps if number % 2 == 0 else reversed(steps)


def gains(
    space: Space, steps: Sequence[Places], trials: Sequence[TuningTrial], proof: Proof
) -> tuple[Gain, ...]:
    """The gain of each step, whose product is what the proof shows: its last entry is the remainder.

    `trials` are those that `in_order` asked for. Without their speeds nothing is said of the steps.
    """
    if proof.speedup is None or len(steps) < 2:
        return ()
    changed = [_change(space, before, after) for before, after in pairwise(steps)]
    if len(steps) == 2:
        ((words, changes),) = changed
        return (Gain(words=words, changes=changes, speedup=proof.speedup, speedup_ci=proof.speedup_ci),)
    speeds = [_speeds(trials, space.changes(places)) for places in steps]
    known, total = [], 1.0
    for (words, changes), mine, before in zip(changed, speeds[1:], speeds, strict=False):
        pairs = min(len(mine), len(before))
        ratio = typical_ratio(mine[:pairs], before[:pairs])
        if ratio is None:
            return ()
        interval = paired_ratio_interval(mine[:pairs], before[:pairs])
        known.append(Gain(words=words, changes=changes, speedup=ratio, speedup_ci=interval))
        total *= ratio
    return *known, Gain(words=REMAINDER, changes={}, speedup=proof.speedup / total)


def _change(space: Space, before: Places, after: Places) -> tuple[str, Mapping[str, Any]]:
    """The words and settings in which a step differs from the one before."""
    kind = next(kind for kind in CHANGE_KINDS if value_of(before, kind) != value_of(after, kind))
    option = space.options[kind][value_of(after, kind)]
    return option.words, dict(option.changes)


def _speeds(trials: Sequence[TuningTrial], changes: Mapping[str, Any]) -> list[float]:
    return [
        trial.samples_per_second
        for trial in trials
        if not trial.round and trial.changes == changes and trial.is_usable
        if trial.samples_per_second is not None
    ]
