"""The checkpoint files beside the store: whether a run can go on from them, and their deletion."""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from engine.experiment.paths import checkpoint_path, checkpoints_folder, part_path
from engine.experiment.problem import Kind, Problem, request_problem
from engine.experiment.titles import named, setting_title
from engine.protocol.events import Failed, Finished
from engine.store.record import RunRecord, Status

_MARK = ".deleted"


def folder_of(store: Path, run_id: str) -> Path:
    """Where the run's checkpoints lie; the folder is made by the first of them."""
    return checkpoints_folder(store) / run_id


def has_last(folder: Path) -> bool:
    """Whether there is a checkpoint that the run can go on from."""
    return checkpoint_path(folder, "last").is_file()


def mark(folder: Path) -> None:
    """Says that the folder's run is being deleted, in case that the program ends before `remove`.

    A folder whose run is merely not in the store is left alone: the store may have been moved away.
    """
    if folder.is_dir():
        with suppress(OSError):
            (folder / _MARK).touch()


def remove(folder: Path) -> None:
    """Deletes the folder; what the system holds on to goes with `marked` another time."""
    shutil.rmtree(folder, ignore_errors=True)


def marked(store: Path) -> Iterator[Path]:
    """The folders of runs whose deletion was begun."""
    for found in list(checkpoints_folder(store).glob(f"*/{_MARK}")):
        yield found.parent


def remove_parts(store: Path, run_ids: Container[str]) -> None:
    """Deletes what a kill in the midst of saving has left half-written of the checkpoints of these runs."""
    for part in list(checkpoints_folder(store).glob(f"*/{part_path(Path('*')).name}")):
        if part.parent.name in run_ids:
            with suppress(OSError):
                part.unlink()


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
        remedy = f"Start it as a new run with other settings, or {setting_title('on_nan')} set to continue."
        return request_problem(message, remedy, key="on_nan", value=run.experiment.on_nan, allowed="continue")
    if not has_last(checkpoints):
        message = f"{name} has no checkpoint to go on from."
        remedy = f"Start it as a new run, with {named('checkpoint.last')} on."
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
