"""The fastest settings as a document: the result, the gains, the trials, and settings not tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.experiment.problem import request_error
from engine.export.document import Cells, Document, Picture, Row, Section, document_of
from engine.export.script.page import built_in_data, script_source
from engine.protocol.tune import Tuning, TuningTrial
from engine.store.record import RunRecord, Status
from engine.store.saved.studies import Study
from engine.tune.result import answers, command_of, not_tried, title_of, waterfall_drawing, waterfall_steps
from engine.words.numbers import NONE, memory_text, number, times

GAINS, TRIALS, NOT_TRIED, AGAIN = "Gain of each change", "Trials", "Not tried", "To train it again"
_GAINS = ("Change", "Times as fast", "95% interval", "Together")
_TRIALS = ("Round", "Candidate", "Samples/s", "Peak memory", "Steps", "Seconds")


def document(study: Study[Tuning]) -> Document:
    tuning = study.answer
    first, *others = sections(tuning)
    return document_of(
        study,
        "tuning",
        first.title,
        [experiment for experiment in (tuning.experiment, tuning.winner) if experiment is not None],
        [replace(first, title="Result"), *others],
        warnings=() if study.problem is None else (study.problem.message,),
        tables={
            "gains": lambda: _gain_rows(tuning),
            "trials": lambda: (trial.model_dump(mode="json") for trial in tuning.trials),
        },
        values=lambda: values(tuning),
        undrawn=f"No gains to draw: {_why_no_gains(tuning)}.",
    )


def values(tuning: Tuning) -> dict[str, Any]:
    """Return all results as plain values, as `ammeter tune --json` prints them."""
    return {
        "sentences": list(answers(tuning)),
        "command": None if tuning.winner is None else command_of(tuning.winner),
        **json.loads(tuning.model_dump_json()),
    }


def sections(tuning: Tuning, *, brief: bool = False) -> tuple[Section, ...]:
    """Return the known parts as sections. `brief` is for a terminal and omits the trials."""
    parts = [Section(title_of(tuning), answers(tuning)), _gains(tuning)]
    parts += [] if brief else [_trials(tuning)]
    if sentences := not_tried(tuning):
        parts.append(Section(NOT_TRIED, sentences))
    if tuning.winner is not None:
        parts.append(Section(AGAIN, (command_of(tuning.winner),), is_code=True))
    return tuple(part for part in parts if part is not None)


def write_script(study: Study[Tuning], path: Path) -> None:
    """Write a program that trains with the fastest settings. Raises ProblemError before they are known."""
    tuning = study.answer
    if tuning.winner is None:
        message = "This tuning has no fastest settings yet."
        raise request_error(message, "Resume the tuning.", key="to", value=path.name)
    unknown = ("started", "ended", "environment", "summary", "problem", "comparison", "label", "total_steps")
    nothing: dict[str, Any] = {"detail": "", **dict.fromkeys(unknown)}
    run = RunRecord(
        id=study.id,
        number=study.number,
        name="Fastest",
        status=Status.FINISHED,
        created=study.created,
        experiment=tuning.winner,
        **nothing,
    )
    per_epoch = next((trial.steps_per_epoch for trial in tuning.trials if trial.steps_per_epoch), None)
    path.write_text(script_source(run, per_epoch), encoding="utf-8", newline="\n")
    data = built_in_data(run)
    if data is not None:
        path.with_suffix(".npz").write_bytes(data)


def _why_no_gains(tuning: Tuning) -> str:
    if tuning.proof is None:
        return "the tuning has not finished"
    return "the verification shows none" if tuning.winner_changes else "nothing is faster than plain FP32"


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
    pictures = (Picture("gains", lambda width: waterfall_drawing(tuning, width)),) if tuning.gains else ()
    return Section(GAINS, (), _GAINS, rows, _GAINS[1:], pictures=pictures)


def _gain_rows(tuning: Tuning) -> Iterator[Row]:
    for gain in tuning.gains:
        low, high = gain.speedup_ci or (None, None)
        yield {
            **gain.model_dump(mode="json", exclude={"speedup_ci"}),
            "speedup_low": low,
            "speedup_high": high,
        }


def _trials(tuning: Tuning) -> Section | None:
    # those of the gains come last
    trials = sorted(tuning.trials, key=lambda trial: trial.round or tuning.rounds + 1)
    rows = tuple(map(_trial, trials))
    right = tuple(heading for heading in _TRIALS if heading != "Candidate")
    return Section(TRIALS, (), _TRIALS, rows, right) if rows else None


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
