"""Operations of ATen and primitives of oneDNN classified, for a CPU, where no kernels are recorded."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from engine.protocol.profile import StepPart
from engine.training.profile.traces.kernels import KernelClass

_FORMATS = {"float": "fp32", "c10::BFloat16": "bf16", "c10::Half": "fp16", "double": "fp64"}

# aten::linear and the like call these; what is left to them is a framework's overhead
_PRODUCTS = re.compile(
    r"^(aten|mkldnn|onednn|quantized)::_?("
    r"(mkldnn_|slow_|thnn_|cudnn_|miopen_)?conv(olution|_transpose|_depthwise)?[123]?d?(_\w*)?|\w*convolution\w*|"
    r"add(mm|bmm|mv|r)|baddbmm|b?mm|mv|v?dot|matmul|linear\w*|mkldnn_linear\w*|einsum|(weight_)?int\dpack_mm\w*|"
    r"scaled_(mm|dot_product)\w*|(flash|efficient|fused_sdp)\w*attention\w*|mkldnn_rnn\w*"
    r")$"
)
_OPTIMIZER = re.compile(r"^Optimizer\.|^aten::_(fused_(adam|sgd|adagrad)|foreach_|amp_)")
_LOADING = re.compile(r"DataLoader\w*\.__next__")
# of torch.compile on a CPU: what its graphs compute themselves, fused; and Python around them
_COMPILED = re.compile(r"CompiledFxGraph|_cpp_fused_")
_AROUND_COMPILED = re.compile(r"^(Torch-Compiled Region|CompiledFunction|TorchDynamo|Pregraph|AOTDispatcher)")
_BOOKKEEPING = re.compile(
    r"^aten::(_?(empty|view|reshape|unsafe_view|as_strided|expand|local_scalar)\w*|detach_?|alias|t|transpose|permute|"
    r"(un)?squeeze_?|select|slice|narrow|split\w*|chunk|unbind|unfold|flatten|item|is_nonzero|resize_?|set_|"
    r"size|stride|numel|to|result_type|can_cast|lift_fresh)$|^detach$"
)


def format_of(types: Sequence[str]) -> str | None:
    """The format of an operation's first input of real numbers, by the names that a trace gives types."""
    return next((_FORMATS[type_] for type_ in types if type_ in _FORMATS), None)


def operation_class(name: str, types: Sequence[str] = (), units: Collection[str] = ()) -> KernelClass:
    """Classifies an operation by its own work.

    `types` are its inputs' as a trace names them ("c10::BFloat16"), `units` the formats that the processor
    multiplies in matrix units ("bf16").
    """
    if _LOADING.search(name):
        return KernelClass(StepPart.DATA)
    if _OPTIMIZER.search(name):
        return KernelClass(StepPart.OPTIMIZER)
    if _PRODUCTS.search(name):
        known = format_of(types)
        return KernelClass(StepPart.MATRIX_UNITS if known in units else StepPart.MATRIX, known)
    if _COMPILED.search(name):
        return KernelClass(StepPart.MEMORY)
    if _BOOKKEEPING.search(name) or _AROUND_COMPILED.search(name):
        return KernelClass(StepPart.HOST)
    return KernelClass(StepPart.MEMORY if "::" in name else StepPart.OTHER)


_PRIMITIVES = ("convolution", "deconvolution", "inner_product", "matmul", "rnn", "sdpa", "grouped")
_SOURCE = re.compile(r"src\w*[_:](f32|bf16|f16|f64|s8|u8|f8_e\dm\d)\b")
_ONEDNN_FORMATS = {"f32": "fp32", "f64": "fp64", "bf16": "bf16", "f16": "fp16", "s8": "int8", "u8": "int8"}


def primitive_class(kind: str, implementation: str, memory: str = "") -> KernelClass:
    """Classifies a primitive of oneDNN by its verbose line.

    That is its kind ("convolution"), implementation ("brgconv:avx512_core_amx") and descriptors of its
    memory ("src_bf16::blocked:acdb:f0 ...").
    """
    if kind not in _PRIMITIVES:
        return KernelClass(StepPart.MEMORY)
    source = _SOURCE.search(memory)
    known = _ONEDNN_FORMATS.get(source[1], "fp8") if source else None
    # avx2_vnni_2 only converts 16-bit numbers, so it is none
    uses_units = re.search(r"amx|avx512_core_(bf16|fp16)|avx10|_vnni(?!_2)|mmla|bf16", implementation)
    return KernelClass(StepPart.MATRIX_UNITS if uses_units else StepPart.MATRIX, known)
