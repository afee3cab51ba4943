"""The model's modules in order, with what each holds and what its forward returned."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from engine.experiment.value import MOST_ENTRIES
from engine.protocol.advice import ModuleRow
from engine.training.models.recompute import own_class

_MOST_PARTS = 4
_MOST_CALLS = 5_000  # of a module in a pass, as for each element of a very long sequence


def tensors_text(value: Any) -> str:
    """The tensors in a value as text, such as "2×10 float32, 2×3 int64"."""
    return ", ".join(f"{shape_text(tensor)} {dtype_text(tensor)}".strip() for tensor in _tensors(value))


def shape_text(tensor: torch.Tensor) -> str:
    """The tensor's shape, such as "2×10"; empty for a scalar."""
    return "×".join(map(str, tensor.shape))


def dtype_text(tensor: torch.Tensor) -> str:
    """The tensor's number format, such as "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


class ModuleTree:
    """Watches what the modules of a model return, and lists them as rows."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._outputs: dict[str, tuple[str, str]] = {}
        self._depth = 0
        self._calls = 0
        self._returned = -math.inf
        self._is_given_up = False

    def give_up(self) -> None:
        """Ends the pass that is watched at the next call of a module."""
        self._is_given_up = True

    def has_advanced(self, seconds: float) -> bool:
        """True if a module has returned within these seconds: the model is slow, but in no endless loop."""
        is_endless = self._calls > _MOST_CALLS * (1 + len(self._outputs))
        return time.monotonic() - self._returned < seconds and not is_endless

    @property
    def is_in_forward(self) -> bool:
        """True while a module of the model is being called."""
        return self._depth > 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes the output of each module's last call while the context lasts."""
        handles: list[RemovableHandle] = []
        for name, module in self._model.named_modules():
            handles.append(module.register_forward_pre_hook(self._enter))
            handles.append(module.register_forward_hook(self._noting(name), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if self._is_given_up:
            raise TimeoutError("the check was given up")
        self._depth += 1

    def _noting(self, name: str) -> Any:
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            self._depth -= 1
            self._calls += 1
            self._returned = time.monotonic()
            tensors = _tensors(output)
            dtypes = dict.fromkeys(map(dtype_text, tensors))
            self._outputs[name] = (", ".join(map(shape_text, tensors)), ", ".join(dtypes))

        return note

    def rows(self) -> tuple[ModuleRow, ...]:
        """All modules, the model itself first; a module that several share is listed once."""
        return tuple(self._row(name, it) for name, it in islice(self._model.named_modules(), MOST_ENTRIES))

    def _row(self, name: str, module: nn.Module) -> ModuleRow:
        held = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        shape, dtype = self._outputs.get(name, ("", ""))
        return ModuleRow(
            name=name,
            class_name=own_class(module).__name__,
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            own=tuple(f"{own} {tensors_text(tensor)}" for own, tensor in held[:MOST_ENTRIES]),
            output=shape,
            dtype=dtype,
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)][:_MOST_PARTS]
