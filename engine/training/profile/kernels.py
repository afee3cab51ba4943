"""Kernels classified by their names: the part of a step and the format of their matmuls.

Libraries write the instruction and the formats into a kernel's name: "s16816gemm" is a matmul of 16 × 8 × 16
on Tensor Cores with FP32 sums, "sgemm" and "simt" are FP32 on ordinary units. Tensor Cores have no FP32, so
kernels that run on them and are FP32 by name round their inputs to TF32.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from engine.protocol.profile import StepPart, TimeRow

_MOST_NAMES = 10_000
_UNITS, _PLAIN, _MEMORY = StepPart.MATRIX_UNITS, StepPart.MATRIX, StepPart.MEMORY


@dataclass(frozen=True)
class KernelClass:
    """The part of a step that a kernel belongs to, and the number format of its matmuls.

    `format` is None for a kernel without matmuls, or if its name does not show the format.
    """

    part: StepPart
    format: str | None = None

    @property
    def uses_matrix_units(self) -> bool:
        """True on Tensor Cores. On a CPU: for AMX or 16-bit dot products."""
        return self.part is _UNITS


# The first rule that fits decides.
_RULES = tuple(
    (re.compile(pattern), part)
    for pattern, part in (
        # torch.optim (foreach and fused), apex, GradScaler, clipping by foreach norms
        (r"multi_tensor_apply|amp_(foreach_)?(non_finite|update_scale)", StepPart.OPTIMIZER),
        (r"[Ff]used_?([Aa]dam|SGD|sgd)", StepPart.OPTIMIZER),
        # CUPTI, nsys, and the copies of CUDA graphs
        (r"[Mm]emcpy (HtoD|DtoH|PtoP)", StepPart.COPIES),
        (r"[Mm]emcpy|[Mm]emset|^mem(set|cpy)\d", _MEMORY),
        # communication
        (r"^nccl|all_reduce_kernel", StepPart.COMMUNICATION),
        # ATen, whose templates name functors and types; its softmax lives in a namespace without a name
        (r"at::native::.*conv_depthwise", _PLAIN),
        (r"^(void )?(at::|at_cuda_detail::|cub::|thrust::|\(anonymous namespace\)::)", _MEMORY),
        # Triton by torch.compile: templates, then point-wise kernels and reductions
        (r"^triton_(tem_|mm|bmm|conv|flex)", _UNITS),
        (r"^triton_", _MEMORY),
        # around matmuls: layout changes, sums of split matmuls, transforms of FFT and Winograd, offsets
        (r"split_?[Kk]_?reduce|ReduceSplitK|reduction_kernel|reduce_wgrad|epilogue::impl", _MEMORY),
        (r"fft[12]d_|flip_filter|transpose_readWrite|region_transform|scal_kernel|im2col|col2im", _MEMORY),
        (r"winograd\w*(Data|Filter|Output|Delta)\d|WinogradTiles|compute\w*Offsets", _MEMORY),
        # cuDNN besides convolutions
        (r"n(chw|hwc)ToN(chw|hwc)|convertTensor|[Pp]ackedTensor|genericTranspose", _MEMORY),
        (r"cudnn::(ops|bn_|batchnorm|norm|pool|reduc|softmax|fusion)|elem\w*[Ww]ise|dropout", _MEMORY),
        # attention: FlashAttention 2 and 3, the memory-efficient one of CUTLASS (TF32 from sm80), cuDNN's
        (r"flash_bwd_(dot|convert|clear)|splitkv_combine|FlashAttn\w*(Preprocess|Convert|Combine)", _MEMORY),
        (r"fmha_cutlass[FB]_f32\w*_sm[567]|fmha_cutlass\w*_sm[56]", _PLAIN),
        (r"flash_(fwd|bwd)|FlashAttn|fmha|_sdpa_", _UNITS),
        # cuBLAS(Lt), cuDNN and CUTLASS on ordinary units, by names that look like others
        (r"simt|depthwise|_(b?f16b?f16|f32f32)_f32f32", _PLAIN),
        # the same on Tensor Cores, by the family or the shape of the instruction
        (r"nvjet|[Tt]ensor[Oo]p|wmma|hmma|imma|[Gg]mma|tcgen05|_tensor\d+x\d|warpgroupsize", _UNITS),
        (r"[a-z](884|1688|16816|161616|8816|16832)(gemm|cudnn|[fdw](prop|grad))", _UNITS),
        (r"xmma_\w*(tf32|f16|e4m3|e5m2)", _UNITS),
        # ROCm's: Tensile, Composable Kernel, MIOpen
        (r"^Cijk_.*_MI\d|xdl|^igemm_\w*gtcx", _UNITS),
        # all other matmuls, including matrix by vector
        (
            r"(?<!fb)[Gg]emm|gemv|gemk|scudnn|winograd|[Cc]onv(?!ert)|[fdw](prop|grad)|dot_kernel|reduce_1Block|^Cijk_",
            _PLAIN,
        ),
        # other libraries' normalizations, embeddings and the like
        (r"[Nn]orm|[Ee]mbedding|[Ss]oftmax|[Rr]educe|[Ee]lementwise|permute|transpose|[Cc]opy", _MEMORY),
    )
)

# The first that fits is the format of the factors; cuDNN's attention says "f16" for BF16, too.
_FORMATS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"_sdpa_|^triton_|^Cijk_", None),
        (r"tf32|tfloat32", "tf32"),
        (r"e4m3|e5m2|[Ee]4[Mm]3|fp8|nvjet_(sm\d+_)?[qo]", "fp8"),
        (r"bf16|bfloat16|BFloat16|nvjet_(sm\d+_)?t", "bf16"),
        (r"f16|fp16|[Hh]alf|_h(884|1688|16816|161616)|hgemm|hmma_fp32|nvjet_(sm\d+_)?h", "fp16"),
        (r"dgemm|_d884|\bdouble\b|f64f64", "fp64"),
        (r"imma|i8816|i16832|int8", "int8"),
        (r"sgemm|scudnn|f32|fp32|float|cgemm|[a-z]1688|nvjet", "fp32"),
    )
)


@lru_cache(_MOST_NAMES)
def classify_kernel(name: str) -> KernelClass:
    """Classify a kernel, copy or memset by its name in a trace. Unknown ones are `StepPart.OTHER`."""
    part = next((part for rule, part in _RULES if rule.search(name)), StepPart.OTHER)
    if part not in (_UNITS, _PLAIN):
        return KernelClass(part)
    written = next((known for rule, known in _FORMATS if rule.search(name)), None)
    return KernelClass(part, "tf32" if part is _UNITS and written == "fp32" else written)


_TYPE_FORMATS = {"float": "fp32", "c10::BFloat16": "bf16", "c10::Half": "fp16", "double": "fp64"}

# aten::linear and the like call these, and are overhead of the framework apart from that
_PRODUCTS = re.compile(
    r"^(aten|mkldnn|onednn|quantized)::_?("
    r"(mkldnn_|slow_|thnn_|cudnn_|miopen_)?conv(olution|_transpose|_depthwise)?[123]?d?(_\w*)?|\w*convolution\w*|"
    r"add(mm|bmm|mv|r)|baddbmm|b?mm|mv|v?dot|matmul|linear\w*|mkldnn_linear\w*|einsum|(weight_)?int\dpack_mm\w*|"
    r"scaled_(mm|dot_product)\w*|(flash|efficient|fused_sdp)\w*attention\w*|mkldnn_rnn\w*"
    r")$"
)
_OPTIMIZER = re.compile(r"^Optimizer\.|^aten::_(fused_(adam|sgd|adagrad)|foreach_|amp_)")
_LOADING = re.compile(r"DataLoader\w*\.__next__")
# of torch.compile on a CPU: the fused operations of its graphs, and Python around them
_COMPILED = re.compile(r"CompiledFxGraph|_cpp_fused_")
_AROUND_COMPILED = re.compile(r"^(Torch-Compiled Region|CompiledFunction|TorchDynamo|Pregraph|AOTDispatcher)")
_BOOKKEEPING = re.compile(
    r"^aten::(_?(empty|view|reshape|unsafe_view|as_strided|expand|local_scalar)\w*|detach_?|alias|t|transpose|permute|"
    r"(un)?squeeze_?|select|slice|narrow|split\w*|chunk|unbind|unfold|flatten|item|is_nonzero|resize_?|set_|"
    r"size|stride|numel|to|result_type|can_cast|lift_fresh)$|^detach$"
)


def input_format(types: Sequence[str]) -> str | None:
    """Return the format of an operation's first floating-point input, given the type names of a trace."""
    return next((_TYPE_FORMATS[type_] for type_ in types if type_ in _TYPE_FORMATS), None)


def classify_operation(name: str, types: Sequence[str] = (), units: Collection[str] = ()) -> KernelClass:
    """Classify an operation by its own work.

    `types` are its inputs' types as a trace names them ("c10::BFloat16"). `units` are the formats for which
    the CPU has matrix units ("bf16").
    """
    if _LOADING.search(name):
        return KernelClass(StepPart.DATA)
    if _OPTIMIZER.search(name):
        return KernelClass(StepPart.OPTIMIZER)
    if _PRODUCTS.search(name):
        known = input_format(types)
        return KernelClass(StepPart.MATRIX_UNITS if known in units else StepPart.MATRIX, known)
    if _COMPILED.search(name):
        return KernelClass(StepPart.MEMORY)
    if name.startswith("c10d::") or _BOOKKEEPING.search(name) or _AROUND_COMPILED.search(name):
        return KernelClass(StepPart.HOST)
    return KernelClass(StepPart.MEMORY if "::" in name else StepPart.OTHER)


_PRIMITIVES = ("convolution", "deconvolution", "inner_product", "matmul", "rnn", "sdpa", "grouped")
_SOURCE = re.compile(r"src\w*[_:](f32|bf16|f16|f64|s8|u8|f8_e\dm\d)\b")
_ONEDNN_FORMATS = {"f32": "fp32", "f64": "fp64", "bf16": "bf16", "f16": "fp16", "s8": "int8", "u8": "int8"}


def classify_primitive(kind: str, implementation: str, memory: str = "") -> KernelClass:
    """Classify a primitive of oneDNN by its verbose line.

    The line has its kind ("convolution"), implementation ("brgconv:avx512_core_amx") and descriptors of its
    memory ("src_bf16::blocked:acdb:f0 ...").
    """
    if kind not in _PRIMITIVES:
        return KernelClass(StepPart.MEMORY)
    source = _SOURCE.search(memory)
    known = _ONEDNN_FORMATS.get(source[1], "fp8") if source else None
    # avx2_vnni_2 only converts 16-bit numbers, so it does not count
    uses_units = re.search(r"amx|avx512_core_(bf16|fp16)|avx10|_vnni(?!_2)|mmla|bf16", implementation)
    return KernelClass(StepPart.MATRIX_UNITS if uses_units else StepPart.MATRIX, known)


_CPU_UNITS = (
    ("bf16", "amx_bf16", "AMX"),
    ("bf16", "avx512_bf16", "AVX-512 BF16"),
    ("bf16", "bf16", "BF16 dot products"),
    ("fp16", "amx_fp16", "AMX"),
    ("fp16", "avx512_fp16", "AVX-512 FP16"),
)
"""Formats, the CPU capabilities for them by PyTorch's names (`bf16` is ARM's), and the units."""


def matrix_units() -> dict[str, str]:
    """Return this CPU's units for 16-bit matmuls by format. Empty if it has none."""
    # up to PyTorch 2.10 there is no such function
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return best_units(capabilities)


def best_units(capabilities: Mapping[str, Any]) -> dict[str, str]:
    """Return the fastest matrix units of a CPU with these capabilities, by number format."""
    units: dict[str, str] = {}
    for name, capability, unit in _CPU_UNITS:
        if capabilities.get(capability):
            units.setdefault(name, unit)
    return units


@dataclass(frozen=True)
class Primitive:
    """A call of oneDNN, the CPU library for matmuls and convolutions: its class, and its time in ms.

    `kind` is a name such as "matmul", `implementation` one such as "brg_matmul:avx512_core_amx".
    """

    kind: str
    implementation: str
    kernel_class: KernelClass
    ms: float


def primitives_in(text: str, formats: Iterable[str]) -> tuple[Primitive, ...]:
    """Return the calls in oneDNN's verbose lines. All other lines are skipped.

    `formats` are those with matrix units on the CPU. Others are emulated on ordinary units.
    """
    known = frozenset(formats)
    found = (_primitive(line.strip().split(","), known) for line in text.splitlines())
    return tuple(primitive for primitive in found if primitive is not None)


def _primitive(fields: list[str], formats: frozenset[str]) -> Primitive | None:
    # onednn_verbose,v1,primitive,exec,cpu,KIND,IMPLEMENTATION,propagation,MEMORY,...,MS
    if not fields[0].endswith("onednn_verbose") or "exec" not in fields[:5]:
        return None
    try:
        kind, implementation, _, memory, *_, milliseconds = fields[fields.index("exec") + 2 :]
        ms = float(milliseconds)
    except ValueError:  # a line that was cut short
        return None
    known = classify_primitive(kind, implementation, memory)
    if known.uses_matrix_units and known.format not in formats:
        known = KernelClass(StepPart.MATRIX, known.format)
    return Primitive(kind, implementation, known, ms)


def verbose_primitives(work: Callable[[], object]) -> tuple[Primitive, ...]:
    """Run `work` and return the calls of oneDNN during it. Empty if PyTorch is built without oneDNN.

    oneDNN writes to the process's own stdout, which is redirected to a file.
    """
    mkldnn = torch.backends.mkldnn
    if not mkldnn.is_available():  # type: ignore[no-untyped-call]
        work()
        return ()
    with tempfile.TemporaryFile() as file:
        stdout = os.dup(1)
        try:
            os.dup2(file.fileno(), 1)
            with mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
                work()
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
        file.seek(0)
        return primitives_in(file.read().decode("utf-8", errors="replace"), matrix_units())


def primitive_rows(primitives: Sequence[Primitive], step_ms: float) -> tuple[TimeRow, ...]:
    """Return a row for each implementation of each kind in each format, the longest first.

    The calls are from another step than `step_ms`. If they exceed it, they are scaled down to it.
    """
    whole = sum(each.ms for each in primitives)
    scale = min(1.0, step_ms / whole) if whole else 1.0
    groups: defaultdict[tuple[str, str, KernelClass], list[float]] = defaultdict(list)
    for each in primitives:
        groups[each.kind, each.implementation, each.kernel_class].append(scale * each.ms)
    rows = [
        TimeRow(
            name=f"{kind} {implementation}",
            part=known.part,
            ms=sum(times),
            calls=len(times),
            matrix_unit_fraction=float(known.uses_matrix_units),
            format=known.format,
        )
        for (kind, implementation, known), times in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.ms, reverse=True))


def formats_on_units(primitives: Iterable[Primitive]) -> frozenset[str]:
    """Return the formats whose matmuls ran on matrix units for most of their time."""
    balance: defaultdict[str, float] = defaultdict(float)
    for each in primitives:
        known = each.kernel_class
        if known.format is not None:
            balance[known.format] += each.ms if known.uses_matrix_units else -each.ms
    return frozenset(name for name, ms in balance.items() if ms > 0)
