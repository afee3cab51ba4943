"""The checkpoint files next to the store: whether a run can resume from them, and their deletion."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from engine.experiment.command import refusal
from engine.experiment.experiment import named, setting_title
from engine.experiment.paths import checkpoint_path, checkpoints_folder, file_name_of, part_path
from engine.experiment.problem import Kind, Problem, request_problem
from engine.protocol.events import Failed, Finished
from engine.store.record import RunRecord, Status

_MARK = ".deleted"


def folder_of(store: Path, run_id: str) -> Path:
    """Return the folder of the run's checkpoints, which the first checkpoint creates."""
    return checkpoints_folder(store) / file_name_of(run_id)


def mark(folder: Path) -> None:
    """Mark the folder of a run that is being deleted, in case the program ends before `remove`.

    A folder whose run is merely missing in the store is kept, because the store may have been moved.
    """
    if folder.is_dir():
        with suppress(OSError):
            (folder / _MARK).touch()


def remove(folder: Path) -> None:
    """Delete the folder. `marked` finds it again if the system refuses to delete all of it now."""
    shutil.rmtree(folder, ignore_errors=True)


def marked(store: Path) -> Iterator[Path]:
    """Yield the folders of runs whose deletion has started."""
    for marker in list(checkpoints_folder(store).glob(f"*/{_MARK}")):
        yield marker.parent


def remove_parts(store: Path, is_idle: Callable[[str], bool]) -> None:
    """Delete half-written checkpoints, left by a kill, of runs that nobody trains according to `is_idle`."""
    for part in list(checkpoints_folder(store).glob(f"*/{part_path(Path('*')).name}")):
        if is_idle(part.parent.name):
            with suppress(OSError):
                part.unlink()


def obstacle(run: RunRecord, checkpoints: Path) -> Problem | None:
    """Return the problem that keeps the run from resuming from a checkpoint, or None if it can resume."""
    run_id, name, status = run.id, run.name, run.status
    if not status.is_over:
        remedy = "Stop it first." if status is Status.RUNNING else "It starts when it is next in the queue."
        return request_problem(f"{name} is already {status}.", remedy, key="run", value=run_id)
    if status is Status.FINISHED:
        remedy = "Start it as a new run with more epochs."
        return request_problem(f"{name} has finished.", remedy, key="run", value=run_id)
    if (problem := refusal("resume", [run.experiment.command])) is not None:
        return problem
    if (step := _ended_by_nan(run)) is not None:
        message = f"{name} was stopped because its loss is NaN from step {step:,} on."
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
    """Return the status of a run with this last event that is not trained again."""
    if isinstance(last, Finished):
        return Status.STOPPED if last.stopped else Status.FINISHED
    return Status.INTERRUPTED if last is None else Status.FAILED
