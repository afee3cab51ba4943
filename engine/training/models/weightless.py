"""Models without weights, for a memory forecast: only the sizes of tensors matter.

Tensors on the CPU are treated as on CUDA where that changes their memory.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

# What CUDA casts to float32 and a CPU does not: those of AT_FORALL_FP32 and AT_FORALL_FP32_SET_OPT_DTYPE in
# PyTorch's ATen/autocast_mode.h that models call, by the names of the calls.
IN_FLOAT32 = frozenset(
    [
        "layer_norm",
        "group_norm",
        "rms_norm",
        "softmax",
        "log_softmax",
        "logsumexp",
        "softplus",
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "cosine_similarity",
        "interpolate",
        "pow",
        "rsqrt",
        "reciprocal",
        "exp",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "sum",
        "prod",
        "cumsum",
        "cumprod",
        "norm",
    ]
)


class AsOnCuda(TorchFunctionMode):
    """Gives the CPU's autocast, dropout and attention the tensor sizes of CUDA's, for fake tensors."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        name = getattr(function, "__name__", "")
        if function is torch.nn.functional.dropout:
            return _dropout(*args, **settings)
        if function is scaled_dot_product_attention and settings.get("enable_gqa"):
            return _grouped_attention(*args, **settings)
        if name in IN_FLOAT32 and torch.is_autocast_enabled("cpu"):
            args, settings = tree_map_only(torch.Tensor, _cast_up, (args, settings))
            with torch.autocast("cpu", enabled=False):
                return function(*args, **settings)
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
    """A model that is built in it has weights on the meta device; small tensors of its own stay real."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        if function is torch.empty:
            settings["device"] = "meta"
        return function(*args, **settings)


def fill_with_fakes(model: nn.Module) -> None:
    """Gives the model new weights of the same shapes and dtypes, on the CPU; call it in fake tensor mode."""
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
