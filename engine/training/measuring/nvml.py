"""One look at an NVIDIA card: utilisation, power, temperature, clock, and what other programs hold.

NVML needs no CUDA context and knows nothing of streams, so no step waits for it, and a graph that is being
captured is not disturbed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pynvml
import torch

_MIB = 2**20


@dataclass(frozen=True)
class Reading:
    """What the card said at one moment: `Samples` columns, and in plain words what holds its clocks down."""

    values: Mapping[str, float]
    slowed_by: frozenset[str] = frozenset()


# Its own power limit is not among them: a busy card works at it, and that is no disturbance.
_SLOWDOWNS = {
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "heat",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "the power supply",
}


class NvmlReader:
    """Reads one card through NVIDIA's library. Raises NVMLError when made where there is none."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        pynvml.nvmlInit()
        try:
            self._handle = _handle_of(device)
        except pynvml.NVMLError:
            pynvml.nvmlShutdown()
            raise

    def close(self) -> None:
        # a driver that has gone has nothing left to be shut down
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def read(self) -> Reading:
        """Each quantity is asked apart: a card that does not support one still tells the others."""
        asked: dict[str, Callable[[], float | None]] = {
            "gpu_utilization_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu,
            "power_watts": lambda: pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3,
            "temperature_celsius": partial(
                pynvml.nvmlDeviceGetTemperature, self._handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            "clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, self._handle, pynvml.NVML_CLOCK_SM),
            "other_programs_mib": self._other_programs_mib,
        }
        told = {name: _told(ask) for name, ask in asked.items()}
        return Reading(
            values={name: float(value) for name, value in told.items() if value is not None},
            slowed_by=self._slowed_by(),
        )

    def _slowed_by(self) -> frozenset[str]:
        reasons = _told(partial(pynvml.nvmlDeviceGetCurrentClocksEventReasons, self._handle)) or 0
        return frozenset(words for bit, words in _SLOWDOWNS.items() if int(reasons) & bit)

    def _other_programs_mib(self) -> float | None:
        processes = [
            *pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle),
            *pynvml.nvmlDeviceGetGraphicsRunningProcesses(self._handle),
        ]
        reserved = torch.cuda.memory_reserved(self._device)
        others = others_bytes({each.pid: each.usedGpuMemory for each in processes}, os.getpid(), reserved)
        return None if others is None else others / _MIB


def others_bytes(used: Mapping[int, int | None], own_pid: int, own_reserved: int) -> int | None:
    """What processes other than this one hold, of the bytes that each pid uses; None where that is unknown.

    A driver that lists no process, or not what each uses, says nothing of others: this one is there, and what
    the card has in use beside its reserved memory is its own context too.
    In a container the driver knows this process by another number: it is then the one that holds the least
    over what is reserved here, its share of the driver's own context.
    """
    known = {pid: size for pid, size in used.items() if size is not None}
    if len(known) < len(used):
        return None
    if own_pid not in known:
        candidates = [pid for pid, size in known.items() if size >= own_reserved]
        if not candidates:
            return None
        own_pid = min(candidates, key=lambda pid: known[pid])
    return sum(size for pid, size in known.items() if pid != own_pid)


def _told(ask: Callable[[], float | None]) -> float | None:
    with suppress(pynvml.NVMLError):
        return ask()
    return None


def _handle_of(device: torch.device) -> Any:
    """By the UUID: NVML counts all cards of the machine, CUDA only those that it was shown."""
    uuid = str(torch.cuda.get_device_properties(device).uuid).removeprefix("GPU-")
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        # a part of a card is a device too, under another name
        return pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
