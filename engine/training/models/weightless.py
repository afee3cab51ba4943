"""Models without weights, for a memory forecast: built in no time and no memory.

Only the sizes of tensors matter. Tensors on the CPU are treated as CUDA treats them where that changes their
memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

# What CUDA casts to float32 and a CPU does not: AT_FORALL_FP32 and AT_FORALL_FP32_SET_OPT_DTYPE of
# PyTorch's ATen/autocast_mode.h, as far as models call them, by the names they are called by.
_IN_FLOAT32 = frozenset(
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
        "log",
        "sum",
        "prod",
        "cumsum",
        "cumprod",
        "norm",
    ]
)


class AsOnCuda(TorchFunctionMode):
    """Makes the CPU's autocast and dropout those of CUDA, for fake tensors: their sizes alone matter.

    CUDA computes normalisations over features, softmax and losses in float32, and its dropout keeps a mask of
    one byte an element, where a CPU keeps one of the input's format.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        name = getattr(function, "__name__", "")
        if function is torch.nn.functional.dropout:
            return _dropout(*args, **settings)
        if name in _IN_FLOAT32 and torch.is_autocast_enabled("cpu"):
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


class Weightless(TorchFunctionMode):
    """While a model is built in it, its weights take no memory and their initialisation no time.

    Every module makes them by `torch.empty`; these alone lie on the meta device, so that a constructor may
    still compute with small tensors of its own, and read them.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = dict(kwargs or {})
        if function is torch.empty:
            settings["device"] = "meta"
        return function(*args, **settings)


def fill_with_fakes(model: nn.Module) -> None:
    """Gives the model new parameters and buffers of the same shapes, on the CPU; call it under fake tensors.

    Buffers keep their dtype, and a parameter that several modules share stays shared.
    """
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for name, tensor in [
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        ]:
            if id(tensor) not in made:
                made[id(tensor)] = _fake_of(tensor)
            setattr(module, name, made[id(tensor)])


def _fake_of(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty(tensor.shape, dtype=tensor.dtype)
    is_parameter = isinstance(tensor, nn.Parameter)
    return nn.Parameter(empty, requires_grad=tensor.requires_grad) if is_parameter else empty
