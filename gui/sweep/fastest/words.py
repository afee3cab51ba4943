"""The sentences of *Find the fastest* in the window."""

from __future__ import annotations

from engine.protocol.tuning import Tuning
from engine.sweep.fastest.halving import Ranked, ranking
from engine.sweep.fastest.trials import known_speed
from engine.words.numbers import date_text, number, times
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


HEADINGS = ("Candidate", "Rounds", "Speed", "Against plain FP32", "State")


def rows(tuning: Tuning) -> tuple[tuple[str, ...], ...]:
    """The candidates that were tried, the fastest first, with those that failed last."""
    plain = known_speed(tuning.trials, {})
    ranked = ranking(tuning.trials)
    last = max((one.last_round for one in ranked), default=0)
    known = [
        (
            one.words,
            f"{one.last_round}",
            f"{number(one.speed)} samples/s",
            "" if plain is None else f"{times(one.speed / plain)}×",
            _place(one, tuning, last),
        )
        for one in ranked[:_MOST_SHOWN]
    ]
    failed = {trial.words: trial for trial in tuning.trials if trial.problem is not None}
    return *known, *(
        (words, f"{trial.round}", "", "", trial.problem.message if trial.problem is not None else "")
        for words, trial in failed.items()
    )


def _place(one: Ranked, tuning: Tuning, last: int) -> str:
    if tuning.winner is not None and one.changes == tuning.winner_changes:
        return "winner"
    is_in = tuning.winner is None and one.last_round == last
    return "still in" if is_in else f"out after round {one.last_round}"
