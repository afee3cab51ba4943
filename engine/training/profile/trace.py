"""A recording: the device's work, with the operation and module that launched it, and FLOPs of operations."""

from __future__ import annotations

import math
import warnings
from ast import literal_eval
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from engine.protocol.numerics import Direction
from engine.training.measuring.flops import flops_of, has_flops
from engine.training.precision import leaf_tensors

WorkKind = Literal["kernel", "copy", "set"]


@dataclass(frozen=True, slots=True)
class Signature:
    """The recorded inputs of an operation, in the order of its parameters.

    `shapes` and `strides` are nested for a list of tensors. `types` are the profiler's names ("float",
    "c10::Half", "TensorList", "Scalar", ""). `values` are other inputs as text, and "" for tensors.
    """

    shapes: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A span of time in a recording, from `begin_us` to `end_us`. Spans are compared by identity."""

    begin_us: float
    end_us: float

    @property
    def us(self) -> float:
        return self.end_us - self.begin_us


@dataclass(frozen=True, slots=True)
class MarkedSpan(Span):
    """A span that Ammeter marked on the training thread: a step, a data load or a validation batch."""


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """The place in training from which an operation was called or a kernel launched.

    `step` counts from 0, and is None outside of the recorded steps, as in validation. `module` is a dotted
    name, "" for the model itself, and None outside of the model, as for the loss.
    """

    step: int | None = None
    module: str | None = None
    direction: Direction = "forward"
    in_optimizer: bool = False
    in_data: bool = False
    validation: int | None = None
    """The recorded validation batch, counted from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class HostOperation(Span):
    """An operation that the CPU ran. `self_us` is its time without the operations that it called."""

    name: str
    self_us: float
    thread: int
    parent: HostOperation | None
    signature: Signature | None
    place: LaunchPlace

    def around(self) -> Iterator[HostOperation]:
        """Yield this operation and the operations that called it, innermost first."""
        above: HostOperation | None = self
        while above is not None:
            yield above
            above = above.parent


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork(Span):
    """A kernel, copy or fill on the device, and the innermost operation that launched it.

    `operation` is None for kernels of a CUDA graph, of which only the names are recorded. `copy_kind` is
    "HtoD", "DtoH" or "DtoD".
    """

    name: str
    kind: WorkKind
    operation: HostOperation | None
    place: LaunchPlace
    is_in_graph: bool = False
    copy_kind: str | None = None
    is_pageable: bool = False
    bytes: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Wait(Span):
    """A host-device synchronization, such as "cudaStreamSynchronize", and the operation that called it."""

    name: str
    operation: HostOperation | None
    place: LaunchPlace


@dataclass(frozen=True, slots=True, eq=False)
class Collective(Span):
    """A collective operation, such as "all_reduce", with the time it waits for the last rank.

    `bytes` is the size of this rank's message, or None if not recorded.
    """

    name: str
    step: int
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Trace:
    """A recording of steps: device work, operations, waits and marked spans, ordered by time.

    Operations are ordered by thread, and callers come before the operations that they call.
    """

    work: tuple[DeviceWork, ...] = ()
    operations: tuple[HostOperation, ...] = ()
    waits: tuple[Wait, ...] = ()
    steps: tuple[MarkedSpan, ...] = ()
    data: tuple[MarkedSpan, ...] = ()
    validation: tuple[MarkedSpan, ...] = ()
    module_calls: tuple[tuple[str, int], ...] = ()
    """The modules with their number of forward passes in all steps."""
    threads: tuple[int, ...] = ()
    """The training thread, and autograd's thread if backward has its own."""
    collectives: tuple[Collective, ...] = ()
    """The collectives of the steps."""

    @property
    def is_of_device(self) -> bool:
        """True if a device other than the CPU did work."""
        return bool(self.work)


def merged_spans(stretches: Iterable[Span]) -> Iterator[tuple[float, float]]:
    """Yield the times covered by spans, given in the order of their starts."""
    begin = end = None
    for each in stretches:
        if begin is None or end is None:
            begin, end = each.begin_us, each.end_us
        elif each.begin_us > end:
            yield begin, end
            begin, end = each.begin_us, each.end_us
        else:
            end = max(end, each.end_us)
    if begin is not None and end is not None:
        yield begin, end


def overlap_us(some: Iterable[tuple[float, float]], others: Iterable[tuple[float, float]]) -> float:
    """Return the common time of two series of spans, each in order and without overlaps."""
    common, ahead = 0.0, iter(others)
    other = next(ahead, None)
    for begin, end in some:
        while other is not None:
            common += max(0.0, min(end, other[1]) - max(begin, other[0]))
            if other[1] > end:
                break
            other = next(ahead, None)
    return common


_MOST_SIGNATURES = 20_000
_TYPES = {
    "float": torch.float32,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
    "double": torch.float64,
    "long int": torch.int64,
    "long": torch.int64,
    "int": torch.int32,
    "short int": torch.int16,
    "short": torch.int16,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
    "bool": torch.bool,
}
_ONLY_WRITING = frozenset(("aten::copy_", "aten::fill_", "aten::zero_"))
"""In-place operations that do not read what they overwrite."""

_GATHERING = frozenset(("aten::embedding", "aten::gather", "aten::index_select"))
"""Operations that read as much of their first input as they return."""


@dataclass(frozen=True)
class Counts:
    """The FLOPs of an operation, and its memory traffic: the bytes of its inputs and outputs.

    `flops` is None unless it is a matmul, a convolution or attention.
    """

    flops: float | None
    moved_bytes: float


def enclosing_counted(operation: HostOperation) -> HostOperation | None:
    """Return the outermost operation with a FLOPs formula, among this one and its callers."""
    known = [each for each in operation.around() if _has_flops(each.name)]
    return known[-1] if known else None


def count_operation(operation: HostOperation) -> Counts | None:
    """Return an operation's FLOPs and moved bytes. None if its inputs do not determine them.

    The operation is called again on tensors without content, for the shapes of its outputs. An expanded input
    counts with its size before the expansion.
    """
    return None if operation.signature is None else _counts(operation.name, operation.signature)


@lru_cache(_MOST_SIGNATURES)
def _packet(name: str) -> Any:
    namespace, _, short = name.partition("::")
    return getattr(torch.ops.aten, short, None) if namespace == "aten" and short.isidentifier() else None


@lru_cache(_MOST_SIGNATURES)
def _has_flops(name: str) -> bool:
    packet = _packet(name)
    return packet is not None and has_flops(packet)


@lru_cache(_MOST_SIGNATURES)
def _counts(name: str, signature: Signature) -> Counts | None:
    packet = _packet(name)
    if packet is None or "TensorList" in signature.types:  # whose types are not recorded
        return None
    for overload in packet.overloads():
        try:
            return _counted(getattr(packet, overload), signature)
        except Exception:  # noqa: BLE001 - an overload for other inputs, or without shapes, fails in any way
            continue
    return None


def _counted(operator: Any, signature: Signature) -> Counts:
    parameters = operator._schema.arguments
    if len(parameters) != len(signature.types):
        raise TypeError("another overload")
    recorded = zip(signature.types, signature.shapes, signature.strides, signature.values, strict=True)
    args, kwargs = [], {}
    for parameter, of_input in zip(parameters, recorded, strict=True):
        value = _value(parameter, *of_input)
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    if not inputs:
        raise TypeError("no tensors")
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        result = operator(*args, **kwargs)
    flops = flops_of(operator, tuple(args), kwargs, result)
    outputs = leaf_tensors(result)
    name = operator._schema.name
    read = inputs[1:] if name in _ONLY_WRITING | _GATHERING else inputs
    if name in _GATHERING:
        read = [*read, *outputs]
    return Counts(None if flops is None else flops.computed, float(sum(map(_moved_bytes, [*read, *outputs]))))


def _value(parameter: Any, recorded: str, shape: Any, strides: Any, value: str) -> Any:
    wanted = str(parameter.type)
    if wanted.startswith("Optional[Device]") or wanted == "Device":
        return torch.device("meta")
    if "Tensor" in wanted:
        if recorded == "":
            return None
        return torch.empty_strided(shape, strides, dtype=_TYPES[recorded], device="meta")
    if recorded in _TYPES:  # another overload takes a number here
        raise TypeError(f"a tensor for a {wanted}")
    if value == "":
        return parameter.default_value if parameter.has_default_value() else None
    return literal_eval(value)


def _moved_bytes(tensor: Tensor) -> int:
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size if stride else min(size, 1) for size, stride in sizes) * tensor.element_size()
