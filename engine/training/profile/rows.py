"""The tables of a profile: the recorded steps' kernels, operations and modules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.protocol.profile import MOST_TABLE_ROWS, StepPart, TimeRow
from engine.training.profile.bar import (
    MATRIX_PARTS,
    StepBar,
    classify_work,
    is_in_fp8,
    main_operations,
    own_work,
)
from engine.training.profile.kernels import KernelClass, input_format
from engine.training.profile.trace import (
    Counts,
    HostOperation,
    LaunchPlace,
    Trace,
    count_operation,
    enclosing_counted,
)

ROOT = "the model"
_Key = TypeVar("_Key")


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
    work = list(_counted(_on_device(trace, found) if trace.is_of_device else _on_cpu(trace, found, units)))
    calls = {name or ROOT: count for name, count in trace.module_calls}
    return Tables(
        kernels=_rows(work, _kernel, steps) if trace.is_of_device else (),
        operations=_rows(work, _operation, steps, _calls_of_operations(work)),
        modules=_rows(work, _module, steps, calls, has_direction=True),
    )


def _on_device(trace: Trace, found: StepBar) -> Iterator[_Work]:
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


def _on_cpu(trace: Trace, found: StepBar, units: Collection[str]) -> Iterator[_Work]:
    for own in own_work(main_operations(trace), found.call_us, units):
        operation, us = own.operation, own.us * found.scale
        yield _Work(operation.name, us, own.known, operation, operation.place, only_calls=own.only_calls)


def _counted(work: Iterable[_Work]) -> Iterator[_Work]:
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


def _calls_of_operations(work: Iterable[_Work]) -> Counter[str]:
    return Counter(each.name for each in {each.operation for each in work if each.operation is not None})


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


def _rows(
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
            part=_most(summed.parts) or StepPart.OTHER,
            ms=summed.us / 1e3 / steps,
            calls=(summed.calls if calls is None else calls.get(name, summed.calls)) / steps,
            matrix_unit_fraction=min(1.0, summed.parts[StepPart.MATRIX_UNITS] / summed.us)
            if summed.us
            else 0,
            format=_most(summed.formats),
            flops=summed.flops / steps or None,
            moved_bytes=summed.moved_bytes / steps if summed.moved_bytes else None,
            backward_ms=summed.backward_us / 1e3 / steps if has_direction else None,
            operation=_most(summed.operations) if name_of is _kernel else None,
        )
        for name, summed in longest
    )


def _most(times: Mapping[_Key, float]) -> _Key | None:
    return max(times, key=lambda key: times[key], default=None)
