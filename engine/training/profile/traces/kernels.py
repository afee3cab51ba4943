"""Kernels classified by their names: the part of a step and the format of their products.

Libraries write the instruction and the formats into a kernel's name: "s16816gemm" is a matrix product of
16 × 8 × 16 on Tensor Cores with FP32 sums, "sgemm" and "simt" are FP32 on ordinary units. Tensor Cores hold
no FP32: what runs on them and is FP32 by its name rounds its inputs to TF32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from engine.protocol.profile import StepPart

_MOST_NAMES = 10_000
_UNITS, _PLAIN, _MEMORY = StepPart.MATRIX_UNITS, StepPart.MATRIX, StepPart.MEMORY


@dataclass(frozen=True)
class KernelClass:
    """The part of a step that a kernel belongs to; `format` is None without products or if none is named."""

    part: StepPart
    format: str | None = None

    @property
    def uses_matrix_units(self) -> bool:
        """True on Tensor Cores; on a CPU for AMX or 16-bit dot products."""
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
        (r"^nccl|all_reduce_kernel", StepPart.OTHER),
        # ATen, whose templates name functors and types; its softmax lives in a namespace without a name
        (r"at::native::.*conv_depthwise", _PLAIN),
        (r"^(void )?(at::|at_cuda_detail::|cub::|thrust::|\(anonymous namespace\)::)", _MEMORY),
        # Triton by torch.compile: templates, then point-wise kernels and reductions
        (r"^triton_(tem_|mm|bmm|conv|flex)", _UNITS),
        (r"^triton_", _MEMORY),
        # around products: changes of layout, sums of split products, transforms of FFT and Winograd, offsets
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
        # the same on Tensor Cores, told by the family or by the shape of the instruction
        (r"nvjet|[Tt]ensor[Oo]p|wmma|hmma|imma|[Gg]mma|tcgen05|_tensor\d+x\d|warpgroupsize", _UNITS),
        (r"[a-z](884|1688|16816|161616|8816|16832)(gemm|cudnn|[fdw](prop|grad))", _UNITS),
        (r"xmma_\w*(tf32|f16|e4m3|e5m2)", _UNITS),
        # ROCm's: Tensile, Composable Kernel, MIOpen
        (r"^Cijk_.*_MI\d|xdl|^igemm_\w*gtcx", _UNITS),
        # all other products, matrix by vector among them
        (
            r"(?<!fb)[Gg]emm|gemv|gemk|scudnn|winograd|[Cc]onv(?!ert)|[fdw](prop|grad)|dot_kernel|reduce_1Block|^Cijk_",
            _PLAIN,
        ),
        # other libraries' normalisations, embeddings and the like
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
def kernel_class(name: str) -> KernelClass:
    """Classifies a kernel, copy or memset by its name in a trace; unknown ones are `StepPart.OTHER`."""
    part = next((part for rule, part in _RULES if rule.search(name)), StepPart.OTHER)
    if part not in (_UNITS, _PLAIN):
        return KernelClass(part)
    written = next((known for rule, known in _FORMATS if rule.search(name)), None)
    return KernelClass(part, "tf32" if part is _UNITS and written == "fp32" else written)
