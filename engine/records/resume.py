"""Whether a run that ended can go on, and what it is when it does not come to it."""

from __future__ import annotations

from pathlib import Path

from engine.events import Failed, Finished
from engine.problem import Problem, request_problem
from engine.records.checkpoint_files import has_last
from engine.records.record import Status


def obstacle(run_id: str, name: str, status: Status, checkpoints: Path) -> Problem | None:
    """Why the run cannot go on from a checkpoint in its folder; None if it can."""
    if not status.is_over:
        remedy = "Stop it first." if status is Status.RUNNING else "It will be trained in its turn."
        return request_problem(f"{name} is {status} already.", remedy, key="run", value=run_id)
    if status is Status.FINISHED:
        remedy = "Start it as a new run with more epochs."
        return request_problem(f"{name} was trained to its end.", remedy, key="run", value=run_id)
    if not has_last(checkpoints):
        message = f"{name} has no checkpoint to go on from."
        remedy = "Start it as a new run, with checkpoint.last set to true."
        return request_problem(message, remedy, key="checkpoint.last", value="false", allowed="true")
    return None


def status_after(last: Finished | Failed | None) -> Status:
    """What a run is that ended so and is not trained again."""
    match last:
        case Finished(stopped=is_stopped):
            return Status.STOPPED if is_stopped else Status.FINISHED
        case Failed():
            return Status.FAILED
        case None:
            return Status.INTERRUPTED
