"""What oneDNN, the library of a CPU's products, says about each call: its verbose lines."""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

from engine.protocol.timing.bar import StepPart
from engine.protocol.timing.rows import TimeRow

_FORMATS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}
_FORMAT = re.compile(rf"[:_]({'|'.join(_FORMATS)}):")
_MATRIX = frozenset({"matmul", "convolution", "deconvolution", "inner_product", "rnn", "gemm"})
_UNITS = (
    ("amx", "AMX"),
    ("avx512_core_fp16", "AVX-512 FP16"),
    ("avx10_1_512", "AVX-512 FP16"),
    ("avx512_core_bf16", "AVX-512 BF16"),
)
"""What an implementation's name contains, and the units that it uses for 16-bit formats."""


@dataclass(frozen=True)
class Primitive:
    """A call: what it computed ("matmul"), by which implementation ("brg_matmul:avx512_core_amx"), on inputs
    in which format, and for how long."""

    kind: str
    implementation: str
    format: str | None
    ms: float

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix product or a convolution."""
        return self.kind in _MATRIX

    @property
    def units(self) -> str | None:
        """The CPU's matrix units that it ran on ("AMX", "AVX-512 BF16"); None for ordinary ones."""
        if not self.is_matrix or self.format not in ("fp16", "bf16"):
            return None
        return next((name for part, name in _UNITS if part in self.implementation), None)


def primitives_in(text: str) -> tuple[Primitive, ...]:
    """The calls in oneDNN's verbose lines; other lines, and those of other versions, are left out."""
    found = (_primitive(line.strip().split(",")) for line in text.splitlines())
    return tuple(primitive for primitive in found if primitive is not None)


def _primitive(fields: list[str]) -> Primitive | None:
    # onednn_verbose,v1,primitive,exec,cpu,KIND,IMPLEMENTATION,propagation,formats,...,problem,MS
    if "exec" not in fields[:5] or not fields[0].endswith("onednn_verbose"):
        return None
    after = fields[fields.index("exec") + 2 :]
    if len(after) < 5:
        return None
    inputs = _FORMAT.search(after[3])
    try:
        return Primitive(after[0], after[1], _FORMATS[inputs[1]] if inputs else None, float(after[-1]))
    except ValueError:
        return None


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
        return primitives_in(file.read().decode("utf-8", errors="replace"))


def primitive_rows(primitives: Iterable[Primitive], steps: int = 1) -> tuple[TimeRow, ...]:
    """A row for each implementation of each kind in each format, the longest first; means per step."""
    groups: defaultdict[tuple[str, str, str | None], list[Primitive]] = defaultdict(list)
    for primitive in primitives:
        groups[primitive.kind, primitive.implementation, primitive.format].append(primitive)
    rows = [_row(members, steps) for members in groups.values()]
    return tuple(sorted(rows, key=lambda row: row.ms, reverse=True))


def _row(members: list[Primitive], steps: int) -> TimeRow:
    first = members[0]
    part = StepPart.MEMORY
    if first.is_matrix:
        part = StepPart.MATRIX if first.units is None else StepPart.MATRIX_UNITS
    return TimeRow(
        name=f"{first.kind} {first.implementation}",
        part=part,
        ms=sum(member.ms for member in members) / steps,
        calls=len(members) / steps,
        matrix_unit_fraction=0.0 if first.units is None else 1.0,
        format=first.format if first.is_matrix else None,
    )


def units_of(primitives: Iterable[Primitive]) -> str | None:
    """The matrix units that most of the products' time was on, or else those that this CPU has."""
    times: defaultdict[str, float] = defaultdict(float)
    for primitive in primitives:
        if primitive.units is not None:
            times[primitive.units] += primitive.ms
    return max(times, key=lambda name: times[name]) if times else _units_in(torch.cpu.get_capabilities())


def _units_in(capabilities: Mapping[str, object]) -> str | None:
    flags = (("amx_bf16", "AMX"), ("avx512_fp16", "AVX-512 FP16"), ("avx512_bf16", "AVX-512 BF16"))
    return next((name for flag, name in flags if capabilities.get(flag)), None)
