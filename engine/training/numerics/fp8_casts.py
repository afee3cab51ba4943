"""The effect of the FP8 recipe on a layer's values: the scales that it chooses, and the losses after them.

The scales and the casts are torchao's own, for the tensors that a pass really casts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from engine.protocol.numerics.formats import Exponents
from engine.protocol.numerics.ranges import LayerCast, Operand, Product
from engine.training.models.fp8 import InFP8
from engine.training.numerics.ranges import ExponentCount, read

_CASTS: tuple[tuple[Operand, Product, str, int], ...] = (
    ("input", "output", "input", -1),
    ("weight", "output", "weight", 0),
    ("output gradient", "input gradient", "grad_output", -1),
    ("weight", "input gradient", "weight_for_grad_input", -1),
    ("output gradient", "weight gradient", "grad_output_for_grad_weight", 0),
    ("input", "weight gradient", "input_for_grad_weight", 0),
)
"""The operands of a layer's matmuls: their names in torchao's configuration, and the dimension of a row-wise
scale. The weight is transposed there."""


@dataclass
class _Cast:
    module: str
    operand: Operand
    dtype: torch.dtype
    products: list[Product]
    along: int | None
    """None for one scale for the entire tensor."""
    is_cast: bool
    exponents: ExponentCount = field(default_factory=ExponentCount)
    counts: list[Tensor] = field(default_factory=list)
    """For each call: the smallest and largest scale, and the counts of values that became 0 or saturated."""
    scales: int = 0

    def add(self, numbers: Tensor, *, power_of_2: bool) -> None:
        if not self.is_cast:
            self.exponents.add(numbers)
            return
        utils: Any = import_module("torchao.float8.float8_utils")
        granularity = import_module("torchao.float8.config").ScalingGranularity
        scale = utils.tensor_to_scale(
            numbers,
            self.dtype,
            scaling_granularity=granularity.TENSORWISE if self.along is None else granularity.AXISWISE,
            axiswise_dim=self.along,
            round_scales_to_power_of_2=power_of_2,
        )
        scaled = numbers.float() * scale
        became_zero = (utils.to_fp8_saturated(scaled, self.dtype).float() == 0) & (numbers != 0)
        # not what merely rounds to the largest number; also what is NaN
        saturated = ~(scaled.abs() < _saturation(self.dtype))
        counts = [became_zero.sum(), saturated.sum()]
        self.counts.append(torch.stack([part.double() for part in (scale.amin(), scale.amax(), *counts)]))
        self.exponents.add(scaled)
        self.scales = scale.numel()


def _saturation(dtype: torch.dtype) -> float:
    known = torch.finfo(dtype)
    gap = known.eps * 2.0 ** math.floor(math.log2(known.max))
    return known.max + gap / 2


class CastWatch:
    """Measures the FP8 casts of a model's layers until it is closed."""

    def __init__(self, model: nn.Module) -> None:
        self._casts: dict[str, list[_Cast]] = {}
        self._layers = {name: it for name, it in model.named_modules() if isinstance(it, InFP8)}
        for name, layer in self._layers.items():
            layer.fp8_watch = partial(self._called, name, layer)

    def close(self) -> None:
        for layer in self._layers.values():
            layer.fp8_watch = None

    def measured(self) -> tuple[LayerCast, ...]:
        """Return the casts in the order of the layers' calls. Synchronizes with the device."""
        casts = [cast for of_layer in self._casts.values() for cast in of_layer]
        histograms = read([cast.exponents for cast in casts])
        return tuple(map(_message, casts, histograms))

    def _called(self, name: str, layer: Any, inputs: Tensor, output: Tensor) -> None:
        # a checkpointed activation is computed again in the backward pass
        if torch._C._current_graph_task_id() != -1:
            return
        if is_first := name not in self._casts:
            self._casts[name] = list(_casts_of(name, layer.config))
        self._add(name, layer, "input", inputs)
        if is_first:
            self._add(name, layer, "weight", layer.weight.t())
        if output.requires_grad:
            measure = partial(self._add, name, layer, "output gradient")
            output.register_hook(measure)  # type: ignore[no-untyped-call]

    def _add(self, name: str, layer: Any, operand: Operand, numbers: Tensor) -> None:
        with torch.no_grad():
            rows = numbers.detach().reshape(-1, numbers.shape[-1])
            for cast in self._casts[name]:
                if cast.operand == operand:
                    cast.add(rows, power_of_2=layer.config.round_scales_to_power_of_2)


def _casts_of(name: str, config: Any) -> Sequence[_Cast]:
    found: dict[Any, _Cast] = {}
    for operand, product, part, along in _CASTS:
        settings = getattr(config, f"cast_config_{part}")
        is_cast = settings.scaling_type.value != "disabled"
        by_row = along if settings.scaling_granularity.value == "axiswise" else None
        dtype = settings.target_dtype if is_cast else torch.bfloat16
        cast = _Cast(name, operand, dtype, [], by_row, is_cast)
        found.setdefault((operand, by_row, is_cast), cast).products.append(product)
    return tuple(found.values())


def _message(cast: _Cast, exponents: Exponents) -> LayerCast:
    counts = torch.stack(cast.counts).cpu() if cast.counts else None
    known: dict[str, Any] = {}
    if counts is not None:
        known = {
            "scales": cast.scales,
            "least_scale": float(counts[:, 0].min()),
            "most_scale": float(counts[:, 1].max()),
            "became_zero": int(counts[:, 2].sum()),
            "saturated": int(counts[:, 3].sum()),
        }
    return LayerCast(
        module=cast.module,
        operand=cast.operand,
        products=tuple(cast.products),
        dtype=str(cast.dtype).removeprefix("torch."),
        exponents=exponents,
        **known,
    )
