"""Changes to a module's forward, submodules kept in float32, and pure bfloat16.

The float32 submodules are exempt from autocast. A bfloat16 model casts its inputs itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.hooks import RemovableHandle

from engine.experiment.experiment import setting_problem
from engine.experiment.problem import ProblemError


@contextmanager
def removed_at_end(hooks: Sequence[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks at the end of this context."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class ForwardMixin(nn.Module):
    """The base class of mixins that `add_forward_mixin` adds to a module, to wrap its `forward`."""


_Around = TypeVar("_Around", bound=ForwardMixin)


def add_forward_mixin(module: nn.Module, around: type[_Around]) -> _Around:
    """Add the mixin to the module's class, in place, so copies of the module call themselves."""
    own = type(module)
    module.__class__ = type(own.__name__, (around, own), {})
    return cast(_Around, module)


def original_class(module: nn.Module) -> type[nn.Module]:
    """Return the module's class without forward mixins."""
    classes = (owner for owner in type(module).__mro__ if issubclass(owner, nn.Module))
    return next(owner for owner in classes if not issubclass(owner, ForwardMixin))


class _InFloat32(ForwardMixin):
    float32_device_type: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self.float32_device_type, enabled=False):
            return super().forward(*_cast_up(args), **_cast_up(kwargs))


def keep_in_float32(model: nn.Module, patterns: Sequence[str], device: torch.device) -> tuple[str, ...]:
    """Keep the submodules that match `patterns` in float32, and return their names.

    A pattern is a submodule's name ("layer4") or has wildcards ("layer4.*", "*.bn1", where a star also
    matches dots). Weights and state keep their names. A module that its parent does not call, but whose
    weights it reads, runs like its parent. Raises ProblemError for a pattern without a match.
    """
    modules = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
    outer = ", ".join(name for name in modules if "." not in name)
    remedy = f"Use one of its parts, or a part within one: {outer}." if outer else "Leave it empty."
    problems = []
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in modules):
            message = f"has '{pattern}', but the model has no part with such a name."
            problems.append(setting_problem("step.fp32_modules", message, remedy, value=pattern))
    if problems:
        raise ProblemError(*problems)
    names = tuple(name for name in modules if any(fnmatchcase(name, pattern) for pattern in patterns))
    for name in names:
        for module in _called_modules(modules[name]):
            if not isinstance(module, _InFloat32):
                add_forward_mixin(module, _InFloat32).float32_device_type = device.type
    return names


class _InBFloat16(ForwardMixin):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, _cast_down, (args, kwargs))
        return tree_map_only(torch.Tensor, _cast_up, super().forward(*args, **kwargs))


def make_bfloat16(model: nn.Module) -> None:
    """Cast floating-point weights and buffers to bfloat16, also those of norms, as trainers usually do.

    Its inputs are cast when it is called, and its outputs to float32, so the loss is in float32 as well.
    """
    add_forward_mixin(model.to(torch.bfloat16), _InBFloat16)


def _cast_down(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor


def is_kept_in_float32(module: nn.Module) -> bool:
    """Return True if `keep_in_float32` exempts the module itself from autocast."""
    return isinstance(module, _InFloat32)


def _called_modules(module: nn.Module) -> Iterator[nn.Module]:
    # the children of a list, which is never called itself
    has_forward = type(module).forward is not nn.Module.forward
    if isinstance(module, nn.ModuleList | nn.ModuleDict) and not has_forward:
        for child in module.children():
            yield from _called_modules(child)
    else:
        yield module


def _cast_up(value: Any) -> Any:
    # tensors of fewer than 32 bits as float32, also within tuples, lists and dicts
    if isinstance(value, torch.Tensor):
        is_half = value.is_floating_point() and value.dtype is not torch.float64
        return value.float() if is_half else value
    if isinstance(value, tuple):
        parts = [_cast_up(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_cast_up(part) for part in value]
    return {key: _cast_up(part) for key, part in value.items()} if isinstance(value, dict) else value
