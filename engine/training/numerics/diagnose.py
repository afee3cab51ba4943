"""A diagnosis: the parts that were asked for, one after another, each an event."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing

from engine.protocol import jobs
from engine.protocol.events import Diagnosed, Event, Finished, Summary
from engine.protocol.numerics.numerics import Diagnosis, Part, PartResult
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import memory_cap
from engine.training.numerics.advice.advise import advise_on_numerics
from engine.training.numerics.against_fp32.islands import find_islands
from engine.training.numerics.against_fp32.ladder import climb_ladder
from engine.training.numerics.bench import Bench, open_bench
from engine.training.numerics.nonfinite import find_nonfinite
from engine.training.numerics.precision_map import map_precision
from engine.training.numerics.ranges import measure_ranges
from engine.training.runs.control import Control
from engine.training.runs.prepare import RunPlan, take_device

Make = Callable[[Bench, jobs.Diagnose], Generator[Event, None, PartResult | None]]
"""Reports its progress as phases and returns its part; None if it was stopped."""

_MAKERS: Mapping[Part, Make] = {
    "map": map_precision,
    "range": measure_ranges,
    "nan": find_nonfinite,
    "ladder": climb_ladder,
    "islands": find_islands,
}


def diagnose(job: jobs.Diagnose, control: Control) -> Iterator[Event]:
    """The parts of the job's diagnosis; the last event is `Finished`.

    Raises ProblemError of kind `REQUEST` where the experiment cannot run here or its model cannot be watched,
    and any error of a step; the parts before it are known by then.
    """
    plan = RunPlan(job.experiment, read_catalog())
    take_device(plan)
    with memory_cap(plan.device, plan.experiment.memory_cap_gib):
        bench = yield from open_bench(plan, control)
        if bench is not None:
            with closing(bench):
                yield from _parts(bench, job)
    yield Finished(summary=Summary(), stopped=control.stop_requested.is_set())


def _parts(bench: Bench, job: jobs.Diagnose) -> Iterator[Event]:
    diagnosis = Diagnosis()
    for part in job.parts:
        if bench.is_stopped:
            return
        result = yield from _MAKERS[part](bench, job)
        if result is not None:
            diagnosis = diagnosis.with_part(result)
            yield Diagnosed(result=result)
    if bench.is_stopped:
        return
    advices = yield from advise_on_numerics(bench, diagnosis)
    if advices is not None:
        yield Diagnosed(result=advices)
