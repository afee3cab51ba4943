"""A tuning in words: what is fastest, what it gained, how many runs it took, and what was not tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from engine.experiment.experiment import Experiment, flattened, named
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.tune import Tuning
from engine.tune.halving import ranking
from engine.tune.trials import known_speed
from engine.words.names import as_typed, dataset_words, setting_text
from engine.words.numbers import counted, memory_text, pace_text, seconds_text


def title_of(tuning: Tuning) -> str:
    """What was searched for."""
    experiment = tuning.experiment
    return f"The fastest settings of {experiment.model} on {dataset_words(experiment.dataset)}"


def answers(tuning: Tuning) -> tuple[str, ...]:
    """The outcome, or the fastest so far, and how it came about."""
    return tuple(_answers(tuning))


def _answers(tuning: Tuning) -> Iterator[str]:
    proof = tuning.proof
    if proof is not None and proof.sentence:
        yield proof.sentence
    elif (so_far := _so_far(tuning)) is not None:
        yield so_far
    if tuning.winner_changes:
        yield f"Its settings: {changes_text(tuning.winner_changes)}."
    for broken in tuning.proofs:
        yield f"Passed over was {changes_text(broken.changes)}. {broken.sentence}"
    yield _effort(tuning)


def _effort(tuning: Tuning) -> str:
    tried = len({repr(sorted(trial.changes.items())) for trial in tuning.trials})
    if not tried:
        return f"None of {tuning.candidates:,} combinations has been tried yet."
    took = "It took" if tuning.phase == "over" else "So far it has taken"
    effort = (
        f"{took} {tuning.runs:,} {'run' if tuning.runs == 1 else 'runs'} in {seconds_text(tuning.seconds)}; "
        f"{tried:,} of {tuning.candidates:,} combinations were tried."
    )
    disturbed = sum(trial.is_disturbed for trial in tuning.trials)
    if not disturbed:
        return effort
    return (
        f"{effort} The machine was disturbed in {counted(disturbed, 'short run')}, so that a faster "
        "combination may have been passed over."
    )


def _so_far(tuning: Tuning) -> str | None:
    plain = known_speed(tuning.trials, {})
    best = next(iter(ranking(tuning.trials)), None)
    if best is None or plain is None or not best.changes:
        return None
    if any(trial.is_disturbed for trial in tuning.trials if trial.changes in ({}, best.changes)):
        return (
            f"So far {best.words} looks fastest, but something disturbed the runs: nothing follows from them."
        )
    pace = pace_text(best.speed / plain)
    return f"So far {best.words} is the fastest: in short runs it trains {pace} as the plain FP32 loop."


def changes_text(changes: Mapping[str, Any]) -> str:
    """Settings within a sentence: "precision BF16 AMP, batch size 128"."""
    return ", ".join(f"{named(key)} {setting_text(key, value)}" for key, value in changes.items())


def not_tried(tuning: Tuning) -> tuple[str, ...]:
    """What was not tried and why, with the cap if there is one."""
    cap = tuning.memory_cap_gib
    if cap is None:
        return tuning.not_tried
    return f"Whatever needs more than {memory_text(MIB_PER_GIB * cap)}: the memory cap.", *tuning.not_tried


def command_of(experiment: Experiment) -> str:
    """The command line that trains the experiment."""
    usual = flattened(Experiment())
    settings = {
        key: value
        for key, value in flattened(experiment).items()
        # a length in steps replaces one in epochs
        if value != usual[key] and key != "code" and (key, value) != ("epochs", None)
    }
    options = (f"--set {shlex.quote(f'{key}={as_typed(value)}')}" for key, value in settings.items())
    return " ".join(("ammeter run", *options))
