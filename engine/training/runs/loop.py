"""Trains one experiment: a generator of events."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import (
    Epoch,
    Event,
    Finished,
    Log,
    PartMeasured,
    Phase,
    PhaseName,
    Skipped,
    Summary,
)
from engine.protocol.jobs import Control
from engine.protocol.numerics.ranges import Ranges
from engine.training.data.batches import Batch
from engine.training.data.picture_sources import picture_events, prepare_pictures
from engine.training.doctor import read_catalog
from engine.training.failures import TrainingError, not_a_number, problem_of
from engine.training.measuring.ranges import in_fp32, measured_ranges, watched_pass
from engine.training.measuring.speed import skipped_steps
from engine.training.measuring.telemetry import Rows
from engine.training.precision import float32_mode
from engine.training.runs.checkpoints import CheckpointKind
from engine.training.runs.prepare import RunPlan, conditions, plain_step, prepare, take_device
from engine.training.runs.run import Run
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import cudnn_search

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
            control.may_begin(run.telemetry.steps)
            while not (run.must_end or run.is_over):
                # a run may resume after its last step, with only the validation missing
                if not run.is_complete:
                    yield from _train_epoch(run, sampler)
                if not run.must_end:
                    yield from _end_epoch(run)
            yield from _finish(run)


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


def _sample_ranges(run: Run, sampler: RangeSampler, group: list[Batch]) -> Iterator[Event]:
    yield from _take(run, run.telemetry.flush())
    yield from _send(run)
    yield from _enter(run, PhaseName.NUMERICS)
    began = time.perf_counter()
    sampled = sampler.sample(group, run.telemetry.steps)
    if isinstance(sampled, Log):
        run.not_done["measure.range_every"] = sampled.message
    yield sampled
    run.end_pause(time.perf_counter() - began, is_sampling=True)


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
        if run.snapshot is not None and run.snapshot.meets_trouble(rows):
            if run.snapshot.state is None:
                run.not_done[_ASKED_BY["rewind"]] = "The run went wrong before a first state was saved."
                continue
            yield from _save(run, "rewind")
            run.telemetry.begin()
    for note in run.step.record.take_notes():
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
        yield Log(level=level, message=f"Speed: {summary.speed_note}")
    yield Finished(summary=summary, stopped=stopped)


class RangeSampler:
    """Samples the ranges of a run on its own model, with the run's weights and the batches of a step.

    The run itself is only read. Its results are bit for bit the same as without, also compiled and captured.
    Between two samples the model is in system memory.
    """

    def __init__(self, plan: RunPlan, step: PlainStep) -> None:
        self._plan = plan
        self._step = step
        self._own: PlainStep | None = None
        self._has_failed = False

    def is_due(self, steps: int) -> bool:
        return steps % self._plan.experiment.measure.range_every == 0 and not self._has_failed

    def sample(self, group: Sequence[Batch], steps: int) -> Event:
        """Return the ranges after `steps` steps, or a message on why there are none. Waits for the device."""
        with _own_cache(self._plan.device):
            try:
                with _own_random(self._plan.device), cudnn_search(False):
                    return PartMeasured(result=self._ranges(group, steps))
            except Exception as error:  # noqa: BLE001 - a run goes on, however its sampling failed
                problem = problem_of(error)
            # outside the except block, where the exception no longer pins the tensors of its frames
            self._has_failed, self._own = True, None
        message = f"No ranges from step {steps:,} on. The run continues. {problem.message}"
        return Log(level="warning", message=message, step=steps)

    def _ranges(self, group: Sequence[Batch], steps: int) -> Ranges:
        experiment, scaler = self._plan.experiment, self._step.scaler
        reference = in_fp32(experiment)
        with float32_mode(reference.precision, reference.step.autocast_tf32):
            weights = self._step.model.state_dict()
            if self._own is None:
                self._own = plain_step(self._plan, reference, weights)
            model = self._own.model
            model.to(self._plan.device).load_state_dict(weights)
            seen = watched_pass(model, partial(self._own.gradients, group))
        scale = scaler.get_scale() if scaler.is_enabled() else 1.0
        ranges = measured_ranges(
            seen, precision=experiment.precision, scale=scale, first_scale=scale, step=steps
        )
        model.zero_grad(set_to_none=True)
        model.cpu()
        if self._plan.workload.body is not None:
            # a step of the model file's own also steps its optimizers, whose state stays on the device
            self._own = None
        return ranges


@contextmanager
def _own_cache(device: torch.device) -> Iterator[None]:
    # gives back what the context leaves in the allocator's cache, which would count as the run's
    if device.type not in ("cuda", "xpu"):
        yield
        return
    module: Any = torch.get_device_module(device)
    reserved = module.memory_reserved(device)
    yield
    module.empty_cache()
    # Taken again in one piece: the next step, which is measured, would ask the device for many. Another
    # program may have been quicker.
    with suppress(torch.OutOfMemoryError):
        torch.empty(max(0, reserved - module.memory_reserved(device)), dtype=torch.uint8, device=device)


@contextmanager
def _own_random(device: torch.device) -> Iterator[None]:
    of_python, of_numpy = random.getstate(), np.random.get_state()
    devices = [] if device.type == "cpu" else [device]
    try:
        with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
