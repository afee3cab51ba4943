"""The divergence test: the step and the module at which lower precisions diverge from FP32."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.numerics import DivergenceTest, ModuleError, PrecisionRun
from engine.protocol.ranges import module_title
from engine.statistics import Band, band_of
from engine.training.numerics.band import (
    MOST_STEPS,
    REPEATS,
    ROUNDING,
    Outputs,
    Trials,
    affordable_steps,
    first_step_outputs,
    in_precision,
    output_errors,
)
from engine.training.numerics.bench import Bench, StepMetrics, numerics_phase
from engine.words.names import listed
from engine.words.numbers import number, three_figures

PRECISIONS = (Precision.FP16_UNSCALED, Precision.FP16, Precision.BF16, Precision.BF16_PURE)

_BUDGET_SECONDS = 120.0

_EXPLAINED = 8.0
"""A module's output diverges if its error exceeds the one that rounding explains by this factor. That is the
error of FP32's repeats at the precision's rounding, or one rounding. Rounding every activation too adds up to
about three times as much in healthy models. Overflow and cancellation add far more."""


@dataclass(frozen=True)
class _Look:
    errors: Mapping[Precision, Mapping[str, float]]
    explained: Mapping[Precision, Mapping[str, float]]
    seconds: float

    def first_module(self, precision: Precision) -> str | None:
        errors = self.errors[precision].items()
        return next(
            (name for name, error in errors if error > _EXPLAINED * self.explained_error(precision, name)),
            None,
        )

    def explained_error(self, precision: Precision, name: str) -> float:
        return max(self.explained[precision].get(name, 0.0), ROUNDING[precision])


def measure_divergence(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, DivergenceTest]:
    """Train FP32's repeats and the precisions of the device from equal weights."""
    # only on request: FP8 takes a band of its own, and much time where it is emulated
    extra = (Precision.FP8,) if bench.experiment.precision is Precision.FP8 else ()
    known = (*PRECISIONS, *extra)
    offered = [each for each in known if bench.plan.device_entry.precision(each).available]
    look = yield from _look(bench, offered)
    steps = affordable_steps(bench, look.seconds, _BUDGET_SECONDS)
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
        runs.append(_run_of(precision, label, made, bands[ROUNDING[precision]], look))
    band = band_of(repeats)
    return DivergenceTest(
        steps=steps,
        repeats=tuple(repeats),
        band_low=band.low,
        band_high=band.high,
        runs=tuple(runs),
        sentence=_summary(runs, band),
        notes=_notes(bench, steps),
    )


def _variants(experiment: Experiment, precision: Precision) -> Iterator[tuple[str, Experiment]]:
    settings = in_precision(experiment, precision)
    optimizer = settings.optimizer.model_copy(update={"stochastic_rounding": False})
    yield precision.label, settings.model_copy(update={"optimizer": optimizer})
    # only if the run has it: torchao's optimizer is compiled for each shape
    if experiment.rounds_stochastically and settings.rounds_stochastically:
        yield f"{precision.label} with stochastic rounding", settings


def _look(bench: Bench, offered: Sequence[Precision]) -> Generator[Event, None, _Look]:
    yield numerics_phase("the first step in every precision", 0.0)
    settings = in_precision(bench.experiment, Precision.FP32)
    reference, float32_seconds = first_step_outputs(bench, settings)
    errors: dict[Precision, Mapping[str, float]] = {}
    explained: dict[Precision, Mapping[str, float]] = {}
    by_rounding: dict[float, Mapping[str, float]] = {}
    seconds = float32_seconds * (1 + REPEATS)
    for precision in offered:
        bench.check_stop()
        size = ROUNDING[precision]
        if size not in by_rounding:
            by_rounding[size] = _explained(bench, reference, size)
            seconds += float32_seconds * REPEATS
        explained[precision] = by_rounding[size]
        yield numerics_phase(f"{precision.label}: the first step", 0.0)
        outputs, one_step = first_step_outputs(bench, in_precision(bench.experiment, precision))
        errors[precision] = output_errors(outputs, reference)
        seconds += one_step
    return _Look(errors, explained, seconds)


def _explained(bench: Bench, reference: Outputs, rounding: float) -> Mapping[str, float]:
    settings = in_precision(bench.experiment, Precision.FP32)
    largest: dict[str, float] = {}
    for repeat in range(1, REPEATS + 1):
        outputs, _ = first_step_outputs(bench, settings, rounding=rounding, repeat=repeat)
        for name, error in output_errors(outputs, reference).items():
            largest[name] = max(error, largest.get(name, 0.0))
    return largest


def _run_of(
    precision: Precision, label: str, made: Sequence[StepMetrics], band: Band, look: _Look
) -> PrecisionRun:
    losses = tuple(step.loss for step in made)
    skipped = sum(step.skipped for step in made)
    errors = look.errors[precision]
    first = look.first_module(precision)
    run = PrecisionRun(
        label=label,
        precision=precision,
        losses=losses,
        band_low=band.low,
        band_high=band.high,
        diverges_at=band.first_step_outside(losses),
        first_module=first,
        errors=tuple(
            ModuleError(
                module=name, relative_error=error, explained_error=look.explained_error(precision, name)
            )
            for name, error in errors.items()
        ),
        skipped=skipped,
    )
    sentences = [_divergence(run), _skipping(made, skipped), _where(run)]
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
    attempts = "1 attempt" if skipped == 1 else f"{skipped} attempts"
    sunk = next((step for step, one in enumerate(made, 1) if (one.grad_scale or 1.0) < 1), None)
    if sunk is not None:
        return (
            f"The loss scaler skipped {attempts} at a step. Its scale dropped below 1 at step {sunk}, so no "
            "smaller scale prevents this overflow."
        )
    return f"The loss scaler skipped {attempts} at a step and repeated each at a lower scale."


def _where(run: PrecisionRun) -> str:
    if run.first_module is None:
        if run.diverges_at is None:
            return ""
        return (
            "In the first step, all module outputs match FP32 except for rounding. The cause is in the "
            "backward pass or the loss, or builds up over the steps."
        )
    first = next(entry for entry in run.errors if entry.module == run.first_module)
    module = module_title(run.first_module)
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
    return text + _lesson({run.precision for run in parted}, {run.precision for run in runs})


def _lesson(parted: set[Precision], known: set[Precision]) -> str:
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


def _notes(bench: Bench, steps: int) -> tuple[str, ...]:
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
