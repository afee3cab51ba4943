"""A numerics study: the requested parts one after another, each as an event."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress

from engine.protocol import jobs
from engine.protocol.events import Event, Finished, PartMeasured, Summary
from engine.protocol.jobs import Control
from engine.protocol.numerics import NumericsResults, Part, PartResult
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import memory_cap
from engine.training.numerics.advice import advise_on_numerics
from engine.training.numerics.bench import Bench, StoppedError, open_bench
from engine.training.numerics.divergence import measure_divergence
from engine.training.numerics.fp32_modules import find_fp32_modules
from engine.training.numerics.nonfinite import find_nonfinite
from engine.training.numerics.precision_map import map_precision
from engine.training.numerics.ranges import measure_ranges
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import select_device

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
