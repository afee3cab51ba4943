"""A numerics study: the requested parts one after another, and the advice on their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress

from engine.experiment.catalog import Precision
from engine.experiment.experiment import named
from engine.protocol import jobs
from engine.protocol.advice import Advice, AdviceKind, Advices, Changes, fast_recipe, larger_batch
from engine.protocol.events import Event, Finished, PartMeasured, Summary
from engine.protocol.jobs import Control
from engine.protocol.numerics import Cause, NumericsResults, Operation, Part, PartResult, most_skips
from engine.protocol.ranges import (
    ELSEWHERE,
    FP16,
    LOSS,
    OPTIMIZER,
    best_scale_exponent,
    dtype_label,
    lost_fraction,
    module_title,
)
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import memory_cap
from engine.training.numerics.bench import Bench, StoppedError, open_bench
from engine.training.numerics.divergence import measure_divergence
from engine.training.numerics.evidence import NumericsEvidence, gather_evidence
from engine.training.numerics.fp32_modules import find_fp32_modules
from engine.training.numerics.nonfinite import find_nonfinite
from engine.training.numerics.precision_map import map_precision
from engine.training.numerics.ranges import measure_ranges
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import select_device
from engine.words.names import listed
from engine.words.numbers import memory_text, number


def advise_on_numerics(bench: Bench, results: NumericsResults) -> Generator[Event, None, Advices]:
    """Return the advice on a bench's experiment, given the results of its numerics."""
    evidence = yield from gather_evidence(bench, results)
    return Advices(items=find_advice(evidence))


def find_advice(evidence: NumericsEvidence) -> tuple[Advice, ...]:
    """Return advice on correct numbers first, then on time and memory."""
    return (*lost_value_advice(evidence), *cost_advice(evidence))


_TELLING = 0.01
"""The smallest share of lost values that is worth advice."""

# What autocast computes in float32 on CUDA, by the operators that it comes down to.
_WANT_FP32 = frozenset(
    f"aten.{name}"
    for name in (
        *("_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "nll_loss_forward"),
        *("nll_loss2d_forward", "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "l1_loss"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "exp", "log", "log10", "log2", "log1p"),
        *("pow", "prod", "sum", "cumsum", "cumprod", "norm", "linalg_vector_norm", "rsqrt", "reciprocal"),
    )
)


def lost_value_advice(evidence: NumericsEvidence) -> Iterator[Advice]:
    """Yield advice on lost values, the most urgent first. Every problem that a part found gets advice."""
    found = evidence.results.findings(evidence.experiment.precision)
    for part, special, general in _BY_PART:
        given = [advice for advise in special for advice in advise(evidence)]
        if not given and part in found:
            given = [general(evidence, found[part])]
        yield from given
    yield from _advise_on_epsilon(evidence)


def _advise_on_first_nonfinite(evidence: NumericsEvidence, sentence: str) -> Advice:
    search = evidence.results.nan
    first = None if search is None else search.first
    if first is None:
        message = "Find the cause of the NaN or Inf before you rely on this training."
        return Advice(kind=AdviceKind.NONFINITE, message=message, evidence=sentence)
    return Advice(
        kind=AdviceKind.NONFINITE,
        message=first.remedy,
        evidence=sentence,
        modules=(first.module,),
        changes=first.changes,
        action="Use these settings" if first.changes else "",
    )


def _advise_on_lost_numbers(evidence: NumericsEvidence, sentence: str) -> Advice:
    message = "This precision loses values. Compare its losses with those of FP32 before you rely on it."
    return Advice(kind=AdviceKind.RANGE, message=message, evidence=sentence, **_to_bf16(evidence))


def _advise_on_divergence(evidence: NumericsEvidence, sentence: str) -> Advice:
    divergence, precision = evidence.results.ladder, evidence.experiment.precision
    assert divergence is not None  # it has found something
    own = divergence.run_in(precision)
    kind = AdviceKind.DIVERGES
    if own is None or divergence.has_broken_float32:
        message = "FP32 diverges too. Lower the learning rate, or search for the first NaN."
        return Advice(kind=kind, message=message, evidence=sentence)
    if own.first_module and precision.is_autocast:
        return Advice(
            kind=kind,
            message=f"Keep {own.first_module} in FP32: {precision.label} changes its output too much.",
            evidence=sentence,
            modules=(own.first_module,),
            **_keep_in_fp32_fix(evidence, own.first_module),
        )
    staying = {run.precision for run in divergence.runs if not run.diverges}
    best = next((known for known in (Precision.BF16, Precision.FP16) if known in staying), Precision.FP32)
    return Advice(
        kind=kind,
        message=f"Train in {best.label}. {own.label} diverges from FP32.",
        evidence=sentence,
        changes=(("precision", best.value),),
        action=f"Use {best.label}",
    )


def _advise_on_fp32_modules(evidence: NumericsEvidence, sentence: str) -> Advice:
    found = evidence.results.islands
    assert found is not None  # it has found something
    if not found.modules:
        message = "Use another precision. FP32 modules alone do not make this one as good as FP32."
        return Advice(kind=AdviceKind.FP32_MODULES, message=message, evidence=sentence)
    return Advice(
        kind=AdviceKind.FP32_MODULES,
        message=f"Keep {listed(found.modules)} in FP32.",
        evidence=sentence,
        modules=found.modules[:100],
        changes=found.changes,
        action="Keep in FP32" if found.changes else "",
    )


def _advise_on_clipping(evidence: NumericsEvidence) -> Iterator[Advice]:
    experiment, cost, search = evidence.experiment, evidence.cost, evidence.results.nan
    if experiment.step.clip_norm is None:
        return
    if cost is not None and cost.infinite_norms:
        yield Advice(
            kind=AdviceKind.CLIPPING,
            message="Clipping hides an overflow. A gradient norm that is not finite turns every gradient of "
            "its step into 0 or NaN.",
            evidence=f"The norm was not finite in {cost.infinite_norms:,} of {cost.steps:,} steps, and no "
            "loss scaler skipped them.",
            **_to_bf16(evidence),
        )
    elif search is not None and search.skipped >= most_skips(experiment.scaler):
        yield Advice(
            kind=AdviceKind.CLIPPING,
            message="Clipping does not prevent this overflow. Gradients are clipped after they are unscaled, "
            "and infinite gradients stay infinite.",
            evidence=f"{named('step.clip_norm')} is {experiment.step.clip_norm:g}, and "
            f"{search.skipped:,} of {search.steps:,} steps were skipped.",
            **_to_bf16(evidence),
        )


def _advise_on_sinking_scale(evidence: NumericsEvidence) -> Iterator[Advice]:
    search = evidence.results.nan
    if search is None or not search.skipped:
        return
    first = search.first
    if search.least_scale is not None and search.least_scale < 1:
        known = (
            f"In {search.steps:,} steps the scale dropped to {search.least_scale:.2g}, and "
            f"{search.skipped:,} were skipped."
        )
    elif first is not None and first.direction == "backward" and first.cause is Cause.OVERFLOW:
        known = (
            f"In step {first.step:,}, gradients overflow in {module_title(first.module)}, and no smaller "
            "loss scale was found that prevents it."
        )
    else:
        return
    yield Advice(
        kind=AdviceKind.SCALE_SINKS,
        message="Gradients overflow even at a loss scale of 1. The scale drops, and steps are skipped.",
        evidence=known,
        modules=() if first is None else (first.module,),
        **_to_bf16(evidence),
    )


def _advise_on_overflow(evidence: NumericsEvidence) -> Iterator[Advice]:
    ranges = evidence.results.range
    if ranges is None:
        return
    row = ranges.first_overflow
    if row is None or not row.module:
        return
    largest = "" if row.exponents.largest is None else f", where the largest is {row.exponents.largest:,.4g}"
    yield Advice(
        kind=AdviceKind.RANGE,
        message=f"{row.module} overflows in {dtype_label(row.dtype)}.",
        evidence=f"{row.became_nonfinite:,} of its {row.exponents.total:,} outputs are not finite, but are "
        f"finite in FP32{largest}.",
        modules=(row.module,),
        **_keep_in_fp32_fix(evidence, row.module),
    )


def _advise_on_underflow(evidence: NumericsEvidence) -> Iterator[Advice]:
    experiment, ranges = evidence.experiment, evidence.results.range
    rows = () if ranges is None else ranges.of("gradient")
    total = sum(row.exponents.total for row in rows)
    lost = sum(row.became_zero for row in rows)
    if ranges is None or not total or lost < _TELLING * total:
        return
    measured = f"{100 * lost / total:.0f}% of the gradients underflow to 0"
    if not experiment.uses_scaler:
        if experiment.precision in (Precision.FP16, Precision.FP16_UNSCALED):
            yield Advice(
                kind=AdviceKind.RANGE,
                message="Gradients underflow in FP16. They need a loss scaler.",
                evidence=f"{measured}.",
                changes=(("precision", "fp16"), ("scaler.mode", "auto")),
                action="Use the loss scaler",
            )
        return
    now, best = ranges.scale_exponent, best_scale_exponent(rows, FP16)
    settings = experiment.scaler
    growths = math.ceil((best - now) / math.log2(settings.growth_factor))
    is_reached = evidence.total_steps >= growths * settings.growth_interval
    saved = lost_fraction(rows, FP16, now) - lost_fraction(rows, FP16, best)
    if best <= now or is_reached or saved < _TELLING:
        return
    yield Advice(
        kind=AdviceKind.SCALE_NEVER_GROWS,
        message=f"The loss scale grows too slowly. At {2**best:,}, fewer gradients would underflow.",
        evidence=f"At {ranges.scale:,.0f}, {measured}. The scale grows after {settings.growth_interval:,} "
        f"steps without overflow, and the run has {evidence.total_steps:,} steps.",
        changes=(("scaler.init_scale", f"{2.0**best:g}" if best < 0 else str(2**best)),),
        action=f"Start at {2**best:,}",
    )


def _advise_on_half_sums(evidence: NumericsEvidence) -> Iterator[Advice]:
    """Find losses and normalizations in 16 bits. On a CPU, autocast itself leaves those of modules there."""
    whole = evidence.results.map
    found = [] if whole is None else [row for row in whole.operations if _is_half_sum(row)]
    in_loss = [row for row in found if row.module == LOSS]
    if in_loss:
        yield Advice(
            kind=AdviceKind.HALF_IN_LOSS,
            message=f"The loss is computed in {_formats(in_loss)}, with two or three digits. Convert the "
            "outputs to FP32 first, as in outputs.float().",
            evidence=f"The map shows {_operations(in_loss)} in the loss.",
        )
    modules = tuple(dict.fromkeys(row.module for row in found if row.module not in ("", LOSS)))
    if modules and evidence.device.is_gpu:
        inside = [row for row in found if row.module in modules]
        others = f" and {len(modules) - 1:,} more" if len(modules) > 1 else ""
        yield Advice(
            kind=AdviceKind.HALF_IN_LOSS,
            message=f"Sums or normalizations of {modules[0]}{others} run in {_formats(inside)}. Autocast "
            "would use FP32, but the code disables it or converts the values.",
            evidence=f"The map shows {_operations(inside)} there.",
            modules=modules[:100],
            **_keep_in_fp32_fix(evidence, *modules),
        )


def _is_half_sum(row: Operation) -> bool:
    is_half = row.computed_in in ("float16", "bfloat16")
    is_in_pass = row.direction == "forward" and row.module not in (OPTIMIZER, ELSEWHERE)
    return is_half and is_in_pass and row.name in _WANT_FP32


def _formats(rows: list[Operation]) -> str:
    return " and ".join(dict.fromkeys(dtype_label(row.computed_in or "") for row in rows))


def _operations(rows: list[Operation]) -> str:
    return ", ".join(dict.fromkeys(row.name.removeprefix("aten.").strip("_") for row in rows))


def _advise_on_epsilon(evidence: NumericsEvidence) -> Iterator[Advice]:
    names, epsilon = evidence.half_parameters, evidence.epsilon
    smallest = 2.0**FP16.subnormal_exponent
    if not names or epsilon is None or epsilon >= smallest:
        return
    others = f" and {len(names) - 1:,} more parameters are" if len(names) > 1 else " is"
    yield Advice(
        kind=AdviceKind.EPSILON,
        message=f"The optimizer's epsilon of {epsilon:g} is 0 in FP16, so an update may divide by 0. Keep "
        "the parameters in FP32, as autocast does.",
        evidence=f"{names[0]}{others} FP16, whose smallest subnormal is {smallest:.1g}.",
        modules=tuple(dict.fromkeys(name.rpartition(".")[0] for name in names))[:100],
    )


_Special = Callable[[NumericsEvidence], Iterator[Advice]]

_BY_PART: tuple[tuple[Part, tuple[_Special, ...], Callable[[NumericsEvidence, str], Advice]], ...] = (
    ("nan", (_advise_on_clipping, _advise_on_sinking_scale), _advise_on_first_nonfinite),
    ("islands", (), _advise_on_fp32_modules),
    ("ladder", (), _advise_on_divergence),
    ("range", (_advise_on_overflow, _advise_on_underflow), _advise_on_lost_numbers),
    ("map", (_advise_on_half_sums,), _advise_on_lost_numbers),
)
"""For each part of a study: its special advice, and the general advice if there is no special one."""


def _to_bf16(evidence: NumericsEvidence) -> dict[str, Changes | str]:
    is_half = evidence.experiment.precision in (Precision.FP16, Precision.FP16_UNSCALED)
    if not is_half or not evidence.device.precision(Precision.BF16).available:
        return {}
    return {"changes": (("precision", Precision.BF16.value),), "action": "Use BF16"}


def _keep_in_fp32_fix(evidence: NumericsEvidence, *modules: str) -> dict[str, Changes | str]:
    names = dict.fromkeys((*evidence.experiment.step.fp32_modules, *modules))
    return {"changes": (("step.fp32_modules", ",".join(names)),), "action": "Keep in FP32"}


_BARELY_FASTER = 0.9
"""A pass that takes at least this share of FP32's time."""

_SLOWER = 1.03
_WAITING = 0.9
"""The host's share of a pass from which the pass is CPU-bound."""

_LITTLE_SAVED = 0.25
_MOST_MODULES = 100


def cost_advice(evidence: NumericsEvidence) -> Iterator[Advice]:
    """Yield advice on time and memory, the largest costs first. Skip the time of emulated FP8."""
    if evidence.experiment.precision is Precision.FP8 and not evidence.device.is_gpu:
        yield from _advise_on_memory(evidence)
        return
    yield from _advise_on_slow_format(evidence)
    yield from _advise_on_casts(evidence)
    yield from _advise_on_little_work(evidence)
    yield from _advise_on_sizes(evidence)
    yield from _advise_on_memory(evidence)


def _advise_on_slow_format(evidence: NumericsEvidence) -> Iterator[Advice]:
    experiment, device = evidence.experiment, evidence.device
    why = device.precision(experiment.precision).hardly_faster
    if why is None or not _is_slow(evidence, _BARELY_FASTER):
        return
    yield Advice(
        kind=AdviceKind.SLOW_FORMAT,
        message=f"On {device.title} {why}.",
        evidence=_pass_time_text(evidence),
        **_unshortened(evidence),
    )


def _advise_on_casts(evidence: NumericsEvidence) -> Iterator[Advice]:
    whole, cost, fp32 = evidence.results.map, evidence.cost, evidence.fp32_cost
    if whole is None or cost is None or fp32 is None or not _is_slow(evidence, _SLOWER):
        return
    spent = sum(row.seconds for row in whole.operations)
    casts = sum(row.seconds for row in whole.operations if row.by_autocast)
    share = casts / spent if spent else 0.0
    if cost.pass_seconds * (1 - share) >= fp32.pass_seconds:
        return
    yield Advice(
        kind=AdviceKind.CASTS,
        message=f"Casting takes longer than {evidence.experiment.precision.label} saves. A larger batch or "
        "larger layers would change that.",
        evidence=f"{_pass_time_text(evidence)} Casts take {100 * share:.0f}% of the time of its operations.",
        **_unshortened(evidence),
    )


def _advise_on_little_work(evidence: NumericsEvidence) -> Iterator[Advice]:
    cost, experiment = evidence.cost, evidence.experiment
    if cost is None or cost.issue_seconds is None or cost.issue_seconds < _WAITING * cost.pass_seconds:
        return
    at_once = fast_recipe(experiment, "capture") if experiment.device.startswith("cuda") else None
    remedy = at_once or larger_batch(experiment)
    yield Advice(
        kind=AdviceKind.LITTLE_WORK,
        message=f"CPU-bound: the operations are too small to fill {evidence.device.title}, so a lower "
        "precision cannot speed them up.",
        evidence=f"The CPU takes {_ms(cost.issue_seconds)} to launch a forward and backward pass, and the "
        f"pass takes {_ms(cost.pass_seconds)}.",
        **remedy._asdict(),
    )


def _advise_on_sizes(evidence: NumericsEvidence) -> Iterator[Advice]:
    if not evidence.device.tensor_cores or not evidence.experiment.precision.is_narrow:
        return
    for odd in (odd for odd in evidence.odd_sizes if not odd.is_given):
        first, *others = odd.layers
        more = f" and {len(others):,} more have" if others else " has"
        yield Advice(
            kind=AdviceKind.ODD_SIZE,
            message=f"{first}{more} {odd.size:,} {odd.side}, not a multiple of 8, which is slower on Tensor "
            f"Cores. Use {odd.even:,} if you can.",
            evidence=_share_of(evidence, odd.layers) or f"{odd.size:,} is not a multiple of 8.",
            modules=odd.layers[:_MOST_MODULES],
        )


def _share_of(evidence: NumericsEvidence, modules: tuple[str, ...]) -> str:
    operations = () if evidence.results.map is None else evidence.results.map.operations
    spent = _sum_seconds(operations)
    theirs = _sum_seconds(tuple(row for row in operations if row.module in modules))
    return f"They take {100 * theirs / spent:.0f}% of the map's operation time." if spent else ""


def _sum_seconds(operations: tuple[Operation, ...]) -> float:
    return sum(row.seconds for row in operations)


def _advise_on_memory(evidence: NumericsEvidence) -> Iterator[Advice]:
    if evidence.cost is None or evidence.fp32_cost is None or not evidence.is_float32:
        return
    parts, full = evidence.cost.breakdown, evidence.fp32_cost.breakdown
    if parts.activations_mib is None or full.activations_mib is None:
        return
    # FP32's, since an optimizer has no state as long as the loss scaler skips its steps
    state_mib = full.optimizer_state_mib
    kept = parts.parameters_mib + parts.gradients_mib + state_mib
    if full.activations_mib - parts.activations_mib >= _LITTLE_SAVED * (kept + full.activations_mib):
        return
    yield Advice(
        kind=AdviceKind.MEMORY,
        message="AMP saves little memory here. It shrinks only activations, and adds 16-bit copies of the "
        "weights. Parameters, gradients and optimizer state stay in FP32.",
        evidence=f"Parameters {memory_text(parts.parameters_mib)}, gradients "
        f"{memory_text(parts.gradients_mib)}, optimizer state {memory_text(state_mib)}, activations "
        f"{memory_text(parts.activations_mib)} (in FP32 {memory_text(full.activations_mib)}).",
    )


def _is_slow(evidence: NumericsEvidence, least: float) -> bool:
    cost, fp32 = evidence.cost, evidence.fp32_cost
    return cost is not None and fp32 is not None and cost.pass_seconds >= least * fp32.pass_seconds


def _pass_time_text(evidence: NumericsEvidence) -> str:
    assert evidence.cost is not None and evidence.fp32_cost is not None  # `_is_slow` has seen them
    return (
        f"A forward and backward pass takes {_ms(evidence.cost.pass_seconds)} in "
        f"{evidence.experiment.precision.label} and {_ms(evidence.fp32_cost.pass_seconds)} in FP32."
    )


def _ms(seconds: float) -> str:
    return f"{number(1e3 * seconds)} ms"


def _unshortened(evidence: NumericsEvidence) -> dict[str, Changes | str]:
    has_tf32 = evidence.device.precision(Precision.TF32).available
    precision = Precision.TF32 if has_tf32 else Precision.FP32
    return {"changes": (("precision", precision.value),), "action": f"Use {precision.label}"}


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
