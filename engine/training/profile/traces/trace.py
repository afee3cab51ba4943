"""A recording: the device's work, and the operation and module that launched it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.protocol.numerics.nonfinite import Direction

WorkKind = Literal["kernel", "copy", "set"]


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs of an operation as recorded, in the order of its parameters.

    `shapes` and `strides` are nested for a list of tensors; `types` are the profiler's names ("float",
    "c10::Half", "TensorList", "Scalar", ""); `values` are the written values of what is no tensor, else "".
    """

    shapes: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """A marked stretch of the training thread's time."""

    begin_us: float
    end_us: float

    @property
    def us(self) -> float:
        return self.end_us - self.begin_us


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """The place in training that launched something.

    `step` counts from 0; it is None outside of the recorded steps, as in validation. `module` is a dotted
    name, "" for the model itself; it is None outside of the model, as for the loss.
    """

    step: int | None = None
    module: str | None = None
    direction: Direction = "forward"
    in_optimizer: bool = False
    in_data: bool = False
    validation: int | None = None
    """The recorded validation batch, counted from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class HostOperation:
    """An operation as the host ran it; `self_us` is its time without the operations that it called."""

    name: str
    begin_us: float
    end_us: float
    self_us: float
    thread: int
    parent: HostOperation | None
    signature: Signature | None
    place: LaunchPlace

    @property
    def us(self) -> float:
        return self.end_us - self.begin_us


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork:
    """A kernel, a copy or a fill on the device.

    `operation` is the innermost one that launched it, None for the kernels of a CUDA graph, which are known
    by their names alone. `copy_kind` is "HtoD", "DtoH" or "DtoD".
    """

    name: str
    kind: WorkKind
    begin_us: float
    end_us: float
    stream: int
    launched_us: float | None
    operation: HostOperation | None
    place: LaunchPlace
    is_in_graph: bool = False
    copy_kind: str | None = None
    is_pageable: bool = False
    bytes: float | None = None

    @property
    def us(self) -> float:
        return self.end_us - self.begin_us


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """The host waits for the device: "cudaStreamSynchronize", and the operation that called it, if any."""

    name: str
    begin_us: float
    end_us: float
    operation: HostOperation | None
    place: LaunchPlace

    @property
    def us(self) -> float:
        return self.end_us - self.begin_us


@dataclass(frozen=True, slots=True)
class Trace:
    """All of a recording, in the order of time; operations come thread by thread, callers before callees."""

    work: tuple[DeviceWork, ...] = ()
    operations: tuple[HostOperation, ...] = ()
    waits: tuple[Wait, ...] = ()
    steps: tuple[Stretch, ...] = ()
    data: tuple[Stretch, ...] = ()
    optimizer: tuple[Stretch, ...] = ()
    validation: tuple[Stretch, ...] = ()
    module_calls: tuple[tuple[str, int], ...] = ()
    """Forward passes of the modules in all steps."""
    threads: tuple[int, ...] = ()
    """Those of the training thread, and of autograd's where backward has a thread of its own."""

    @property
    def is_of_device(self) -> bool:
        """True if a device other than the CPU did work."""
        return bool(self.work)
