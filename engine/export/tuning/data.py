"""A tuning as data, and its winner as a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.experiment.problem import ProblemError, request_problem
from engine.export.script.page import built_in_data, script_of
from engine.export.sections.data import write_object
from engine.protocol.tuning import Tuning
from engine.store.record import RunRecord, Status
from engine.store.saved.study import Study
from engine.sweep.fastest.words import answers, command_of


def as_json(tuning: Tuning) -> dict[str, Any]:
    """All that is known as plain values, as `ammeter fastest --json` prints it."""
    return {
        "sentences": list(answers(tuning)),
        "command": None if tuning.winner is None else command_of(tuning.winner),
        **json.loads(tuning.model_dump_json()),
    }


def write_json(study: Study[Tuning], path: Path) -> None:
    """Writes one object."""
    write_object(study, path, **as_json(study.answer))


def write_script(study: Study[Tuning], path: Path) -> None:
    """Writes a program that trains with the winner's settings. Raises ProblemError where there is none."""
    tuning = study.answer
    if tuning.winner is None:
        message = "There is no winner yet."
        raise ProblemError(request_problem(message, "Carry the search on.", key="to", value=path.name))
    run = RunRecord(
        id=study.id,
        number=study.number,
        name="Fastest",
        status=Status.FINISHED,
        created=study.created,
        started=None,
        ended=None,
        experiment=tuning.winner,
        environment=None,
        summary=None,
        problem=None,
        detail="",
        comparison=None,
        label=None,
        total_steps=None,
    )
    per_epoch = next((trial.steps_per_epoch for trial in tuning.trials if trial.steps_per_epoch), None)
    path.write_text(script_of(run, per_epoch), encoding="utf-8", newline="\n")
    data = built_in_data(run)
    if data is not None:
        path.with_suffix(".npz").write_bytes(data)
