"""A recording: the device's work, with the operation and module that launched it, and FLOPs of operations."""

from __future__ import annotations

import math
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import starmap
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from engine.protocol.numerics import Direction
from engine.training.precision import leaf_tensors


@dataclass(frozen=True)
class Flops:
    """The floating-point operations (FLOPs) of one call. A multiply-add counts as two.

    `needed` are the model's, by the convention of MFU: masked attention counts in full, recomputed attention
    scores do not count. `computed` are the kernel's, which skips masked positions of causal attention and
    recomputes the scores in the backward pass.
    """

    needed: float
    computed: float


_Inputs = Mapping[str, Any]
_Formula = Callable[[_Inputs, Any], Flops]


def has_flops(packet: Any) -> bool:
    """Return whether the FLOPs of an operation have a formula."""
    return _short_name(packet) in _FORMULAS or packet in flop_registry


def flops_of(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Flops | None:
    """Return the FLOPs of an operator's call. None without a formula.

    Only operators outside of PyTorch's own, as those of a model file, count by the registry of
    `torch.utils.flop_counter`. Its formulas count grouped convolutions' weight gradients once for each group
    (pytorch/pytorch#183405), take heads for positions in `_efficient_attention_forward`, and count the zeros
    of sparse matrices.
    """
    packet = getattr(operator, "_overloadpacket", operator)
    formula = _FORMULAS.get(_short_name(packet))
    if formula is not None:
        schema = getattr(operator, "_schema", None)
        names = ("query", "key", "value") if schema is None else [known.name for known in schema.arguments]
        return formula({**dict(zip(names, args, strict=False)), **kwargs}, result)
    registered = flop_registry.get(packet)
    if registered is None:
        return None
    return _dense_flops(registered(*args, **kwargs, out_val=result))


def _short_name(packet: Any) -> str:
    # an operation in place has the formula of the other
    name = str(getattr(packet, "_qualified_op_name", getattr(packet, "_name", "")))
    return name.removeprefix("aten::").removesuffix("_")


def _dense_flops(flops: float) -> Flops:
    return Flops(flops, flops)


def _product(left: str, right: str, inputs: _Inputs, result: Any) -> Flops:
    a, b = inputs[left], inputs[right]
    if b.layout != torch.strided and a.layout == torch.strided:
        products = _stored_elements(b) * a.shape[-2]
    else:
        products = _stored_elements(a) * (b.shape[-1] if b.ndim > 1 else 1)
    if (a.ndim, b.ndim) == (3, 2):  # each group is multiplied by columns of its own
        products /= a.shape[0]
    each = 8 if a.is_complex() and b.is_complex() else 2
    return _dense_flops(each * products)


def _stored_elements(tensor: Tensor) -> float:
    if tensor.layout == torch.strided:
        return tensor.numel()
    return (tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()).numel()


def _convolution(inputs: _Inputs, result: Any) -> Flops:
    return _convolved(inputs["weight"], inputs["input"] if inputs.get("transposed") else result)


def _convolution_backward(inputs: _Inputs, result: Any) -> Flops:
    places = inputs["input"] if inputs["transposed"] else inputs["grad_output"]
    once, gradients = _convolved(inputs["weight"], places), sum(inputs["output_mask"][:2])
    return Flops(gradients * once.needed, gradients * once.computed)


def _convolved(weight: Tensor, places: Tensor) -> Flops:
    # each weight, whose inputs are those of its group only, is used at every place of every sample
    each = 8 if weight.is_complex() else 2
    return _dense_flops(each * weight.numel() * places.shape[:1].numel() * places.shape[2:].numel())


def _time_convolution(inputs: _Inputs, result: Any) -> Flops:
    weight = inputs["weight"]
    return _dense_flops(2 * weight.numel() * result.shape[:2].numel())


def _attention(inputs: _Inputs, result: Any, *, heads_first: bool, is_backward: bool) -> Flops:
    query, key = inputs["query"], inputs["key"]
    wide, wide_value = query.shape[-1], inputs["value"].shape[-1]
    # grouped keys serve several heads of the queries
    heads = query.shape[-3 if heads_first else -2]
    lengths = (
        [(query.shape[-2], key.shape[-2])] * query.shape[0]
        if heads_first
        else _sequence_lengths(inputs, query, key)
    )
    is_causal = inputs.get("is_causal") or inputs.get("custom_mask_type")
    pairs = heads * sum(queries * keys for queries, keys in lengths)
    shown = heads * sum(starmap(_below_diagonal, lengths)) if is_causal else pairs
    if is_backward:
        return Flops(4 * pairs * (wide + wide_value), shown * (6 * wide + 4 * wide_value))
    return Flops(2 * pairs * (wide + wide_value), 2 * shown * (wide + wide_value))


def _sequence_lengths(inputs: _Inputs, query: Tensor, key: Tensor) -> list[tuple[float, float]]:
    starts = [inputs.get(f"cum_seq_{of}", inputs.get(f"cu_seqlens_{of}")) for of in "qk"]
    if starts[0] is None:
        return [(query.shape[1], key.shape[1])] * query.shape[0]
    packed = query.shape[-3], key.shape[-3]
    count = len(starts[0]) - 1
    if starts[0].is_meta:  # nothing but their mean is known
        return [(packed[0] / count, packed[1] / count)] * count
    queries, keys = (each.diff().tolist() for each in starts)
    return list(zip(queries, keys, strict=True))


def _below_diagonal(queries: float, keys: float) -> float:
    square = min(queries, keys)
    return square * (square + 1) / 2 + (queries - square) * keys


_OPERANDS = {
    **dict.fromkeys(
        ("mm", "bmm", "_scaled_mm", "_scaled_mm_v2", "_grouped_mm", "_scaled_grouped_mm"), ("self", "mat2")
    ),
    **dict.fromkeys(("addmm", "_addmm_activation", "_sparse_addmm"), ("mat1", "mat2")),
    **dict.fromkeys(("baddbmm", "addbmm"), ("batch1", "batch2")),
    "addmv": ("mat", "vec"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
}
_CONVOLUTIONS = (
    "convolution",
    "_convolution",
    "convolution_overrideable",
    "cudnn_convolution",
    "mkldnn_convolution",
    "_slow_conv2d_forward",
)
_FUSED = ("efficient", "flash", "cudnn")
_HEADS_FIRST = (
    "flex_attention",
    *(f"_scaled_dot_product_{kind}_attention" for kind in _FUSED),
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)
_FORMULAS: dict[str, _Formula] = {
    **{name: partial(_product, *operands) for name, operands in _OPERANDS.items()},
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    "convolution_backward": _convolution_backward,
    "conv_tbc": _time_convolution,
    **dict.fromkeys(_HEADS_FIRST, partial(_attention, heads_first=True, is_backward=False)),
    **{f"{name}_backward": partial(_attention, heads_first=True, is_backward=True) for name in _HEADS_FIRST},
    "_flash_attention_forward": partial(_attention, heads_first=False, is_backward=False),
    "_efficient_attention_forward": partial(_attention, heads_first=False, is_backward=False),
    "_flash_attention_backward": partial(_attention, heads_first=False, is_backward=True),
    "_efficient_attention_backward": partial(_attention, heads_first=False, is_backward=True),
}


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
