"""The verbose lines of oneDNN, which computes a CPU's products, about each of its calls."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.protocol.profile import StepPart, TimeRow
from engine.training.profile.traces.kernels import KernelClass
from engine.training.profile.traces.operations import primitive_class

_UNITS = (
    ("bf16", "amx_bf16", "AMX"),
    ("bf16", "avx512_bf16", "AVX-512 BF16"),
    ("bf16", "bf16", "BF16 dot products"),
    ("fp16", "amx_fp16", "AMX"),
    ("fp16", "avx512_fp16", "AVX-512 FP16"),
)
"""Formats, the processors' capabilities for them as PyTorch names these (`bf16` is ARM's), and the units."""


def matrix_units() -> dict[str, str]:
    """The units of this processor for products of 16-bit numbers, by format; empty where it has none."""
    # up to PyTorch 2.10 there is no such function
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return units_of(capabilities)


def units_of(capabilities: Mapping[str, Any]) -> dict[str, str]:
    """The best units by format of a processor with these capabilities."""
    units: dict[str, str] = {}
    for name, capability, unit in _UNITS:
        if capabilities.get(capability):
            units.setdefault(name, unit)
    return units


@dataclass(frozen=True)
class Primitive:
    """A call: what it computed ("matmul"), by which implementation ("brg_matmul:avx512_core_amx"), and for
    how long."""

    kind: str
    implementation: str
    kernel_class: KernelClass
    ms: float


def primitives_in(text: str, formats: Iterable[str]) -> tuple[Primitive, ...]:
    """The calls in oneDNN's verbose lines; all other lines are left out.

    `formats` are those that the processor has matrix units for: others are emulated on ordinary units.
    """
    known = frozenset(formats)
    found = (_primitive(line.strip().split(","), known) for line in text.splitlines())
    return tuple(primitive for primitive in found if primitive is not None)


def _primitive(fields: list[str], formats: frozenset[str]) -> Primitive | None:
    # onednn_verbose,v1,primitive,exec,cpu,KIND,IMPLEMENTATION,propagation,MEMORY,...,MS
    if not fields[0].endswith("onednn_verbose") or "exec" not in fields[:5]:
        return None
    try:
        kind, implementation, _, memory, *_, milliseconds = fields[fields.index("exec") + 2 :]
        ms = float(milliseconds)
    except ValueError:  # a line that was cut short
        return None
    known = primitive_class(kind, implementation, memory)
    if known.uses_matrix_units and known.format not in formats:
        known = KernelClass(StepPart.MATRIX, known.format)
    return Primitive(kind, implementation, known, ms)


def verbose_primitives(work: Callable[[], object]) -> tuple[Primitive, ...]:
    """The calls that oneDNN made during `work`; none where PyTorch is built without it.

    oneDNN writes to the process's own stdout, which meanwhile is a file.
    """
    mkldnn = torch.backends.mkldnn
    if not mkldnn.is_available():  # type: ignore[no-untyped-call]
        work()
        return ()
    with tempfile.TemporaryFile() as file:
        stdout = os.dup(1)
        try:
            os.dup2(file.fileno(), 1)
            with mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
                work()
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
        file.seek(0)
        return primitives_in(file.read().decode("utf-8", errors="replace"), matrix_units())


def primitive_rows(primitives: Sequence[Primitive], step_ms: float) -> tuple[TimeRow, ...]:
    """A row for each implementation of each kind in each format, the longest first.

    The calls are of another step than the one of `step_ms`; where they exceed it they are scaled down to it.
    """
    whole = sum(each.ms for each in primitives)
    scale = min(1.0, step_ms / whole) if whole else 1.0
    groups: defaultdict[tuple[str, str, KernelClass], list[float]] = defaultdict(list)
    for each in primitives:
        groups[each.kind, each.implementation, each.kernel_class].append(scale * each.ms)
    rows = [
        TimeRow(
            name=f"{kind} {implementation}",
            part=known.part,
            ms=sum(times),
            calls=len(times),
            matrix_unit_fraction=float(known.uses_matrix_units),
            format=known.format,
        )
        for (kind, implementation, known), times in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.ms, reverse=True))


def formats_on_units(primitives: Iterable[Primitive]) -> frozenset[str]:
    """The formats whose products ran on matrix units, by most of their time."""
    balance: defaultdict[str, float] = defaultdict(float)
    for each in primitives:
        known = each.kernel_class
        if known.format is not None:
            balance[known.format] += each.ms if known.uses_matrix_units else -each.ms
    return frozenset(name for name, ms in balance.items() if ms > 0)
