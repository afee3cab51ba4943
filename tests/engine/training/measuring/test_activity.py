"""Activity as NVML's GPM gives it, with functions of ours in the driver's place."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_uint
from typing import Any

import pynvml
import pytest

from engine.training.measuring import card
from engine.training.measuring.card import ActivityReader


class Driver:
    """A card, or a slice of it, whose samples are numbers in the order taken."""

    def __init__(self, *, is_slice: bool = False, is_supported: bool = True) -> None:
        self.taken: list[tuple[object, ...]] = []
        self.freed = 0
        self.failing: int | None = None
        self._is_slice, self._is_supported = is_slice, is_supported

    def functions(self) -> dict[str, Callable[..., Any]]:
        support = pynvml.c_nvmlGpmSupport_t(isSupportedDevice=self._is_supported)
        return {
            "nvmlDeviceIsMigDeviceHandle": lambda handle: c_uint(self._is_slice),
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "card",
            "nvmlDeviceGetGpuInstanceId": lambda handle: 3,
            "nvmlGpmQueryDeviceSupport": lambda device: support,
            "nvmlGpmSampleAlloc": pynvml.c_nvmlGpmSample_t,
            "nvmlGpmSampleGet": lambda *asked: self.taken.append(asked[:-1]),
            "nvmlGpmMigSampleGet": lambda *asked: self.taken.append(asked[:-1]),
            "nvmlGpmMetricsGet": self._answer,
            "nvmlGpmSampleFree": self._free,
        }

    def _answer(self, asked: Any) -> None:
        assert asked.version == 1
        for place in range(asked.numMetrics):
            metric = asked.metrics[place]
            metric.value = 10.0 * metric.metricId
            metric.nvmlReturn = pynvml.NVML_ERROR_UNKNOWN if metric.metricId == self.failing else 0

    def _free(self, sample: object) -> None:
        self.freed += 1


def reader_of(driver: Driver, monkeypatch: pytest.MonkeyPatch, least_seconds: float = 0.0) -> ActivityReader:
    for name, function in driver.functions().items():
        monkeypatch.setattr(pynvml, name, function)
    monkeypatch.setattr(card, "_LEAST_SECONDS", least_seconds)
    return ActivityReader("handle")


def test_the_card_tells_what_it_can_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    reader = reader_of(driver, monkeypatch)
    assert reader.read() == {
        "sm_activity_percent": 20.0,
        "tensor_activity_percent": 50.0,
        "memory_activity_percent": 100.0,
    }
    driver.failing = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
    assert set(reader.read()) == {"sm_activity_percent", "memory_activity_percent"}
    assert driver.taken == [("handle",)] * 3
    reader.close()
    assert driver.freed == 2


def test_a_slice_is_asked_through_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(is_slice=True)
    reader_of(driver, monkeypatch).read()
    assert driver.taken == [("card", 3)] * 2


def test_two_samples_that_are_too_close_tell_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader_of(Driver(), monkeypatch, least_seconds=1e9).read() == {}


def test_an_older_card_has_no_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pynvml.NVMLError):
        reader_of(Driver(is_supported=False), monkeypatch)
