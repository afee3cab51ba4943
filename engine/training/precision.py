"""Number formats: which ones a device supports, how each is turned on, and the numbers that tensors hold."""

from __future__ import annotations

import math
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from engine.experiment.checks import PrecisionEntry
from engine.experiment.experiment import Precision
from engine.experiment.value import BYTES_PER_MIB

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
_FP16_FLAGS = frozenset({"avx512_fp16", "amx_fp16", "fphp", "asimdhp"})


@dataclass(frozen=True)
class Processor:
    """A CPU: its name, its memory, and whether it has instructions for BF16 and FP16 (None if unknown)."""

    title: str
    memory_mib: float
    computes_bf16: bool | None = None
    computes_fp16: bool | None = None


@cache
def processor() -> Processor:
    """Return this machine's CPU."""
    memory_mib = psutil.virtual_memory().total / BYTES_PER_MIB
    if sys.platform == "linux":
        return from_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"), memory_mib)
    title = _name_told_by_system() or platform.processor() or platform.machine() or "CPU"
    return Processor(title, memory_mib)


def _name_told_by_system() -> str:
    # on Windows and macOS, where Python knows only its family
    if sys.platform == "win32":
        import winreg

        with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _WINDOWS_PROCESSOR) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    if sys.platform == "darwin":
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(_MACOS_PROCESSOR, capture_output=True, text=True, timeout=5, check=True)
            return told.stdout.strip()
    return ""


_WINDOWS_PROCESSOR = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
_MACOS_PROCESSOR = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")


def from_cpuinfo(text: str, memory_mib: float) -> Processor:
    """Return the CPU described by Linux's /proc/cpuinfo. x86 has "flags", ARM "Features"."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = frozenset((fields.get("flags") or fields.get("Features") or "").split())
    return Processor(
        title=fields.get("model name") or platform.machine() or "CPU",
        memory_mib=memory_mib,
        computes_bf16=bool(flags & _BF16_FLAGS) if flags else None,
        computes_fp16=bool(flags & _FP16_FLAGS) if flags else None,
    )


Float32Mode = Literal["strict", "tf32", "default"]

_ADA, _AMPERE, _TURING, _VOLTA = (8, 9), (8, 0), (7, 5), (7, 0)
_NOT_NVIDIA = "Ammeter uses TF32 on NVIDIA GPUs only"
_SAME_AS_FP32 = "the same as FP32, because TF32 is not used here"
_NO_FP8 = "Ammeter uses FP8 on NVIDIA GPUs only"
_NO_TORCHAO = (
    "torchao is not installed here (install it with `ammeter engine install --with torchao`, or in a clone "
    "with `uv sync --extra fp8`)"
)
EMULATED_NOTE = "FP8 is emulated on a CPU. The losses are as on a GPU, but the throughput is not."
_EMULATED = "emulated, which shows losses but not throughput"
_UNSCALED = "trains without a loss scaler, so small gradients underflow"


def autocast(
    precision: Precision, device: torch.device, cache_enabled: bool = True
) -> AbstractContextManager[object]:
    """Return the context of one forward pass.

    Autocast is thread-local: enter it in the training thread, around the forward pass only. Its cache of cast
    weights must be off while a CUDA graph is captured, because replays would use outdated ones.
    """
    dtype = autocast_dtype(precision)
    if dtype is None:
        return nullcontext()
    return torch.autocast(device.type, dtype=dtype, cache_enabled=cache_enabled)


def autocast_dtype(precision: Precision) -> torch.dtype | None:
    """Return the dtype that weights and activations are cast to. None without a cast."""
    name = precision.autocast
    dtype: torch.dtype | None = None if name is None else getattr(torch, name)
    return dtype


def float32_mode_name(precision: Precision, autocast_tf32: bool = False) -> Float32Mode:
    """Return how float32 matmuls are computed: strict, in TF32, or by PyTorch's default flags."""
    if precision is Precision.DEFAULT:
        return "default"
    allows_tf32 = precision is Precision.TF32 or (precision.is_autocast and autocast_tf32)
    return "tf32" if allows_tf32 else "strict"


@contextmanager
def float32_mode(precision: Precision, autocast_tf32: bool = False) -> Iterator[None]:
    """Compute float32 matmuls as named by `float32_mode_name` in this context, then restore all flags.

    TF32 is also off under autocast, unless `autocast_tf32`. Operations that autocast keeps in float32 are
    then true float32, so a comparison measures only the named precision.
    """
    mode = float32_mode_name(precision, autocast_tf32)
    if mode == "default":
        yield
        return
    newer = tuple(backend.fp32_precision for backend in _backends())
    before = _Flags(torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, newer)
    _write_flags(_TF32 if mode == "tf32" else _STRICT)
    try:
        yield
    finally:
        _write_flags(before)


class _Flags(NamedTuple):
    """PyTorch's flags for float32 matmuls: the two older ones, and the newer one of each of `_backends()`."""

    matmul: str
    cudnn_allows_tf32: bool
    backends: tuple[str, ...]


_STRICT, _TF32 = _Flags("highest", False, ("ieee",) * 4), _Flags("high", True, ("tf32",) * 4)


def _backends() -> tuple[Any, ...]:
    every: Any = torch.backends
    return (every.cuda.matmul, every.cudnn.conv, every.cudnn.rnn, every.mkldnn.matmul)


def _write_flags(flags: _Flags) -> None:
    # Both interfaces, the older first, since it writes the newer too: torch.compile reads the older, which
    # raises where the two disagree; and the older's "off" means "as the parent", not strictly off.
    torch.set_float32_matmul_precision(flags.matmul)
    torch.backends.cudnn.allow_tf32 = flags.cudnn_allows_tf32
    for backend, value in zip(_backends(), flags.backends, strict=True):
        backend.fp32_precision = value


# Cards with the chips TU116 and TU117 report compute capability 7.5 as a T4 does; only their names differ:
# https://github.com/pytorch/pytorch/issues/195716, https://www.techpowerup.com/gpu-specs/nvidia-tu117.g881.
_WITHOUT_TENSOR_CORES = r"GTX 16\d\d|MX[45]50|\bT(400|500|550|600|1000|1200|2000)\b|CMP 30HX"


def has_tensor_cores(name: str, capability: tuple[int, int]) -> bool:
    """Return True if the NVIDIA GPU with that name and compute capability has Tensor Cores."""
    lacks = capability == _TURING and re.search(_WITHOUT_TENSOR_CORES, name) is not None
    return capability >= _VOLTA and not lacks


def cuda_precisions(capability: tuple[int, int], name: str = "") -> tuple[PrecisionEntry, ...]:
    """Return the precisions of a CUDA GPU. Some GPUs, known by `name`, lack Tensor Cores."""
    fp16 = "without Tensor Cores, FP16 saves memory but little time"
    if has_tensor_cores(name, capability):
        fp16 = ""
    shown = ".".join(map(str, capability))
    fp8 = "" if capability >= _ADA else f"FP8 needs compute capability 8.9, but this GPU has {shown}"
    if capability >= _AMPERE:
        return _entries(fp16=fp16, fp8=fp8)
    tf32 = f"TF32 needs an Ampere GPU (compute capability 8.0), but this one has {shown}"
    return _entries(tf32, _SAME_AS_FP32, fp16, "before Ampere, BF16 is emulated and slow", fp8=fp8)


def other_accelerator_precisions() -> tuple[PrecisionEntry, ...]:
    """Return the precisions of an accelerator other than an NVIDIA GPU."""
    return _entries(_NOT_NVIDIA, _SAME_AS_FP32, fp8=_NO_FP8)


def cpu_precisions(processor: Processor) -> tuple[PrecisionEntry, ...]:
    """Return the precisions of a CPU: all but TF32, though not all of them fast."""
    fp16 = "" if processor.computes_fp16 else "slow here, because most CPUs do not compute in FP16"
    bf16 = "" if processor.computes_bf16 else "saves no time on a CPU without AVX512-BF16 or AMX"
    if processor.computes_bf16 is None:
        bf16 = "saves time only if the CPU computes in BF16"

    def clause(precision: Precision, note: str) -> str:
        return f"{precision.label} {'is ' if note in (fp16, _EMULATED) else ''}{note}"

    return _entries(_NOT_NVIDIA, _SAME_AS_FP32, fp16, bf16, clause, fp8_note=_EMULATED)


def _entries(
    tf32: str = "",
    default: str = "",
    fp16: str = "",
    bf16: str = "",
    clause: Callable[[Precision, str], str] = lambda precision, note: note,
    *,
    fp8: str = "",
    fp8_note: str = "",
) -> tuple[PrecisionEntry, ...]:
    """Return an entry for each precision, with reasons against TF32 and FP8, and notes on others."""
    reasons = {Precision.TF32: tf32, Precision.FP8: fp8 or ("" if find_spec("torchao") else _NO_TORCHAO)}
    notes = {Precision.DEFAULT: default, Precision.FP16: fp16, Precision.BF16: bf16}
    notes[Precision.BF16_PURE] = bf16
    notes[Precision.FP16_UNSCALED] = "; ".join(filter(None, (_UNSCALED, fp16)))
    notes[Precision.FP8] = fp8_note
    slow = {**notes, Precision.DEFAULT: "", Precision.FP16_UNSCALED: fp16}
    return tuple(
        PrecisionEntry(
            precision=precision,
            available=not reasons.get(precision),
            reason=reasons.get(precision) or None,
            note=notes.get(precision) or None,
            hardly_faster=clause(precision, slow[precision]) if slow.get(precision) else None,
        )
        for precision in Precision
    )


_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_MASKS = torch.tensor(
    [torch.finfo(each).min / part for each in _FLOATS for part in (1, 2)]
    + [-(10.0**power) for power in range(4, 39)],
    dtype=torch.float64,
)


def masks_with(tensors: Iterable[torch.Tensor], numbers: Iterable[float] = ()) -> bool:
    """Return True if a number, or a tensor's minimum, is so low that masks use it instead of -Inf."""
    least = [(float(tensor.min()), tensor.dtype) for tensor in tensors if tensor.numel()]
    least += [(number, torch.float64) for number in numbers]
    return any(value in _MASKS.to(dtype).tolist() for value, dtype in least if math.isfinite(value))


def dtype_name(dtype: torch.dtype) -> str:
    """Return PyTorch's name of a dtype, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def leaf_tensors(value: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def floating(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the parts of tensors that can hold NaN and Inf, strided, real and in the tensors' own memory.

    A complex tensor has its real and imaginary parts, a sparse or nested one its values.
    """
    for tensor in tensors:
        for part in _parts(tensor.detach()):
            holds_numbers = part.layout is torch.strided and part.numel() and not part.is_meta
            if holds_numbers and part.is_floating_point():
                yield part


def without_fp8(tensor: Tensor) -> Tensor:
    """Return the tensor, converted to float32 if it is in FP8, for which torch lacks most operations."""
    return tensor.float() if tensor.itemsize == 1 else tensor


def are_finite(value: Any) -> bool:
    """Return True if nested tensors contain no NaN and no Inf. Synchronizes with the device."""
    leaves = tree_leaves(value)
    tensors = floating(leaf_tensors(leaves))
    return all(bool(without_fp8(part).isfinite().all()) for part in tensors) and all(
        math.isfinite(leaf) for leaf in leaves if isinstance(leaf, float)
    )


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _parts(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield from _parts(tensor._values())
    elif tensor.layout in _COMPRESSED or tensor.is_nested:
        yield from _parts(tensor.values())
    elif tensor.is_complex():
        # the conjugate of a conjugate is the tensor as it lies in memory
        yield torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor)
    else:
        yield tensor


_COMPRESSED = frozenset((torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))
