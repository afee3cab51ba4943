"""The FLOPs of operations: formulas by PyTorch's names, and a counter of all that run in its context."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


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
    return _short_name(packet) in _FORMULAS or _registered(packet) is not None


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
    registered = _registered(packet)
    if registered is None:
        return None
    return _dense_flops(registered(*args, **kwargs, out_val=result))


def _registered(packet: Any) -> Callable[..., float] | None:
    # its module loads Triton, and whoever registered a formula has loaded it
    module = sys.modules.get("torch.utils.flop_counter")
    return None if module is None else module.flop_registry.get(packet)


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


def _recurrent(inputs: _Inputs, result: Any, *, passes: int) -> Flops:
    # a list of weights, or one matrix for inputs and one for states
    named = (inputs[name] for name in ("weight0", "weight1", "weight2") if name in inputs)
    weights = sum(each.numel() for each in inputs.get("weight") or named if each.dim() > 1)
    return _dense_flops(passes * 2 * inputs["input"].shape[:-1].numel() * weights)


_FUSED = ("efficient", "flash", "cudnn")
_HEADS_FIRST = (
    "flex_attention",
    *(f"_scaled_dot_product_{kind}_attention" for kind in _FUSED),
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)
_RECURRENT = ("_cudnn_rnn", "miopen_rnn", "mkldnn_rnn_layer")
_FORMULAS: dict[str, _Formula] = {
    **{name: partial(_recurrent, passes=1) for name in _RECURRENT},
    **{f"{name}_backward": partial(_recurrent, passes=2) for name in _RECURRENT},
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


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the needed FLOPs in its context by `flops_of`, without recomputation in the backward pass.

    `torch.utils.checkpoint` recomputes with gradients enabled, in a backward pass without. A pass that
    started with gradients enabled (`create_graph`) counts completely. PyTorch's `FlopCounterMode` also counts
    by module, with hooks that fail in `torch.autograd.grad`.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0
        self._began_enabled: dict[int, bool] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        result = function(*args, **settings)
        if not self._is_recomputed():
            flops = flops_of(function, args, settings, result)
            self.count(function, args, 0.0 if flops is None else flops.needed)
        return result

    def count(self, operator: Any, args: tuple[Any, ...], flops: float) -> None:
        """Add one call of `operator`, which needs `flops`."""
        self.flops += flops

    def _is_recomputed(self) -> bool:
        backward, is_enabled = torch._C._current_graph_task_id(), torch.is_grad_enabled()
        return backward != -1 and not self._began_enabled.setdefault(backward, is_enabled) and is_enabled
