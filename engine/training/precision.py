"""Number formats: which a device can do, and how each is switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from engine.catalog import PrecisionEntry
from engine.experiment import Precision
from engine.training.processor import Processor

_AUTOCAST_DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
_AMPERE, _VOLTA = (8, 0), (7, 0)


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The context of one forward pass.

    Autocast is thread-local: enter it in the thread that trains, and around the forward pass alone.
    """
    dtype = _AUTOCAST_DTYPES.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


@contextmanager
def float32_mode(precision: Precision) -> Iterator[None]:
    """TF32 on for `tf32` and off for every other precision while the context lasts.

    Under autocast too it is off: what autocast leaves in float32 is then true float32, and a comparison
    measures the one format it names.
    """
    # One interface only: reading `allow_tf32` after writing `fp32_precision`, or the reverse, raises.
    cudnn: Any = torch.backends.cudnn
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "tf32" if precision is Precision.TF32 else "ieee"
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value


def cuda_precisions(capability: tuple[int, int]) -> tuple[PrecisionEntry, ...]:
    """What a CUDA card of that compute capability can do."""
    shown = ".".join(map(str, capability))
    ampere, volta = capability >= _AMPERE, capability >= _VOLTA
    tf32 = None if ampere else f"TF32 needs an Ampere card (compute capability 8.0) and this is {shown}"
    fp16 = None if volta else "without Tensor Cores FP16 saves memory but hardly any time"
    bf16 = None if ampere else "BF16 is emulated before Ampere, and slow"
    return (
        PrecisionEntry(precision=Precision.FP32, available=True),
        PrecisionEntry(precision=Precision.TF32, available=ampere, reason=tf32),
        PrecisionEntry(precision=Precision.FP16, available=True, note=fp16),
        PrecisionEntry(precision=Precision.BF16, available=True, note=bf16),
    )


def other_accelerator_precisions() -> tuple[PrecisionEntry, ...]:
    """What an accelerator other than an NVIDIA card can do."""
    return (
        PrecisionEntry(precision=Precision.FP32, available=True),
        PrecisionEntry(precision=Precision.TF32, available=False, reason="TF32 is a format of NVIDIA GPUs"),
        PrecisionEntry(precision=Precision.FP16, available=True),
        PrecisionEntry(precision=Precision.BF16, available=True),
    )


def cpu_precisions(processor: Processor) -> tuple[PrecisionEntry, ...]:
    """What a CPU can do: all but TF32, though not all of it quickly."""
    fp16 = None if processor.computes_fp16 else "slow here: most CPUs do not compute in FP16"
    bf16 = None if processor.computes_bf16 else "saves no time here: it needs AVX512-BF16 or AMX"
    if processor.computes_bf16 is None:
        bf16 = "saves time only where the CPU computes in BF16"
    return (
        PrecisionEntry(precision=Precision.FP32, available=True),
        PrecisionEntry(precision=Precision.TF32, available=False, reason="TF32 is a format of NVIDIA GPUs"),
        PrecisionEntry(precision=Precision.FP16, available=True, note=fp16),
        PrecisionEntry(precision=Precision.BF16, available=True, note=bf16),
    )
