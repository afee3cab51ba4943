"""The ladder: where shorter formats part from FP32, in which step and at which module."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.numerics.nonfinite import module_title
from engine.protocol.numerics.numerics import Ladder, ModuleError, Rung
from engine.statistics import Band, band_of
from engine.training.numerics.band import (
    MOST_STEPS,
    REPEATS,
    ROUNDING,
    Made,
    Outputs,
    Trials,
    affordable_steps,
    errors_between,
    first_step,
    in_precision,
)
from engine.training.numerics.bench import Bench, numerics_phase
from engine.words.names import listed
from engine.words.numbers import number, three_figures

RUNGS = (Precision.FP16_UNSCALED, Precision.FP16, Precision.BF16, Precision.BF16_PURE)

_BUDGET_SECONDS = 120.0

_EXPLAINED = 8.0
"""A module's output parts where its error is more than this many times the one that rounding explains: that
of FP32's repeats with weights as coarse as the format's, or one rounding. Rounding every activation too adds
up to about three times as much in healthy models; overflow and cancellation add far more."""


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


def climb_ladder(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, Ladder]:
    """Trains FP32's repeats and the precisions of the device from equal weights."""
    # where it is not asked for, FP8 would take a band of its own, and much time where it is emulated
    rungs_to_climb = (*RUNGS, Precision.FP8) if bench.experiment.precision is Precision.FP8 else RUNGS
    offered = [rung for rung in rungs_to_climb if bench.plan.device_entry.precision(rung).available]
    look = yield from _look(bench, offered)
    steps = affordable_steps(bench, look.seconds, _BUDGET_SECONDS)
    coarser = dict.fromkeys(ROUNDING[rung] for rung in offered)
    variants = [(rung, *each) for rung in offered for each in _variants(bench.experiment, rung)]
    trials = Trials(bench, steps, runs=1 + REPEATS * (1 + len(coarser)) + len(variants))
    plain = yield from trials.run(Precision.FP32.label, in_precision(bench.experiment, Precision.FP32))
    repeats = yield from trials.repeats(Precision.FP32, [[made.loss for made in plain]])
    bands: dict[float, Band] = {}
    rungs: list[Rung] = []
    for precision, label, settings in variants:
        if ROUNDING[precision] not in bands:
            coarse = yield from trials.repeats(precision, repeats)
            bands[ROUNDING[precision]] = band_of(coarse)
        made = yield from trials.run(label, settings)
        rungs.append(_rung(precision, label, made, bands[ROUNDING[precision]], look))
    band = band_of(repeats)
    return Ladder(
        steps=steps,
        repeats=tuple(repeats),
        band_low=band.low,
        band_high=band.high,
        rungs=tuple(rungs),
        sentence=_whole(rungs, band),
        notes=_notes(bench, steps),
    )


def _variants(experiment: Experiment, precision: Precision) -> Iterator[tuple[str, Experiment]]:
    settings = in_precision(experiment, precision)
    optimizer = settings.optimizer.model_copy(update={"stochastic_rounding": False})
    yield precision.label, settings.model_copy(update={"optimizer": optimizer})
    # only where the run has it: torchao's optimizer is compiled for each shape
    if experiment.rounds_stochastically and settings.rounds_stochastically:
        yield f"{precision.label} with stochastic rounding", settings


def _look(bench: Bench, offered: Sequence[Precision]) -> Generator[Event, None, _Look]:
    yield numerics_phase("the first step in every precision", 0.0)
    settings = in_precision(bench.experiment, Precision.FP32)
    reference, float32_seconds = first_step(bench, settings)
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
        outputs, one_step = first_step(bench, in_precision(bench.experiment, precision))
        errors[precision] = errors_between(outputs, reference)
        seconds += one_step
    return _Look(errors, explained, seconds)


def _explained(bench: Bench, reference: Outputs, rounding: float) -> Mapping[str, float]:
    settings = in_precision(bench.experiment, Precision.FP32)
    largest: dict[str, float] = {}
    for repeat in range(1, REPEATS + 1):
        outputs, _ = first_step(bench, settings, rounding=rounding, repeat=repeat)
        for name, error in errors_between(outputs, reference).items():
            largest[name] = max(error, largest.get(name, 0.0))
    return largest


def _rung(precision: Precision, label: str, made: Sequence[Made], band: Band, look: _Look) -> Rung:
    losses = tuple(step.loss for step in made)
    skipped = sum(step.skipped for step in made)
    errors = look.errors[precision]
    first = look.first_module(precision)
    rung = Rung(
        label=label,
        precision=precision,
        losses=losses,
        band_low=band.low,
        band_high=band.high,
        parts_at=band.parts_at(losses),
        first_module=first,
        errors=tuple(
            ModuleError(
                module=name, relative_error=error, explained_error=look.explained_error(precision, name)
            )
            for name, error in errors.items()
        ),
        skipped=skipped,
    )
    sentences = [_parting(rung), _skipping(made, skipped), _where(rung)]
    return rung.model_copy(update={"sentence": " ".join(filter(None, sentences))})


def _parting(rung: Rung) -> str:
    if rung.parts_at is None:
        return f"{rung.label} stays with FP32 in all {len(rung.losses)} steps, but for rounding."
    index = rung.parts_at - 1
    loss = rung.losses[index]
    broken = next((step for step, value in enumerate(rung.losses, 1) if not math.isfinite(value)), None)
    if broken == rung.parts_at:
        return f"{rung.label} parts from FP32 at step {rung.parts_at}: its loss is {number(loss)} there."
    side = "above" if loss > rung.band_high[index] else "below"
    shown, low, high = _told_apart(loss, rung.band_low[index], rung.band_high[index])
    text = (
        f"{rung.label} parts from FP32 at step {rung.parts_at}: its loss of {shown} is {side} the {low} to "
        f"{high} that rounding explains."
    )
    if broken is not None:
        text += f" From step {broken} on its loss is no longer a finite number."
    return text


def _told_apart(*values: float) -> list[str]:
    digits = min(map(three_figures, values))
    for more in range(6):
        texts = [number(value, digits + more) for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _skipping(made: Sequence[Made], skipped: int) -> str:
    if not skipped:
        return ""
    tries = "1 try" if skipped == 1 else f"{skipped} tries"
    sunk = next((step for step, one in enumerate(made, 1) if (one.grad_scale or 1.0) < 1), None)
    if sunk is not None:
        return (
            f"The loss scaler skipped {tries} at a step; its scale sank below 1 at step {sunk}: a smaller "
            "scale does not keep this from overflowing."
        )
    return f"The loss scaler skipped {tries} at a step; each was made again at a lower scale."


def _where(rung: Rung) -> str:
    if rung.first_module is None:
        if rung.parts_at is None:
            return ""
        return (
            "In the first step the outputs of all modules agree with FP32's, but for rounding: the cause is "
            "in the backward pass or the loss, or builds up over the steps."
        )
    first = next(entry for entry in rung.errors if entry.module == rung.first_module)
    module = module_title(rung.first_module)
    if math.isinf(first.relative_error):
        where = f"In the first step the output of {module}"
        return f"{where} is the first that is infinite or NaN; in FP32 it is finite."
    error, usual = map(_percent, (first.relative_error, first.explained_error or 0.0))
    return (
        f"In the first step the output of {module} is the first to part: {error} off, where rounding "
        f"explains {usual}."
    )


def _percent(fraction: float) -> str:
    return f"{number(100 * fraction)}%"


def _whole(rungs: Sequence[Rung], band: Band) -> str:
    broken = next((step for step, low in enumerate(band.low, 1) if not math.isfinite(low)), None)
    if broken is not None:
        return (
            f"FP32's own loss is not finite from step {broken} on: the fault lies in the training, not in a "
            "precision. Try a lower learning rate."
        )
    parted = [rung for rung in rungs if rung.parts_at is not None]
    if not parted:
        return "No precision parts from FP32 by more than rounding explains."
    staying = [rung.label for rung in rungs if rung.parts_at is None]
    text = "; ".join(f"{rung.label} parts from FP32 at step {rung.parts_at}" for rung in parted)
    text += f"; {listed(staying)} {'stays' if len(staying) == 1 else 'stay'} with it." if staying else "."
    return text + _lesson({rung.precision for rung in parted}, {rung.precision for rung in rungs})


def _lesson(parted: set[Precision], known: set[Precision]) -> str:
    if parted == {Precision.FP16_UNSCALED}:
        return " The loss scaler is what FP16 needs here: without it small gradients become zero."
    if parted == {Precision.FP16_UNSCALED, Precision.FP16} and Precision.BF16 in known:
        return " Numbers are too large or too small for FP16, and not for BF16, which has FP32's range."
    if parted - {Precision.BF16_PURE} == {Precision.BF16}:
        return " BF16 keeps three binary digits fewer than FP16, and they matter here."
    if parted == {Precision.BF16_PURE}:
        return " Weights of BF16 lose small updates here; BF16 AMP keeps the weights in FP32."
    if parted == {Precision.FP8}:
        return " FP8 alone is too coarse here: scale it by rows, or keep the first module in FP32."
    return ""


def _notes(bench: Bench, steps: int) -> tuple[str, ...]:
    notes = [
        f"FP32 was trained {1 + REPEATS} times, with weights a rounding error apart, as another order of "
        f"sums sets them, and {REPEATS} times with weights as coarse as each shorter format's. A rung parts "
        "where its loss leaves their range by more than three times that range, and stays outside."
    ]
    if steps < min(bench.plan.total_steps, MOST_STEPS):
        notes.append(f"{steps} steps were made, since a step takes long here.")
    notes += [
        f"{entry.precision.label} is left out: {entry.reason}."
        for entry in map(bench.plan.device_entry.precision, RUNGS)
        if not entry.available
    ]
    return tuple(notes)
