"""Follows NaN and Inf through a step, from the operation that produced them to where they do harm."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves, tree_map_only

from engine.protocol.numerics import Cause, Direction
from engine.protocol.ranges import OPTIMIZER
from engine.training.data.batches import Batch
from engine.training.numerics.causes import BATCH, CONSTANT, WEIGHT, FoundCause, Origin, find_cause
from engine.training.numerics.watch import Call, OperationWatch, tensors_in
from engine.training.precision import dtype_name, floating, leaf_tensors, without_fp8

_UNSET = re.compile(r"aten\.((new_)?empty(_like|_permuted|_strided)?|resize_)")
"""Operators that return uninitialized memory."""

_OVERWRITING = frozenset({"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"})
"""Operators that do not read the tensor that they write to."""

_TURNING = frozenset({"neg", "sub", "rsub", "mul", "div"})
"""Operators that may turn an intended -Inf into +Inf."""

_UNSCALES = "aten._amp_foreach_non_finite_check_and_unscale_"


class NonfiniteTracer(OperationWatch):  # type: ignore[no-untyped-call]
    """Finds the operations in which NaN and Inf originate, and follows the values through a step.

    An operation is an origin if its inputs are finite and its output is not, or if it turned an intended mask
    of -Inf into NaN. Uninitialized memory and integers are ignored.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        super().__init__(model, device)
        self.step = 0
        self.overflow: Origin | None = None
        """The origin of gradients that overflowed in this step, by the loss scaler."""
        self._origins: dict[int, tuple[StorageWeakRef, Origin]] = {}
        self._meaningless: dict[int, StorageWeakRef] = {}
        """Outputs with undefined content. They are also ignored where they are read."""
        self._batch: set[int] = set()
        self._owners_of: dict[int, str] = {}
        self._weights: dict[int, str] = {}
        self._count = 0
        for name, module in model.named_modules():
            for own, weight in module.named_parameters(recurse=False):
                for part in floating([weight]):
                    self._owners_of[_key(part)] = name
                    self._weights[_key(part)] = f"{name}.{own}".lstrip(".")

    def begin(self, step: int, group: Iterable[Batch]) -> None:
        """Start a step with its batches."""
        self.step, self.overflow = step, None
        self._batch = set(map(_key, floating(leaf_tensors(list(group)))))

    def find_origin(self, tensors: Iterable[Tensor]) -> Origin | None:
        """Return the first origin of the tensors that are not finite. None if all are finite."""
        origins = [self._origin(part) for part in floating(tensors) if _nonfinite_kinds(part)]
        return min(origins, key=lambda origin: origin.rank, default=None)

    def watch(self, call: Call) -> Any:
        if call.operator.is_view or _UNSET.fullmatch(call.name):
            return call.make()
        if call.name == _UNSCALES:
            self.overflow = self.overflow or self.find_origin(_read(call))
            return call.make()
        read, inputs, sources = self._before(call)
        result = call.make()
        counting = call.outputs_in(result)
        for tensor in floating(tensors_in(result)[len(counting) :]):
            self._meaningless[_key(tensor)] = _kept_address(tensor)
        outputs = list(floating([*counting, *_written(call)]))
        made = frozenset[str]().union(*map(_nonfinite_kinds, outputs))
        if made:
            origin = self._cause_of(read, inputs, sources, outputs, made)
            for tensor in outputs:
                if _nonfinite_kinds(tensor):
                    self._remember(tensor, origin)
        return result

    def _before(self, call: Call) -> tuple[Call, list[Tensor], list[Origin | None]]:
        if not call.operator._schema.is_mutable:
            return call, self._inputs(call, call), []
        copied = _copy_call(call)
        known = [
            self._origin(tensor) if _nonfinite_kinds(tensor) else None for tensor in self._inputs(call, call)
        ]
        return copied, self._inputs(copied, call), known

    def _inputs(self, call: Call, original: Call) -> list[Tensor]:
        pairs = zip(floating(_read(call)), floating(_read(original)), strict=True)
        return [part for part, read in pairs if _key(read) not in self._meaningless]

    def _cause_of(
        self,
        call: Call,
        inputs: Sequence[Tensor],
        known: list[Origin | None],
        outputs: Sequence[Tensor],
        made: frozenset[str],
    ) -> Origin:
        if not known:
            known = [self._origin(tensor) if _nonfinite_kinds(tensor) else None for tensor in inputs]
        origins = sorted(filter(None, known), key=lambda origin: origin.rank)
        if origins and not origins[0].on_purpose:
            return origins[0]
        given = _given(call).union(*map(_nonfinite_kinds, inputs))
        if given & {"inf", "-inf"} and call.name.removeprefix("aten.").rstrip("_") in _TURNING:
            given |= {"inf", "-inf"}
        if origins and made <= given:
            return origins[0]
        node = torch._C._current_autograd_node()
        is_backward = call.direction == "backward" and node is not None
        return self._new_origin(
            call.name,
            made,
            module=self._module_of(call, outputs),
            direction=call.direction,
            inputs=inputs,
            outputs=outputs,
            on_purpose=made <= given,
            found_cause=find_cause(call, inputs, outputs, node.name() if is_backward else ""),
        )

    def _module_of(self, call: Call, outputs: Sequence[Tensor]) -> str:
        if call.module != OPTIMIZER:
            return call.module
        owners = (self._owners_of.get(_key(tensor)) for tensor in outputs if _nonfinite_kinds(tensor))
        return next((owner for owner in owners if owner is not None), OPTIMIZER)

    def _new_origin(
        self,
        operation: str,
        kinds: frozenset[str],
        *,
        module: str,
        outputs: Sequence[Tensor],
        found_cause: FoundCause,
        direction: Direction = "forward",
        inputs: Sequence[Tensor] = (),
        on_purpose: bool = False,
    ) -> Origin:
        self._count += 1
        least, most = finite_range(inputs)
        results = list(map(without_fp8, outputs))
        return Origin(
            number=self._count,
            step=self.step,
            module=module,
            operation=operation,
            direction=direction,
            kinds=kinds,
            on_purpose=on_purpose,
            inputs=_dtypes(inputs),
            outputs=_dtypes(outputs),
            least=least,
            most=most,
            nan=sum(int(tensor.isnan().sum()) for tensor in results),
            infinite=sum(int(tensor.isinf().sum()) for tensor in results),
            found_cause=found_cause,
        )

    def _origin(self, tensor: Tensor) -> Origin:
        key = _key(tensor)
        if key not in self._origins:
            self._remember(tensor, self._source(tensor, key))
        return self._origins[key][1]

    def _remember(self, tensor: Tensor, origin: Origin) -> None:
        self._origins[_key(tensor)] = _kept_address(tensor), origin

    def _source(self, tensor: Tensor, key: int) -> Origin:
        kinds = _nonfinite_kinds(tensor)
        if key in self._batch:
            return self._new_origin(
                BATCH, kinds, module="", outputs=[tensor], found_cause=FoundCause(Cause.INPUT)
            )
        if key in self._weights:
            found_cause = FoundCause(Cause.INITIAL, weight=self._weights[key])
            module = self._owners_of[key]
            return self._new_origin(WEIGHT, kinds, module=module, outputs=[tensor], found_cause=found_cause)
        # a buffer or a constant of the model's, which is a mask more often than not
        found_cause = FoundCause(Cause.UNKNOWN)
        return self._new_origin(
            CONSTANT, kinds, module="", outputs=[tensor], found_cause=found_cause, on_purpose=True
        )


def finite_range(tensors: Iterable[Tensor]) -> tuple[float | None, float | None]:
    """Return the smallest and the largest finite value of the tensors. None without any."""
    numbers = list(map(without_fp8, floating(tensors)))
    least = min((float(_replaced(part, math.inf).amin()) for part in numbers), default=math.inf)
    if least == math.inf:
        return None, None
    return least, max(float(_replaced(part, -math.inf).amax()) for part in numbers)


def _replaced(tensor: Tensor, value: float) -> Tensor:
    """Return a copy with `value` for NaN and Inf. An index of the others would take far more memory."""
    return tensor.nan_to_num(value, value, value)


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _kept_address(tensor: Tensor) -> StorageWeakRef:
    """Return a weak reference. It keeps the address of the storage, not its memory, from being reused."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _nonfinite_kinds(tensor: Tensor) -> frozenset[str]:
    if bool((tensor := without_fp8(tensor)).isfinite().all()):
        return frozenset()
    tests = {"nan": tensor.isnan(), "inf": tensor == math.inf, "-inf": tensor == -math.inf}
    return frozenset(kind for kind, test in tests.items() if bool(test.any()))


def _copy_call(call: Call) -> Call:
    args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.clone(), (call.args, call.kwargs))
    return Call(call.operator, args, kwargs, call.module, call.direction)


def _read(call: Call) -> Iterator[Tensor]:
    overwrites = call.name.removeprefix("aten.") in _OVERWRITING
    yield from tensors_in(call.args[1:] if overwrites else call.args)
    written = {argument.name for argument in call.operator._schema.arguments if argument.is_out}
    yield from tensors_in([value for name, value in call.kwargs.items() if name not in written])


def _written(call: Call) -> list[Tensor]:
    arguments = call.operator._schema.arguments
    given = [*zip(arguments, call.args, strict=False)]
    given += [
        (argument, call.kwargs[argument.name]) for argument in arguments if argument.name in call.kwargs
    ]
    return tensors_in([value for argument, value in given if argument.is_write])


def _given(call: Call) -> frozenset[str]:
    numbers = [leaf for leaf in tree_leaves((call.args, call.kwargs)) if isinstance(leaf, float)]
    return frozenset(str(number) for number in numbers if not math.isfinite(number))


def _dtypes(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    return tuple(dtype_name(tensor.dtype) for tensor in tensors)
