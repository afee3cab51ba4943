"""What a sweep tells while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.experiment.problem import Problem
from engine.protocol.events import Event, Failed, Finished


@dataclass(frozen=True)
class Turn:
    """What a sweep does next: the pilot of a cell, or its run number `repeat`, from 1.

    `run_id` is the run in the store; None for a pilot, which is no run.
    """

    cell: int
    kind: Literal["pilot", "run"]
    repeat: int = 1
    run_id: str | None = None


@dataclass(frozen=True)
class Estimate:
    """How long a sweep still takes. It `is_rough` as long as some cells have no pilot.

    `turns_left` counts pilots and runs; with a wanted precision it is as many as are likely.
    """

    seconds_left: float
    turns_left: int
    is_rough: bool


@dataclass(frozen=True)
class SweepStarted:
    """A sweep begins or goes on; `sweep_id` is its id in the store."""

    sweep_id: str
    estimate: Estimate | None


@dataclass(frozen=True)
class TurnStarted:
    """The worker's events that follow are of this turn."""

    turn: Turn


@dataclass(frozen=True)
class TurnEnded:
    """A turn is over and saved; `problem` says why it failed, which stops no other cell."""

    turn: Turn
    problem: Problem | None
    estimate: Estimate | None


SweepEvent = SweepStarted | TurnStarted | TurnEnded | Event
"""The last is `Finished` (`stopped` where it was stopped or gave way before its end) or `Failed`."""

__all__ = ["Estimate", "Failed", "Finished", "SweepEvent", "SweepStarted", "Turn", "TurnEnded", "TurnStarted"]
