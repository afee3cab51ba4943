"""The evidence for advice: the results of numerics, and the cost of a few steps in two precisions."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Experiment
from engine.protocol.events import Event
from engine.protocol.numerics import NumericsResults
from engine.training.data.batches import Batch
from engine.training.measuring.memory import Breakdown, activations_of, breakdown_of
from engine.training.models.libraries import is_out_of_memory
from engine.training.models.tensor_cores import OddSize, odd_sizes
from engine.training.numerics.bench import Bench, Trainee, numerics_phase
from engine.training.numerics.ranges import fp32_experiment
from engine.training.steps.rehearsal import synchronize

_PASSES, _MOST_SECONDS = 5, 1.0


@dataclass(frozen=True)
class Cost:
    """The measured time and memory of training in one precision, over `steps` steps.

    `pass_seconds` is the median of a forward and backward pass, and `issue_seconds` the part in which the
    host launches it (None on a CPU). `infinite_norms` counts the steps whose gradient norm was not finite
    although they were not skipped.
    """

    pass_seconds: float
    breakdown: Breakdown
    issue_seconds: float | None = None
    steps: int = 2
    infinite_norms: int = 0


@dataclass(frozen=True)
class NumericsEvidence:
    """All measurements from which the advice on numerics is derived. Unmeasured costs are None.

    `half_parameters` are the names of trained parameters in FP16. `is_float32` is True if all parameters,
    including frozen ones, are in float32. `epsilon` is the optimizers' smallest epsilon, None without one.
    """

    experiment: Experiment
    device: DeviceEntry
    results: NumericsResults
    total_steps: int
    cost: Cost | None = None
    fp32_cost: Cost | None = None
    odd_sizes: tuple[OddSize, ...] = ()
    half_parameters: tuple[str, ...] = ()
    is_float32: bool = True
    epsilon: float | None = None


def gather_evidence(bench: Bench, results: NumericsResults) -> Generator[Event, None, NumericsEvidence]:
    """Collect the evidence. Costs are measured if a precision map was requested."""
    plan, settings = bench.plan, bench.experiment
    cost = fp32_cost = None
    yield numerics_phase("Cost of the precision", 0.0)
    group = next(bench.groups(1))
    with bench.trainee() as trainee:
        weights = dict(trainee.model.named_parameters())
        half = tuple(name for name, it in weights.items() if it.dtype is torch.float16 and it.requires_grad)
        odd = tuple(odd_sizes(trainee.model))
        epsilon = min(
            (options["eps"] for options in trainee.step.optimizer.param_groups if "eps" in options),
            default=None,
        )
        if results.map is not None and settings.precision.is_narrow:
            cost = _cost_of(trainee, group, bench)
    if cost is not None and not bench.is_stopped:
        yield numerics_phase("Cost of FP32", 0.5)
        fp32_cost = _cost_in_fp32(bench, group)
    bench.check_stop()
    return NumericsEvidence(
        experiment=plan.experiment,
        device=plan.device_entry,
        results=results,
        total_steps=plan.total_steps,
        cost=cost,
        fp32_cost=fp32_cost,
        odd_sizes=odd,
        half_parameters=half,
        is_float32=all(weight.dtype is torch.float32 for weight in weights.values()),
        epsilon=epsilon,
    )


def _cost_in_fp32(bench: Bench, group: Sequence[Batch]) -> Cost | None:
    """Return None if memory does not suffice for FP32. All other advice is still possible."""
    try:
        with bench.trainee(fp32_experiment(bench.experiment)) as trainee:
            return _cost_of(trainee, group, bench)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    return None


def _cost_of(trainee: Trainee, group: Sequence[Batch], bench: Bench) -> Cost:
    # the first steps are also the warm-up of what is timed after them
    began = time.perf_counter()
    steps = [trainee.train(group)]
    if time.perf_counter() - began < _MOST_SECONDS:
        steps.append(trainee.train(group))
    norms = [step.grad_norm for step in steps if step.grad_norm is not None and not step.skipped]
    with activations_of(trainee.model, trainee.device) as activations:
        watched = _timed_pass(trainee, group)
    times: list[tuple[float, float]] = []
    while len(times) < _PASSES and watched[1] + sum(whole for _, whole in times) < _MOST_SECONDS:
        if bench.is_stopped:
            break
        times.append(_timed_pass(trainee, group))
    # looking at a pass that is so slow costs next to nothing
    times = times or [watched]
    is_host = trainee.device.type == "cpu"
    return Cost(
        pass_seconds=median(whole for _, whole in times),
        breakdown=breakdown_of(trainee.model, trainee.step.optimizer, activations.mib),
        issue_seconds=None if is_host else median(issued for issued, _ in times),
        steps=len(steps),
        infinite_norms=sum(not math.isfinite(norm) for norm in norms),
    )


def _timed_pass(trainee: Trainee, group: Sequence[Batch]) -> tuple[float, float]:
    synchronize(trainee.device)
    began = time.perf_counter()
    trainee.forward_backward(group)
    issued = time.perf_counter() - began
    synchronize(trainee.device)
    return issued, time.perf_counter() - began
