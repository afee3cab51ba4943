"""What a trial may take of a device's memory, what it took, and that it gave it back."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any, Protocol

import psutil
import pynvml
import torch

from engine.training.measuring.data_segment import DataSegment
from engine.training.measuring.nvml import NvmlReader

_MIB = 2**20


class TrialMemory(Protocol):
    """Made before the trial's model, and before its cap is set. All in MiB."""

    budget_mib: float
    baseline_mib: float
    other_programs_mib: float | None

    def peak_mib(self) -> float | None:
        """The most that was taken, in the quantity of the budget; None where nothing tells."""
        ...

    def reserved_mib(self) -> float | None:
        """The most that the caching allocator held to give it; None where there is none."""
        ...

    def has_spilled(self) -> bool:
        """Whether more was taken than was free: a driver may put the rest into the host's memory."""
        ...

    def was_refused(self) -> bool:
        """Whether the caching allocator refused an allocation, also one that a library got over."""
        ...

    def release(self) -> float:
        """Gives back what is no longer used; what is held over the baseline after that."""
        ...


def trial_memory(device: torch.device, cap_gib: float | None) -> TrialMemory:
    """The memory of a trial that begins now on the device, under a cap in GiB or under none."""
    cap_mib = None if cap_gib is None else cap_gib * 1024
    if device.type in ("cuda", "xpu"):
        return AllocatorTrial(device, cap_mib)
    return DataSegment(psutil.virtual_memory().available / _MIB if cap_mib is None else cap_mib)


class AllocatorTrial:
    """For an accelerator with PyTorch's caching allocator.

    The budget is what is free before the trial, so that other programs' memory is no part of it.
    """

    def __init__(self, device: torch.device, cap_mib: float | None) -> None:
        self._device = device
        self._module: Any = torch.get_device_module(device)
        self._module.init()
        self._give_back()
        self._module.reset_peak_memory_stats(device)
        self._baseline: int = self._module.memory_allocated(device)
        self._refused = self._refusals()
        held: int = self._module.memory_reserved(device)
        self._free_mib = (self._module.mem_get_info(device)[0] + held) / _MIB
        self.baseline_mib = self._baseline / _MIB
        self.budget_mib = self._free_mib if cap_mib is None else min(cap_mib, self._free_mib)
        self.other_programs_mib = _other_programs_mib(device)

    def peak_mib(self) -> float | None:
        return float(self._module.max_memory_allocated(self._device)) / _MIB

    def reserved_mib(self) -> float | None:
        return float(self._module.max_memory_reserved(self._device)) / _MIB

    def has_spilled(self) -> bool:
        held: float = self._module.max_memory_reserved(self._device) / _MIB
        return bool(held > self._free_mib)

    def was_refused(self) -> bool:
        return self._refusals() > self._refused

    def release(self) -> float:
        self._give_back()
        held: int = self._module.memory_allocated(self._device)
        return max(0, held - self._baseline) / _MIB

    def _refusals(self) -> int:
        return int(self._module.memory_stats(self._device).get("num_ooms", 0))

    def _give_back(self) -> None:
        gc.collect()
        self._module.synchronize(self._device)
        if self._device.type == "cuda":
            # each stream that multiplied matrices keeps some, which would count as leaked
            torch._C._cuda_clearCublasWorkspaces()
        self._module.empty_cache()


def _other_programs_mib(device: torch.device) -> float | None:
    if device.type == "cuda":
        with suppress(pynvml.NVMLError):
            reader = NvmlReader(device)
            try:
                return reader.read().values.get("other_programs_mib")
            finally:
                reader.close()
    return None
