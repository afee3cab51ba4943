"""Measures a run's memory in MiB, its peaks and its parts, and the bytes of live tensors to forecast it."""

from __future__ import annotations

import math
import platform
import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from engine.experiment.value import BYTES_PER_MIB
from engine.training.models.forward import removed_at_end
from engine.training.ranks import local_shard


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all live tensors that operations in its context returned, for a memory forecast.

    `timeline` has the live bytes after each operation since `restart`, each storage in multiples of
    `block_bytes`. Enter it within `FakeTensorMode`. Unlike torch.distributed's MemTracker, it does not count
    per module, which took four fifths of the time, and it records every moment, not only the peak.
    """

    def __init__(self, block_bytes: int = 1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.timeline: list[int] = []
        self._block_bytes = block_bytes
        # by the storage's identity; the reference removes its entry when the storage dies
        self._living: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def restart(self) -> None:
        """Clear the timeline. Tensors that are still live remain counted."""
        self.timeline = [self.now]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                self._count(value.untyped_storage())
        self.timeline.append(self.now)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        identity = storage._cdata
        if identity in self._living:
            return
        size = -(-storage.nbytes() // self._block_bytes) * self._block_bytes

        def forget(_: object) -> None:
            del self._living[identity]
            self.now -= size

        self._living[identity] = weakref.ref(storage, forget)
        self.now += size


@dataclass(frozen=True)
class Peaks:
    """The memory peaks of a run in MiB. Those that do not apply to the device are None.

    Allocated, reserved and resident memory are peaks of the measured steps. `whole_run_mib` is allocated
    memory including warm-up, validation and the libraries' search for algorithms. `spilled_mib` is the
    reserved memory beyond the memory that was free before the run, on drivers that spill to system memory.
    """

    allocated_mib: float | None = None
    reserved_mib: float | None = None
    whole_run_mib: float | None = None
    resident_mib: float | None = None
    spilled_mib: float | None = None


def driver_spills() -> bool:
    """Return True on Windows and WSL, whose drivers spill to system memory when a GPU is full."""
    return sys.platform == "win32" or "microsoft" in platform.release().lower()


class MemoryMeter:
    """The base class of memory meters, and the meter for a device that reports no memory."""

    def __init__(self, period_seconds: float = 0.2) -> None:
        self._period_seconds = period_seconds
        self._asked = -math.inf
        self._last: dict[str, float] = {}

    def sample(self) -> dict[str, float]:
        """Return the memory columns of a `Samples` event, read at most once per `period_seconds`."""
        now = time.monotonic()
        if now - self._asked >= self._period_seconds:
            self._asked, self._last = now, self._read()
        return self._last

    def _read(self) -> dict[str, float]:
        return {}

    def count(self, counts: bool, *, captures: bool = False) -> None:
        """Set whether the following steps count as training. Warm-up and validation do not.

        `captures`: a CUDA graph of the step is captured in it.
        """

    def settle(self) -> None:
        """Free memory of the first steps. It may wait for the device, so call it in the warm-up."""

    def peaks(self) -> Peaks:
        """Return the peaks so far."""
        return Peaks()


def memory_meter(device: torch.device) -> MemoryMeter:
    """Return a meter for the device. On a CPU, make it before the model: it measures the idle level."""
    if device.type in ("cuda", "xpu"):
        return AllocatorMeter(device)
    return ResidentMeter() if device.type == "cpu" else MemoryMeter()


class AllocatorMeter(MemoryMeter):
    """Measures the memory of an accelerator that has PyTorch's caching allocator.

    A sample is the peak allocated memory since the last sample, because no activations exist between steps.
    During CUDA graph replays it is at least the peak of the capture, since the allocator counts the graph's
    memory as free. `module` is the device's PyTorch module, such as `torch.cuda`, or a substitute for it.
    """

    def __init__(self, device: torch.device, module: Any = None, period_seconds: float = 0.2) -> None:
        super().__init__(period_seconds)
        self._device = device
        self._module: Any = module or torch.get_device_module(device)
        self._counts = self._captures = False
        self._captured = 0
        self._allocated: int | None = None
        self._reserved: int | None = None
        self._whole_run = 0
        # There are no counts to reset before the device is in use.
        self._module.init()
        self._module.reset_peak_memory_stats(device)
        self._room: int | None = None
        if driver_spills():
            self._room = self._module.mem_get_info(device)[0] + self._module.memory_reserved(device)

    def _read(self) -> dict[str, float]:
        allocated, reserved = self._close_span()
        return {"allocated_mib": allocated / BYTES_PER_MIB, "reserved_mib": reserved / BYTES_PER_MIB}

    def count(self, counts: bool, *, captures: bool = False) -> None:
        self._close_span()
        self._counts, self._captures, self._asked = counts, captures, -math.inf

    def settle(self) -> None:
        # Workspaces of cuDNN's search stay in the cache, where they would count as training's memory. A
        # graph's own memory is not touched.
        self._module.empty_cache()

    def peaks(self) -> Peaks:
        self._close_span()
        spilled = 0 if self._room is None else (self._reserved or 0) - self._room
        return Peaks(
            allocated_mib=self._allocated and self._allocated / BYTES_PER_MIB,
            reserved_mib=self._reserved and self._reserved / BYTES_PER_MIB,
            whole_run_mib=self._whole_run / BYTES_PER_MIB,
            spilled_mib=spilled / BYTES_PER_MIB if spilled > 0 else None,
        )

    def _close_span(self) -> tuple[int, int]:
        # The allocator counts on the host, in the order of the calls, so this does not wait. Each of torch's
        # functions for a single figure makes and sorts all 140.
        figures = self._module.memory_stats_as_nested_dict(self._device)
        allocated: int = figures["allocated_bytes"]["all"]["peak"]
        reserved: int = figures["reserved_bytes"]["all"]["peak"]
        self._module.reset_peak_memory_stats(self._device)
        self._whole_run = max(self._whole_run, allocated)
        if self._captures:
            self._captured = max(self._captured, allocated)
        if self._counts:
            allocated = max(allocated, self._captured)
            self._allocated = max(self._allocated or 0, allocated)
            self._reserved = max(self._reserved or 0, reserved)
        return allocated, reserved


class ResidentMeter(MemoryMeter):
    """Measures a CPU run's memory: this process's resident memory in addition to that of the idle worker.

    Where Linux reports it, a sample is the peak since the last sample, because no activations exist between
    steps. Elsewhere it is the current value. A query takes a third of a millisecond.
    """

    def __init__(self, period_seconds: float = 0.2) -> None:
        super().__init__(period_seconds)
        self._process = psutil.Process()
        self._has_own_peak = _reset_resident_peak()
        self._counts = False
        self._peak: int | None = None
        self._idle = self._close_span()

    def _read(self) -> dict[str, float]:
        return {"resident_mib": self._over_idle(self._close_span())}

    def count(self, counts: bool, *, captures: bool = False) -> None:
        self._close_span()
        self._counts, self._asked = counts, -math.inf

    def peaks(self) -> Peaks:
        self._close_span()
        return Peaks(resident_mib=None if self._peak is None else self._over_idle(self._peak))

    def _close_span(self) -> int:
        # the peak since the last reset, if available, or what is resident now; then the peak is reset
        own_peak = _resident_peak() if self._has_own_peak else None
        resident: int = own_peak or self._process.memory_info().rss
        if self._counts:
            self._peak = max(self._peak or 0, resident)
        if self._has_own_peak:
            _reset_resident_peak()
        return resident

    def _over_idle(self, resident: int) -> float:
        return max(0, resident - self._idle) / BYTES_PER_MIB


def status_bytes(field: str) -> int | None:
    """Return a field of Linux's /proc/self/status, such as VmHWM, in bytes. None without it."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return None


def _reset_resident_peak() -> bool:
    # Some containers forbid writing this; the peak is then the largest sample.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _resident_peak() is not None
    return False


def _resident_peak() -> int | None:
    return status_bytes("VmHWM")


@dataclass(frozen=True)
class Breakdown:
    """A step's memory in MiB by its use. Buffers count as parameters. Unmeasured activations are None."""

    parameters_mib: float
    gradients_mib: float
    optimizer_state_mib: float
    activations_mib: float | None

    def other_mib(self, training_peak_mib: float | None) -> float | None:
        """Return the rest of the peak, such as workspaces and the loss. None if a part is unknown."""
        if training_peak_mib is None or self.activations_mib is None:
            return None
        known = self.parameters_mib + self.gradients_mib + self.optimizer_state_mib + self.activations_mib
        return max(0.0, training_peak_mib - known)


def breakdown_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, activations_mib: float | None = None
) -> Breakdown:
    """Return the sizes of a step's tensors. Call it after a step, because an optimizer has no state before.

    For a sharded model, this device's part counts. A gradient that is freed between steps counts as its
    parameter, because it has that size within a step.
    """
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    gradients = [parameter if parameter.grad is None else parameter.grad for parameter in trained]
    state = [value for values in optimizer.state.values() for value in tree_leaves(values)]
    return Breakdown(
        parameters_mib=_mib([*parameters, *model.buffers()]),
        gradients_mib=_mib(gradients),
        optimizer_state_mib=_mib(value for value in state if isinstance(value, torch.Tensor)),
        activations_mib=activations_mib,
    )


@dataclass
class ActivationMeter:
    """The most memory (MiB) that a forward pass has left for its backward pass. None if not measured."""

    mib: float | None = None

    def add(self, count: int) -> None:
        """Add the bytes of a forward."""
        self.mib = max(self.mib or 0.0, count / BYTES_PER_MIB)


@contextmanager
def activations_of(model: nn.Module, device: torch.device) -> Iterator[ActivationMeter]:
    """Measure the memory that the model's training forwards in this context leave for the backward.

    It includes activations, the output, and autocast's copies of the weights, without the loss. Enter it
    around one step, not the first, in which libraries allocate workspaces. Pass a compiled model as
    `torch.compile` returned it. On a CPU a compiled model is not measured, because that would change what is
    compiled. A captured forward does not count. No result changes.
    """
    meter = ActivationMeter()
    module: Any = torch.get_device_module(device) if device.type in ("cuda", "xpu") else None
    is_eager = device.type == "cpu" and not isinstance(model, torch._dynamo.OptimizedModule)
    # there is no public way to find out whether nn.Module.compile() was called
    if model._compiled_call_impl is not None or (module is None and not is_eager):
        yield meter
        return
    begun: list[int | _Made] = []

    def begin(_: nn.Module, inputs: Any) -> None:
        is_capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if not torch.is_grad_enabled() or is_capturing:
            return
        if module is not None:
            # the allocator's count is on the host, so nothing waits
            begun.append(module.memory_allocated(device))
        else:
            made = _Made([*model.parameters(), *model.buffers(), *tree_leaves(inputs)])
            made.__enter__()  # type: ignore[no-untyped-call]
            begun.append(made)

    def end(_: nn.Module, inputs: Any, output: Any) -> None:
        if not begun:
            return
        before = begun.pop()
        if isinstance(before, _Made):
            before.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            grown = before.living_bytes()
        else:
            grown = max(0, module.memory_allocated(device) - before)
        if output is not None:
            meter.add(grown)

    handles = (
        model.register_forward_pre_hook(begin),
        # also after a failed forward: what was begun must be ended
        model.register_forward_hook(end, always_call=True),
    )
    with removed_at_end(handles):
        yield meter


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    # for a CPU, whose allocator does not count: weak references to the storages of results but those `known`

    def __init__(self, known: Iterable[object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = set(_storages(known))
        self._made: dict[int, tuple[Any, int]] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for identity, storage in _storages(tree_leaves(result)).items():
            if identity not in self._known and identity not in self._made:
                # a weak reference keeps the identity from being reused by another storage
                reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
                self._made[identity] = reference, storage.nbytes()
        return result

    def living_bytes(self) -> int:
        return sum(size for reference, size in self._made.values() if not reference.expired())


def _storages(values: Iterable[object]) -> dict[int, torch.UntypedStorage]:
    # by identity; sparse tensors have none
    tensors = (plain for value in values if isinstance(value, torch.Tensor) for plain in _within(value))
    storages = (tensor.untyped_storage() for tensor in tensors if tensor.layout is torch.strided)
    return {storage._cdata: storage for storage in storages}


def _within(tensor: torch.Tensor) -> list[torch.Tensor]:
    # the plain tensors of a subclass, such as the codes and scales of a state in few bits
    tensor = local_shard(tensor)
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [plain for name in names for plain in _within(getattr(tensor, name))]


def _mib(tensors: Iterable[torch.Tensor]) -> float:
    return sum(storage.nbytes() for storage in _storages(tensors).values()) / BYTES_PER_MIB
