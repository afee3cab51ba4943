"""Trains one experiment: a generator of events, read from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Event, Finished, Log, Phase, PhaseName, Skipped, Summary
from engine.training.data.batches import Batch
from engine.training.data.thumbnails import picture_events, prepare_pictures
from engine.training.doctor import read_catalog
from engine.training.failures import TrainingError, not_a_number
from engine.training.measuring.speed import skipped_steps
from engine.training.measuring.telemetry import Rows
from engine.training.runs.checkpoints import CheckpointKind
from engine.training.runs.control import Control
from engine.training.runs.prepare import RunPlan, conditions, prepare, take_device
from engine.training.runs.run import Run
from engine.training.runs.sampling import RangeSampler

_LOOK_SECONDS = 0.05


def train(
    experiment: Experiment, control: Control, checkpoints: Path | None = None, *, resume: bool = False
) -> Iterator[Event]:
    """Trains and measures an experiment; the last event is `Finished`.

    Checkpoints go to the folder `checkpoints`; with `resume` the run resumes from the last one there. The
    accuracies in its events are fractions from 0 to 1; `Epoch.seconds` is when the epoch's last step ended,
    from the start of the first step, without pauses. Raises ProblemError of kind `REQUEST` before any event
    where the experiment cannot run here, and TrainingError where a NaN counts as a failure.
    """
    plan = RunPlan(experiment, read_catalog())
    take_device(plan)
    prepare_pictures(plan.experiment)
    with conditions(plan):
        run = yield from prepare(plan, control, checkpoints, resume=resume)
        if run is None:
            yield Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
            return
        with closing(run):
            yield from picture_events(run.experiment, run.source)
            sampler = RangeSampler(plan, run.step) if run.experiment.measure.range_every else None
            yield from _train_epochs(run, sampler)
            yield from _finish(run)


def _train_epochs(run: Run, sampler: RangeSampler | None) -> Iterator[Event]:
    while not (run.must_end or run.is_over):
        # a run may resume after its last step, with only the validation missing
        if not run.is_complete:
            yield from _train_epoch(run, sampler)
        if run.must_end:
            return
        yield from _end_epoch(run)


def _train_epoch(run: Run, sampler: RangeSampler | None) -> Iterator[Event]:
    yield from _enter(run, run.training_phase)
    groups = run.groups()
    run.telemetry.begin()
    for group in groups:
        run.train_on(group)
        if run.telemetry.is_due():
            yield from _take(run, run.telemetry.collect())
            yield from _send(run)
        if sampler is not None and sampler.is_due(run.telemetry.steps) and not run.must_end:
            yield from _sample_ranges(run, sampler, group)
        if run.rewind is not None and run.rewind.is_due(run.telemetry.steps):
            yield from _keep(run)
        if run.is_complete or run.must_end:
            break
        if run.control.pause_requested.is_set():
            yield from _pause(run)
            if run.must_end:  # stopped during the pause: no step follows
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
    """Validates, reports the epoch, and saves the checkpoints that are due."""
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
    """Waits at a step boundary until it may go on or must stop; no figure counts that time."""
    yield from _take(run, run.telemetry.flush())
    yield from _send(run)
    yield from _enter(run, PhaseName.PAUSED)
    began = time.perf_counter()
    while run.control.pause_requested.is_set() and not run.must_end:
        run.control.stop_requested.wait(_LOOK_SECONDS)
    run.end_pause(time.perf_counter() - began)


def _sample_ranges(run: Run, sampler: RangeSampler, group: list[Batch]) -> Iterator[Event]:
    yield from _take(run, run.telemetry.flush())
    yield from _send(run)
    yield from _enter(run, PhaseName.DIAGNOSING)
    began = time.perf_counter()
    yield sampler.sample(group, run.telemetry.steps)
    run.end_sampling(time.perf_counter() - began)


def _keep(run: Run) -> Iterator[Event]:
    """Keeps the state in memory. The wait for the device and the copy belong to no step."""
    yield from _take(run, run.telemetry.flush())
    run.keep()
    run.telemetry.begin()


def _take(run: Run, arrived: list[Rows]) -> Iterator[Event]:
    for rows in arrived:
        had_nan = run.tally.first_nan_step is not None
        run.take(rows)
        if skipped := skipped_steps(rows):
            yield Skipped(steps=skipped)
        first_nan = run.tally.first_nan_step
        if first_nan is not None and not had_nan:
            message = f"The loss is not a number (NaN) from step {first_nan:,} on."
            yield Log(level="warning", message=message, step=first_nan)
        if run.rewind is not None and run.rewind.meets_trouble(rows) and run.rewind.state is not None:
            yield from _save(run, "rewind")
            run.telemetry.begin()
    for note in run.step.take_notes():
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
        yield Log(level="warning", message=f"{problem.message} {problem.remedy} The run goes on.")
        return
    if kind == "rewind" and run.rewind is not None:
        message = f"The state after step {run.rewind.steps:,} is saved: Find it in Numerics begins there."
        yield Log(message=message)


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
        yield Log(level=level, message=f"Speed: {summary.speed_note}")
    yield Finished(summary=summary, stopped=stopped)
