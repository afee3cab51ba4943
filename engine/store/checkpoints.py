"""The checkpoint files beside the store: what keeps a run from resuming from them, and their deletion."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from engine.experiment.experiment import named, setting_title
from engine.experiment.paths import checkpoint_path, checkpoints_folder, file_name_of, part_path
from engine.experiment.problem import Kind, Problem, request_problem
from engine.protocol.events import Failed, Finished
from engine.store.record import RunRecord, Status

_MARK = ".deleted"


def folder_of(store: Path, run_id: str) -> Path:
    """The folder of the run's checkpoints; the first checkpoint makes it."""
    return checkpoints_folder(store) / file_name_of(run_id)


def mark(folder: Path) -> None:
    """Marks the folder of a run that is being deleted, in case the program ends before `remove`.

    A folder whose run is merely missing in the store is left alone: the store may have been moved away.
    """
    if folder.is_dir():
        with suppress(OSError):
            (folder / _MARK).touch()


def remove(folder: Path) -> None:
    """Deletes the folder; `marked` finds it again if the system refuses some of it now."""
    shutil.rmtree(folder, ignore_errors=True)


def marked(store: Path) -> Iterator[Path]:
    """The folders of runs whose deletion has begun."""
    for marker in list(checkpoints_folder(store).glob(f"*/{_MARK}")):
        yield marker.parent


def remove_parts(store: Path, is_idle: Callable[[str], bool]) -> None:
    """Deletes half-written checkpoints of the runs that `is_idle` says nobody trains, left by a kill."""
    for part in list(checkpoints_folder(store).glob(f"*/{part_path(Path('*')).name}")):
        if is_idle(part.parent.name):
            with suppress(OSError):
                part.unlink()


def obstacle(run: RunRecord, checkpoints: Path) -> Problem | None:
    """Why the run cannot resume from a checkpoint in its folder; None if it can."""
    run_id, name, status = run.id, run.name, run.status
    if not status.is_over:
        remedy = "Stop it first." if status is Status.RUNNING else "It will be trained when its turn comes."
        return request_problem(f"{name} is {status} already.", remedy, key="run", value=run_id)
    if status is Status.FINISHED:
        remedy = "Start it as a new run with more epochs."
        return request_problem(f"{name} was trained to its end.", remedy, key="run", value=run_id)
    if (step := _ended_by_nan(run)) is not None:
        message = f"{name} was ended because its loss is not a number (NaN) from step {step:,} on."
        remedy = f"Start it as a new run with other settings, or {setting_title('on_nan')} set to continue."
        return request_problem(message, remedy, key="on_nan", value=run.experiment.on_nan, allowed="continue")
    # on another machine only that knows
    if not (
        run.experiment.checkpoint.last if run.machine else checkpoint_path(checkpoints, "last").is_file()
    ):
        message = f"{name} has no checkpoint to resume from."
        remedy = f"Start it as a new run, with {named('checkpoint.last')} on."
        return request_problem(message, remedy, key="checkpoint.last", value="false", allowed="true")
    return None


def _ended_by_nan(run: RunRecord) -> int | None:
    step = None if run.summary is None else run.summary.first_nan_step
    was_stopped = run.status is Status.STOPPED and run.experiment.on_nan == "stop"
    has_failed = run.problem is not None and run.problem.kind is Kind.NOT_A_NUMBER
    return step if was_stopped or has_failed else None


def status_after(last: Finished | Failed | None) -> Status:
    """The status of a run that ended so and is not trained again."""
    if isinstance(last, Finished):
        return Status.STOPPED if last.stopped else Status.FINISHED
    return Status.INTERRUPTED if last is None else Status.FAILED
