"""The GPU's own sensors during a run: utilization, activity, power, temperature, clock, other programs.

NVML needs no CUDA context and does not use streams, so it delays no step and disturbs no capture. A thread
queries it, because some answers take milliseconds.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import or_
from typing import Any

import pynvml
import torch

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.summary import Slowdown


@dataclass(frozen=True)
class Reading:
    """One reading of a GPU's sensors as `Samples` columns, and why its clocks were throttled, if known."""

    values: Mapping[str, float]
    slowdown: Slowdown | None = None

    def columns(self) -> dict[str, float]:
        """Return all values as `Samples` columns."""
        return dict(self.values) | ({} if self.slowdown is None else {"slowdown": float(self.slowdown)})


_NONE = Slowdown(0)
_SLOWDOWNS = {
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: Slowdown.HEAT,
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: Slowdown.HEAT,
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: Slowdown.POWER_SUPPLY,
    pynvml.nvmlClocksEventReasonSwPowerCap: Slowdown.POWER_LIMIT,
}


class NvmlReader:
    """Reads a GPU through NVIDIA's library. The constructor raises NVMLError without it.

    A GPU of another process is given by its UUID. The memory of other programs is then not read.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._device = device
        start_nvml()
        self._handle = nvml_handle(device)
        self._activity: ActivityReader | None = None
        with suppress(pynvml.NVMLError):
            self._activity = ActivityReader(self._handle)

    def close(self) -> None:
        if self._activity is not None:
            self._activity.close()

    def read(self) -> Reading:
        """Query each sensor separately. Unsupported ones are skipped."""
        asked: dict[str, Callable[[], float | None]] = {
            "gpu_utilization_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu,
            "power_watts": lambda: pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3,
            "temperature_celsius": partial(
                pynvml.nvmlDeviceGetTemperature, self._handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            "clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, self._handle, pynvml.NVML_CLOCK_SM),
            USED: partial(_used_mib, self._handle),
        }
        if isinstance(self._device, torch.device):
            asked["other_programs_mib"] = partial(_other_programs_mib, self._handle, self._device)
        answers = {name: _answer(ask) for name, ask in asked.items()}
        return Reading(
            values={name: float(value) for name, value in answers.items() if value is not None}
            | (self._activity.read() if self._activity is not None else {}),
            slowdown=self._slowdown(),
        )

    def _slowdown(self) -> Slowdown | None:
        reasons = _answer(partial(pynvml.nvmlDeviceGetCurrentClocksEventReasons, self._handle))
        if reasons is None:
            return None
        present = (slowdown for bit, slowdown in _SLOWDOWNS.items() if int(reasons) & bit)
        return reduce(or_, present, _NONE)


@cache
def start_nvml() -> None:
    """Load NVIDIA's library once for the process. Raise NVMLError without it."""
    pynvml.nvmlInit()


def other_programs_mib(device: torch.device) -> float | None:
    """Return the memory of other programs on the device. None if the driver does not report it."""
    with suppress(pynvml.NVMLError):
        start_nvml()
        return _other_programs_mib(nvml_handle(device), device)
    return None


def _other_programs_mib(handle: Any, device: torch.device) -> float | None:
    processes = [
        *pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
        *pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
    ]
    reserved = torch.cuda.memory_reserved(device)
    others = other_programs_bytes({user.pid: user.usedGpuMemory for user in processes}, os.getpid(), reserved)
    return None if others is None else others / BYTES_PER_MIB


def _used_mib(handle: Any) -> float:
    try:
        # without what the driver keeps for itself
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    except pynvml.NVMLError:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return int(memory.used) / BYTES_PER_MIB


def other_programs_bytes(used: Mapping[int, int | None], own_pid: int, own_reserved: int) -> int | None:
    """Return the memory of other processes from the bytes that each pid uses. None if unknown.

    It is unknown if the driver lists no process or not the memory of each, because then the GPU's used memory
    also includes this process's context. In a container the driver knows this process by another pid. It is
    assumed to be the one with the least memory above what is reserved here, its share of the driver's
    context.
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


def _answer(ask: Callable[[], float | None]) -> float | None:
    with suppress(pynvml.NVMLError):
        return ask()
    return None


def nvml_handle(device: torch.device | str) -> Any:
    """Return the handle of a device by UUID, because NVML numbers all GPUs and CUDA only the visible ones.

    A device of another process is given by its UUID. Raises NVMLError if there is none.
    """
    uuid = device if isinstance(device, str) else str(torch.cuda.get_device_properties(device).uuid)
    uuid = uuid.removeprefix("GPU-")
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        # a MIG slice of a GPU is a device too, under another name
        return pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")


PERIOD_SECONDS = 0.2
_HIGHEST = ("temperature_celsius", "other_programs_mib")
USED = "device_used_mib"
"""The column of the memory in use by all programs, which no `Summary` has."""


class SensorGauge:
    """The base class of the gauges of GPU sensors, and the gauge for a device without sensors."""

    def sample(self) -> dict[str, float]:
        """Return the GPU's columns of a `Samples` event, as last read. Unsupported ones are absent."""
        return {}

    def count(self, is_on: bool) -> None:
        """Set whether the following time belongs to the measurement."""

    def figures(self) -> dict[str, float]:
        """Return the known fields of a `Summary` for the measured time: means, or maxima for `_HIGHEST`."""
        return {}

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """Return the reasons for throttled clocks in the measured time, such as "heat"."""
        return ()

    def close(self) -> None:
        """Stop reading. The values so far stay available."""


def sensor_gauge(device: torch.device | str) -> SensorGauge:
    """Return a gauge that already reads the device: by NVML, or else only the memory in use on a GPU.

    A GPU of another process is given by its UUID, and read by NVML only.
    """
    if isinstance(device, str) or device.type == "cuda":
        with suppress(pynvml.NVMLError):
            reader = NvmlReader(device)
            return ThreadedGauge(reader.read, on_close=reader.close)
    if isinstance(device, torch.device) and device.type in ("cuda", "xpu"):
        return ThreadedGauge(partial(_memory_in_use, device))
    return SensorGauge()


def _memory_in_use(device: torch.device) -> Reading:
    # in the gauge's thread too: some drivers take 8 ms
    free, total = torch.get_device_module(device).mem_get_info(device)
    return Reading({USED: (total - free) / BYTES_PER_MIB})


class ThreadedGauge(SensorGauge):
    """Reads sensors by calling `read` every `period_seconds` in its own thread, until it is closed."""

    def __init__(
        self,
        read: Callable[[], Reading],
        period_seconds: float = PERIOD_SECONDS,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._read = read
        self._period_seconds = period_seconds
        self._on_close = on_close
        self._lock = threading.Lock()
        self._last: Mapping[str, float] = {}
        self._measured: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0, -math.inf])
        self._slowdown = _NONE
        self._counts = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="gpu", daemon=True)
        self._thread.start()

    def sample(self) -> dict[str, float]:
        with self._lock:
            return dict(self._last)

    def count(self, is_on: bool) -> None:
        with self._lock:
            self._counts = is_on

    def figures(self) -> dict[str, float]:
        with self._lock:
            return {
                name: highest if name in _HIGHEST else total / count
                for name, (total, count, highest) in self._measured.items()
            }

    @property
    def slowed_by(self) -> tuple[str, ...]:
        return self._slowdown.disturbances.words

    def close(self) -> None:
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self._on_close()

    def _ask(self) -> None:
        while not self._closing.is_set():
            reading = self._read()
            with self._lock:
                self._last = reading.columns()
                if self._counts:
                    self._slowdown |= reading.slowdown or _NONE
                    for name in reading.values.keys() - {USED}:
                        value = reading.values[name]
                        total, count, highest = self._measured[name]
                        self._measured[name] = [total + value, count + 1, max(highest, value)]
            self._closing.wait(self._period_seconds)


_METRICS = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: "sm_activity_percent",
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_activity_percent",
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: "memory_activity_percent",
}
_LEAST_SECONDS = 0.1


class ActivityReader:
    """Reads a GPU's or MIG instance's activity (SMs, Tensor Cores, memory), averaged since the last reading.

    The constructor raises NVMLError if the GPU does not support GPM, NVML's performance monitoring.
    """

    def __init__(self, handle: Any) -> None:
        self._device, self._instance = handle, None
        if pynvml.nvmlDeviceIsMigDeviceHandle(handle).value:
            self._device = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            self._instance = pynvml.nvmlDeviceGetGpuInstanceId(handle)
        if not pynvml.nvmlGpmQueryDeviceSupport(self._device).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._samples: list[Any] = []
        self._taken = 0.0
        self._last: dict[str, float] = {}
        try:
            self._samples += [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
            self._take()
        except pynvml.NVMLError:
            self.close()
            raise

    def close(self) -> None:
        """Free the samples."""
        while self._samples:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(self._samples.pop())

    def read(self) -> dict[str, float]:
        """Return the supported columns of a `Samples` event, or the previous ones if called too soon."""
        if time.monotonic() - self._taken < _LEAST_SECONDS:
            return self._last
        self._samples.reverse()
        try:
            self._take()
            self._last = self._between()
        except pynvml.NVMLError:
            self._last = {}
        return self._last

    def _take(self) -> None:
        # over the older of the two
        self._taken = time.monotonic()
        if self._instance is None:
            pynvml.nvmlGpmSampleGet(self._device, self._samples[1])
        else:
            pynvml.nvmlGpmMigSampleGet(self._device, self._instance, self._samples[1])

    def _between(self) -> dict[str, float]:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = self._samples
        for place, metric in enumerate(_METRICS):
            asked.metrics[place].metricId = metric
        pynvml.nvmlGpmMetricsGet(asked)
        answers = zip(_METRICS.values(), asked.metrics, strict=False)
        return {
            name: float(answer.value)
            for name, answer in answers
            if answer.nvmlReturn == pynvml.NVML_SUCCESS and math.isfinite(answer.value)
        }
