"""A numerics study: the requested parts one after another, each as an event."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial

import torch

from engine.protocol import jobs
from engine.protocol.events import Event, Finished, PartMeasured, Summary
from engine.protocol.jobs import Control
from engine.protocol.numerics.numerics import NumericsResults, Part, PartResult
from engine.protocol.numerics.ranges import Ranges
from engine.training.data.batches import Batch
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import memory_cap
from engine.training.numerics.advice import advise_on_numerics
from engine.training.numerics.bench import Bench, StoppedError, Trainee, numerics_phase, open_bench
from engine.training.numerics.divergence import measure_divergence
from engine.training.numerics.fp8_casts import CastWatch
from engine.training.numerics.fp32_modules import find_fp32_modules
from engine.training.numerics.nonfinite import find_nonfinite
from engine.training.numerics.precision_map import map_precision
from engine.training.numerics.ranges import RangeRecorder, in_fp32, measured_ranges, watched_pass
from engine.training.runs.prepare import RunPlan, select_device


def measure_ranges(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, Ranges]:
    """Measure the ranges of the experiment's first step.

    A loss scale that overflows there is lowered, as the scaler would lower it in the run's first steps.
    """
    experiment, group = bench.experiment, next(bench.groups(1))
    yield numerics_phase("Ranges in FP32", 0.0)
    with bench.trainee(in_fp32(experiment)) as trainee:
        true = watched_pass(trainee.model, partial(trainee.go_back, group))
    if not (experiment.precision.is_narrow or experiment.uses_scaler):
        return measured_ranges(true)
    bench.check_stop()
    yield numerics_phase(f"Ranges in {experiment.precision.label}", 0.5)
    first_scale = experiment.scaler.init_scale if experiment.uses_scaler else 1.0
    with bench.trainee() as trainee:
        own, scale = _settled_pass(bench, trainee, group, first_scale)
    bench.check_stop()
    return measured_ranges(true, own, precision=experiment.precision, scale=scale, first_scale=first_scale)


def _settled_pass(
    bench: Bench, trainee: Trainee, group: Sequence[Batch], first_scale: float
) -> tuple[RangeRecorder, float]:
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


def _pass(trainee: Trainee, group: Sequence[Batch]) -> RangeRecorder:
    # each time with the random numbers of the run's first step
    devices = [] if trainee.device.type == "cpu" else [trainee.device]
    kind = trainee.device.type if devices else "cuda"
    with torch.random.fork_rng(devices, device_type=kind), closing(CastWatch(trainee.model)) as casts:
        seen = watched_pass(trainee.model, partial(trainee.go_back, group))
    seen.casts = casts.measured()
    return seen


Make = Callable[[Bench, jobs.StudyNumerics], Generator[Event, None, PartResult]]
"""A function that reports its progress as phases and returns its part. It raises StoppedError."""

_MAKERS: Mapping[Part, Make] = {
    "map": map_precision,
    "range": measure_ranges,
    "nan": find_nonfinite,
    "ladder": measure_divergence,
    "islands": find_fp32_modules,
}


def study_numerics(job: jobs.StudyNumerics, control: Control) -> Iterator[Event]:
    """Measure the requested parts. The last event is `Finished`.

    Raise ProblemError of kind `REQUEST` if the experiment cannot run here or its model cannot be watched.
    Also raise any error of a step, after the parts before it.
    """
    plan = RunPlan(job.experiment, read_catalog())
    select_device(plan)
    with memory_cap(plan.device, plan.experiment.memory_cap_gib):
        bench = yield from open_bench(plan, control)
        if bench is not None:
            with closing(bench), suppress(StoppedError):
                yield from _parts(bench, job)
    yield Finished(summary=Summary(), stopped=control.stop_requested.is_set())


def _parts(bench: Bench, job: jobs.StudyNumerics) -> Iterator[Event]:
    results = NumericsResults()
    for part in job.parts:
        bench.check_stop()
        result = yield from _MAKERS[part](bench, job)
        results = results.with_part(result)
        yield PartMeasured(result=result)
    bench.check_stop()
    yield PartMeasured(result=(yield from advise_on_numerics(bench, results)))
