"""Trains one experiment: a generator of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Event, Finished, Log, Phase, PhaseName, Skipped, Summary
from engine.protocol.jobs import Control
from engine.training.data.image_sources import prepare_thumbnails, thumbnail_events
from engine.training.doctor import read_catalog
from engine.training.failures import TrainingError, not_a_number
from engine.training.measuring.speed import skipped_steps
from engine.training.measuring.telemetry import Rows
from engine.training.runs.checkpoints import CheckpointKind
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import prepare, select_device, training_conditions
from engine.training.runs.run import Run

_LOOK_SECONDS = 0.05


def train(
    experiment: Experiment, control: Control, checkpoints: Path | None = None, *, resume: bool = False
) -> Iterator[Event]:
    """Train and measure an experiment. The last event is `Finished`.

    Checkpoints go to the folder `checkpoints`. With `resume` the run resumes from the last one there.
    Accuracies in events are fractions from 0 to 1. `Epoch.seconds` is the time from the start of the first
    step to the end of the epoch's last step, without pauses. Raises ProblemError of kind `REQUEST` before any
    event if the experiment cannot run here, and TrainingError if a NaN counts as a failure.
    """
    plan = RunPlan(experiment, read_catalog())
    select_device(plan)
    prepare_thumbnails(plan.experiment)
    with training_conditions(plan):
        run = yield from prepare(plan, control, checkpoints, resume=resume)
        if run is None:
            yield Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
            return
        with closing(run):
            yield from thumbnail_events(run.experiment, run.source)
            control.may_begin(run.telemetry.steps)
            run.record_formats()
            while not (run.must_end or run.is_over):
                # a run may resume after its last step, with only the validation missing
                if not run.is_complete:
                    yield from _train_epoch(run)
                if not run.must_end:
                    yield from _end_epoch(run)
            yield from _finish(run)


def _train_epoch(run: Run) -> Iterator[Event]:
    yield from _enter(run, run.training_phase)
    groups = run.groups()
    run.telemetry.begin()
    for group in groups:
        run.train_on(group)
        if run.telemetry.is_due():
            yield from _take(run, run.telemetry.collect())
            yield from _send(run)
        if run.snapshot is not None and run.snapshot.is_due(run.telemetry.steps):
            yield from _keep(run)
        if run.is_complete or run.must_end:
            break
        run.control.may_begin(run.telemetry.steps)
        while run.control.pause_requested.is_set() and not run.must_end:
            yield from _pause(run)
            run.control.may_begin(run.telemetry.steps)
        if run.must_end:  # stopped meanwhile: no step follows
            break
        phase = run.training_phase
        if PhaseName.CAPTURING in (run.phase, phase):
            # the capture waits for the device anyway; sent apart, its step can be told from those around it
            yield from _take(run, run.telemetry.flush())
            yield from _send(run)
        yield from _enter(run, phase)
    # The host waits for the device here, once an epoch: the mean loss needs the epoch's last step.
    yield from _take(run, run.telemetry.flush())
    if run.telemetry.is_due():
        yield from _send(run)


def _end_epoch(run: Run) -> Iterator[Event]:
    epoch, is_best, validation = run.epoch, False, None
    if run.validation_is_due():
        yield from _enter(run, PhaseName.VALIDATING)
        validation = run.validate()
        if validation is None:  # stopped meanwhile: a resumed run validates again
            return
        is_best = run.tally.add_validation(epoch, validation)
    yield Epoch(
        epoch=epoch,
        step=run.telemetry.steps,
        seconds=run.tally.seconds,
        train_loss=run.tally.train_loss,
        validation_loss=None if validation is None else validation.loss,
        validation_accuracy=None if validation is None else validation.accuracy,
    )
    run.begin_epoch()
    for kind in run.checkpoints_due(epoch, is_best=is_best):
        yield from _save(run, kind)


def _pause(run: Run) -> Iterator[Event]:
    yield from _take(run, run.telemetry.flush())
    yield from _send(run)
    yield from _enter(run, PhaseName.PAUSED)
    began = time.perf_counter()
    while run.control.pause_requested.is_set() and not run.must_end:
        run.control.stop_requested.wait(_LOOK_SECONDS)
    run.end_pause(time.perf_counter() - began)


def _keep(run: Run) -> Iterator[Event]:
    # the wait for the device and the copy belong to no step
    yield from _take(run, run.telemetry.flush())
    run.keep()
    run.telemetry.begin()


def _take(run: Run, arrived: list[Rows]) -> Iterator[Event]:
    for rows in arrived:
        had_nan = run.tally.first_nan_step is not None
        run.take(rows)
        if skipped := skipped_steps(rows):
            yield Skipped(steps=skipped, own=skipped_steps(rows, "own_inf"))
        first_nan = run.tally.first_nan_step
        if first_nan is not None and not had_nan:
            message = f"The loss is not a number (NaN) from step {first_nan:,} on."
            yield Log(level="warning", message=message, step=first_nan)
        if run.snapshot is not None and run.snapshot.detects_failure(rows):
            if run.snapshot.state is None:
                run.not_done[_ASKED_BY["rewind"]] = "The run went wrong before a first state was saved."
                continue
            yield from _save(run, "rewind")
            run.telemetry.begin()
    for note in run.step.record.pop_notes():
        yield Log(level="warning", message=note)


def _send(run: Run) -> Iterator[Event]:
    samples = run.samples()
    if samples is not None:
        yield samples


def _enter(run: Run, phase: PhaseName) -> Iterator[Event]:
    if phase is not run.phase:
        run.enter(phase)
        yield Phase(name=phase)


def _save(run: Run, kind: CheckpointKind) -> Iterator[Event]:
    # first the steps that led here: a run resumed from this checkpoint does not send them again
    yield from _send(run)
    yield from _enter(run, PhaseName.SAVING)
    try:
        run.save(kind)
    except ProblemError as error:
        # A run of hours is not thrown away because its checkpoint could not be written.
        problem = error.problem
        run.not_done[_ASKED_BY[kind]] = problem.message
        yield Log(level="warning", message=f"{problem.message} {problem.remedy} The run continues.")
        return
    run.not_done.pop(_ASKED_BY[kind], None)
    if kind == "rewind" and run.snapshot is not None:
        message = f"The state after step {run.snapshot.steps:,} is saved. “Find it” in Numerics starts there."
        yield Log(message=message)


_ASKED_BY: dict[CheckpointKind, str] = {
    "best": "checkpoint.best",
    "last": "checkpoint.last",
    "rewind": "checkpoint.rewind_every",
}
"""The setting that asks for a checkpoint."""


def _finish(run: Run) -> Iterator[Event]:
    yield from _send(run)
    stopped = run.must_end and not run.is_over
    if run.saves_at_end:
        yield from _save(run, "last")
    summary = run.summary()
    if run.experiment.on_nan == "fail" and run.tally.first_nan_step is not None:
        raise TrainingError(not_a_number(run.tally.first_nan_step), summary)
    if summary.speed_note:
        level: Literal["info", "warning"] = "info" if summary.samples_per_second is None else "warning"
        yield Log(level=level, message=f"Throughput: {summary.speed_note}")
    yield Finished(summary=summary, stopped=stopped)
