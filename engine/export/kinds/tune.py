"""The fastest settings as a document: the result, the gains, the trials, and settings not tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.compare.verdict import Piece
from engine.experiment.experiment import Precision
from engine.experiment.problem import request_error
from engine.export.document import (
    Action,
    Cells,
    CellText,
    Conclusion,
    Document,
    Picture,
    Row,
    Section,
    document_of,
)
from engine.export.script.page import write_run_script
from engine.protocol.tune import Proof, Tuning, TuningTrial
from engine.store.record import RunRecord, Status
from engine.store.saved.studies import Study
from engine.tune.halving import Ranked, ranking
from engine.tune.result import (
    answers,
    command_of,
    effort,
    not_tried,
    title_of,
    waterfall_drawing,
    waterfall_steps,
)
from engine.tune.verification import known_speed
from engine.words.numbers import NONE, memory_unit, number, pace_text, times

RESULT, GAINS, CANDIDATES = "Result", "Gain of each change", "Candidates"
TRIALS, NOT_TRIED, AGAIN = "Trials", "Not tried", "To train it again"
_GAINS = ("Change", "Times as fast", "95% interval", "Together")
_CANDIDATES = ("Candidate", "Rounds", "Samples/s", "vs. plain FP32", "State")
_MOST_CANDIDATES = 20


def document(study: Study[Tuning], *, brief: bool = False) -> Document:
    """Return the document of a tuning. `brief` omits the trials, for a terminal."""
    tuning = study.answer
    return document_of(
        study,
        "tuning",
        title_of(tuning),
        [experiment for experiment in (tuning.experiment, tuning.winner) if experiment is not None],
        _sections(tuning, brief=brief),
        answers=(_answer(tuning),),
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


def _answer(tuning: Tuning) -> Conclusion:
    """Return the sentence on the verified speedup, or else the first sentence on the progress."""
    proof, winner, *notes = tuning.proof, tuning.winner, effort(tuning)
    if winner is None or proof is None or proof.speedup is None or not _is_proven(proof):
        first = answers(tuning)[0]
        return Conclusion(None, (Piece(first),), () if notes == [first] else tuple(notes))
    pieces = (
        Piece("The fastest settings", "title", precision=winner.precision),
        Piece(" train "),
        Piece(pace_text(proof.speedup), "strong", precision=winner.precision),
        Piece(" as "),
        Piece("plain FP32", "title", precision=Precision.FP32),
    )
    if proof.speedup_ci is not None:
        notes.insert(0, f"95% interval {' to '.join(map(times, proof.speedup_ci))}")
    # with losses outside it, the settings are not verified
    losses = "Losses stay within FP32's range." if proof.is_loss_alike else _UNKNOWN_LOSSES
    return Conclusion(None, pieces, (*notes, losses))


_UNKNOWN_LOSSES = "It could not be determined whether the losses match FP32."


def _is_proven(proof: Proof) -> bool:
    low, high = proof.speedup_ci or (1.0, 1.0)
    return proof.is_loss_alike is not False and not low <= 1.0 <= high


def _sections(tuning: Tuning, *, brief: bool) -> tuple[Section, ...]:
    # the first and the last are those of the answer
    sentences, actions = answers(tuning)[1:-1], _actions(tuning)
    parts = [Section(RESULT, sentences, tab=RESULT, actions=actions)] if sentences or actions else []
    parts += filter(
        None, (_gains_section(tuning), _candidates(tuning), None if brief else _trials_section(tuning))
    )
    if missing := not_tried(tuning):
        parts.append(Section(NOT_TRIED, missing, tab=RESULT))
    if tuning.winner is not None:
        parts.append(Section(AGAIN, (command_of(tuning.winner),), is_code=True, tab=RESULT))
    return tuple(parts)


def _actions(tuning: Tuning) -> tuple[Action, ...]:
    if tuning.winner is None:
        return ()
    tip = "Save the fastest settings as a script that needs only PyTorch"
    known = [Action("Write the script…", tip, "script")]
    if (proof := tuning.proof) is not None and proof.winner_ids:
        run_ids = (*proof.baseline_ids, *proof.winner_ids)
        known.append(Action("Compare the runs", "Open the verification runs in Results", "compare", run_ids))
    return tuple(known)


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
    write_run_script(run, per_epoch, path)


def _why_no_gains(tuning: Tuning) -> str:
    if tuning.proof is None:
        return "the tuning has not finished"
    return "the verification shows none" if tuning.winner_changes else "nothing is faster than plain FP32"


def _gains_section(tuning: Tuning) -> Section | None:
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
    return Section(GAINS, (), _GAINS, rows, _GAINS[1:], pictures=pictures, is_drawn=True, tab=RESULT)


def _candidates(tuning: Tuning) -> Section | None:
    plain, ranked = known_speed(tuning.trials, {}), ranking(tuning.trials)
    last = max((known.last_round for known in ranked), default=0)

    def state_of(known: Ranked) -> str:
        if tuning.winner is not None and known.changes == tuning.winner_changes:
            return "Fastest"
        is_in = tuning.winner is None and known.last_round == last
        return "Still in" if is_in else f"Eliminated in round {known.last_round}"

    rows = [
        (
            CellText(known.words, is_strong=state_of(known) == "Fastest"),
            CellText(str(known.last_round), known.last_round),
            CellText(number(known.speed), known.speed),
            NONE if plain is None else CellText(f"{times(known.speed / plain)}×", known.speed / plain),
            state_of(known),
        )
        for known in ranked[:_MOST_CANDIDATES]
    ]
    failed = {
        trial.words: (trial.round, trial.problem) for trial in tuning.trials if trial.problem is not None
    }
    missing = CellText(NONE, None)
    rows += [
        (CellText(words), CellText(str(place), place), missing, missing, problem.message)
        for words, (place, problem) in failed.items()
    ]
    return Section(CANDIDATES, (), _CANDIDATES, tuple(rows), _CANDIDATES[1:4], tab=RESULT) if rows else None


def _gain_rows(tuning: Tuning) -> Iterator[Row]:
    for gain in tuning.gains:
        low, high = gain.speedup_ci or (None, None)
        yield {
            **gain.model_dump(mode="json", exclude={"speedup_ci"}),
            "speedup_low": low,
            "speedup_high": high,
        }


def _trials_section(tuning: Tuning) -> Section | None:
    # those of the gains come last
    trials = sorted(tuning.trials, key=lambda trial: trial.round or tuning.rounds + 1)
    unit, scale = memory_unit([trial.peak_mib for trial in trials])
    headings = ("Round", "Candidate", "Samples/s", f"Peak memory, {unit}", "Steps", "Seconds")
    rows = tuple(_trial_cells(trial, scale) for trial in trials)
    return Section(TRIALS, (), headings, rows, (headings[0], *headings[2:]), tab=TRIALS) if rows else None


def _trial_cells(trial: TuningTrial, scale: float) -> Cells:
    peak = None if trial.peak_mib is None else trial.peak_mib / scale
    speed = trial.samples_per_second
    return (
        CellText(str(trial.round) if trial.round else "gains", trial.round or None),
        trial.words,
        CellText(number(speed) if trial.problem is None else "dropped out", speed),
        CellText(number(peak), peak),
        CellText(number(trial.steps, 0), trial.steps),
        CellText(number(trial.seconds), trial.seconds),
    )
