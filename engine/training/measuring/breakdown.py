"""The instruments of a run, and the breakdown of a step's memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from engine.busyness import TOLERATED_SHARE, OtherPrograms
from engine.experiment.value import BYTES_PER_MIB
from engine.training.measuring.energy import EnergyMeter
from engine.training.measuring.memory import MemoryMeter
from engine.training.measuring.sensors import SensorGauge
from engine.training.measuring.speed import Speed
from engine.training.ranks.rank import current_rank
from engine.training.ranks.sharded import local_shard
from engine.training.steps.plain import PlainStep


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
    try:
        yield meter
    finally:
        for handle in handles:
            handle.remove()


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


class Instruments:
    """The instruments of a run, which measure its memory, GPU sensors, energy, and other programs' load.

    Create the memory meter before the model.
    """

    def __init__(
        self, device: torch.device, memory: MemoryMeter, sensors: SensorGauge, energy: EnergyMeter
    ) -> None:
        self._device = device
        self._memory = memory
        self._sensors = sensors
        self.energy = energy
        # several ranks are of one family
        root = os.getppid() if current_rank().count > 1 else None
        self._others = OtherPrograms(root) if device.type == "cpu" else None
        self._activations_mib: float | None = None

    def close(self) -> None:
        """End the threads that read the GPU and its energy."""
        self._sensors.close()
        self.energy.close()

    def count(self, is_measured: bool, *, is_capturing: bool = False) -> None:
        """Set whether the following steps belong to the measurement, or are the capture of a step."""
        self._memory.count(is_measured, captures=is_capturing)
        self._sensors.count(is_measured)
        self.energy.count(is_measured)
        if self._others is not None:
            self._others.count(is_measured)

    def settle(self) -> None:
        """Free memory that only the first steps needed. Call it before the last warm-up step."""
        self._memory.settle()

    def now(self) -> dict[str, float]:
        """Return the columns of a `Samples` event that describe this moment."""
        return {**self._memory.sample(), **self._sensors.sample()}

    @contextmanager
    def measuring_memory(self, step: PlainStep) -> Iterator[None]:
        """Measure the memory that the forward of one eager step leaves for its backward."""
        with activations_of(step.watched, self._device) as meter:
            yield
        self._activations_mib = meter.mib

    def figures(self, step: PlainStep) -> dict[str, Any]:
        """Return the fields of a `Summary` that the instruments know."""
        peaks = self._memory.peaks()
        parts = breakdown_of(step.model, step.optimizer, self._activations_mib)
        peak_mib = peaks.resident_mib if self._device.type == "cpu" else peaks.allocated_mib
        return {
            "peak_allocated_mib": peaks.allocated_mib,
            "peak_reserved_mib": peaks.reserved_mib,
            "whole_run_peak_mib": peaks.whole_run_mib,
            "peak_resident_mib": peaks.resident_mib,
            "spilled_mib": peaks.spilled_mib,
            **asdict(parts),
            "other_mib": parts.other_mib(peak_mib),
            **self._sensors.figures(),
            "slowed_by": self._sensors.slowed_by,
        }

    def with_note(self, speed: Speed) -> Speed:
        return speed if speed.samples_per_second is None else replace(speed, note=self.disturbance())

    def disturbance(self) -> str | None:
        """Return the cause of a disturbed measurement, as a clause. None if none is known."""
        if slowed := self._sensors.slowed_by:
            return f"the GPU's clocks were throttled by {' and '.join(slowed)}"
        share = 0.0 if self._others is None else self._others.share()
        if share < TOLERATED_SHARE:
            return None
        return (
            f"other programs used {100 * share:.0f}% of the CPU ({os.cpu_count()} cores) during the run, "
            "so the measured throughput is too low"
        )
