"""Short runs for comparing precisions, and FP32's repeats.

A repeat is the same run in FP32 with sums that differ by a rounding error, as with other kernels or another
order of sums. Moving every weight by such an error shows this for any model on any device. Switching kernels
or shuffling a batch would not: some kernels have no second form, and random numbers may be drawn for a batch.
At each step the weights are moved again, and moved back after it, as autocast rounds copies of them.

With FP32's rounding error, the repeats show how far FP32 diverges from itself. With a 16-bit format's error,
they show the same for values as coarse as that format's. A run in that format cannot stay closer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol.events import Event, Phase
from engine.training.data.batches import Batch
from engine.training.models.recompute import removed_at_end
from engine.training.numerics.bench import Bench, StepMetrics, Trainee, numerics_phase, with_precision
from engine.training.precision import floating, leaf_tensors

REPEATS = 4
"""The number of repeats for each size of rounding error, in addition to the run itself."""

ROUNDING = {
    Precision.FP32: 2.0**-23,
    Precision.FP16: 2.0**-11,
    Precision.FP16_UNSCALED: 2.0**-11,
    Precision.BF16: 2.0**-8,
    Precision.BF16_PURE: 2.0**-8,
    Precision.FP8: 2.0**-4,
}
"""Half the gap between 1 and the next number. FP32's full gap, since half of it would be rounded away."""

LEAST_STEPS, MOST_STEPS = 10, 60
_MOST_REPETITIONS = 64


def run_first_steps(
    bench: Bench, experiment: Experiment, steps: int, *, rounding: float = 0.0, repeat: int = 0
) -> Generator[StepMetrics, None, None]:
    """Yield the first steps from the bench's weights, or fewer if it is stopped.

    With `rounding`, the weights are moved by up to that relative amount. Each `repeat` moves them differently
    and draws other random numbers, as other precisions also draw different dropouts. A step that the loss
    scaler skips is repeated at the lower scale, until that is below 1, so that all runs learn from the same
    batches. A model file's own step is not repeated, since some of its optimizers may have stepped.
    """
    with bench.trainee(experiment) as trainee:
        if repeat:
            torch.manual_seed(repeat)
        generator = torch.Generator(device=bench.device).manual_seed(repeat)
        for group in bench.groups(steps):
            if bench.is_stopped:
                return
            with moved_weights(trainee.model, rounding, generator):
                made = _made(bench, trainee, group)
            yield made


def _made(bench: Bench, trainee: Trainee, group: list[Batch]) -> StepMetrics:
    skipped, step = 0, trainee.train(group)
    while step.skipped:
        skipped += 1
        is_sunk = step.grad_scale is not None and step.grad_scale < 1
        if is_sunk or trainee.workload.body is not None or skipped == _MOST_REPETITIONS or bench.is_stopped:
            break
        trainee.steps -= 1
        step = trainee.train(group)
    return replace(step, skipped=skipped)


@contextmanager
def moved_weights(model: nn.Module, rounding: float, generator: torch.Generator) -> Iterator[None]:
    """Move the FP32 weights at random by a relative amount of up to `rounding` within the context."""
    weights = [weight for weight in model.parameters() if rounding and weight.dtype is torch.float32]
    moves = [
        weight.detach()
        * torch.rand(weight.shape, generator=generator, device=weight.device).mul_(2).sub_(1).mul_(rounding)
        for weight in weights
    ]
    _add(weights, moves, 1.0)
    try:
        yield
    finally:
        _add(weights, moves, -1.0)


def _add(weights: list[nn.Parameter], moves: list[torch.Tensor], factor: float) -> None:
    with torch.no_grad():
        for weight, move in zip(weights, moves, strict=True):
            weight.add_(move, alpha=factor)


@dataclass
class Trials:
    """Makes the short runs of a numerics part and reports its progress as `done` of `runs` runs.

    If not `is_known`, `runs` is an estimate.
    """

    bench: Bench
    steps: int
    runs: int
    is_known: bool = True
    done: int = 0

    def run(
        self,
        title: str,
        experiment: Experiment,
        *,
        rounding: float = 0.0,
        repeat: int = 0,
        is_over: Callable[[Sequence[StepMetrics]], bool] = lambda made: False,
    ) -> Generator[Event, None, list[StepMetrics]]:
        """Return the steps of a short run, up to the first at which `is_over`. Raise StoppedError."""
        made: list[StepMetrics] = []
        steps = run_first_steps(self.bench, experiment, self.steps, rounding=rounding, repeat=repeat)
        with closing(steps):
            yield self._phase(title, 0)
            for step in steps:
                made.append(step)
                yield self._phase(title, len(made))
                if is_over(made):
                    break
        self.done += 1
        self.bench.check_stop()
        return made

    def repeats(
        self, precision: Precision, losses: Sequence[Sequence[float]] = ()
    ) -> Generator[Event, None, list[tuple[float, ...]]]:
        """Return `losses`, followed by those of FP32 runs with that precision's rounding error."""
        found = [tuple(run) for run in losses]
        experiment = in_precision(self.bench.experiment, Precision.FP32)
        for repeat in range(1, REPEATS + 1):
            made = yield from self.run(
                f"FP32, rounded as {precision.label}" if precision.is_narrow else "FP32 again",
                experiment,
                rounding=ROUNDING[precision],
                repeat=repeat,
            )
            found.append(tuple(step.loss for step in made))
        return found

    def _phase(self, title: str, step: int) -> Phase:
        runs = max(self.runs, self.done + 1)
        fraction = min(1.0, (self.done + step / self.steps) / runs)
        which = f"run {self.done + 1}" + (f" of {runs}" if self.is_known else "")
        return numerics_phase(f"{title}: step {step} of {self.steps}, {which}", fraction)


def in_precision(experiment: Experiment, precision: Precision) -> Experiment:
    """Return the experiment in that precision, with a loss scaler and FP32 modules only where it has them."""
    scaler = experiment.scaler.model_copy(update={"mode": "auto"})
    kept = () if precision is Precision.BF16_PURE else None
    return with_precision(experiment, precision, kept).model_copy(update={"scaler": scaler})


def affordable_steps(bench: Bench, seconds_per_step: float, budget_seconds: float) -> int:
    """Return the length of runs that together take `seconds_per_step` for each of their steps.

    It is the experiment's length, at most 60 steps, and reduced to fit the budget, but not below 10.
    """
    most = min(bench.plan.total_steps, MOST_STEPS)
    fitting = int(budget_seconds / max(seconds_per_step, 1e-9))
    return min(most, max(fitting, LEAST_STEPS))


_MOST_KEPT = 2**16
"""The values to keep of an output, evenly spread. All outputs might not fit into memory twice."""


@dataclass(frozen=True)
class Output:
    """A module's output, sampled and in float64 on the CPU, to compare it between precisions.

    `is_finite` describes all of the output, not only the sampled values.
    """

    values: Tensor
    is_finite: bool

    def error_to(self, reference: Output) -> float:
        """Return ||x - y|| / ||y|| for the reference y. It is infinite if only x is not finite."""
        if not self.is_finite or self.values.shape != reference.values.shape:
            return math.inf
        apart = torch.linalg.vector_norm(self.values - reference.values).item()
        size = torch.linalg.vector_norm(reference.values).item()
        return apart / size if size else (math.inf if apart else 0.0)


Outputs = Mapping[str, Output]
"""Outputs by module name, in the order in which forward passes ended, only of a module's first call."""


def first_step_outputs(
    bench: Bench, experiment: Experiment, *, rounding: float = 0.0, repeat: int = 0
) -> tuple[Outputs, float]:
    """Return the modules' outputs in the first step, and the seconds of the next step, which is warm."""
    found: dict[str, Output] = {}
    with bench.trainee(experiment) as trainee:
        if repeat:
            torch.manual_seed(repeat)
        generator = torch.Generator(device=bench.device).manual_seed(repeat)
        groups = list(bench.groups(1))
        with moved_weights(trainee.model, rounding, generator), _watched(trainee.model, found):
            trainee.forward_backward(groups[0])
        trainee.wait()
        began = time.perf_counter()
        if not repeat:
            trainee.train(groups[0])
        return found, time.perf_counter() - began


def output_errors(outputs: Outputs, reference: Outputs) -> dict[str, float]:
    """Return the relative error of every module's output whose reference is finite."""
    return {
        name: output.error_to(reference[name])
        for name, output in outputs.items()
        if name in reference and reference[name].is_finite
    }


@contextmanager
def _watched(model: nn.Module, found: dict[str, Output]) -> Iterator[None]:
    def hook_of(name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, result: Any) -> None:
            floats = list(floating(leaf_tensors(result)))
            if floats and name not in found:
                found[name] = _kept(floats)

        return keep

    with removed_at_end([it.register_forward_hook(hook_of(name)) for name, it in model.named_modules()]):
        yield


def _kept(tensors: Sequence[Tensor]) -> Output:
    flat = [tensor.reshape(-1) for tensor in tensors]
    total = sum(part.numel() for part in flat)
    # an odd stride does not fall into step with channels, whose numbers are mostly powers of two
    stride = -(-total // _MOST_KEPT) | 1
    values = torch.cat([part[::stride].cpu().double() for part in flat])
    return Output(values, all(bool(part.isfinite().all()) for part in flat))
