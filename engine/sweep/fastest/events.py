"""What a tuning tells while it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from engine.protocol.events import Event
from engine.protocol.tuning import Tuning, TuningPhase


@dataclass(frozen=True)
class TuningStarted:
    """A tuning begins or goes on; `tuning_id` is its id in the store."""

    tuning_id: str
    tuning: Tuning


@dataclass(frozen=True)
class TrialStarted:
    """The worker's events that follow are of this candidate.

    `number` counts the processes that train, from 1. `run_id` is the run in the store of a proof's run; a
    trial is no run.
    """

    phase: TuningPhase
    words: str
    number: int
    run_id: str | None = None


@dataclass(frozen=True)
class TuningKnown:
    """What is known by now, and saved."""

    tuning: Tuning


TuningEvent = TuningStarted | TrialStarted | TuningKnown | Event
"""The last is `Finished` (`stopped` where it was stopped or gave way before its end) or `Failed`."""
