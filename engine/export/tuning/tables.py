"""A tuning as people read it: the outcome, the gains, the trials, and what was not tried."""

from __future__ import annotations

from collections.abc import Iterator

from engine.export.sections.section import Cells, Section, first_rows
from engine.protocol.tuning import Tuning, TuningTrial
from engine.sweep.fastest.waterfall import waterfall_steps
from engine.sweep.fastest.words import answers, command_of, not_tried, title_of
from engine.words.numbers import NONE, memory_text, number, times

GAINS, TRIALS, NOT_TRIED, AGAIN = "What each change gained", "Trials", "Not tried", "To train it again"
_GAINS = ("Change", "Times as fast", "95 % interval", "Together")
_TRIALS = ("Round", "Candidate", "Samples/s", "Peak memory", "Steps", "Seconds")


def sections(tuning: Tuning, most_rows: int | None = None, *, brief: bool = False) -> tuple[Section, ...]:
    """What is known; with `brief`, for a terminal, without the trials."""
    parts = [Section(title_of(tuning), answers(tuning)), _gains(tuning)]
    parts += [] if brief else [_trials(tuning, most_rows)]
    if sentences := not_tried(tuning):
        parts.append(Section(NOT_TRIED, sentences))
    if tuning.winner is not None:
        parts.append(Section(AGAIN, (command_of(tuning.winner),)))
    return tuple(part for part in parts if part is not None)


def _gains(tuning: Tuning) -> Section | None:
    steps = waterfall_steps(tuning)
    if not steps:
        return None
    rows = tuple(
        (
            step.words,
            times(step.end if step.gain is None else step.gain.speedup),
            step.interval or NONE,
            times(step.end),
        )
        for step in steps
    )
    return Section(GAINS, (), _GAINS, rows, _GAINS[1:])


def _trials(tuning: Tuning, most_rows: int | None) -> Section | None:
    rows = list(map(_trial, _in_order(tuning)))
    kept, left_out = first_rows(rows, most_rows)
    right = tuple(heading for heading in _TRIALS if heading != "Candidate")
    return Section(TRIALS, (), _TRIALS, kept, right, left_out) if rows else None


def _in_order(tuning: Tuning) -> Iterator[TuningTrial]:
    """The trials of the search, then those of the gains."""
    yield from sorted(tuning.trials, key=lambda trial: trial.round or tuning.rounds + 1)


def _trial(trial: TuningTrial) -> Cells:
    speed = trial.samples_per_second
    return (
        str(trial.round) if trial.round else "gains",
        trial.words,
        number(speed) if trial.problem is None else "dropped out",
        NONE if trial.peak_mib is None else memory_text(trial.peak_mib),
        number(trial.steps, 0),
        number(trial.seconds),
    )
