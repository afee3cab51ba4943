"""The ranges of an experiment's first step, in FP32 and in its own precision from equal weights."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import torch

from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.numerics.ranges import Ranges
from engine.training.data.batches import Batch
from engine.training.measuring.ranges import WatchedPass, in_fp32, measured_ranges, watched_pass
from engine.training.numerics.bench import Bench, Trainee, diagnosing


def measure_ranges(bench: Bench, job: jobs.Diagnose) -> Generator[Event, None, Ranges | None]:
    """The ranges of the experiment's first step; None if it was stopped.

    A loss scale that overflows there comes down as the scaler would bring it down in the run's first steps.
    """
    experiment, group = bench.experiment, next(bench.groups(1))
    yield diagnosing("Ranges in FP32", 0.0)
    with bench.trainee(in_fp32(experiment)) as trainee:
        true = watched_pass(trainee.model, partial(trainee.go_back, group))
    if not (experiment.precision.is_autocast or experiment.uses_scaler):
        return measured_ranges(true)
    if bench.is_stopped:
        return None
    yield diagnosing(f"Ranges in {experiment.precision.label}", 0.5)
    first_scale = experiment.scaler.init_scale if experiment.uses_scaler else 1.0
    with bench.trainee() as trainee:
        own, scale = _settled_pass(bench, trainee, group, first_scale)
    if bench.is_stopped:
        return None
    return measured_ranges(true, own, precision=experiment.precision, scale=scale, first_scale=first_scale)


def _settled_pass(
    bench: Bench, trainee: Trainee, group: Sequence[Batch], first_scale: float
) -> tuple[WatchedPass, float]:
    """The pass at the first loss scale that does not overflow; at `first_scale` where there is none."""
    settings, scaler = trainee.experiment.scaler, trainee.step.scaler
    scale, seen = first_scale, _pass(trainee, group)
    while seen.overflowed and seen.is_loss_finite and scaler.is_enabled() and not bench.is_stopped:
        # no scale helps if 1 does not; what is counted is lost at the scale that is reported
        scale = max(1.0, scale * settings.backoff_factor) if scale > 1 else first_scale
        scaler.update(scale)
        seen = _pass(trainee, group)
        if scale == first_scale:
            break
    return seen, scale


def _pass(trainee: Trainee, group: Sequence[Batch]) -> WatchedPass:
    # each time with the random numbers of the run's first step
    devices = [] if trainee.device.type == "cpu" else [trainee.device]
    with torch.random.fork_rng(devices, device_type=trainee.device.type if devices else "cuda"):
        return watched_pass(trainee.model, partial(trainee.go_back, group))
