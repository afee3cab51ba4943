"""A tuning: the search for the fastest settings of an experiment, as far as it has come."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.text import Line
from engine.experiment.value import MOST_ENTRIES, Message, Seconds, Whole

TuningPhase = Literal["candidates", "halving", "proof", "over"]

_Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TuningTrial(Message):
    """A short run of a candidate in a fresh worker; `changes` are its settings by dotted keys.

    `round` counts from 1. A trial that failed has a `problem` and no speed.
    """

    round: Whole
    changes: Annotated[dict[Line, Any], Field(max_length=100)]
    steps: Whole
    seconds: Seconds
    samples_per_second: _Speed | None = None
    peak_mib: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    final_loss: float | None = None
    problem: Problem | None = None


class Gain(Message):
    """A step of the waterfall: a change, and how many times as fast it made what stood before it."""

    words: Line
    changes: Annotated[dict[Line, Any], Field(max_length=100)]
    speedup: _Speed
    speedup_ci: tuple[float, float] | None = None


class Proof(Message):
    """The winner beside the plain FP32 loop: runs in turns, by their ids, and what they show.

    `is_loss_alike` says whether the winner's losses stay within the band of FP32's own repeats; None where
    that cannot be told. `sentence` says it all.
    """

    baseline_ids: Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)] = ()
    winner_ids: Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)] = ()
    speedup: _Speed | None = None
    speedup_ci: tuple[float, float] | None = None
    is_loss_alike: bool | None = None
    sentence: Line = ""


class Tuning(Message):
    """The experiment that it began with, what bounds it, its trials in order, and its outcome.

    `not_tried` says what was left out and why, in sentences. `runs` counts every process that trained.
    """

    experiment: Experiment
    memory_cap_gib: float | None = None
    phase: TuningPhase = "candidates"
    candidates: Whole = 0
    rounds: Whole = 0
    trials: Annotated[tuple[TuningTrial, ...], Field(max_length=MOST_ENTRIES)] = ()
    winner: Experiment | None = None
    winner_changes: Annotated[dict[Line, Any], Field(max_length=100)] = Field(default_factory=dict)
    gains: Annotated[tuple[Gain, ...], Field(max_length=100)] = ()
    proof: Proof | None = None
    not_tried: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    runs: Whole = 0
    seconds: Seconds = 0.0
