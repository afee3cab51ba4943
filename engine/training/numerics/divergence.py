"""The divergence test: the step and the module at which lower precisions diverge from FP32 and its repeats.

A repeat is the same run in FP32 with sums that differ by a rounding error, as with other kernels or another
order of sums. Moving every weight by such an error shows this for any model on any device. Switching kernels
or shuffling a batch would not: some kernels have no second form, and random numbers may be drawn for a batch.
At each step the weights are moved again, and moved back after it, as autocast rounds copies of them.

With FP32's rounding error, the repeats show how far FP32 diverges from itself. With a 16-bit format's error,
they show the same for values as coarse as that format's. A run in that format cannot stay closer."""

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
from engine.protocol import jobs
from engine.protocol.events import Event, Phase
from engine.protocol.numerics import DivergenceTest, ModuleError, PrecisionRun
from engine.protocol.ranges import module_title
from engine.statistics import Band, band_of
from engine.training.data.batches import Batch
from engine.training.models.forward import removed_at_end
from engine.training.numerics.bench import Bench, StepMetrics, Trainee, numerics_phase, with_precision
from engine.training.precision import floating, leaf_tensors
from engine.training.steps.rehearsal import synchronize
from engine.words.names import listed
from engine.words.numbers import counted, number, three_figures

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
                made = _train_step(bench, trainee, group)
            yield made


def _train_step(bench: Bench, trainee: Trainee, group: list[Batch]) -> StepMetrics:
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
    _move_weights(weights, moves, 1.0)
    try:
        yield
    finally:
        _move_weights(weights, moves, -1.0)


def _move_weights(weights: list[nn.Parameter], moves: list[torch.Tensor], factor: float) -> None:
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
        synchronize(trainee.device)
        began = time.perf_counter()
        if not repeat:
            trainee.train(groups[0])
        return found, time.perf_counter() - began


def output_errors(outputs: Outputs, reference: Outputs) -> dict[str, float]:
    """Return the relative error of each module's output, for modules whose reference is finite."""
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


PRECISIONS = (Precision.FP16_UNSCALED, Precision.FP16, Precision.BF16, Precision.BF16_PURE)

_BUDGET_SECONDS = 120.0

_EXPLAINED = 8.0
"""A module's output diverges if its error exceeds the one that rounding explains by this factor. That is the
error of FP32's repeats at the precision's rounding, or one rounding. Rounding every activation too adds up to
about three times as much in healthy models. Overflow and cancellation add far more."""


_Errors = tuple[ModuleError, ...]


def measure_divergence(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, DivergenceTest]:
    """Measure how far each precision's losses diverge from FP32's, relative to the variation of repeated
    runs. Trains FP32, its repeats and the device's precisions from equal weights, and returns the test.
    """
    # only on request: FP8 takes a band of its own, and much time where it is emulated
    extra = (Precision.FP8,) if bench.experiment.precision is Precision.FP8 else ()
    known = (*PRECISIONS, *extra)
    offered = [each for each in known if bench.plan.device_entry.precision(each).available]
    errors, seconds = yield from _first_look(bench, offered)
    steps = affordable_steps(bench, seconds, _BUDGET_SECONDS)
    coarser = dict.fromkeys(ROUNDING[each] for each in offered)
    variants = [(each, *variant) for each in offered for variant in _variants(bench.experiment, each)]
    trials = Trials(bench, steps, runs=1 + REPEATS * (1 + len(coarser)) + len(variants))
    plain = yield from trials.run(Precision.FP32.label, in_precision(bench.experiment, Precision.FP32))
    repeats = yield from trials.repeats(Precision.FP32, [[made.loss for made in plain]])
    bands: dict[float, Band] = {}
    runs: list[PrecisionRun] = []
    for precision, label, settings in variants:
        if ROUNDING[precision] not in bands:
            coarse = yield from trials.repeats(precision, repeats)
            bands[ROUNDING[precision]] = band_of(coarse)
        made = yield from trials.run(label, settings)
        runs.append(_run_of(precision, label, made, bands[ROUNDING[precision]], errors[precision]))
    band = band_of(repeats)
    return DivergenceTest(
        steps=steps,
        repeats=tuple(repeats),
        band_low=band.low,
        band_high=band.high,
        runs=tuple(runs),
        sentence=_summary(runs, band),
        notes=_test_notes(bench, steps),
    )


def _variants(experiment: Experiment, precision: Precision) -> Iterator[tuple[str, Experiment]]:
    settings = in_precision(experiment, precision)
    optimizer = settings.optimizer.model_copy(update={"stochastic_rounding": False})
    yield precision.label, settings.model_copy(update={"optimizer": optimizer})
    # only if the run has it: torchao's optimizer is compiled for each shape
    if experiment.rounds_stochastically and settings.rounds_stochastically:
        yield f"{precision.label} with stochastic rounding", settings


def _first_look(
    bench: Bench, offered: Sequence[Precision]
) -> Generator[Event, None, tuple[dict[Precision, _Errors], float]]:
    """Return the errors of each precision's module outputs, and the seconds of a step of all runs."""
    yield numerics_phase("the first step in every precision", 0.0)
    settings = in_precision(bench.experiment, Precision.FP32)
    reference, float32_seconds = first_step_outputs(bench, settings)
    errors: dict[Precision, _Errors] = {}
    explained: dict[float, Mapping[str, float]] = {}
    seconds = float32_seconds * (1 + REPEATS)
    for precision in offered:
        bench.check_stop()
        size = ROUNDING[precision]
        if size not in explained:
            explained[size] = _explained(bench, reference, size)
            seconds += float32_seconds * REPEATS
        yield numerics_phase(f"{precision.label}: the first step", 0.0)
        outputs, one_step = first_step_outputs(bench, in_precision(bench.experiment, precision))
        errors[precision] = tuple(
            ModuleError(
                module=name, relative_error=error, explained_error=max(explained[size].get(name, 0.0), size)
            )
            for name, error in output_errors(outputs, reference).items()
        )
        seconds += one_step
    return errors, seconds


def _explained(bench: Bench, reference: Outputs, rounding: float) -> Mapping[str, float]:
    settings = in_precision(bench.experiment, Precision.FP32)
    largest: dict[str, float] = {}
    for repeat in range(1, REPEATS + 1):
        outputs, _ = first_step_outputs(bench, settings, rounding=rounding, repeat=repeat)
        for name, error in output_errors(outputs, reference).items():
            largest[name] = max(error, largest.get(name, 0.0))
    return largest


def _run_of(
    precision: Precision, label: str, made: Sequence[StepMetrics], band: Band, errors: _Errors
) -> PrecisionRun:
    losses = tuple(step.loss for step in made)
    skipped = sum(step.skipped for step in made)
    diverging = (one for one in errors if one.relative_error > _EXPLAINED * (one.explained_error or 0.0))
    first = next(diverging, None)
    run = PrecisionRun(
        label=label,
        precision=precision,
        losses=losses,
        band_low=band.low,
        band_high=band.high,
        diverges_at=band.first_step_outside(losses),
        first_module=None if first is None else first.module,
        errors=errors,
        skipped=skipped,
    )
    sentences = [_divergence(run), _skipping(made, skipped), _first_module_sentence(run, first)]
    return run.model_copy(update={"sentence": " ".join(filter(None, sentences))})


def _divergence(run: PrecisionRun) -> str:
    if run.diverges_at is None:
        return f"{run.label} matches FP32 in all {len(run.losses)} steps, except for rounding."
    index = run.diverges_at - 1
    loss = run.losses[index]
    broken = next((step for step, value in enumerate(run.losses, 1) if not math.isfinite(value)), None)
    if broken == run.diverges_at:
        return f"{run.label} diverges from FP32 at step {run.diverges_at}: its loss is {number(loss)}."
    side = "above" if loss > run.band_high[index] else "below"
    shown, low, high = _distinct_texts(loss, run.band_low[index], run.band_high[index])
    text = (
        f"{run.label} diverges from FP32 at step {run.diverges_at}: its loss of {shown} is {side} the range "
        f"expected from rounding alone ({low} to {high})."
    )
    if broken is not None:
        text += f" From step {broken} on, its loss is not finite."
    return text


def _distinct_texts(*values: float) -> list[str]:
    digits = min(map(three_figures, values))
    for more in range(6):
        texts = [number(value, digits + more) for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _skipping(made: Sequence[StepMetrics], skipped: int) -> str:
    if not skipped:
        return ""
    attempts = counted(skipped, "attempt")
    sunk = next((step for step, one in enumerate(made, 1) if (one.grad_scale or 1.0) < 1), None)
    if sunk is not None:
        return (
            f"The loss scaler skipped {attempts} at a step. Its scale dropped below 1 at step {sunk}, so no "
            "smaller scale prevents this overflow."
        )
    return f"The loss scaler skipped {attempts} at a step and repeated each at a lower scale."


def _first_module_sentence(run: PrecisionRun, first: ModuleError | None) -> str:
    if first is None:
        if run.diverges_at is None:
            return ""
        return (
            "In the first step, all module outputs match FP32 except for rounding. The cause is in the "
            "backward pass or the loss, or builds up over the steps."
        )
    module = module_title(first.module)
    if math.isinf(first.relative_error):
        return f"In the first step, {module} is the first with an infinite or NaN output, finite in FP32."
    error, usual = map(_percent, (first.relative_error, first.explained_error or 0.0))
    return (
        f"In the first step, the output of {module} is the first to diverge: its error is {error}, with "
        f"{usual} expected from rounding."
    )


def _percent(fraction: float) -> str:
    return f"{number(100 * fraction)}%"


def _summary(runs: Sequence[PrecisionRun], band: Band) -> str:
    broken = next((step for step, low in enumerate(band.low, 1) if not math.isfinite(low)), None)
    if broken is not None:
        return (
            f"FP32's own loss is not finite from step {broken} on. The cause is the training, not a "
            "precision. Try a lower learning rate."
        )
    parted = [run for run in runs if run.diverges_at is not None]
    if not parted:
        return "No precision diverges from FP32 by more than rounding explains."
    staying = [run.label for run in runs if run.diverges_at is None]
    text = listed([f"{run.label} diverges from FP32 at step {run.diverges_at}" for run in parted])
    text += f". {listed(staying)} {'does' if len(staying) == 1 else 'do'} not." if staying else "."
    return text + _result_sentence({run.precision for run in parted}, {run.precision for run in runs})


def _result_sentence(parted: set[Precision], known: set[Precision]) -> str:
    if parted == {Precision.FP16_UNSCALED}:
        return " FP16 needs the loss scaler here. Without it, small gradients underflow."
    if parted == {Precision.FP16_UNSCALED, Precision.FP16} and Precision.BF16 in known:
        return " Some values are too large or too small for FP16, but not for BF16, which has FP32's range."
    if parted - {Precision.BF16_PURE} == {Precision.BF16}:
        return " BF16 has three mantissa bits fewer than FP16, and they matter here."
    if parted == {Precision.BF16_PURE}:
        return " BF16 weights lose small updates here. BF16 AMP keeps the weights in FP32."
    if parted == {Precision.FP8}:
        return " Only FP8 is too coarse here. Scale it by rows, or keep the first module in FP32."
    return ""


def _test_notes(bench: Bench, steps: int) -> tuple[str, ...]:
    notes = [
        f"FP32 was trained {1 + REPEATS} times with weights a rounding error apart, and {REPEATS} times with "
        "weights as coarse as in each lower precision. A precision diverges at the step from which its loss "
        "stays outside their range by more than three times that range."
    ]
    if steps < min(bench.plan.total_steps, MOST_STEPS):
        notes.append(f"Only {steps} steps were trained, because a step takes long here.")
    notes += [
        f"{entry.precision.label} is skipped: {entry.reason}."
        for entry in map(bench.plan.device_entry.precision, PRECISIONS)
        if not entry.available
    ]
    return tuple(notes)
