"""Operations watched: every operator of a forward and backward pass, with the module that it belongs to."""

from __future__ import annotations

import threading
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
from torch.utils._pytree import tree_leaves

from engine.protocol.numerics.precision_map import ELSEWHERE, LOSS, OPTIMIZER, Direction
from engine.training.models.recompute import is_recomputed


@dataclass
class Call:
    """A call of an operator, about to be made.

    `module` is a qualified name, "" for the model itself, or LOSS, OPTIMIZER or ELSEWHERE. Its tensors are
    the model's own: whoever keeps one keeps its memory.
    """

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str
    direction: Direction
    by_autocast: bool = False
    """A cast that the code did not ask for."""

    def make(self) -> Any:
        """Makes the call, and returns its result."""
        return self.operator(*self.args, **self.kwargs)

    @property
    def name(self) -> str:
        """The operator's name, "aten.convolution"."""
        return operator_name(self.operator)

    @cached_property
    def inputs(self) -> list[Tensor]:
        """The tensors that it is given."""
        return tensors_in((self.args, self.kwargs))


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in an operator's arguments or result."""
    if isinstance(value, Tensor):
        return [value]
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


@cache
def operator_name(operator: Any) -> str:
    """An operator's name without its overload, "aten.convolution"."""
    return str(operator._schema.name).replace("::", ".")


class OperationWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches what is computed in this context, on the thread that enters it and in its backward passes.

    A subclass overrides `watch`. In forward an operation belongs to the innermost module that runs; in
    backward to the module in which the autograd node that runs was made; a gradient's accumulation to its
    parameter's module. What an activation checkpoint computes again counts as forward, once more. No result
    changes, and nothing stays registered afterwards.

    `torch.utils.module_tracker` does not do for this: its backward misses modules whose inputs need no
    gradient, and in-place operations on outputs.
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
        self._casts: set[int] = set()
        self._forwards: dict[int, _Forward] = {}
        self._main = self._forwards[threading.get_ident()] = _Forward(-1)
        self._went_back = False
        self._hooks = ExitStack()

    def watch(self, call: Call) -> Any:
        """Makes the call and returns its result; a subclass looks at its tensors before and after."""
        return call.make()

    def __enter__(self) -> OperationWatch:
        with ExitStack() as hooks:
            for name, module in self._modules.items():
                before = module.register_forward_pre_hook(self._entering(name), prepend=True)
                hooks.callback(before.remove)
                # also after a failed forward: what was begun must be ended
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
        if function is torch.ops.aten._to_copy.default:
            call.by_autocast = self._is_by_autocast(args[0])
        return self.watch(call)

    def _place(self) -> tuple[str, Direction]:
        task = torch._C._current_graph_task_id()
        forward = self._forwards.get(threading.get_ident())
        if forward is not None and forward.stack and forward.stack[-1][1] == task:
            return forward.stack[-1][0], "forward"
        if task == -1:
            return self._outside(), "forward"
        self._went_back = True
        return self._of_node(torch._C._current_autograd_node(), task)

    def _outside(self) -> str:
        if not self._main.modules:
            return ELSEWHERE
        # after a backward pass, what needs no gradient is unscaling, clipping or the update itself
        return OPTIMIZER if self._went_back and not torch.is_grad_enabled() else LOSS

    def _of_node(self, node: Any, task: int) -> tuple[str, Direction]:
        if node is None:
            return ELSEWHERE, "backward"
        parameter = getattr(node, "variable", None)
        if parameter is not None:
            return self._owners.get(parameter, LOSS), "backward"
        module = self._forward_of(task).module_of(node._sequence_nr())
        if torch.is_grad_enabled() and (block := self._recomputed_around(module)) is not None:
            return block, "forward"
        return module, "backward"

    def _forward_of(self, task: int) -> _Forward:
        """Where the nodes of a backward pass were made: in the forward pass, or on this thread in a
        recomputation that goes back by itself (a reentrant checkpoint on an accelerator, whose backward
        passes have a thread of their own, and so numbers of their own)."""
        own = self._forwards.get(threading.get_ident())
        return own if own is not None and own.task < task else self._main

    def _recomputed_around(self, module: str) -> str | None:
        """The recomputed block around a module; only its children are called again, so it has no hook."""
        while module and module not in self._recomputed:
            module = module.rpartition(".")[0]
        return module if module in self._recomputed else None

    def _is_by_autocast(self, source: Tensor) -> bool:
        if torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled():
            node = torch._C._current_autograd_node()
            return (
                node is not None and node.name() == "ToCopyBackward0" and node._sequence_nr() in self._casts
            )
        if not self._functions.casts_by_autocast:
            return False
        if source.requires_grad and torch.is_grad_enabled():
            # autograd has just made the cast's node
            self._casts.add(_next_node() - 1)
        return True

    def _entering(self, name: str) -> Any:
        def enter(module: nn.Module, args: Any) -> None:
            task = torch._C._current_graph_task_id()
            if task == -1 and len(self._forwards) > 1:
                self._forwards = {threading.get_ident(): self._main}
            forward = self._forwards.setdefault(threading.get_ident(), _Forward(task))
            forward.stack.append((name, task))
            forward.note(name)
            self._went_back &= task != -1

        return enter

    def _leaving(self, name: str) -> Any:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            forward = self._forwards[threading.get_ident()]
            while forward.stack and forward.stack.pop()[0] != name:
                pass  # a module that a failed forward has left behind
            forward.note(forward.stack[-1][0] if forward.stack else LOSS)

        return leave


class _Forward:
    """The modules of a thread's forward passes: autograd numbers a thread's nodes in the order in which they
    are made, so the numbers at which a module was entered and left tell its nodes."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.stack: list[tuple[str, int]] = []
        self.numbers: list[int] = []
        self.modules: list[str] = []

    def note(self, module: str) -> None:
        """Has the nodes from here on belong to a module."""
        self.numbers.append(_next_node())
        self.modules.append(module)

    def module_of(self, number: int) -> str:
        place = bisect_right(self.numbers, number)
        return self.modules[place - 1] if place else ELSEWHERE


def _next_node() -> int:
    return int(torch._C._autograd._get_sequence_nr())


class _Functions(TorchFunctionMode):
    """Tells casts that the code asks for from those of autocast, which Python does not see."""

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
