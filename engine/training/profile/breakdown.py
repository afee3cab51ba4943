"""The breakdown of recorded steps: the parts of their time, and tables of kernels, operations and modules."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from engine.protocol.profile import MOST_TABLE_ROWS, Bar, StepPart, TimeRow
from engine.training.profile.kernels import KernelClass, classify_kernel, classify_operation, input_format
from engine.training.profile.trace import (
    Counts,
    DeviceWork,
    HostOperation,
    LaunchPlace,
    MarkedSpan,
    Trace,
    count_operation,
    enclosing_counted,
    merged_spans,
    overlap_us,
)
from engine.words.numbers import share_text

ROOT = "the model"
_Key = TypeVar("_Key")
MATRIX_PARTS = (StepPart.MATRIX_UNITS, StepPart.MATRIX)

_MOST_CALL_US = 6.0
"""The profiler's highest cost per operation. 1 to 3 us were measured, twice that on a busy machine."""
_MARK_CALLS = 10
"""The cost of a module's mark, in operations. 14 us were measured."""

_NODE = re.compile(r"(autograd::engine|torch::autograd)::|\w+Backward\d+$|RegisterPostBackward")
"""A node of autograd, or of FSDP2 within it, whose own time is the framework's."""

_NOTABLE, _TOLERATED = 0.03, 0.3

_FIRST = (
    *(*MATRIX_PARTS, StepPart.OPTIMIZER, StepPart.SCALING, StepPart.MEMORY, StepPart.OTHER, StepPart.COPIES),
    StepPart.COMMUNICATION,
)
"""The order of parts that decides on moments in which the device does several things at once."""


@dataclass(frozen=True)
class StepBar:
    """The parts of a step's time, scaled so that they add up to its duration without the profiler.

    `recorded_ms` is the duration of a step with the profiler, and `raw_ms` the sum of its records: on an
    accelerator with the gaps between them, on a CPU without the profiler's cost. The records were multiplied
    by `scale`. They are the less reliable the farther it is from 1. `call_us` is the profiler's cost for each
    operation on a CPU. `validation` has the parts of one validation batch, of which only the time with the
    profiler is known.
    """

    bar: Bar
    validation: Bar | None
    recorded_ms: float
    raw_ms: float
    scale: float = 1.0
    call_us: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def disturbance(self) -> str | None:
        """The reason why the bar is unreliable, as a clause: the machine changed during the recording."""
        return _sum_clause(self.scale) if _scale_excess(self.scale) > _TOLERATED else None


def step_bar(trace: Trace, step_ms: float, data_wait_ms: float, units: Collection[str] = ()) -> StepBar:
    """Split the recorded steps into parts that add up to `step_ms`. The host waits `data_wait_ms` for data.

    Both are means without the profiler. `units` are the formats of a CPU's matrix units. Every moment belongs
    to exactly one part.

    On a device, the times of kernels are the device's own and are also valid without the profiler. If several
    run at once, a moment belongs to matmuls before anything else, and to communication last. The gaps between
    kernels are not valid, since the profiler delays each launch. They are the rest of `step_ms`. A part of
    this rest is waiting for data: the time that the host waits without the profiler, reduced by the share of
    the recorded waits in which the device was busy. The remainder is waiting for the host. If kernels alone
    exceed `step_ms`, they are scaled down to it.

    On a CPU, an operation's own time counts for its part. Python and the framework around operations count
    for the host, and so do operations that only create views or call others. Without an operation, while the
    devices communicate, the time is communication. The profiler adds a nearly constant time to each
    operation, seen almost entirely by its caller, and to each mark of a module. That time is estimated from
    the extra length of recorded steps, up to a plausible limit, and subtracted from the callers' own times.
    The remaining difference is scaled. A note reports a scaling by 3% or more.
    """
    if not trace.steps or step_ms <= 0:
        return StepBar(Bar(), None, 0.0, 0.0)
    return (_on_device if trace.is_of_device else _on_cpu)(trace, step_ms, data_wait_ms, units)


# names of a converted layer's autograd function, and of kernels that torch.compile fused
_FP8_LAYER = "matmul_with_hp_or_float8_args"
_FP8_FUSED = re.compile(r"^triton_(poi|red|per)_fused_\w*(scaled_mm|abs_\w*max|amax|clamp)")


def classify_work(work: DeviceWork, *, in_fp8: bool = False) -> KernelClass:
    """Classify device work. Work that the optimizer launched always counts as the optimizer's.

    With `in_fp8`, matmuls of the recording are in FP8, so its scales and casts are part of the work.
    """
    known = classify_kernel(work.name)
    if work.place.in_optimizer:
        return KernelClass(StepPart.OPTIMIZER, known.format)
    scales = in_fp8 and known.part is StepPart.MEMORY and _scales_to_fp8(work)
    return KernelClass(StepPart.SCALING) if scales else known


def _scales_to_fp8(work: DeviceWork) -> bool:
    around = work.operation.around() if work.operation is not None else ()
    is_in_layer = any(operation.name.startswith(_FP8_LAYER) for operation in around)
    return is_in_layer or _FP8_FUSED.search(work.name) is not None


def is_in_fp8(trace: Trace) -> bool:
    """Return True if a device's recorded work has matmuls in FP8."""
    return any(
        classify_kernel(work.name).format == "fp8"
        or (work.operation is not None and work.operation.name == "aten::_scaled_mm")
        for work in trace.work
    )


def _on_device(trace: Trace, step_ms: float, data_wait_ms: float, _: Collection[str]) -> StepBar:
    steps = len(trace.steps)
    work = [each for each in trace.work if each.place.step is not None]
    begin = trace.steps[0].begin_us
    end = max([trace.steps[-1].end_us, *(each.end_us for each in work)])
    recorded_ms = (end - begin) / 1e3 / steps
    busy = _busy_ms(work, steps, in_fp8=is_in_fp8(trace))
    busy_ms = sum(busy.values())
    scale = min(1.0, step_ms / busy_ms) if busy_ms else 1.0
    gap_ms = max(0.0, step_ms - busy_ms)
    data_ms = min(gap_ms, data_wait_ms * _idle_fraction(work, trace.data))
    parts = {part: ms * scale for part, ms in busy.items()}
    parts |= {StepPart.DATA: data_ms, StepPart.HOST: gap_ms - data_ms}
    recorded_gap_ms = recorded_ms - busy_ms
    shrinkage = min(1.0, gap_ms / recorded_gap_ms) if recorded_gap_ms > 0 else 1.0
    return StepBar(
        Bar.of(parts.items()),
        _validation_on_device(trace, shrinkage),
        recorded_ms,
        raw_ms=recorded_ms,
        scale=scale,
        notes=_scale_note(scale),
    )


def _scale_note(scale: float) -> tuple[str, ...]:
    if _scale_excess(scale) < _NOTABLE:
        return ()
    return (f"{_sum_clause(scale).capitalize()}, and is scaled to it.",)


def _scale_excess(scale: float) -> float:
    return abs(1 / scale - 1) if scale else 0.0


def _sum_clause(scale: float) -> str:
    return f"the recorded work adds up to {share_text(1 / scale)} of a step without the profiler"


def _validation_on_device(trace: Trace, shrinkage: float) -> Bar | None:
    if not trace.validation:
        return None
    work = [each for each in trace.work if each.place.validation is not None]
    batches = len(trace.validation)
    busy = _busy_ms(work, batches, in_fp8=is_in_fp8(trace))
    whole = sum(stretch.us for stretch in trace.validation) / 1e3 / batches
    gap = max(0.0, whole - sum(busy.values())) * shrinkage
    return Bar.of([*busy.items(), (StepPart.HOST, gap)])


def _busy_ms(work: Sequence[DeviceWork], count: int, *, in_fp8: bool) -> dict[StepPart, float]:
    sums: dict[StepPart, float] = defaultdict(float)
    active: Counter[StepPart] = Counter()
    last = 0.0
    for time, change, part in _time_edges(work, in_fp8=in_fp8):
        owner = next((each for each in _FIRST if active[each]), None)
        if owner is not None:
            sums[owner] += (time - last) / 1e3 / count
        active[part] += change
        last = time
    return sums


def _time_edges(work: Iterable[DeviceWork], *, in_fp8: bool) -> list[tuple[float, int, StepPart]]:
    edges = []
    for each in work:
        part = classify_work(each, in_fp8=in_fp8).part
        edges += [(each.begin_us, 1, part), (each.end_us, -1, part)]
    return sorted(edges, key=lambda edge: edge[0])


def _idle_fraction(work: Sequence[DeviceWork], waits: Sequence[MarkedSpan]) -> float:
    whole = sum(wait.us for wait in waits)
    if not whole:
        return 1.0
    return 1.0 - overlap_us(merged_spans(work), merged_spans(waits)) / whole


def _on_cpu(trace: Trace, step_ms: float, data_wait_ms: float, units: Collection[str]) -> StepBar:
    steps = len(trace.steps)
    own = main_operations(trace)
    recorded_ms = sum(step.us for step in trace.steps) / 1e3 / steps
    data_ms = min(data_wait_ms, step_ms)
    recorded_work_ms = recorded_ms - sum(wait.us for wait in trace.data) / 1e3 / steps
    work_ms = step_ms - data_ms
    longer_us = 1e3 * steps * max(0.0, recorded_work_ms - work_ms)
    marks = _MARK_CALLS * sum(count for _, count in trace.module_calls)
    call_us = min(_MOST_CALL_US, longer_us / (len(own) + marks)) if own else 0.0
    parts = _cpu_parts(own, 1e3 * recorded_work_ms * steps - call_us * marks, call_us, units)
    exposed_us = min(parts[StepPart.HOST], _exposed_us(trace, own, units))
    parts[StepPart.HOST] -= exposed_us
    parts[StepPart.COMMUNICATION] += exposed_us
    raw_ms = sum(parts.values()) / 1e3 / steps
    scale = work_ms / raw_ms if raw_ms else 1.0
    bar = Bar.of(
        [*((part, us / 1e3 / steps * scale) for part, us in parts.items()), (StepPart.DATA, data_ms)]
    )
    return StepBar(
        bar,
        _validation_on_cpu(trace, call_us, units),
        recorded_ms,
        raw_ms + data_ms,
        scale,
        call_us,
        notes=_scale_note(scale),
    )


def _exposed_us(trace: Trace, operations: Sequence[HostOperation], units: Collection[str]) -> float:
    # an operation that only calls others, or a node of autograd, may wait for communication
    computing = (each for each in operations if _class_of_operation(each, units).part is not StepPart.HOST)
    sent = list(merged_spans(trace.collectives))
    return sum(end - begin for begin, end in sent) - overlap_us(sent, merged_spans(computing))


def main_operations(trace: Trace) -> list[HostOperation]:
    """Return the training thread's operations in the steps, without those that create a batch."""
    return [
        operation
        for operation in trace.operations
        if operation.place.step is not None
        and not operation.place.in_data
        and operation.thread == trace.threads[0]
    ]


def _cpu_parts(
    operations: Sequence[HostOperation], whole_us: float, call_us: float, units: Collection[str]
) -> dict[StepPart, float]:
    sums: dict[StepPart, float] = defaultdict(float)
    outermost = [operation for operation in operations if operation.parent is None]
    around = whole_us - sum(operation.us for operation in outermost) - call_us * len(outermost)
    sums[StepPart.HOST] = max(0.0, around)
    for own in own_work(operations, call_us, units):
        sums[own.known.part] += own.us
    return sums


class OwnWork(NamedTuple):
    """The work that an operation does itself on a CPU, without the operations that it calls.

    `us` excludes the profiler's cost. With `only_calls`, the operation mainly calls others of its kind.
    """

    operation: HostOperation
    us: float
    known: KernelClass
    only_calls: bool


def own_work(
    operations: Sequence[HostOperation], call_us: float, units: Collection[str]
) -> Iterator[OwnWork]:
    """Yield the own work of operations, if recording one costs its caller `call_us`.

    The remaining time of a matmul that only calls another counts for the host.
    """
    called = Counter(operation.parent for operation in operations)
    known = {operation: _class_of_operation(operation, units) for operation in operations}
    of_alike: dict[HostOperation, float] = defaultdict(float)
    for operation in operations:
        caller = operation.parent
        if caller in known and _is_alike(known[caller].part, known[operation].part):
            of_alike[caller] += operation.us
    for operation in operations:
        us = max(0.0, operation.self_us - call_us * called[operation])
        only_calls = us < of_alike[operation]
        is_host = only_calls and known[operation].part in MATRIX_PARTS
        yield OwnWork(operation, us, KernelClass(StepPart.HOST) if is_host else known[operation], only_calls)


def _is_alike(part: StepPart, other: StepPart) -> bool:
    return part is other or (part in MATRIX_PARTS and other in MATRIX_PARTS)


def _class_of_operation(operation: HostOperation, units: Collection[str]) -> KernelClass:
    if _NODE.match(operation.name):
        return KernelClass(StepPart.HOST)
    types = operation.signature.types if operation.signature else ()
    known = classify_operation(operation.name, types, units)
    if operation.place.in_optimizer and known.part is not StepPart.HOST:
        return KernelClass(StepPart.OPTIMIZER, known.format)
    return known


def _validation_on_cpu(trace: Trace, call_us: float, units: Collection[str]) -> Bar | None:
    if not trace.validation:
        return None
    batches = len(trace.validation)
    operations = [
        operation
        for operation in trace.operations
        if operation.place.validation is not None and operation.thread == trace.threads[0]
    ]
    whole_us = sum(stretch.us for stretch in trace.validation)
    parts = _cpu_parts(operations, whole_us, call_us, units)
    return Bar.of((part, us / 1e3 / batches) for part, us in parts.items())


@dataclass(frozen=True)
class Tables:
    """The rows of a profile's three tables, the longest time first. All values are means per step."""

    kernels: tuple[TimeRow, ...] = ()
    operations: tuple[TimeRow, ...] = ()
    modules: tuple[TimeRow, ...] = ()


@dataclass(frozen=True)
class _Work:
    name: str
    us: float
    known: KernelClass
    operation: HostOperation | None
    place: LaunchPlace
    flops: float | None = None
    moved_bytes: float | None = None
    only_calls: bool = False

    @property
    def is_countable(self) -> bool:
        return self.known.part is not StepPart.HOST and not self.only_calls


def build_tables(trace: Trace, found: StepBar, units: Collection[str] = ()) -> Tables:
    """Build the tables of the recorded steps, on the scale of their bar `found`.

    A kernel's time is its own, so kernels that run at once add up to more than the bar. An operation's time
    is the time of the work that it launched itself, or on a CPU its own. The innermost operation counts, as
    in torch.profiler. A module's time is the work of its own forward and backward pass, without the modules
    within it. The optimizer, the loss and kernels of a CUDA graph belong to no module. FLOPs and bytes are
    those of the operation, split among its work by time. In the work of a matmul, only its kernels for matrix
    work have FLOPs.
    """
    steps = len(trace.steps)
    if not steps:
        return Tables()
    recorded = _device_work(trace, found) if trace.is_of_device else _cpu_work(trace, found, units)
    work = list(_count_operations(recorded))
    own_calls = Counter(each.name for each in {each.operation for each in work} if each is not None)
    calls = {name or ROOT: count for name, count in trace.module_calls}
    return Tables(
        kernels=_time_rows(work, _kernel, steps) if trace.is_of_device else (),
        operations=_time_rows(work, _operation, steps, own_calls),
        modules=_time_rows(work, _module, steps, calls, has_direction=True),
    )


def _device_work(trace: Trace, found: StepBar) -> Iterator[_Work]:
    in_fp8 = is_in_fp8(trace)
    for each in trace.work:
        if each.place.step is None:
            continue
        known = classify_work(each, in_fp8=in_fp8)
        if known.part in MATRIX_PARTS and known.format is None and each.operation is not None:
            known = replace(known, format=_format(each.operation, known))
        yield _Work(each.name, each.us * found.scale, known, each.operation, each.place)


def _format(operation: HostOperation, known: KernelClass) -> str | None:
    types = operation.signature.types if operation.signature else ()
    written = input_format(types)
    return "tf32" if written == "fp32" and known.uses_matrix_units else written


def _cpu_work(trace: Trace, found: StepBar, units: Collection[str]) -> Iterator[_Work]:
    for own in own_work(main_operations(trace), found.call_us, units):
        operation, us = own.operation, own.us * found.scale
        yield _Work(operation.name, us, own.known, operation, operation.place, only_calls=own.only_calls)


def _count_operations(work: Iterable[_Work]) -> Iterator[_Work]:
    groups: dict[HostOperation | None, list[_Work]] = defaultdict(list)
    for each in work:
        if each.operation is None or not each.is_countable:
            yield each
        else:
            groups[enclosing_counted(each.operation) or each.operation].append(each)
    for operation, members in groups.items():
        counts = None if operation is None else count_operation(operation)
        yield from members if counts is None else _shared(members, counts)


def _shared(members: Sequence[_Work], counts: Counts) -> Iterator[_Work]:
    whole = sum(each.us for each in members)
    products = [each for each in members if each.known.part in MATRIX_PARTS] or members
    of_products = sum(each.us for each in products)
    for each in members:
        share = each.us / whole if whole else 1 / len(members)
        flops = None
        if counts.flops is not None and each in products:
            flops = counts.flops * (each.us / of_products if of_products else 1 / len(products))
        yield replace(each, flops=flops, moved_bytes=counts.moved_bytes * share)


def _kernel(work: _Work) -> str | None:
    return work.name


def _operation(work: _Work) -> str | None:
    return None if work.operation is None else work.operation.name


def _module(work: _Work) -> str | None:
    module = None if work.place.in_optimizer else work.place.module
    return module if module is None else module or ROOT


@dataclass
class _Sums:
    calls: int = 0
    us: float = 0.0
    backward_us: float = 0.0
    parts: dict[StepPart, float] = field(default_factory=lambda: defaultdict(float))
    formats: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    operations: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    flops: float = 0.0
    moved_bytes: float | None = 0.0

    def add(self, work: _Work) -> None:
        self.calls += 1
        self.us += work.us
        self.parts[work.known.part] += work.us
        if work.place.direction == "backward":
            self.backward_us += work.us
        if work.known.format is not None:
            self.formats[work.known.format] += work.us
        if work.operation is not None:
            self.operations[work.operation.name] += work.us
        self.flops += work.flops or 0.0
        if work.moved_bytes is None and work.is_countable:
            self.moved_bytes = None
        elif self.moved_bytes is not None:
            self.moved_bytes += work.moved_bytes or 0.0


def _time_rows(
    work: Iterable[_Work],
    name_of: Callable[[_Work], str | None],
    steps: int,
    calls: Mapping[str, int] | None = None,
    has_direction: bool = False,
) -> tuple[TimeRow, ...]:
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for each in work:
        name = name_of(each)
        if name is not None:
            sums[name].add(each)
    longest = sorted(sums.items(), key=lambda item: item[1].us, reverse=True)[:MOST_TABLE_ROWS]
    return tuple(
        TimeRow(
            name=name,
            part=_largest_key(summed.parts) or StepPart.OTHER,
            ms=summed.us / 1e3 / steps,
            calls=(summed.calls if calls is None else calls.get(name, summed.calls)) / steps,
            matrix_unit_fraction=min(1.0, summed.parts[StepPart.MATRIX_UNITS] / summed.us)
            if summed.us
            else 0,
            format=_largest_key(summed.formats),
            flops=summed.flops / steps or None,
            moved_bytes=summed.moved_bytes / steps if summed.moved_bytes else None,
            backward_ms=summed.backward_us / 1e3 / steps if has_direction else None,
            operation=_largest_key(summed.operations) if name_of is _kernel else None,
        )
        for name, summed in longest
    )


def _largest_key(times: Mapping[_Key, float]) -> _Key | None:
    return max(times, key=lambda key: times[key], default=None)
