"""Watches every operator of a forward and backward pass, with the module that it belongs to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from engine.protocol.numerics import Direction
from engine.protocol.ranges import ELSEWHERE, LOSS, OPTIMIZER
from engine.training.models.recompute import is_recomputed


@dataclass
class Call:
    """A call of a PyTorch operator that is about to be made, with the module that it belongs to.

    `module` is a qualified name, "" for the model itself, or one of LOSS, OPTIMIZER and ELSEWHERE. Do not
    keep references to the tensors, because they are the model's own and would stay in memory.
    """

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str
    direction: Direction
    by_autocast: bool = False
    """True for a cast that the code did not request."""

    def make(self) -> Any:
        return self.operator(*self.args, **self.kwargs)

    @property
    def name(self) -> str:
        """The operator's name, "aten.convolution"."""
        return operator_name(self.operator)

    def outputs_in(self, result: Any) -> list[Tensor]:
        """Return the tensors of the operation's result, without trailing ones whose content is undefined."""
        tensors = tensors_in(result)
        return tensors[:1] if _ONLY_FIRST_COUNTS.search(self.name) else tensors

    @cached_property
    def inputs(self) -> list[Tensor]:
        """The input tensors."""
        return tensors_in((self.args, self.kwargs))


_ONLY_FIRST_COUNTS = re.compile(r"^(?!.*(backward|bwd)).*(attention|attn|(ctc|nll)_loss)")
"""Forward operators whose further outputs are for the backward pass alone. CUDA pads the logsumexp of an
attention with Inf and leaves the debug mask of another unset, a path without probability in a CTC loss is
-Inf, and CUDA does not set the total weight of a negative log-likelihood that is not reduced."""


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors in an operator's arguments or result, with their real content."""
    if isinstance(value, Tensor):
        # an FP8 tensor of torchao claims the dtype that it was cast from, and supports few operations
        return [getattr(value, "_data", value)]
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in tensors_in(part)]
    return tensors_in(list(value.values())) if isinstance(value, dict) else []


@cache
def operator_name(operator: Any) -> str:
    """Return an operator's name without its overload, "aten.convolution"."""
    return str(operator._schema.name).replace("::", ".")


class OperationWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The base class for watching every operation of a forward and backward pass, with its module.

    A subclass overrides `watch`. It sees the operations of this thread. A forward operation belongs to the
    innermost running module. A backward operation belongs to the module that created its autograd node, or,
    if it accumulates a gradient, to the parameter's module. Activations that are recomputed count as forward
    again. Results do not change, and all hooks are removed at the end.

    `torch.utils.module_tracker` is not sufficient: it misses the backward pass of modules whose inputs need
    no gradient, and in-place operations on outputs.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._modules = dict(model.named_modules())
        self._owners = {
            parameter: name
            for name, module in self._modules.items()
            for parameter in module.parameters(recurse=False)
        }
        self._recomputed = {name for name, module in self._modules.items() if is_recomputed(module)}
        self._functions = _Functions(device)
        self._running: list[tuple[str, int]] = []
        """The modules that run, each with the backward pass that it runs in, -1 outside of any."""
        self._nodes = _Nodes()
        self._casts: set[int] = set()
        self._went_forward = self._went_back = False
        self._hooks = ExitStack()

    def watch(self, call: Call) -> Any:
        """Make the call and return its result. A subclass inspects its tensors before and after."""
        return call.make()

    def __enter__(self) -> OperationWatch:
        self._nodes.made_in(ELSEWHERE)
        with ExitStack() as hooks:
            # else an accelerator's backward pass would run, and number its nodes, on another thread
            hooks.enter_context(torch.autograd.grad_mode.set_multithreading_enabled(False))
            for name, module in self._modules.items():
                before = module.register_forward_pre_hook(self._entering(name), prepend=True)
                hooks.callback(before.remove)
                # also after a failed forward, since each start needs an end
                hooks.callback(module.register_forward_hook(self._leaving(name), always_call=True).remove)
            hooks.enter_context(self._functions)
            super().__enter__()  # type: ignore[no-untyped-call]
            self._hooks = hooks.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._hooks.close()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function.namespace == "profiler":
            return function(*args, **(kwargs or {}))
        module, direction = self._place()
        call = Call(function, args, kwargs or {}, module, direction)
        node = self._nodes.made_in(module)
        if function is torch.ops.aten._to_copy.default:
            call.by_autocast = self._inserted_by_autocast(direction)
            if call.by_autocast and node is not None:
                self._casts.add(node)
        return self.watch(call)

    def _place(self) -> tuple[str, Direction]:
        task = torch._C._current_graph_task_id()
        if self._running and self._running[-1][1] == task:
            return self._running[-1][0], "forward"
        if task == -1:
            return self._outside(), "forward"
        self._went_back = True
        return self._of_node(torch._C._current_autograd_node())

    def _outside(self) -> str:
        if not self._went_forward:
            return ELSEWHERE
        # after a backward pass, what needs no gradient is unscaling, clipping or the update itself
        return OPTIMIZER if self._went_back and not torch.is_grad_enabled() else LOSS

    def _of_node(self, node: Any) -> tuple[str, Direction]:
        if node is None:
            return ELSEWHERE, "backward"
        parameter = getattr(node, "variable", None)
        if parameter is not None:
            return self._owners.get(parameter, LOSS), "backward"
        module = self._nodes.module_of(node._sequence_nr())
        if torch.is_grad_enabled() and (block := self._recomputed_around(module)) is not None:
            return block, "forward"
        return module, "backward"

    def _recomputed_around(self, module: str) -> str | None:
        while module and module not in self._recomputed:
            module = module.rpartition(".")[0]
        return module if module in self._recomputed else None

    def _inserted_by_autocast(self, direction: Direction) -> bool:
        if direction == "forward":
            return self._functions.casts_by_autocast
        node = torch._C._current_autograd_node()
        return node is not None and node.name() == "ToCopyBackward0" and node._sequence_nr() in self._casts

    def _entering(self, name: str) -> Any:
        def enter(module: nn.Module, args: Any) -> None:
            self._nodes.made_in(self._place()[0])
            task = torch._C._current_graph_task_id()
            self._running.append((name, task))
            self._went_forward = True
            self._went_back &= task != -1

        return enter

    def _leaving(self, name: str) -> Any:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            self._nodes.made_in(name)
            while self._running and self._running.pop()[0] != name:
                pass  # a module that a failed forward has left behind

        return leave


class _Nodes:
    """The modules in which autograd created its nodes, by their sequence numbers."""

    def __init__(self) -> None:
        self._next = _next_node()
        self._firsts: list[int] = []
        self._modules: list[str] = []

    def made_in(self, module: str) -> int | None:
        """Assign the nodes created since the last call to a module. Return the newest one, if any."""
        first, self._next = self._next, _next_node()
        if first == self._next:
            return None
        if not self._modules or self._modules[-1] != module:
            self._firsts.append(first)
            self._modules.append(module)
        return self._next - 1

    def module_of(self, node: int) -> str:
        """Return the module of a node by its number. It is ELSEWHERE for an older node."""
        place = bisect_right(self._firsts, node)
        return self._modules[place - 1] if place else ELSEWHERE


def _next_node() -> int:
    return int(torch._C._autograd._get_sequence_nr())


class _Functions(TorchFunctionMode):
    """Distinguishes casts that the code requests from those of autocast, which Python does not see."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device_type = device.type
        self.casts_by_autocast = False

    def __torch_function__(
        self, function: Any, types: Any, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.casts_by_autocast = torch.is_autocast_enabled(self._device_type) and not (
            getattr(function, "__name__", "") in _CASTS
            or any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values()))
        )
        return function(*args, **kwargs)


_CASTS = frozenset(
    ("to", "type", "type_as", "float", "half", "bfloat16", "double", "int", "long", "bool", "copy_")
)
