"""The sentences of *Find the fastest* in the window."""

from __future__ import annotations

from typing import NamedTuple

from engine.protocol.tune import Tuning
from engine.tune.halving import Ranked, ranking
from engine.tune.trials import known_speed
from engine.words.numbers import date_text
from gui.session.orders.studies import StudyView

_PHASES = {
    "candidates": "looking at the candidates",
    "halving": "short runs of the candidates",
    "proof": "proving the winner beside plain FP32",
    "gains": "measuring what each change gained",
    "over": "over",
}
_MOST_SHOWN = 20


def state(view: StudyView[Tuning]) -> str:
    """What a tuning does now, or that it is over."""
    if view.is_waiting:
        return "waiting for its turn"
    if not view.is_live:
        when = date_text(view.created)
        how = "finished" if view.is_complete else "unfinished"
        return ", ".join(part for part in (how, view.device_name, when) if part)
    return view.study.doing or _PHASES[view.answer.phase]


_PARTS = {"candidates": 0.0, "halving": 0.1, "proof": 0.6, "gains": 0.85, "over": 1.0}
"""Roughly how much of the work is done when a phase begins."""


def fraction_done(tuning: Tuning) -> float:
    """Roughly how far a tuning is, 0 to 1."""
    begun = _PARTS[tuning.phase]
    if tuning.phase != "halving":
        return begun
    rounds = max((trial.round for trial in tuning.trials), default=0)
    return begun + (_PARTS["proof"] - begun) * (1 - 0.5**rounds)


class Candidate(NamedTuple):
    """A candidate that was tried: its last round, samples per second, and these over plain FP32's."""

    words: str
    last_round: int
    speed: float | None
    ratio: float | None
    state: str


def candidates(tuning: Tuning) -> tuple[Candidate, ...]:
    """The candidates that were tried, the fastest first, with those that failed last."""
    plain = known_speed(tuning.trials, {})
    ranked = ranking(tuning.trials)
    last = max((one.last_round for one in ranked), default=0)
    known = [
        Candidate(
            one.words,
            one.last_round,
            one.speed,
            None if plain is None else one.speed / plain,
            _place(one, tuning, last),
        )
        for one in ranked[:_MOST_SHOWN]
    ]
    failed = {trial.words: trial for trial in tuning.trials if trial.problem is not None}
    return *known, *(
        Candidate(words, trial.round, None, None, trial.problem.message if trial.problem is not None else "")
        for words, trial in failed.items()
    )


def _place(one: Ranked, tuning: Tuning, last: int) -> str:
    if tuning.winner is not None and one.changes == tuning.winner_changes:
        return "winner"
    is_in = tuning.winner is None and one.last_round == last
    return "still in" if is_in else f"out after round {one.last_round}"
