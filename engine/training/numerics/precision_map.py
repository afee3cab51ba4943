"""The precision map: one forward and backward pass of a batch, operation by operation."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from engine.experiment.value import MOST_ENTRIES
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.numerics import Direction, MappedModule, Operation, PrecisionMap
from engine.protocol.ranges import ELSEWHERE
from engine.training.measuring.telemetry import HostClock, Mark, clock_for
from engine.training.models.forward import is_kept_in_float32, original_class
from engine.training.numerics.bench import Bench, Trainee, numerics_phase
from engine.training.numerics.watch import Call, OperationWatch, tensors_in
from engine.training.precision import dtype_name
from engine.training.steps.rehearsal import synchronize


def map_precision(bench: Bench, job: jobs.StudyNumerics) -> Generator[Event, None, PrecisionMap]:
    """Record the precision map of the experiment's first batch."""
    group = next(bench.groups(1))[:1]
    with bench.trainee() as trainee:
        if trainee.device.type != "cpu":
            # what a library prepares once would count as the first operation's time
            yield numerics_phase("Warming up", 0.0)
            trainee.forward_backward(group)
        yield numerics_phase("Recording every operation", 0.5)
        bench.check_stop()
        recorder = _Recorder(trainee)
        synchronize(trainee.device)
        began = time.perf_counter()
        with recorder:
            trainee.forward_backward(group)
        synchronize(trainee.device)
        return _map_of(trainee, recorder, time.perf_counter() - began)


def _map_of(trainee: Trainee, recorder: _Recorder, seconds: float) -> PrecisionMap:
    modules = tuple(_modules(trainee.model))
    operations = sorted(recorder.operations(), key=lambda row: row.seconds, reverse=True)
    notes: list[str] = []
    if trainee.experiment.precision.is_autocast:
        kept = {module.name for module in modules if module.kept_in_fp32}
        notes += device_notes((row for row in operations if row.module not in kept), trainee.device.type)
    if trainee.device.type != "cpu":
        notes.append("The time of a short operation is mostly its launch, which recording makes longer.")
    for what, rows in (("operations, the longest", operations), ("modules", modules)):
        if len(rows) > MOST_ENTRIES:
            notes.append(f"Only {MOST_ENTRIES:,} of {len(rows):,} {what}, are listed.")
    return PrecisionMap(
        modules=modules[:MOST_ENTRIES],
        operations=tuple(operations[:MOST_ENTRIES]),
        attributed_fraction=recorder.attributed_fraction,
        seconds=seconds,
        notes=tuple(notes),
    )


def _modules(model: torch.nn.Module) -> Iterator[MappedModule]:
    kept: set[str] = set()
    for name, module in model.named_modules():
        if is_kept_in_float32(module) or (name and name.rpartition(".")[0] in kept):
            kept.add(name)
        yield MappedModule(
            name=name,
            class_name=original_class(module).__name__,
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            kept_in_fp32=name in kept,
        )


class _Key(NamedTuple):
    module: str
    name: str
    direction: Direction
    inputs: tuple[torch.dtype, ...]
    outputs: tuple[torch.dtype, ...]
    is_cast: bool
    by_autocast: bool

    @property
    def is_floating_point(self) -> bool:
        return any(dtype.is_floating_point or dtype.is_complex for dtype in self.inputs + self.outputs)


@dataclass
class _Row:
    count: int = 0
    moved_bytes: int = 0
    spans: list[tuple[Mark, Mark]] = field(default_factory=list)

    def seconds(self, clock: HostClock) -> float:
        return max(0.0, sum(clock.seconds_between(began, ended) for began, ended in self.spans))


class _Recorder(OperationWatch):  # type: ignore[no-untyped-call]
    def __init__(self, trainee: Trainee) -> None:
        super().__init__(trainee.model, trainee.device)
        self._clock = clock_for(trainee.device)
        self._rows: dict[_Key, _Row] = {}

    def watch(self, call: Call) -> Any:
        began = self._clock.mark()
        result = call.make()
        ended = self._clock.mark()
        name, outputs = call.name, tensors_in(result)
        inputs_of, outputs_of = _dtypes(call.inputs), _dtypes(outputs)
        is_cast = name in _CASTS and len({*inputs_of, *outputs_of}) > 1
        by_autocast = is_cast and call.by_autocast
        key = _Key(call.module, name, call.direction, inputs_of, outputs_of, is_cast, by_autocast)
        row = self._rows.setdefault(key, _Row())
        row.count += 1
        row.spans.append((began, ended))
        if not (call.operator.is_view or name in _FREE):
            row.moved_bytes += _tensor_bytes(call.inputs) + _tensor_bytes(outputs)
        return result

    @property
    def attributed_fraction(self) -> float:
        counted = {key: row.count for key, row in self._rows.items() if key.is_floating_point}
        unknown = sum(count for key, count in counted.items() if key.module == ELSEWHERE)
        return 1.0 - unknown / max(1, sum(counted.values()))

    def operations(self) -> Iterator[Operation]:
        for key, row in self._rows.items():
            yield Operation(
                module=key.module,
                name=key.name,
                direction=key.direction,
                inputs=tuple(map(dtype_name, key.inputs)),
                outputs=tuple(map(dtype_name, key.outputs)),
                count=row.count,
                seconds=row.seconds(self._clock),
                moved_bytes=row.moved_bytes,
                is_cast=key.is_cast,
                by_autocast=key.by_autocast,
            )


_CASTS = frozenset(("aten._to_copy", "aten.copy_"))
_FREE = frozenset(("aten._unsafe_view", "aten.empty", "aten.empty_like", "aten.new_empty"))


def _dtypes(tensors: list[Tensor]) -> tuple[torch.dtype, ...]:
    return tuple(dict.fromkeys(tensor.dtype for tensor in tensors))


def _tensor_bytes(tensors: list[Tensor]) -> int:
    count = 0
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        size = tensor.numel() * tensor.itemsize
        # sparse tensors have no storage of their own
        count += min(size, tensor.untyped_storage().nbytes()) if tensor.layout is torch.strided else size
    return count


Policy = Literal["FP32", "16 bits", "the dtype of the inputs"]
_KEEPS: Policy = "the dtype of the inputs"
_HALF = {"float16", "bfloat16"}


@dataclass(frozen=True)
class Difference:
    """A group of operators that autocast computes in different dtypes on a CPU and on CUDA.

    `operators` maps their ATen names to the names in PyTorch's autocast documentation.
    """

    cpu: Policy
    cuda: Policy
    operators: Mapping[str, str]

    def sentence(self, listed: Iterable[str]) -> str:
        """Describe the difference for operators, given by their listed names."""
        return f"{', '.join(sorted(listed))}: autocast uses {self.cuda} on CUDA and {self.cpu} on a CPU."

    def concerns(self, operation: Operation, is_cpu: bool) -> bool:
        """Return True if the operation would have another dtype on the other device."""
        here, there = (self.cpu, self.cuda) if is_cpu else (self.cuda, self.cpu)
        in_half = not _HALF.isdisjoint(operation.inputs)
        return in_half == (there == "FP32" if here == _KEEPS else here == "16 bits")


def _names_to_themselves(*names: str) -> dict[str, str]:
    return {name: name for name in names}


DIFFERENCES = (
    Difference(
        cpu=_KEEPS,
        cuda="FP32",
        operators={
            "_log_softmax": "log_softmax",
            "_softmax": "softmax",
            "native_group_norm": "group_norm",
            "native_layer_norm": "layer_norm",
            **_names_to_themselves(
                "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2"
            ),
            **_names_to_themselves("pow", "reciprocal", "rsqrt", "sinh", "softplus", "tan"),
            **_names_to_themselves(
                "cumprod", "cumsum", "dist", "linalg_vector_norm", "logsumexp", "renorm", "sum"
            ),
            **_names_to_themselves("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
            **_names_to_themselves(
                "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"
            ),
            **_names_to_themselves(
                "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"
            ),
        },
    ),
    Difference(cpu=_KEEPS, cuda="16 bits", operators=_names_to_themselves("addmv", "addr", "mv")),
    Difference(
        cpu="FP32",
        cuda=_KEEPS,
        operators={
            "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
            "max_pool3d_with_indices": "max_pool3d",
            **_names_to_themselves(
                "adaptive_max_pool3d", "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool3d"
            ),
            **_names_to_themselves("grid_sampler_2d", "grid_sampler_3d", "max_unpool2d", "max_unpool3d"),
            **_names_to_themselves("reflection_pad1d", "reflection_pad2d"),
            **_names_to_themselves("replication_pad1d", "replication_pad2d", "replication_pad3d"),
        },
    ),
)

_REFUSED = "binary_cross_entropy"
_CROSS_ENTROPY = {"aten.nll_loss_forward", "aten.nll_loss2d_forward"}


def device_notes(operations: Iterable[Operation], device_type: str) -> tuple[str, ...]:
    """Return sentences on the differences between CPU and CUDA for operations that ran under autocast."""
    if device_type not in ("cpu", "cuda"):
        return ()
    return tuple(_map_notes([row for row in operations if row.direction == "forward"], device_type == "cpu"))


def _map_notes(operations: list[Operation], is_cpu: bool) -> Iterator[str]:
    # a CPU lists cross-entropy as a whole
    with_loss = {row.module for row in operations if row.name in _CROSS_ENTROPY}
    for difference in DIFFERENCES:
        listed = {
            difference.operators[name]
            for row in operations
            if (name := row.name.removeprefix("aten.")) in difference.operators
            and difference.concerns(row, is_cpu)
            and not (name == "_log_softmax" and row.module in with_loss)
        }
        if listed:
            yield difference.sentence(listed)
    if any(row.name == f"aten.{_REFUSED}" for row in operations):
        yield f"{_REFUSED}: autocast refuses it on CUDA. {_REFUSED}_with_logits works on both."
