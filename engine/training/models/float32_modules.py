"""Submodules that stay in float32 while the rest of the model runs under autocast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from engine.problem import Problem, ProblemError, request_problem
from engine.training.models.around import Around, put_around

_KEY = "step.fp32_modules"


class _InFloat32(Around):
    """Runs the module with autocast off, and its inputs cast up; what it returns stays float32."""

    float32_device_type: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self.float32_device_type, enabled=False):
            return super().forward(*_cast_up(args), **_cast_up(kwargs))


def keep_in_float32(model: nn.Module, patterns: Sequence[str], device: torch.device) -> tuple[str, ...]:
    """Keeps the submodules that `patterns` name in float32, and returns their names.

    A pattern is a submodule's name ("layer4") or one with wildcards ("layer4.*", "*.bn1"; a star also stands
    for dots). Their weights and state keep their names. A module that its parent never calls, but reads the
    weights of, runs as its parent does. Raises ProblemError for a pattern that matches nothing.
    """
    modules = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
    problems = [
        _matches_nothing(pattern, list(modules))
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in modules)
    ]
    if problems:
        raise ProblemError(*problems)
    names = tuple(name for name in modules if any(fnmatchcase(name, pattern) for pattern in patterns))
    for name in names:
        for module in _called(modules[name]):
            if not isinstance(module, _InFloat32):
                put_around(module, _InFloat32).float32_device_type = device.type
    return names


def _called(module: nn.Module) -> Iterator[nn.Module]:
    """The module itself, or what it holds where it is a list that nobody calls."""
    if isinstance(module, nn.ModuleList | nn.ModuleDict) and not _has_forward(module):
        for child in module.children():
            yield from _called(child)
    else:
        yield module


def _has_forward(module: nn.Module) -> bool:
    return type(module).forward is not nn.Module.forward


def _cast_up(value: Any) -> Any:
    """Tensors of fewer than 32 bits as float32, within tuples, lists and dicts too."""
    if isinstance(value, torch.Tensor):
        is_half = value.is_floating_point() and value.dtype is not torch.float64
        return value.float() if is_half else value
    if isinstance(value, tuple):
        parts = [_cast_up(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_cast_up(part) for part in value]
    if isinstance(value, dict):
        return {key: _cast_up(part) for key, part in value.items()}
    return value


def _matches_nothing(pattern: str, names: list[str]) -> Problem:
    outer = ", ".join(name for name in names if "." not in name)
    remedy = f"Name one of its parts, or a part within one: {outer}." if outer else "Leave it empty."
    return request_problem(
        f"{_KEY} has '{pattern}', but no part of the model has a name like it.",
        remedy,
        key=_KEY,
        value=pattern,
    )
