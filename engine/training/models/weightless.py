"""Models without weights: built in no time and no memory, for a forecast that only looks at sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


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
