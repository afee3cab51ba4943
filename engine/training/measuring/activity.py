"""Activity of the card's SMs, Tensor Cores and memory, from NVML's GPM (Hopper and newer).

The card counts for itself, also within one kernel, and a step pays nothing for it.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

import pynvml

_METRICS = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: "sm_activity_percent",
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_activity_percent",
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: "memory_activity_percent",
}
_LEAST_SECONDS = 0.1
"""Between two samples; figures of less are imprecise."""


class ActivityReader:
    """Reads activity as means since the reading before, for a card or a MIG slice.

    The constructor raises NVMLError where the card has no GPM or does not allow it.
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
        """Frees the samples."""
        while self._samples:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(self._samples.pop())

    def read(self) -> dict[str, float]:
        """The columns of a `Samples` event that the card tells; if asked too soon, as they were before."""
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
        """Writes a sample over the older of the two."""
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
