"""Models without weights, for a memory forecast: only the sizes of tensors matter.

Tensors on the CPU are treated as on CUDA where that changes their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from engine.training.models.cuda_autocast import IN_FLOAT32, IN_HALF, KEPT, PROMOTED, call_name


class AsOnCuda(TorchFunctionMode):
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
    tensors = (leaf for leaf in tree_leaves((args, settings)) if isinstance(leaf, torch.Tensor))
    is_wide = any(tensor.dtype is torch.float32 for tensor in tensors)
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
