"""Models without weights, for a memory forecast: only the sizes of tensors matter.

Tensors on the CPU are treated as on CUDA where that changes their memory. Calls have the names of torch
functions. The policies of autocast are those of PyTorch's ATen/autocast_mode.h and .cpp. Missing kernels are
from `dtypesIfCUDA` in torch/testing/_internal/common_methods_invocations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from engine.training.precision import dtype_name, leaf_tensors

IN_FLOAT32 = frozenset(
    (
        *("layer_norm", "group_norm", "rms_norm", "softmax", "log_softmax"),
        *("softmin", "logsumexp", "softplus"),
        *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"),
        *("poisson_nll_loss", "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss"),
        *("multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss"),
        *("binary_cross_entropy_with_logits", "cosine_similarity", "interpolate", "renorm"),
        *("pow", "rpow", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "log2", "log10"),
        *("acos", "asin", "cosh", "sinh", "tan", "erfinv", "sum", "prod", "cumsum", "cumprod"),
        *("norm", "linalg_norm", "linalg_vector_norm", "linalg_matrix_norm"),
        *("frobenius_norm", "nuclear_norm"),
        *("normalize", "dist", "pdist", "cdist"),
    )
)
"""Calls that CUDA casts to float32. Most of them keep the CPU's 16 bits."""

IN_HALF = frozenset(
    (
        *("addmv", "addr", "chain_matmul", "einsum", "linalg_multi_dot", "mv"),
        *("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    )
)
"""Calls that CUDA casts to 16 bits and the CPU leaves as they are."""

PROMOTED = frozenset(
    (
        *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "tensordot"),
        *("grid_sample", "grid_sampler", "index_put", "scatter_add"),
    )
)
"""Calls that CUDA computes in the widest dtype of their inputs."""


def _registered(key: str) -> frozenset[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    own = (name.removeprefix("aten::") for name in names if name.startswith("aten::"))
    return frozenset(name.partition(".")[0] for name in own)


CPU_LISTS, CUDA_LISTS = _registered("AutocastCPU"), _registered("AutocastCUDA")
"""The operators that each autocast treats in any way, in the installed PyTorch."""

_NO_HALF = frozenset(
    (
        *("cholesky", "cholesky_inverse", "cholesky_solve", "ctc_loss", "det", "geqrf", "histc", "igamma"),
        *("igammac", "inverse", "lobpcg", "logdet", "lu", "lu_solve", "lu_unpack", "nanquantile", "orgqr"),
        *("ormqr", "pinverse", "qr", "quantile", "slogdet", "svd", "triangular_solve"),
        *("linalg_cholesky", "linalg_cholesky_ex", "linalg_cond", "linalg_det", "linalg_eig", "linalg_eigh"),
        *("linalg_eigvals", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv", "linalg_inv_ex"),
        *("linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_lstsq", "linalg_lu"),
        *("linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matrix_rank", "linalg_pinv"),
        *("linalg_polar", "linalg_qr", "linalg_slogdet", "linalg_solve", "linalg_solve_ex", "linalg_svd"),
        *("linalg_solve_triangular", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve"),
    )
)
_NO_BF16 = frozenset(("complex", "polar", "view_as_complex"))
_ONE_SIDE = frozenset(f"fft_{name}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
_MORE_SIDES = frozenset(
    f"fft_{name}{sides}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for sides in "2n"
)

_TRANSFORMS = _ONE_SIDE | _MORE_SIDES | {"stft"}

PRODUCTS = frozenset(("addmm", "baddbmm", "bmm", "einsum", "matmul", "mm", "tensordot"))

KEPT = frozenset((CPU_LISTS - CUDA_LISTS - _NO_HALF - _NO_BF16 - _TRANSFORMS) | {"pad"})
"""Calls that the CPU casts to float32, or to the widest dtype, and CUDA computes as they are given."""


def call_name(function: Any) -> str:
    """Return the name of a torch function: "pow" also for the operator **."""
    name = str(getattr(function, "__name__", "")).removesuffix("_with_indices")
    return name[2:-2] if name.startswith("__") and name.endswith("__") else name.removeprefix("_")


def refusal(name: str, half: torch.dtype, args: Sequence[Any], settings: Mapping[str, Any]) -> str | None:
    """Return why CUDA refuses a call with an input of dtype `half`, as a clause. None if it does not."""
    dtype = dtype_name(half)
    if name in _NO_HALF or (half is torch.bfloat16 and name in _NO_BF16 | _TRANSFORMS):
        return f"it has no kernel for {dtype}"
    if name in _TRANSFORMS and any(size & (size - 1) for size in _sizes(name, args, settings)):
        return f"it takes {dtype} only in sizes that are powers of 2"
    return None


def is_transform(name: str) -> bool:
    """Return True for a Fourier transform, whose result in float16 is complex32 on CUDA."""
    return name in _TRANSFORMS


def _sizes(name: str, args: Sequence[Any], settings: Mapping[str, Any]) -> list[int]:
    def given(place: int, key: str, otherwise: Any) -> Any:
        value = args[place] if len(args) > place else settings.get(key)
        return otherwise if value is None else value

    inputs: Tensor = given(0, "input", None)
    if name == "stft":
        return [given(1, "n_fft", 1)]
    if name in _ONE_SIDE:
        return [given(1, "n", inputs.shape[given(2, "dim", -1)])]
    sides = given(2, "dim", (-2, -1) if name.endswith("2") else tuple(range(inputs.dim())))
    return list(given(1, "s", [inputs.shape[side] for side in sides]))


class CudaSemantics(TorchFunctionMode):
    """A context that makes CPU operations use the dtypes and tensor sizes of CUDA, for a memory forecast.

    It covers autocast, dropout and attention.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        if function is torch.nn.functional.dropout:
            return _dropout(*args, **settings)
        if function is scaled_dot_product_attention and settings.get("enable_gqa"):
            return _grouped_attention(*args, **settings)
        policy = _policy(call_name(function)) if torch.is_autocast_enabled("cpu") else None
        return policy(function, args, settings) if policy is not None else function(*args, **settings)


_Policy = Callable[[Any, Any, Any], Any]


def _policy(name: str) -> _Policy | None:
    named = ((IN_FLOAT32, _in_float32), (IN_HALF, _in_half), (PROMOTED, _promoted), (KEPT, _kept))
    return next((policy for names, policy in named if name in names), None)


def _in_float32(function: Any, args: Any, settings: Any) -> Any:
    return _called_with(_cast_up, function, args, settings)


def _in_half(function: Any, args: Any, settings: Any) -> Any:
    half = torch.get_autocast_dtype("cpu")

    def cast_down(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(half) if tensor.dtype is torch.float32 else tensor

    return _called_with(cast_down, function, args, settings)


def _promoted(function: Any, args: Any, settings: Any) -> Any:
    is_wide = any(tensor.dtype is torch.float32 for tensor in leaf_tensors((args, settings)))
    return (_in_float32 if is_wide else _kept)(function, args, settings)


def _kept(function: Any, args: Any, settings: Any) -> Any:
    try:
        return _called_with(lambda tensor: tensor, function, args, settings)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
    # CUDA has a kernel where a CPU has none
    half, result = torch.get_autocast_dtype("cpu"), _in_float32(function, args, settings)
    return tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(half) if tensor.is_floating_point() else tensor, result
    )


def _called_with(
    cast: Callable[[torch.Tensor], torch.Tensor], function: Any, args: Any, settings: Any
) -> Any:
    args, settings = tree_map_only(torch.Tensor, cast, (args, settings))
    with torch.autocast("cpu", enabled=False):
        return function(*args, **settings)


def _cast_up(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _dropout(
    inputs: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    if inplace or not training or not 0 < p < 1:
        return torch.nn.functional.dropout(inputs, p, training, inplace)
    return torch.native_dropout(inputs, p, True)[0]


def _grouped_attention(query: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
    # of CUDA's fused kernels only flash attention takes fewer keys than queries, and it takes no float32
    is_float32 = query.dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
    with sdpa_kernel(SDPBackend.MATH) if is_float32 else nullcontext():
        return scaled_dot_product_attention(query, *args, **settings)


class Weightless(TorchFunctionMode):
    """A context in which a model is built without memory for its weights, which are on the meta device.

    Small tensors that the model creates itself, such as tables of positions, are real.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        if function is torch.empty:
            settings["device"] = "meta"
        return function(*args, **settings)


def fill_with_fakes(model: nn.Module) -> None:
    """Give the model new weights of the same shapes and dtypes, on the CPU. Call it in fake tensor mode."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if id(tensor) not in made:
                made[id(tensor)] = _fake_of(tensor)
            setattr(module, name, made[id(tensor)])


def _fake_of(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty(tensor.shape, dtype=tensor.dtype)
    is_parameter = isinstance(tensor, nn.Parameter)
    return nn.Parameter(empty, requires_grad=tensor.requires_grad) if is_parameter else empty
