"""A tuning as far as it is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engine.experiment.problem import Kind
from engine.experiment.repeats import Turn
from engine.protocol.events import Log
from engine.protocol.tune import Tuning, TuningTrial
from engine.store.saved.study import Study
from engine.tune.candidates import Changes, Space
from engine.tune.proof import known_speed, proof_turns
from engine.words.names import dataset_words

SEARCH_FRACTION = 0.5
"""Of a time limit; the rest is for the proof and the gains."""

_MOST_NOT_TRIED = 100

_PHASES = {
    "candidates": "Short runs",
    "halving": "Short runs",
    "proof": "Proof",
    "gains": "Gains",
    "over": "Gains",
}


class Known:
    """Keeps a tuning; its methods give the study with what has become known."""

    def __init__(self, study: Study[Tuning], space: Space) -> None:
        self._study, self.space = study, space
        self._before, self._began = study.answer.seconds, time.monotonic()

    @property
    def tuning(self) -> Tuning:
        return self._study.answer

    @property
    def is_over(self) -> bool:
        return self.tuning.phase == "over"

    @property
    def subject(self) -> str:
        experiment = self.tuning.experiment
        return f"{experiment.model} on {dataset_words(experiment.dataset)}"

    def is_spent(self, fraction: float = 1.0) -> bool:
        """True once that fraction of the time limit has passed."""
        limit = self.tuning.plan.time_limit_seconds
        return limit is not None and self._seconds() >= fraction * limit

    def begun(self, words: str, run_id: str | None = None) -> Iterator[Study[Tuning] | Log]:
        """Counts a process that trains: a candidate, or the run `run_id` in the store."""
        number = self.tuning.runs + 1
        doing = f"{_PHASES[self.tuning.phase]}, run {number:,}, {words}"
        self._study = replace(self._study, doing=doing, trains=run_id)
        yield self._known(runs=number)
        yield Log(message=f"Run {number:,}: {words}.")

    def add(self, trial: TuningTrial) -> Study[Tuning]:
        """Adds a trial."""
        rounds = max(self.tuning.rounds, trial.round)
        return self.keep(trials=(*self.tuning.trials, trial), rounds=rounds)

    @property
    def is_hopeless(self) -> bool:
        """True if plain FP32 failed, and not for want of memory: so would everything else."""
        (first, *others) = self.tuning.trials
        is_memory = first.problem is not None and first.problem.kind is Kind.OUT_OF_MEMORY
        return not others and first.problem is not None and not is_memory

    def keep(self, **changes: Any) -> Study[Tuning]:
        """Keeps what has become known; nothing trains any more."""
        self._study = replace(self._study, trains=None)
        return self._known(**changes)

    def _known(self, **changes: Any) -> Study[Tuning]:
        self._study = self._study.knowing(**changes, seconds=self._seconds())
        return self._study

    def turns(self, changes: Changes) -> tuple[Turn, ...]:
        """The runs that prove these changes."""
        tuning, trials = self.tuning, self.tuning.trials
        per_epoch = next((trial.steps_per_epoch for trial in trials if trial.steps_per_epoch), 1)
        own = tuning.experiment.steps or (tuning.experiment.epochs or 1) * per_epoch
        return proof_turns(tuning, changes, known_speed(trials, {}) or 1.0, own)

    def not_tried(self) -> tuple[str, ...]:
        """Sentences on what was left out, and how many combinations were not run."""
        tuning, key = self.tuning, "step.activation_checkpointing"
        sentences = list(tuning.not_tried)
        is_offered = any(key in option.changes for option in self.space.options["checkpointing"])
        if is_offered and not any(key in trial.changes for trial in tuning.trials):
            sentences.append("Activation checkpointing: memory was enough, and it slows every step down.")
        if self.is_spent(SEARCH_FRACTION):
            sentences.append("The short runs ended early, to leave time for the proof.")
        tried = {repr(sorted(trial.changes.items())) for trial in tuning.trials}
        if (left := tuning.candidates - len(tried)) > 0:
            sentences.append(
                f"{left:,} of {tuning.candidates:,} combinations: the kinds of changes were tried one "
                "after the other."
            )
        failed = ((trial.words, trial.problem) for trial in tuning.trials)
        sentences += [f"{words}: {problem.message}" for words, problem in failed if problem is not None]
        return tuple(dict.fromkeys(sentences))[:_MOST_NOT_TRIED]

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._began
