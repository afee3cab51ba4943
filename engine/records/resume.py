"""Whether a run that ended can go on, and what it is when it does not come to it."""

from __future__ import annotations

from pathlib import Path

from engine.events import Failed, Finished
from engine.problem import Kind, Problem, request_problem
from engine.records.checkpoint_files import has_last
from engine.records.record import RunRecord, Status


def obstacle(run: RunRecord, checkpoints: Path) -> Problem | None:
    """Why the run cannot go on from a checkpoint in its folder; None if it can."""
    run_id, name, status = run.id, run.name, run.status
    if not status.is_over:
        remedy = "Stop it first." if status is Status.RUNNING else "It will be trained in its turn."
        return request_problem(f"{name} is {status} already.", remedy, key="run", value=run_id)
    if status is Status.FINISHED:
        remedy = "Start it as a new run with more epochs."
        return request_problem(f"{name} was trained to its end.", remedy, key="run", value=run_id)
    if (step := _ended_by_nan(run)) is not None:
        message = f"{name} was ended because its loss is not a number (NaN) since step {step:,}."
        remedy = "Start it as a new run with other settings, or with on_nan set to continue."
        return request_problem(message, remedy, key="on_nan", value=run.experiment.on_nan, allowed="continue")
    if not has_last(checkpoints):
        message = f"{name} has no checkpoint to go on from."
        remedy = "Start it as a new run, with checkpoint.last set to true."
        return request_problem(message, remedy, key="checkpoint.last", value="false", allowed="true")
    return None


def _ended_by_nan(run: RunRecord) -> int | None:
    """The step of the NaN that ended the run, and that its last checkpoint holds; None for another end."""
    step = None if run.summary is None else run.summary.first_nan_step
    was_stopped = run.status is Status.STOPPED and run.experiment.on_nan == "stop"
    has_failed = run.problem is not None and run.problem.kind is Kind.NOT_A_NUMBER
    return step if was_stopped or has_failed else None


def status_after(last: Finished | Failed | None) -> Status:
    """What a run is that ended so and is not trained again."""
    match last:
        case Finished(stopped=is_stopped):
            return Status.STOPPED if is_stopped else Status.FINISHED
        case Failed():
            return Status.FAILED
        case None:
            return Status.INTERRUPTED
