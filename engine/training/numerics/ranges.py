"""The exponents of the numbers that a model computes: activations, gradients and weights, module by module.

The histograms are of FP32's numbers. Numbers that a format has rounded to 0 or made infinite are lost, so
only the true values show what another format, or another loss scale, would lose. The losses of the
experiment's own precision are counted against them, number by number. In FP8, the scales and the casts are
torchao's own, for the tensors that a pass really casts.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.value import MOST_ENTRIES
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.ranges import (
    LEAST_EXPONENT,
    MOST_EXPONENT,
    MOST_MODULES,
    Exponents,
    LayerCast,
    LayerMatmul,
    ModuleRange,
    Operand,
    Quantity,
    Ranges,
    range_notes,
)
from engine.training.data.batches import Batch
from engine.training.models.forward import removed_at_end
from engine.training.models.tensor_cores import InFP8
from engine.training.numerics.bench import Bench, Trainee, numerics_phase
from engine.training.precision import dtype_name

_ZERO, _INFINITE, _NAN, _FIRST = range(4)
_PLACES = _FIRST + MOST_EXPONENT - LEAST_EXPONENT + 1
_PART = 2**24  # numbers counted at once, which bounds the memory that counting takes


def measure_ranges(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, Ranges]:
    """Measure the ranges of the experiment's first step.

    A loss scale that overflows there is lowered, as the scaler would lower it in the run's first steps.
    """
    experiment, group = bench.experiment, next(bench.groups(1))
    yield numerics_phase("Ranges in FP32", 0.0)
    with bench.trainee(fp32_experiment(experiment)) as trainee:
        true = record_pass(trainee.model, partial(trainee.forward_backward, group))
    if not (experiment.precision.is_narrow or experiment.uses_scaler):
        return build_ranges(true)
    bench.check_stop()
    yield numerics_phase(f"Ranges in {experiment.precision.label}", 0.5)
    first_scale = experiment.scaler.init_scale if experiment.uses_scaler else 1.0
    with bench.trainee() as trainee:
        own, scale = _settled_pass(bench, trainee, group, first_scale)
    bench.check_stop()
    return build_ranges(true, own, precision=experiment.precision, scale=scale, first_scale=first_scale)


def _settled_pass(
    bench: Bench, trainee: Trainee, group: Sequence[Batch], first_scale: float
) -> tuple[RangeRecorder, float]:
    settings, scaler = trainee.experiment.scaler, trainee.step.scaler
    scale, seen = first_scale, _pass(trainee, group)
    while seen.overflowed and seen.is_loss_finite and scaler.is_enabled() and not bench.is_stopped:
        # no scale helps if 1 does not; what is counted is lost at the scale that is reported
        scale = max(1.0, scale * settings.backoff_factor) if scale > 1 else first_scale
        scaler.update(scale)
        seen = _pass(trainee, group)
        if scale == first_scale:
            break
    return seen, scale


def _pass(trainee: Trainee, group: Sequence[Batch]) -> RangeRecorder:
    # each time with the random numbers of the run's first step
    devices = [] if trainee.device.type == "cpu" else [trainee.device]
    kind = trainee.device.type if devices else "cuda"
    with torch.random.fork_rng(devices, device_type=kind), closing(Fp8CastRecorder(trainee.model)) as casts:
        seen = record_pass(trainee.model, partial(trainee.forward_backward, group))
    seen.casts = casts.measured()
    return seen


class ExponentCount:
    """Counts the exponents of tensors' values on their device, for a histogram."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None
        self.ends: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Count a tensor's numbers exactly, in any floating-point format."""
        with torch.no_grad():
            values = values.detach()
            if values.layout is not torch.strided:
                values = values.to_dense()
            for part in torch.split(values.reshape(-1), _PART):
                if len(part):
                    self._add(part.float() if part.element_size() < 4 else part)

    def _add(self, part: Tensor) -> None:
        magnitude = part.abs()
        # |x| = mantissa * 2**exponent, with a mantissa from 0.5 to 1; undefined for Inf and NaN
        exponent = torch.frexp(magnitude).exponent
        places = exponent + (_FIRST - 1 - LEAST_EXPONENT)
        places.masked_fill_(magnitude == 0, _ZERO)
        places.masked_fill_(magnitude.isinf(), _INFINITE)
        places.masked_fill_(magnitude.isnan(), _NAN)
        counts = torch.bincount(places, minlength=_PLACES)
        smallest = magnitude.masked_fill(~(magnitude > 0), math.inf).amin()
        largest = magnitude.masked_fill(~magnitude.isfinite(), 0.0).amax()
        if self.counts is None or self.ends is None:
            self.counts, self.ends = counts, torch.stack([smallest, largest])
        else:
            self.counts += counts
            least, most = self.ends
            self.ends = torch.stack([torch.minimum(least, smallest), torch.maximum(most, largest)])


def read_histograms(counts: Sequence[ExponentCount]) -> list[Exponents]:
    """Return the histogram of each count. Synchronizes with the device once."""
    known = [count for count in counts if count.counts is not None and count.ends is not None]
    if not known:
        return [Exponents() for _ in counts]
    rows = torch.stack([count.counts for count in known if count.counts is not None]).cpu().tolist()
    ends = torch.stack([count.ends.double() for count in known if count.ends is not None]).cpu().tolist()
    histograms = {id(count): _histogram(row, *end) for count, row, end in zip(known, rows, ends, strict=True)}
    return [histograms.get(id(count), Exponents()) for count in counts]


def _histogram(row: list[int], smallest: float, largest: float) -> Exponents:
    filled = [place for place in range(_FIRST, _PLACES) if row[place]]
    first, end = (filled[0], filled[-1] + 1) if filled else (_FIRST, _FIRST)
    return Exponents(
        first=first - _FIRST + LEAST_EXPONENT if filled else 0,
        counts=tuple(row[first:end]),
        zeros=row[_ZERO],
        infinite=row[_INFINITE],
        nan=row[_NAN],
        smallest=smallest if filled else None,
        largest=largest if filled else None,
    )


def fp32_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment without a loss scale, and in FP32 instead of autocast or pure BF16."""
    scaler = experiment.scaler.model_copy(update={"mode": "off"})
    precision = Precision.FP32 if experiment.precision.is_narrow else experiment.precision
    return experiment.model_copy(update={"scaler": scaler, "precision": precision})


@dataclass
class RangeRecorder:
    """Records a pass's weights, activations and gradients by module name, to measure their ranges.

    The gradients are still multiplied by the loss scale.
    """

    modules: tuple[str, ...]
    weights: dict[str, ExponentCount] = field(default_factory=dict)
    weight_dtypes: dict[str, str] = field(default_factory=dict)
    activations: dict[str, ExponentCount] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    is_loss_finite: bool = True
    casts: tuple[LayerCast, ...] = ()

    @property
    def overflowed(self) -> bool:
        """Return True if a gradient is not finite. Synchronizes with the device."""
        finite = [gradient.isfinite().all() for gradient in map(_dense, self.gradients.values())]
        return bool(finite) and not bool(torch.stack(finite).all())


def record_pass(model: nn.Module, forward_backward: Callable[[], Tensor]) -> RangeRecorder:
    """Record the pass made by `forward_backward`, which returns the loss. Synchronizes with the device."""
    with record_tensors(model) as seen:
        for name, weight in model.named_parameters():
            if weight.is_floating_point():
                seen.weights.setdefault(_module_of(name), ExponentCount()).add(weight)
                seen.weight_dtypes.setdefault(_module_of(name), dtype_name(weight.dtype))
        loss = forward_backward()
    seen.is_loss_finite = bool(loss.isfinite())
    return seen


@contextmanager
def record_tensors(model: nn.Module) -> Iterator[RangeRecorder]:
    """Record the model's tensors in this context."""
    modules = dict(model.named_modules())
    seen = RangeRecorder(tuple(modules))
    watch = _Watch(seen)
    handles = [
        module.register_forward_hook(partial(watch.returned, name)) for name, module in modules.items()
    ]
    handles += [
        weight.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            partial(watch.arrived, name)
        )
        for name, weight in model.named_parameters()
        if weight.requires_grad and weight.is_floating_point()
    ]
    with removed_at_end(handles):
        yield seen


class _Watch:
    def __init__(self, seen: RangeRecorder) -> None:
        self._seen = seen
        # by identity, with the version, which an operation in place changes
        self._returned: dict[int, tuple[weakref.ref[Tensor], int]] = {}

    def returned(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        # a checkpointed activation is computed again in the backward pass
        if torch._C._current_graph_task_id() != -1:
            return
        is_leaf = next(module.children(), None) is None
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                # what a container only passes on is its child's
                if is_leaf or not self._is_known(tensor):
                    self._seen.activations.setdefault(name, ExponentCount()).add(tensor)
                self._seen.dtypes.setdefault(name, dtype_name(tensor.dtype))
                self._returned[id(tensor)] = weakref.ref(tensor), tensor._version

    def _is_known(self, tensor: Tensor) -> bool:
        reference, version = self._returned.get(id(tensor), (None, 0))
        return reference is not None and reference() is tensor and tensor._version == version

    def arrived(self, name: str, weight: Tensor) -> None:
        # the last arrival of a group has the sum of all; a step of the file's own unscales and clips it later
        assert weight.grad is not None  # it has just been accumulated
        self._seen.gradients[name] = weight.grad.detach().clone()


def build_ranges(
    true: RangeRecorder,
    own: RangeRecorder | None = None,
    *,
    precision: Precision = Precision.FP32,
    scale: float = 1.0,
    first_scale: float = 1.0,
) -> Ranges:
    """Return the value ranges of a pass in FP32, and the values lost in the experiment's own format.

    Synchronizes with the device.
    """
    gradients: dict[str, ExponentCount] = {}
    for name, gradient in true.gradients.items():
        gradients.setdefault(_module_of(name), ExponentCount()).add(gradient)
    by_quantity: dict[Quantity, dict[str, ExponentCount]] = {
        "activation": true.activations,
        "gradient": gradients,
        "weight": true.weights,
    }
    places = [
        (name, quantity, counts[name])
        for quantity, counts in by_quantity.items()
        for name in true.modules[:MOST_MODULES]
        if name in counts
    ]
    zeros, nonfinite = _losses(true, own)
    dtypes = (own or true).dtypes
    histograms = read_histograms([count for *_, count in places])
    rows = tuple(
        ModuleRange(
            module=name,
            quantity=quantity,
            exponents=exponents,
            dtype=(true.weight_dtypes if quantity == "weight" else dtypes).get(name, ""),
            became_zero=zeros[name] if quantity == "gradient" else 0,
            became_nonfinite=max(
                0,
                nonfinite[quantity, name]
                - (exponents.infinite + exponents.nan if quantity == "activation" else 0),
            ),
        )
        for (name, quantity, _), exponents in zip(places, histograms, strict=True)
    )
    casts = () if own is None else own.casts[:MOST_ENTRIES]
    ranges = Ranges(rows=rows, casts=casts, scale=scale)
    return ranges.model_copy(update={"notes": range_notes(ranges, precision, first_scale)})


def _losses(
    true: RangeRecorder, own: RangeRecorder | None
) -> tuple[defaultdict[str, int], defaultdict[tuple[Quantity, str], int]]:
    # the gradients of each module that are 0 only in the experiment's precision, and what is not finite in it
    zeros: defaultdict[str, int] = defaultdict(int)
    nonfinite: defaultdict[tuple[Quantity, str], int] = defaultdict(int)
    if own is None:
        return zeros, nonfinite
    pairs = {
        name: (_dense(gradient), _dense(true.gradients[name]))
        for name, gradient in own.gradients.items()
        if name in true.gradients
    }
    if pairs:
        lost = [
            torch.stack([((x == 0) & (y != 0)).sum(), (~x.isfinite() & y.isfinite()).sum()])
            for x, y in pairs.values()
        ]
        for name, (became_zero, overflows) in zip(pairs, torch.stack(lost).tolist(), strict=True):
            zeros[_module_of(name)] += became_zero
            nonfinite["gradient", _module_of(name)] += overflows
    for name, exponents in zip(own.activations, read_histograms(list(own.activations.values())), strict=True):
        nonfinite["activation", name] = exponents.infinite + exponents.nan
    return zeros, nonfinite


def _module_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


_CASTS: tuple[tuple[Operand, LayerMatmul, str, int], ...] = (
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
    products: list[LayerMatmul]
    along: int | None
    """The dimension along which each slice has its own scale. None for one scale for the entire tensor."""
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


class Fp8CastRecorder:
    """Measures the values and scales of the FP8 casts of a model's layers, until it is closed."""

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
        histograms = read_histograms([cast.exponents for cast in casts])
        return tuple(map(_layer_cast, casts, histograms))

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


def _layer_cast(cast: _Cast, exponents: Exponents) -> LayerCast:
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
        dtype=dtype_name(cast.dtype),
        exponents=exponents,
        **known,
    )
