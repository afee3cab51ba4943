"""Advice on the time of a step, by patterns in its recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.advice import (
    Advice,
    AdviceKind,
    Remedy,
    channels_last,
    fast_recipe,
    fused_optimizer,
    kept_on_device,
    larger_batch,
    pinned_memory,
)
from engine.protocol.profile import StepPart, StepProfile, more_workers
from engine.training.profile.breakdown import classify_work
from engine.training.profile.communication import advise_on_communication
from engine.training.profile.kernels import KernelClass, classify_kernel
from engine.training.profile.trace import DeviceWork, HostOperation, Signature, Trace, Wait
from engine.words.names import listed
from engine.words.numbers import counted, number, share_text, throughput_text

_MOST_NAMES, _MOST_NAMED = 100, 2


_Timed = DeviceWork | HostOperation | Wait


@dataclass(frozen=True)
class _Case:
    trace: Trace
    profile: StepProfile
    experiment: Experiment

    @cached_property
    def work(self) -> tuple[DeviceWork, ...]:
        return tuple(work for work in self.trace.work if work.place.step is not None)

    @property
    def steps(self) -> int:
        return max(1, len(self.trace.steps))

    def ms(self, parts: Iterable[_Timed]) -> float:
        return min(self.profile.step_ms, sum(part.us for part in parts) / 1e3 / self.steps)

    def count(self, parts: Sized, noun: str) -> str:
        return counted(round(len(parts) / self.steps), noun)

    def of_step(self, ms: float) -> str:
        whole = self.profile.step_ms
        return f"{number(ms)} ms of a {number(whole)} ms step ({share_text(ms / whole)})"


def _modules_of(parts: Iterable[_Timed]) -> tuple[str, ...]:
    times: Counter[str] = Counter()
    for part in parts:
        if part.place.module:
            times[part.place.module] += round(1e3 * part.us)
    return tuple(name for name, _ in times.most_common(_MOST_NAMES))


def _calling_operation(operation: HostOperation | None) -> HostOperation | None:
    # the ATen operation that the program called, and that led to this one
    around = list(operation.around()) if operation is not None else []
    called = (each for each, above in pairwise(around) if not above.name.startswith("aten::"))
    return next(called, around[-1] if around else None)


def _names_words(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = len(known) - _MOST_NAMED
    return listed([*known[:_MOST_NAMED], f"{more:,} more"] if more > 0 else known)


# the milliseconds of a step that advice could save at most, with the advice
_Found = Iterator[tuple[float, Advice]]


def _advice(
    kind: AdviceKind,
    saved_ms: float,
    message: str,
    evidence: str,
    modules: tuple[str, ...] = (),
    remedy: Remedy | None = None,
) -> tuple[float, Advice]:
    offer = {} if remedy is None else remedy._asdict()
    return saved_ms, Advice(kind=kind, message=message, evidence=evidence, modules=modules, **offer)


_LAUNCH_US = 5.0
"""PyTorch's shortest launch of a kernel from Python. Shorter kernels cannot keep the device busy."""

_MOST_TINY = 0.5
_LEAST_BYTES = 4_096
"""The smallest copy to report. Smaller ones copy single numbers."""


def _starved(case: _Case) -> _Found:
    # a loader that does not keep up
    ms, evidence = case.profile.bar.ms(StepPart.DATA), ""
    message, remedy, saved_ms = "Keep the dataset on the device.", kept_on_device(case.experiment), ms
    if (workers := more_workers(case.experiment, case.profile)) is not None:
        message, (remedy, least_ms) = "Use more loader workers.", workers
        saved_ms = case.profile.step_ms - least_ms
        evidence = (
            f" With {dict(remedy.changes)['data.workers']}, a step takes {number(least_ms)} ms at best."
        )
    yield _advice(
        AdviceKind.STARVED,
        saved_ms,
        f"The loader does not keep up. {message}",
        f"Training waits for data {case.of_step(ms)}, with "
        f"{counted(case.experiment.data.workers, 'loader worker')}.{evidence}",
        remedy=remedy,
    )


def _pageable_copy(case: _Case) -> _Found:
    # copies to the device out of memory that it cannot read by itself
    copies = [
        work
        for work in case.work
        if work.copy_kind == "HtoD" and work.is_pageable and (work.bytes or _LEAST_BYTES) >= _LEAST_BYTES
    ]
    ms = case.ms(copies)
    moved = sum(work.bytes or 0.0 for work in copies) / case.steps
    rate = f", at {number(moved / ms / 1e6)} GB/s" if moved and ms else ""
    remedy = pinned_memory(case.experiment)
    yield _advice(
        AdviceKind.PAGEABLE_COPY,
        ms,
        "Copies to the device come from pageable memory, and the program waits for each of them. "
        + ("Pin the batches to copy them while the device computes." if remedy else "Pin that memory."),
        f"They take {case.of_step(ms)}, in {case.count(copies, 'transfer')}{rate}"
        f"{_callers_words(copy.operation and _calling_operation(copy.operation) for copy in copies)}.",
        modules=_modules_of(copies),
        remedy=remedy,
    )


def _synchronization(case: _Case) -> _Found:
    # the host synchronizes with the device within a step, so that it launches too late
    copied = {id(work.operation) for work in case.work if work.is_pageable and work.copy_kind == "HtoD"}
    waits = [
        wait
        for wait in case.trace.waits
        if wait.place.step is not None
        and not wait.place.in_data
        and (wait.operation is None or id(wait.operation) not in copied)
    ]
    of_scaler = [wait for wait in waits if wait.place.in_optimizer and case.experiment.uses_scaler]
    others = [wait for wait in waits if wait not in of_scaler]
    yield from _scaler_advice(case, of_scaler)
    ms = case.ms(others)
    modules = _modules_of(others)
    yield _advice(
        AdviceKind.SYNCHRONIZATION,
        min(ms, case.profile.bar.ms(StepPart.HOST)),
        "The program synchronizes with the GPU within a step and launches nothing during the wait"
        f"{f', in {_names_words(modules)}' if modules else ''}. Read values less often, and keep shapes "
        "independent of them.",
        f"It waits {case.of_step(ms)}, in {case.count(others, 'wait')}"
        f"{_callers_words(_calling_operation(wait.operation) or wait for wait in others)}.",
        modules=modules,
    )


def _scaler_advice(case: _Case, waits: Sequence[Wait]) -> _Found:
    ms = case.ms(waits)
    yield _advice(
        AdviceKind.SYNCHRONIZATION,
        min(ms, case.profile.bar.ms(StepPart.HOST)),
        "GradScaler.step synchronizes with the GPU to check whether gradients overflowed. A fused "
        "optimizer checks it on the GPU.",
        f"It waits {case.of_step(ms)}.",
        remedy=fused_optimizer(case.experiment),
    )


def _tiny_kernels(case: _Case) -> _Found:
    # kernels shorter than their launch, so that the device waits
    kernels = [work for work in case.work if work.kind == "kernel"]
    launched = [work for work in kernels if not work.is_in_graph]
    tiny = [work for work in launched if work.us < _LAUNCH_US]
    if not tiny or len(tiny) < _MOST_TINY * len(kernels):
        return
    experiment, ms = case.experiment, case.profile.bar.ms(StepPart.HOST)
    at_once = fast_recipe(experiment, "capture") if case.profile.device_type == "cuda" else None
    yield _advice(
        AdviceKind.TINY_KERNELS,
        ms * len(tiny) / len(launched),
        "Most kernels are shorter than their launch, so the device waits for the next. "
        + ("Launch the full step at once." if at_once else "Give each of them more work."),
        f"{share_text(len(tiny) / len(kernels))} of a step's "
        f"{case.count(kernels, 'kernel')} take less than {_LAUNCH_US:g} µs"
        f"{_callers_words(_calling_operation(work.operation) for work in tiny)}. "
        f"The device waits {case.of_step(ms)}.",
        remedy=at_once or larger_batch(experiment),
    )


def _idle_threads(case: _Case) -> _Found:
    # idle CPU cores
    threads, cores = case.profile.threads, case.profile.cores
    if threads is None or cores is None or threads >= cores:
        return
    bar = case.profile.bar
    computing = (StepPart.MATRIX_UNITS, StepPart.MATRIX, StepPart.MEMORY, StepPart.OPTIMIZER)
    ms = sum(bar.ms(part) for part in computing)
    yield _advice(
        AdviceKind.IDLE_THREADS,
        ms * (1 - threads / cores),
        f"PyTorch computes on {threads:,} of {cores:,} cores. Check for limits such as OMP_NUM_THREADS.",
        f"Its operations take {case.of_step(ms)}, and {share_text(1 - threads / cores)} of the "
        "cores are idle.",
    )


def _callers_words(callers: Iterator[object]) -> str:
    counts = Counter(str(getattr(by, "name", by)) for by in callers if by is not None)
    return f", called by {_names_words(name for name, _ in counts.most_common())}" if counts else ""


_MULTIPLE = 8
"""NVIDIA, Deep Learning Performance Guide, "Tensor Core requirements": for 16-bit formats."""

# Products by a vector and depthwise convolutions are memory-bound on any units.
_NO_PRODUCT = re.compile(r"gemv|gemmk1|dot_kernel|reduce_1Block|depthwise|c1_k1")
_MISALIGNED = re.compile(r"_align[124]\b")
_LAYOUT = re.compile(r"n(chw|hwc)ToN(chw|hwc)|genericTranspose")
_HALVED = 0.5
"""The share of the time that Tensor Cores or an update in one kernel save, a cautious guess."""


def _could_be_tf32(case: _Case) -> _Found:
    # matmuls in FP32 on a device that is faster in TF32
    limits, experiment = case.profile.limits, case.experiment
    own = None if limits is None else limits.tflops("fp32")
    faster = None if limits is None else limits.tflops("tf32")
    if own is None or faster is None or faster <= own or experiment.precision is Precision.TF32:
        return
    if experiment.precision.is_autocast and experiment.step.autocast_tf32:
        return
    in_fp32 = KernelClass(StepPart.MATRIX, "fp32")
    products = [
        work
        for work in case.work
        if classify_kernel(work.name) == in_fp32 and not _NO_PRODUCT.search(work.name)
    ]
    ms = case.ms(products)
    remedy = Remedy((("precision", Precision.TF32.value),), "Use TF32")
    if experiment.precision.is_autocast:
        remedy = Remedy((("step.autocast_tf32", "true"),), "Use TF32 within AMP")
    yield _advice(
        AdviceKind.COULD_BE_TF32,
        ms * (1 - own / faster),
        "FP32 matmuls run on ordinary units. TF32 runs on Tensor Cores.",
        f"They take {case.of_step(ms)}. This device reaches {throughput_text(faster)} in TF32 and "
        f"{throughput_text(own)} in FP32.",
        modules=_modules_of(products),
        remedy=remedy,
    )


def _odd_size(case: _Case) -> _Found:
    # matmuls in 16 bits whose sizes keep them off the Tensor Cores, or on slow variants there
    sizes: dict[int, None] = {}
    missed = []
    for work in case.work:
        known = classify_kernel(work.name)
        if known.format not in ("fp16", "bf16") or work.operation is None:
            continue
        odd = [size for size in _sizes(work.operation) if size % _MULTIPLE]
        if odd and (not known.uses_matrix_units or _MISALIGNED.search(work.name)):
            sizes |= dict.fromkeys(odd)
            missed.append(work)
    if not missed or case.profile.matrix_units is None:
        return
    ms, modules = case.ms(missed), _modules_of(missed)
    even = _names_words(f"{size + -size % _MULTIPLE:,}" for size in sizes)
    yield _advice(
        AdviceKind.ODD_SIZE,
        ms * _HALVED,
        f"Sizes that are not a multiple of {_MULTIPLE} slow down matmuls"
        f"{f' in {_names_words(modules)}' if modules else ''}, or keep them off the Tensor Cores. "
        f"Use {even} instead of {_names_words(f'{size:,}' for size in sizes)} if you can.",
        f"These matmuls take {case.of_step(ms)}, on ordinary units or misaligned.",
        modules=modules,
    )


def _sizes(operation: HostOperation) -> Iterator[int]:
    above = next((each for each in operation.around() if each.signature is not None), None)
    if above is None or above.signature is None:
        return
    shapes = _tensors(above.signature)
    if "conv" not in above.name:
        yield from (size for shape in shapes if len(shape) > 1 for size in shape[-2:] if size > 1)
        return
    weight = 2 if "backward" in above.name else 1
    yield from shapes[weight][:2] if len(shapes) > weight else ()


def _tensors(signature: Signature) -> list[tuple[Any, ...]]:
    return [shape for shape in signature.shapes if shape and all(isinstance(size, int) for size in shape)]


def _layout(case: _Case) -> _Found:
    # conversions between channels_last and the usual layout, around convolutions; on a CPU oneDNN's own
    changed = [work for work in case.work if _LAYOUT.search(work.name)]
    ms, modules, remedy = case.ms(changed), _modules_of(changed), channels_last(case.experiment)
    message = "Convolutions convert images to channels_last and back. Keep images in channels_last."
    if remedy is None:
        message = (
            f"Images leave channels_last and return to it in {_names_words(modules) or 'the model'}. Look "
            "for permute, view or contiguous there."
        )
    if case.profile.device_type == "cpu":
        rows = case.profile.kernels
        if remedy is None or not any(row.name.startswith("convolution") for row in rows):
            return  # weights are converted in any layout
        ms = sum(row.ms for row in rows if row.name.startswith("reorder"))
        # 1.35 times as fast with a small CNN, 0.85 times with ResNet-18 on one core with AVX-512
        message = (
            "oneDNN converts the inputs and outputs of convolutions. channels_last avoids most of that, but "
            "slows down some convolutions. Compare both."
        )
    yield _advice(
        AdviceKind.LAYOUT,
        ms,
        message,
        f"The conversions take {case.of_step(ms)}.",
        modules=modules,
        remedy=remedy,
    )


def _unfused_optimizer(case: _Case) -> _Found:
    # an update in many kernels, or operations, where a single one would do
    experiment, ms = case.experiment, case.profile.bar.ms(StepPart.OPTIMIZER)
    remedy = fused_optimizer(experiment)
    if remedy is None and experiment.own_code is None:
        return
    if case.trace.is_of_device:
        kind, names = "kernel", [work.name for work in case.work if work.place.in_optimizer]
    else:
        kind = "operation"
        names = [
            call.name
            for call in case.trace.operations
            if call.place.in_optimizer and call.place.step is not None and call.parent is None
        ]
    if not names or any("fused" in name.lower() for name in names):
        return
    yield _advice(
        AdviceKind.UNFUSED_OPTIMIZER,
        ms * _HALVED,
        f"The optimizer updates the weights in many {kind}s. A fused one reads and writes each value once.",
        f"That takes {case.of_step(ms)}, in {case.count(names, kind)}.",
        remedy=remedy,
    )


def _zeroed_gradients(case: _Case) -> _Found:
    # gradients filled with zeros between two steps
    fills = [
        call
        for call in case.trace.operations
        if call.name in ("aten::zero_", "aten::_foreach_zero_")
        and call.parent is None
        and call.place.step is not None
        and call.place.module is None
        and call.place.direction == "forward"
    ]
    if len(fills) < 2 * case.steps and not any("foreach" in fill.name for fill in fills):
        return
    known = set(fills)
    filling = [work for work in case.work if work.operation and known & {*work.operation.around()}]
    ms = case.ms(filling or fills)
    yield _advice(
        AdviceKind.ZEROED_GRADIENTS,
        ms,
        "The step fills gradients with zeros and then adds to them. Drop them instead with "
        "zero_grad(set_to_none=True), the default.",
        f"That takes {case.of_step(ms)}, in {case.count(fills, 'fill')}.",
    )


def _scaled_to_fp8(case: _Case) -> _Found:
    # the cost of FP8 in addition to its matmuls
    if case.experiment.precision is not Precision.FP8 or not case.trace.is_of_device:
        return
    casts = [work for work in case.work if classify_work(work, in_fp8=True).part is StepPart.SCALING]
    ms, remedy = case.ms(casts), fast_recipe(case.experiment, "compile")
    why = "torch.compile fuses both." if remedy else "Larger layers would recover more of it."
    yield _advice(
        AdviceKind.CASTS,
        ms * _HALVED,
        f"Finding scales for FP8 and casting to it take time that faster matmuls must recover. {why}",
        f"They take {case.of_step(ms)}, by the names of their kernels, in {case.count(casts, 'kernel')}.",
        modules=_modules_of(casts),
        remedy=remedy,
    )


_PATTERNS = (
    _starved,
    _pageable_copy,
    _synchronization,
    _tiny_kernels,
    _idle_threads,
    _could_be_tf32,
    _odd_size,
    _layout,
    _scaled_to_fp8,
    _unfused_optimizer,
    _zeroed_gradients,
)
_LEAST_SHARE = 0.01
"""Advice that could save less of a step is not given."""


def advise_on_time(trace: Trace, profile: StepProfile, experiment: Experiment) -> tuple[Advice, ...]:
    """Return the advice, the largest savings first."""
    if not profile.step_ms:
        return ()
    case = _Case(trace, profile, experiment)
    found = [entry for pattern in _PATTERNS for entry in pattern(case)]
    found += advise_on_communication(profile, experiment)
    telling = [entry for entry in found if entry[0] >= _LEAST_SHARE * profile.step_ms and entry[0]]
    return tuple(advice for _, advice in sorted(telling, key=lambda entry: entry[0], reverse=True))
