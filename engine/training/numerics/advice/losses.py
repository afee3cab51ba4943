"""Advice against lost numbers: overflow, underflow, the loss scale, clipping, and sums in 16 bits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.experiment.catalog import Precision
from engine.experiment.experiment import named
from engine.protocol.numerics.advice import Advice, AdviceKind, Changes
from engine.protocol.numerics.formats import FP16, dtype_label
from engine.protocol.numerics.nonfinite import Cause, most_skips
from engine.protocol.numerics.precision_map import ELSEWHERE, LOSS, OPTIMIZER, Operation, module_title
from engine.protocol.numerics.ranges import best_scale_exponent, lost_fraction
from engine.training.numerics.advice.evidence import Evidence

_TELLING = 0.01
"""The least share of lost numbers that is worth advice."""

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


def loss_advice(evidence: Evidence) -> Iterator[Advice]:
    """The advice, the most urgent first."""
    yield from _clipping(evidence)
    yield from _sinking_scale(evidence)
    yield from _overflow(evidence)
    yield from _underflow(evidence)
    yield from _half_sums(evidence)
    yield from _epsilon(evidence)


def _clipping(evidence: Evidence) -> Iterator[Advice]:
    experiment, cost, search = evidence.experiment, evidence.cost, evidence.results.nan
    if experiment.step.clip_norm is None:
        return
    if cost is not None and cost.infinite_norms:
        yield Advice(
            kind=AdviceKind.CLIPPING,
            message="Clipping hides an overflow: a gradient norm that is not finite turns every gradient of "
            "its step into 0 or NaN.",
            evidence=f"The norm was not finite in {cost.infinite_norms:,} of {cost.steps:,} steps, and no "
            "loss scaler skipped them.",
            **_to_bf16(evidence),
        )
    elif search is not None and search.skipped >= most_skips(experiment.scaler):
        yield Advice(
            kind=AdviceKind.CLIPPING,
            message="Clipping does not prevent this overflow: gradients are clipped after they are unscaled, "
            "and what is infinite by then stays so.",
            evidence=f"{named('step.clip_norm')} is {experiment.step.clip_norm:g}, and "
            f"{search.skipped:,} of {search.steps:,} steps were skipped.",
            **_to_bf16(evidence),
        )


def _sinking_scale(evidence: Evidence) -> Iterator[Advice]:
    search = evidence.results.nan
    if search is None or not search.skipped:
        return
    first = search.first
    if search.least_scale is not None and search.least_scale < 1:
        known = (
            f"In {search.steps:,} steps the scale came down to {search.least_scale:.2g}, and "
            f"{search.skipped:,} were skipped."
        )
    elif first is not None and first.direction == "backward" and first.cause is Cause.OVERFLOW:
        known = (
            f"In step {first.step:,} gradients overflow in {module_title(first.module)}, and no smaller loss "
            "scale was found at which they do not."
        )
    else:
        return
    yield Advice(
        kind=AdviceKind.SCALE_SINKS,
        message="Gradients overflow even at a loss scale of 1: the scale sinks, and steps are skipped.",
        evidence=known,
        modules=() if first is None else (first.module,),
        **_to_bf16(evidence),
    )


def _overflow(evidence: Evidence) -> Iterator[Advice]:
    ranges = evidence.results.range
    if ranges is None:
        return
    row = ranges.first_overflow
    if row is None or not row.module:
        return
    largest = "" if row.exponents.largest is None else f", where its largest is {row.exponents.largest:,.4g}"
    yield Advice(
        kind=AdviceKind.RANGE,
        message=f"{row.module} computes numbers that {dtype_label(row.dtype)} cannot hold.",
        evidence=f"{row.became_nonfinite:,} of its {row.exponents.total:,} outputs are not finite but are "
        f"in FP32{largest}.",
        modules=(row.module,),
        **_in_fp32(evidence, row.module),
    )


def _underflow(evidence: Evidence) -> Iterator[Advice]:
    """Gradients that FP16 rounds to 0: without a loss scaler, or at a scale that grows too late."""
    experiment, ranges = evidence.experiment, evidence.results.range
    rows = () if ranges is None else ranges.of("gradient")
    total = sum(row.exponents.total for row in rows)
    lost = sum(row.became_zero for row in rows)
    if ranges is None or not total or lost < _TELLING * total:
        return
    measured = f"{100 * lost / total:.0f} % of the gradients are 0 but not in FP32"
    if not experiment.uses_scaler:
        if experiment.precision in (Precision.FP16, Precision.FP16_UNSCALED):
            yield Advice(
                kind=AdviceKind.RANGE,
                message="Gradients vanish in FP16: they need a loss scaler.",
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
        message=f"The loss scale does not grow in time: at {2**best:,} fewer gradients would vanish.",
        evidence=f"At {ranges.scale:,.0f} {measured}; it grows every {settings.growth_interval:,} clean "
        f"steps, and the run has {evidence.total_steps:,}.",
        changes=(("scaler.init_scale", f"{2.0**best:g}" if best < 0 else str(2**best)),),
        action=f"Begin at {2**best:,}",
    )


def _half_sums(evidence: Evidence) -> Iterator[Advice]:
    """Losses and normalisations in 16 bits; on a CPU autocast itself leaves those of modules there."""
    whole = evidence.results.map
    found = [] if whole is None else [row for row in whole.operations if _is_half_sum(row)]
    in_loss = [row for row in found if row.module == LOSS]
    if in_loss:
        yield Advice(
            kind=AdviceKind.HALF_IN_LOSS,
            message=f"The loss is computed in {_formats(in_loss)}, with two or three digits: convert the "
            "outputs to FP32 before it, as in outputs.float().",
            evidence=f"The map shows {_operations(in_loss)} in the loss.",
        )
    modules = tuple(dict.fromkeys(row.module for row in found if row.module not in ("", LOSS)))
    if modules and evidence.device.is_gpu:
        inside = [row for row in found if row.module in modules]
        others = f" and {len(modules) - 1:,} more" if len(modules) > 1 else ""
        yield Advice(
            kind=AdviceKind.HALF_IN_LOSS,
            message=f"{modules[0]}{others} sum or normalise in {_formats(inside)}, which autocast would do "
            "in FP32: their code switches it off or converts their numbers.",
            evidence=f"The map shows {_operations(inside)} there.",
            modules=modules[:100],
            **_in_fp32(evidence, *modules),
        )


def _is_half_sum(row: Operation) -> bool:
    is_half = row.computed_in in ("float16", "bfloat16")
    is_in_pass = row.direction == "forward" and row.module not in (OPTIMIZER, ELSEWHERE)
    return is_half and is_in_pass and row.name in _WANT_FP32


def _formats(rows: list[Operation]) -> str:
    return " and ".join(dict.fromkeys(dtype_label(row.computed_in or "") for row in rows))


def _operations(rows: list[Operation]) -> str:
    return ", ".join(dict.fromkeys(row.name.removeprefix("aten.").strip("_") for row in rows))


def _epsilon(evidence: Evidence) -> Iterator[Advice]:
    names, epsilon = evidence.half_parameters, evidence.epsilon
    smallest = 2.0**FP16.subnormal_exponent
    if not names or epsilon is None or epsilon >= smallest:
        return
    others = f" and {len(names) - 1:,} more parameters are" if len(names) > 1 else " is"
    yield Advice(
        kind=AdviceKind.EPSILON,
        message=f"The optimizer's epsilon of {epsilon:g} is 0 in FP16, so an update may divide by 0: keep "
        "the parameters in FP32, as autocast does.",
        evidence=f"{names[0]}{others} FP16, whose smallest number is {smallest:.1g}.",
        modules=tuple(dict.fromkeys(name.rpartition(".")[0] for name in names))[:100],
    )


def _to_bf16(evidence: Evidence) -> dict[str, Changes | str]:
    """The change to BF16, on a device that has it."""
    is_half = evidence.experiment.precision in (Precision.FP16, Precision.FP16_UNSCALED)
    if not is_half or not evidence.device.precision(Precision.BF16).available:
        return {}
    return {"changes": (("precision", Precision.BF16.value),), "action": "Use BF16"}


def _in_fp32(evidence: Evidence, *modules: str) -> dict[str, Changes | str]:
    """The change that keeps these modules in FP32, too."""
    names = dict.fromkeys((*evidence.experiment.step.fp32_modules, *modules))
    return {"changes": (("step.fp32_modules", ",".join(names)),), "action": "Keep in FP32"}
