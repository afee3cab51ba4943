"""Advice on time and memory: what makes a precision slow, and what it cannot shrink."""

from __future__ import annotations

from collections.abc import Iterator

from engine.experiment.catalog import Precision
from engine.protocol.advice import Advice, AdviceKind, Changes
from engine.protocol.numerics.nonfinite import Operation
from engine.protocol.profiles import fast_recipe, larger_batch
from engine.training.numerics.advice.evidence import Evidence
from engine.words.numbers import memory_text, number

_HARDLY_FASTER = 0.9
"""A pass that takes at least this share of FP32's time."""

_SLOWER = 1.03
_WAITING = 0.9
"""The host's share of a pass from which the device waits for it."""

_HARDLY_SAVED = 0.25
_MOST_MODULES = 100


def cost_advice(evidence: Evidence) -> Iterator[Advice]:
    """The advice, what costs most first."""
    yield from _slow_format(evidence)
    yield from _casts(evidence)
    yield from _little_work(evidence)
    yield from _sizes(evidence)
    yield from _memory(evidence)


def _slow_format(evidence: Evidence) -> Iterator[Advice]:
    experiment, device = evidence.experiment, evidence.device
    why = device.precision(experiment.precision).hardly_faster
    if why is None or not _takes(evidence, _HARDLY_FASTER):
        return
    yield Advice(
        kind=AdviceKind.SLOW_FORMAT,
        message=f"On {device.title} {why}.",
        evidence=_times(evidence),
        **_unshortened(evidence),
    )


def _casts(evidence: Evidence) -> Iterator[Advice]:
    whole, cost, fp32 = evidence.results.map, evidence.cost, evidence.fp32_cost
    if whole is None or cost is None or fp32 is None or not _takes(evidence, _SLOWER):
        return
    spent = sum(row.seconds for row in whole.operations)
    casts = sum(row.seconds for row in whole.operations if row.by_autocast)
    share = casts / spent if spent else 0.0
    if cost.pass_seconds * (1 - share) >= fp32.pass_seconds:
        return
    yield Advice(
        kind=AdviceKind.CASTS,
        message="The casts cost more than the shorter format saves; with more work for each cast, as with a "
        "larger batch or larger layers, it pays.",
        evidence=f"{_times(evidence)} Casts take {100 * share:.0f} % of the time of its operations.",
        **_unshortened(evidence),
    )


def _little_work(evidence: Evidence) -> Iterator[Advice]:
    cost, experiment = evidence.cost, evidence.experiment
    if cost is None or cost.issue_seconds is None or cost.issue_seconds < _WAITING * cost.pass_seconds:
        return
    at_once = fast_recipe(experiment, "capture") if experiment.device.startswith("cuda") else None
    remedy = at_once or larger_batch(experiment)
    yield Advice(
        kind=AdviceKind.LITTLE_WORK,
        message=f"{evidence.device.title} waits for the program: the operations are too small to fill it, "
        "so a shorter format cannot speed them up.",
        evidence=f"The program takes {_ms(cost.issue_seconds)} to hand over a forward and backward pass, and "
        f"the pass is done after {_ms(cost.pass_seconds)}.",
        changes=remedy.changes,
        action=remedy.action,
    )


def _sizes(evidence: Evidence) -> Iterator[Advice]:
    if not evidence.device.tensor_cores or not evidence.experiment.precision.is_autocast:
        return
    for odd in (odd for odd in evidence.odd_sizes if not odd.is_given):
        first, *others = odd.layers
        more = f" and {len(others):,} more have" if others else " has"
        yield Advice(
            kind=AdviceKind.ODD_SIZE,
            message=f"{first}{more} {odd.size:,} {odd.side}, not a multiple of 8, so the Tensor Cores "
            f"compute on padding: use {odd.even:,} if you can.",
            evidence=_share_of(evidence, odd.layers) or f"{odd.size:,} is not a multiple of 8.",
            modules=odd.layers[:_MOST_MODULES],
        )


def _share_of(evidence: Evidence, modules: tuple[str, ...]) -> str:
    operations = () if evidence.results.map is None else evidence.results.map.operations
    spent = _seconds(operations)
    theirs = _seconds(tuple(row for row in operations if row.module in modules))
    return f"{100 * theirs / spent:.0f} % of the time of the map's operations is theirs." if spent else ""


def _seconds(operations: tuple[Operation, ...]) -> float:
    return sum(row.seconds for row in operations)


def _memory(evidence: Evidence) -> Iterator[Advice]:
    if evidence.cost is None or evidence.fp32_cost is None or evidence.half_parameters:
        return
    parts, full = evidence.cost.breakdown, evidence.fp32_cost.breakdown
    if parts.activations_mib is None or full.activations_mib is None:
        return
    # FP32's, since an optimizer has no state as long as the loss scaler skips its steps
    state_mib = full.optimizer_state_mib
    kept = parts.parameters_mib + parts.gradients_mib + state_mib
    if full.activations_mib - parts.activations_mib >= _HARDLY_SAVED * (kept + full.activations_mib):
        return
    yield Advice(
        kind=AdviceKind.MEMORY,
        message="AMP saves little memory here: it shrinks activations only, and adds 16-bit copies of the "
        "weights; parameters, gradients and optimizer state stay in FP32.",
        evidence=f"Parameters {memory_text(parts.parameters_mib)}, gradients "
        f"{memory_text(parts.gradients_mib)}, optimizer state {memory_text(state_mib)}; "
        f"activations take {memory_text(parts.activations_mib)}, in FP32 "
        f"{memory_text(full.activations_mib)}.",
    )


def _takes(evidence: Evidence, least: float) -> bool:
    """True if a pass takes at least that share of FP32's time; False where it was not measured."""
    cost, fp32 = evidence.cost, evidence.fp32_cost
    return cost is not None and fp32 is not None and cost.pass_seconds >= least * fp32.pass_seconds


def _times(evidence: Evidence) -> str:
    assert evidence.cost is not None and evidence.fp32_cost is not None  # `_takes` has seen them
    return (
        f"A forward and backward pass takes {_ms(evidence.cost.pass_seconds)} in "
        f"{evidence.experiment.precision.label} and {_ms(evidence.fp32_cost.pass_seconds)} in FP32."
    )


def _ms(seconds: float) -> str:
    return f"{number(1e3 * seconds)} ms"


def _unshortened(evidence: Evidence) -> dict[str, Changes | str]:
    has_tf32 = evidence.device.precision(Precision.TF32).available
    precision = Precision.TF32 if has_tf32 else Precision.FP32
    return {"changes": (("precision", precision.value),), "action": f"Use {precision.label}"}
