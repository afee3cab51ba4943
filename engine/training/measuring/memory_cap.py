"""A cap on this process's memory, like that of a smaller device, and the memory of a trial under it.

On a CPU the cap limits the data segment, which a trial also measures.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import setting_error
from engine.experiment.value import BYTES_PER_GIB, BYTES_PER_MIB, MIB_PER_GIB
from engine.training.measuring.memory import driver_spills, status_bytes
from engine.training.measuring.sensors import other_programs_mib


class TrialMemory:
    """The base class that measures a batch-size trial's memory in MiB, against its budget.

    Create it before the trial's model and before the memory cap is set.
    """

    budget_mib: float
    baseline_mib: float
    other_programs_mib: float | None = None

    def peak_mib(self) -> float | None:
        """Return the peak in the quantity of the budget. None if unknown."""
        raise NotImplementedError

    def reserved_mib(self) -> float | None:
        """Return the peak of the memory reserved by the caching allocator. None without one."""
        return None

    def has_spilled(self) -> bool:
        """Return True once the driver has spilled to system memory. Any thread may call it."""
        return False

    def was_refused(self) -> bool:
        """Return whether the caching allocator has refused an allocation, even if a library recovered."""
        return False

    def forget_refusals(self) -> None:
        """Restart the count of refused allocations at 0."""

    def release(self) -> float:
        """Free unused memory. Return the memory still allocated over the baseline."""
        raise NotImplementedError


class DataSegment(TrialMemory):
    """Measures a CPU trial's memory, as the growth of the process's data segment since just before the cap.

    Linux reports a peak only of the full address space. The rest of it (code, reserved space) is the same at
    the peak as now, so the difference to the peak belongs to the data segment. Other systems report no peak.
    """

    def __init__(self, budget_mib: float) -> None:
        self.budget_mib = budget_mib
        # fills the gap to the past peak, which cannot be reset: glibc reserves 64 MiB more than it keeps when
        # a thread first allocates; read-only space is not part of the data segment
        gap = (status_bytes("VmPeak") or 0) - (status_bytes("VmSize") or 0)
        self._filler: mmap.mmap | None = None
        if gap > 0 and sys.platform == "linux":
            self._filler = mmap.mmap(
                -1, gap, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ
            )
        self._idle = status_bytes("VmData") or 0
        self.baseline_mib = self._idle / BYTES_PER_MIB

    def peak_mib(self) -> float | None:
        whole, peak = status_bytes("VmSize"), status_bytes("VmPeak")
        data = status_bytes("VmData")
        if whole is None or peak is None or data is None:
            return None
        return max(0, data + peak - whole - self._idle) / BYTES_PER_MIB

    def release(self) -> float:
        gc.collect()
        if self._filler is not None:
            self._filler.close()
            self._filler = None
        return max(0, (status_bytes("VmData") or 0) - self._idle) / BYTES_PER_MIB


# The numbers of glibc's malloc.h; mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_AT_ONCE = 64 * 1024
_AS_GLIBC_GROWS_TO = 32 * 2**20
_ARENAS = 2


@contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Map blocks of 64 KiB or more separately in this context, and unmap them when freed.

    Otherwise free blocks kept by glibc would count against the cap. It costs speed. A process started this
    way does not change, nor does one without glibc.
    """
    is_so = sys.platform != "linux" or "MALLOC_MMAP_THRESHOLD_" in os.environ
    mallopt = None if is_so else getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(_ARENA_MAX, _ARENAS)
    for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        mallopt(threshold, _AT_ONCE)
    try:
        yield
    finally:
        for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(threshold, _AS_GLIBC_GROWS_TO)


def trial_memory(device: torch.device, cap_gib: float | None) -> TrialMemory:
    """Return the memory of a trial that starts now on the device, under a cap in GiB or without one."""
    cap_mib = None if cap_gib is None else cap_gib * MIB_PER_GIB
    if device.type in ("cuda", "xpu"):
        return AllocatorTrial(device, cap_mib)
    return DataSegment(psutil.virtual_memory().available / BYTES_PER_MIB if cap_mib is None else cap_mib)


class AllocatorTrial(TrialMemory):
    """Measures a trial's memory on an accelerator with a caching allocator, against a cap or the free memory.

    The free memory is that before the trial. After its release, it is the memory left for the next trial.
    """

    def __init__(self, device: torch.device, cap_mib: float | None) -> None:
        self._device = device
        self._module: Any = torch.get_device_module(device)
        self._module.init()
        self._free_unused()
        self._module.reset_peak_memory_stats(device)
        self._baseline: int = self._module.memory_allocated(device)
        self._refused = self._refusals()
        self._free_mib = self._available_mib()
        self.baseline_mib = self._baseline / BYTES_PER_MIB
        self.budget_mib = self._free_mib if cap_mib is None else min(cap_mib, self._free_mib)
        if device.type == "cuda":
            self.other_programs_mib = other_programs_mib(device)

    def peak_mib(self) -> float | None:
        return float(self._module.max_memory_allocated(self._device)) / BYTES_PER_MIB

    def reserved_mib(self) -> float | None:
        return float(self._module.max_memory_reserved(self._device)) / BYTES_PER_MIB

    def has_spilled(self) -> bool:
        if not driver_spills():
            # what is more than free was freed by another program meanwhile
            return False
        return (self.reserved_mib() or 0.0) > self._free_mib

    def was_refused(self) -> bool:
        return self._refusals() > self._refused

    def forget_refusals(self) -> None:
        self._refused = self._refusals()

    def release(self) -> float:
        self._free_unused()
        held: int = self._module.memory_allocated(self._device)
        # less than before by what libraries have taken beside the allocator: NCCL up to 2 GiB
        self.budget_mib = min(self.budget_mib, self._available_mib())
        return max(0, held - self._baseline) / BYTES_PER_MIB

    def _available_mib(self) -> float:
        free: int = self._module.mem_get_info(self._device)[0]
        return float(free + self._module.memory_reserved(self._device)) / BYTES_PER_MIB

    def _refusals(self) -> int:
        return int(self._module.memory_stats_as_nested_dict(self._device).get("num_ooms", 0))

    def _free_unused(self) -> None:
        gc.collect()
        self._module.synchronize(self._device)
        if self._device.type == "cuda":
            # each stream that has multiplied matrices keeps a workspace, which would count as leaked
            torch._C._cuda_clearCublasWorkspaces()
        self._module.empty_cache()


CAPPED_CPU_NOTE = (
    "The throughput of a CPU run under a memory cap is not representative, so it is not reported."
)


def check_cap(device: DeviceEntry, cap_gib: float | None) -> None:
    """Raise ProblemError if this machine cannot cap the memory of that device."""
    can = device.name.startswith("cuda") or (device.name == "cpu" and sys.platform == "linux")
    if cap_gib is not None and not can:
        raise setting_error(
            "memory_cap_gib",
            f"is {cap_gib:g}, but the memory of {device.title} cannot be capped here.",
            "Leave it empty, or run on an NVIDIA GPU or on Linux.",
            value=cap_gib,
        )


@contextmanager
def memory_cap(device: torch.device, cap_gib: float | None) -> Iterator[None]:
    """Cap further allocations of the process in this context.

    If the driver would spill to system memory, a GPU is capped at its free memory, so a run that does not fit
    runs out of memory as elsewhere.
    """
    limits = [] if cap_gib is None else [cap_gib * BYTES_PER_GIB]
    if device.type == "cuda" and driver_spills():
        limits.append(torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device))
    if not limits:
        yield
    elif device.type == "cuda":
        with _allocator_limit(device, min(limits)):
            yield
    else:
        with freed_memory_returned(), _data_limit(int(min(limits))):
            yield


@contextmanager
def _allocator_limit(device: torch.device, limit_bytes: float) -> Iterator[None]:
    # It limits what the caching allocator reserves, graphs' pools included, not what the driver and the
    # libraries take beside it (the context, loaded kernels).
    total = torch.cuda.get_device_properties(device).total_memory
    before = torch.cuda.get_per_process_memory_fraction(device)
    torch.cuda.set_per_process_memory_fraction(min(before, limit_bytes / total), device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(before, device)


@contextmanager
def _data_limit(budget_bytes: int) -> Iterator[None]:
    # The module exists only on Unix, and check_cap() has made sure that this is Linux.
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = (status_bytes("VmData") or 0) + budget_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
