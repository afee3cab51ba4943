"""Patterns in what the device computes: products off its Tensor Cores, changes of layout, the optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.experiment.experiment import Precision
from engine.protocol.advice import Advice, AdviceKind
from engine.protocol.profile import StepPart
from engine.protocol.profiles import channels_last, fused_optimizer
from engine.training.profile.patterns.case import Case, TimeAdvice, modules_of, names_words, trying
from engine.training.profile.traces.kernels import KernelClass, kernel_class
from engine.training.profile.traces.trace import HostOperation, Signature
from engine.words.numbers import throughput_text

_MULTIPLE = 8
"""NVIDIA, Deep Learning Performance Guide, "Tensor Core requirements": for 16-bit formats."""

# Products by a vector and depthwise convolutions wait for memory, whatever the units.
_NO_PRODUCT = re.compile(r"gemv|gemmk1|dot_kernel|reduce_1Block|depthwise|c1_k1")
_MISALIGNED = re.compile(r"_align[124]\b")
_LAYOUT = re.compile(r"n(chw|hwc)ToN(chw|hwc)|genericTranspose")
_HALVED = 0.5
"""A cautious guess at the share saved by Tensor Cores, or by an update in one kernel."""


def could_be_tf32(case: Case) -> Iterator[TimeAdvice]:
    """Products in FP32 on a device that is faster in TF32."""
    limits, experiment = case.profile.limits, case.experiment
    own = None if limits is None else limits.tflops("fp32")
    faster = None if limits is None else limits.tflops("tf32")
    if own is None or faster is None or faster <= own or experiment.precision is Precision.TF32:
        return
    if experiment.precision.is_autocast and experiment.step.autocast_tf32:
        return
    in_fp32 = KernelClass(StepPart.MATRIX, "fp32")
    products = [
        work for work in case.work if kernel_class(work.name) == in_fp32 and not _NO_PRODUCT.search(work.name)
    ]
    ms = case.ms(products)
    key, value, action = ("precision", Precision.TF32.value, "Use TF32")
    if experiment.precision.is_autocast:
        key, value, action = ("step.autocast_tf32", "true", "Use TF32 within AMP")
    yield TimeAdvice(
        ms * (1 - own / faster),
        Advice(
            kind=AdviceKind.COULD_BE_TF32,
            message="Matrix products in FP32 run on ordinary units; TF32 runs on Tensor Cores.",
            evidence=f"They take {case.of_step(ms)}. This device reaches {throughput_text(faster)} in TF32, "
            f"{throughput_text(own)} in FP32.",
            modules=modules_of(products),
            changes=((key, value),),
            action=action,
        ),
    )


def odd_size(case: Case) -> Iterator[TimeAdvice]:
    """Products in 16 bits whose sizes keep them from the Tensor Cores, or on slow variants there."""
    sizes: dict[int, None] = {}
    missed = []
    for work in case.work:
        known = kernel_class(work.name)
        if known.format not in ("fp16", "bf16") or work.operation is None:
            continue
        odd = [size for size in _sizes(work.operation) if size % _MULTIPLE]
        if odd and (not known.uses_matrix_units or _MISALIGNED.search(work.name)):
            sizes |= dict.fromkeys(odd)
            missed.append(work)
    if not missed or case.profile.matrix_units is None:
        return
    ms, modules = case.ms(missed), modules_of(missed)
    even = names_words(f"{size + -size % _MULTIPLE:,}" for size in sizes)
    yield TimeAdvice(
        ms * _HALVED,
        Advice(
            kind=AdviceKind.ODD_SIZE,
            message=f"Sizes that are not multiples of {_MULTIPLE} keep products"
            f"{f' in {names_words(modules)}' if modules else ''} off the Tensor Cores, or slow them down: "
            f"use {even} instead of {names_words(f'{size:,}' for size in sizes)} if you can.",
            evidence=f"Such products take {case.of_step(ms)}, on ordinary units or misaligned.",
            modules=modules,
        ),
    )


def _sizes(operation: HostOperation) -> Iterator[int]:
    """The sizes of a product's matrices, as its innermost operation has them; a convolution's channels."""
    above: HostOperation | None = operation
    while above is not None and above.signature is None:
        above = above.parent
    signature = above.signature if above else None
    if above is None or signature is None:
        return
    if "conv" not in above.name:
        yield from (
            size for shape in _tensors(signature) if len(shape) > 1 for size in shape[-2:] if size > 1
        )
        return
    weight = 2 if "backward" in above.name else 1
    shapes = _tensors(signature)
    yield from shapes[weight][:2] if len(shapes) > weight else ()


def _tensors(signature: Signature) -> list[tuple[Any, ...]]:
    return [shape for shape in signature.shapes if shape and all(isinstance(size, int) for size in shape)]


def layout(case: Case) -> Iterator[TimeAdvice]:
    """Conversions between channels_last and the usual layout, around convolutions; on a CPU oneDNN's own."""
    changed = [work for work in case.work if _LAYOUT.search(work.name)]
    ms, modules, remedy = case.ms(changed), modules_of(changed), channels_last(case.experiment)
    message = "Convolutions convert pictures to channels_last and back; keep them in it."
    if remedy is None:
        message = (
            f"{names_words(modules) or 'The model'} leaves channels_last and returns to it: look for "
            "permute, view or contiguous there."
        )
    if case.profile.device_type == "cpu":
        rows = case.profile.kernels
        if remedy is None or not any(row.name.startswith("convolution") for row in rows):
            return  # weights are converted in any layout
        ms = sum(row.ms for row in rows if row.name.startswith("reorder"))
        # 1.35 times as fast with a small CNN, 0.85 times with ResNet-18 on one core with AVX-512
        message = (
            "oneDNN converts what convolutions read and write; channels_last spares most of that, but slows "
            "some convolutions down: compare both."
        )
    yield TimeAdvice(
        ms,
        Advice(
            kind=AdviceKind.LAYOUT,
            message=message,
            evidence=f"The conversions take {case.of_step(ms)}.",
            modules=modules,
            **trying(remedy),
        ),
    )


def unfused_optimizer(case: Case) -> Iterator[TimeAdvice]:
    """An update in many kernels, or operations, where a single one would do."""
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
    yield TimeAdvice(
        ms * _HALVED,
        Advice(
            kind=AdviceKind.UNFUSED_OPTIMIZER,
            message=f"The optimizer updates the weights in many {kind}s; a fused one reads and writes each "
            "number once.",
            evidence=f"That takes {case.of_step(ms)}, in {case.count(names, kind)}.",
            **trying(remedy),
        ),
    )


def zeroed_gradients(case: Case) -> Iterator[TimeAdvice]:
    """Gradients filled with zeros between two steps."""
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
    ms = case.ms([work for work in case.work if _root(work.operation) in known] or fills)
    yield TimeAdvice(
        ms,
        Advice(
            kind=AdviceKind.ZEROED_GRADIENTS,
            message="The step fills gradients with zeros and then adds to them: drop them instead, with "
            "zero_grad(set_to_none=True), which is the default.",
            evidence=f"That takes {case.of_step(ms)}, in {case.count(fills, 'fill')}.",
        ),
    )


def _root(operation: HostOperation | None) -> HostOperation | None:
    while operation is not None and operation.parent is not None:
        operation = operation.parent
    return operation
