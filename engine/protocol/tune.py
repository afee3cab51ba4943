"""A tuning: the search for the fastest settings of an experiment, and its results so far."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.value import MOST_ENTRIES, Line, Message, Positive, Seconds, Whole
from engine.protocol.answer import Answer
from engine.words.numbers import times

TuningPhase = Literal["candidates", "halving", "proof", "gains", "over"]

ChangeKind = Literal[
    "precision", "recipe", "attention", "checkpointing", "batch", "exchange", "loader", "compile"
]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

MOST_PROOF_REPEATS = 20

Reasons = Annotated[dict[Line, Line], Field(max_length=100)]
"""Optimizations that are not possible, each with the reason as a clause."""

_Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TuningPlan(Message):
    """The changes that a tuning may make to find the fastest settings, and the limits that it must keep.

    Without `changes_batch`, a batch may only be split differently by gradient accumulation. Without
    `coarse_formats`, neither FP8 nor pure BF16 is tried. With `guard` "alike", the losses of the fastest
    settings must stay within the range of repeated FP32 runs. The verification trains each side `repeats`
    times. The search takes about half of `time_limit_seconds`, after which nothing new is started.
    """

    kinds: Annotated[tuple[ChangeKind, ...], Field(max_length=len(CHANGE_KINDS))] = CHANGE_KINDS
    changes_batch: bool = False
    coarse_formats: bool = False
    guard: Literal["alike", "none"] = "alike"
    repeats: Annotated[int, Field(ge=2, le=MOST_PROOF_REPEATS)] = 3
    time_limit_seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None


class TuningTrial(Message):
    """A short run of candidate settings in a new worker. `changes` maps dotted keys to the values tried.

    `round` counts from 1, and is 0 for the trials that measure the gain of each change. A failed trial has a
    `problem` and no speed. A trial with both ran, but its speed does not count. `left_out` has the
    optimizations that are not possible here, each with the reason. Without `has_attention`, the model does
    not call `scaled_dot_product_attention`.
    """

    round: Whole
    changes: Annotated[dict[Line, Any], Field(max_length=100)]
    steps: Whole
    seconds: Seconds
    samples_per_second: _Speed | None = None
    peak_mib: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    final_loss: float | None = None
    problem: Problem | None = None
    words: Line = ""
    steps_per_epoch: Positive | None = None
    is_disturbed: bool = False
    left_out: Reasons = Field(default_factory=dict)
    has_attention: bool = True

    @property
    def is_usable(self) -> bool:
        """True if the trial has a speed and no problem, so that candidates can be ranked by it."""
        return self.problem is None and self.samples_per_second is not None


class Gain(Message):
    """The speedup of one change of a tuning, made after the changes before it."""

    words: Line
    changes: Annotated[dict[Line, Any], Field(max_length=100)]
    speedup: _Speed
    speedup_ci: tuple[float, float] | None = None


class Proof(Message):
    """The verification of a tuning: alternating runs of the fastest settings and of plain FP32, compared.

    `is_loss_alike` is True if the losses stay within the range of repeated FP32 runs, None if unknown.
    `is_broken` is True if a run of the fastest settings failed. Disturbed runs give no speedup.
    """

    changes: Annotated[dict[Line, Any], Field(max_length=100)] = Field(default_factory=dict)
    comparison: Line | None = None
    baseline_ids: Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)] = ()
    winner_ids: Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)] = ()
    speedup: _Speed | None = None
    speedup_ci: tuple[float, float] | None = None
    is_loss_alike: bool | None = None
    is_broken: bool = False
    sentence: Line = ""


class Tuning(Answer):
    """A tuning study: the search for an experiment's fastest settings, its trials in order, and its result.

    `experiment` is the plain FP32 loop at the given batch size. `candidates` counts all combinations of
    values that make sense here. After the search, `leaders` has the changes of the last candidates, the
    fastest first. `proof` is the verification that counts, and `proofs` are earlier ones that failed the
    accuracy check. `left_out` has the optimizations that were known to be impossible before training. `runs`
    counts every process that trained.
    """

    kind = "tune"
    experiment: Experiment
    plan: TuningPlan = TuningPlan()
    memory_cap_gib: float | None = None
    phase: TuningPhase = "candidates"
    candidates: Whole = 0
    rounds: Whole = 0
    trials: Annotated[tuple[TuningTrial, ...], Field(max_length=MOST_ENTRIES)] = ()
    leaders: Annotated[tuple[dict[Line, Any], ...], Field(max_length=100)] = ()
    winner: Experiment | None = None
    winner_changes: Annotated[dict[Line, Any], Field(max_length=100)] = Field(default_factory=dict)
    gains: Annotated[tuple[Gain, ...], Field(max_length=100)] = ()
    proof: Proof | None = None
    proofs: Annotated[tuple[Proof, ...], Field(max_length=100)] = ()
    not_tried: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    left_out: Reasons = Field(default_factory=dict)
    runs: Whole = 0
    seconds: Seconds = 0.0

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    @property
    def is_known(self) -> bool:
        return bool(self.trials)

    @property
    def is_complete(self) -> bool:
        return self.phase == "over"

    def afresh(self) -> Self:
        asked = {name: getattr(self, name) for name in ("experiment", "plan", "memory_cap_gib")}
        return type(self)(**asked)

    @property
    def title(self) -> str:
        return f"Fastest {self.experiment.model}"

    @property
    def digest(self) -> str:
        """The verified speedup."""
        if not self.is_complete:
            return "unfinished"
        speedup = None if self.proof is None else self.proof.speedup
        return "" if speedup is None else f"{times(speedup)} times as fast as plain FP32"
