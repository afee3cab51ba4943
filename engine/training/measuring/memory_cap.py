"""A limit on the memory of this process, as a smaller device would set it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.catalog import DeviceEntry
from engine.problem import ProblemError, request_problem
from engine.training.measuring.memory import status_bytes
from engine.training.measuring.returned_memory import memory_given_back

_GIB = 2**30
CAPPED_CPU_NOTE = "Under a memory cap the speed of a CPU run is not representative, so it is left out."


def check_cap(device: DeviceEntry, cap_gib: float | None) -> None:
    """Raises ProblemError where this machine cannot cap that device."""
    can = device.name.startswith("cuda") or (device.name == "cpu" and sys.platform == "linux")
    if cap_gib is not None and not can:
        raise ProblemError(
            request_problem(
                f"memory_cap_gib is {cap_gib:g}, but the memory of {device.title} cannot be capped here.",
                "Leave memory_cap_gib empty, or run on an NVIDIA GPU or on Linux.",
                key="memory_cap_gib",
                value=cap_gib,
            )
        )


@contextmanager
def memory_cap(device: torch.device, cap_gib: float | None) -> Iterator[None]:
    """Caps what the process may allocate, over what it has already, while the context lasts."""
    if cap_gib is None:
        yield
    elif device.type == "cuda":
        # It limits what the caching allocator holds, graphs' own pools included; what the driver and the
        # libraries take beside it (the context, loaded kernels) is not counted.
        total = torch.cuda.get_device_properties(device).total_memory
        before = torch.cuda.get_per_process_memory_fraction(device)
        torch.cuda.set_per_process_memory_fraction(min(before, cap_gib * _GIB / total), device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(before, device)
    else:
        with memory_given_back(), _data_limit(int(cap_gib * _GIB)):
            yield


@contextmanager
def _data_limit(budget_bytes: int) -> Iterator[None]:
    # The module is there on Unix alone, and check_cap() has made sure that this is Linux.
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = (status_bytes("VmData") or 0) + budget_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
