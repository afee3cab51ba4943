"""The GPU's readings and counters of energy, with a reader, a driver or a clock of ours."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator
from ctypes import c_uint
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pynvml
import pytest
import torch

from engine.protocol.summary import Slowdown
from engine.training.measuring import instruments, sensors
from engine.training.measuring.instruments import (
    Counter,
    EnergyMeter,
    Instruments,
    energy_meters,
    rapl_counter,
)
from engine.training.measuring.memory import MemoryMeter
from engine.training.measuring.sensors import (
    ActivityReader,
    NvmlReader,
    Reading,
    SensorGauge,
    ThreadedGauge,
    other_programs_bytes,
    sensor_gauge,
)
from engine.training.runs import prepare


class Script:
    """Gives the readings it is told to, one at a time."""

    def __init__(self) -> None:
        self._readings: queue.Queue[Reading] = queue.Queue()
        self._asked = threading.Semaphore(0)
        self.closed = 0

    def read(self) -> Reading:
        self._asked.release()
        return self._readings.get()

    def close(self) -> None:
        self.closed += 1

    def tell(self, slowdown: Slowdown | None = None, **values: float) -> None:
        """Returns once the reading was taken in, which the next question shows."""
        self._readings.put(Reading(values, slowdown))
        assert self._asked.acquire(timeout=30)

    def await_first(self) -> None:
        assert self._asked.acquire(timeout=30)

    def let_go(self) -> None:
        self._readings.put(Reading({}))


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def gauge(script: Script) -> Iterator[ThreadedGauge]:
    made = ThreadedGauge(script.read, period_seconds=0.0, on_close=script.close)
    script.await_first()
    yield made
    script.let_go()
    made.close()


def test_only_the_measured_time_counts(gauge: ThreadedGauge, script: Script) -> None:
    script.tell(power_watts=500.0, temperature_celsius=90.0)
    assert gauge.figures() == {}
    gauge.count(True)
    script.tell(power_watts=100.0, gpu_utilization_percent=50.0, temperature_celsius=60.0)
    script.tell(
        power_watts=200.0,
        gpu_utilization_percent=100.0,
        tensor_activity_percent=40.0,
        temperature_celsius=55.0,
    )
    script.tell(power_watts=300.0, temperature_celsius=58.0, other_programs_mib=12.0, device_used_mib=2_048.0)
    assert gauge.sample()["device_used_mib"] == 2_048.0  # which is in no summary
    gauge.count(False)
    script.tell(Slowdown.HEAT, power_watts=900.0, temperature_celsius=95.0)
    assert gauge.figures() == {
        "gpu_utilization_percent": 75.0,
        "tensor_activity_percent": 40.0,
        "power_watts": 200.0,
        "temperature_celsius": 60.0,
        "other_programs_mib": 12.0,
    }


def test_it_says_what_held_the_clocks_down(gauge: ThreadedGauge, script: Script) -> None:
    gauge.count(True)
    script.tell(Slowdown.POWER_SUPPLY, clock_mhz=1_000.0)
    script.tell(Slowdown.HEAT | Slowdown.POWER_LIMIT, clock_mhz=2_000.0)
    assert gauge.sample() == {"clock_mhz": 2_000.0, "slowdown": 5.0}
    # a busy card works at its own power limit
    assert gauge.figures() == {"clock_mhz": 1_500.0}
    assert gauge.slowed_by == ("heat", "the power supply")


def test_closing_ends_the_thread_once_and_keeps_what_was_heard(script: Script) -> None:
    gauge = ThreadedGauge(script.read, period_seconds=0.0, on_close=script.close)
    gauge.count(True)
    script.await_first()
    script.tell(power_watts=100.0)
    script.let_go()
    gauge.close()
    gauge.close()
    assert script.closed == 1 and not any(thread.name == "gpu" for thread in threading.enumerate())
    assert gauge.figures() == {"power_watts": 100.0}


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_without_nvml_the_driver_is_asked_for_the_memory_in_use_in_the_gauges_thread(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_in: queue.Queue[str] = queue.Queue()

    def mem_get_info(device: torch.device) -> tuple[int, int]:
        asked_in.put(threading.current_thread().name)
        return 2**30, 3 * 2**30

    monkeypatch.setattr(sensors, "start_nvml", Mock(side_effect=pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)))
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace(mem_get_info=mem_get_info))
    gauge = sensor_gauge(torch.device(kind, 0))
    assert asked_in.get(timeout=30) == "gpu"
    gauge.close()
    assert gauge.sample() == {"device_used_mib": 2_048.0}


@pytest.mark.parametrize(
    ("used", "others"),
    [
        ({7: 900}, 0),
        ({7: 900, 8: 50, 9: 30}, 80),
        # a container's own number is not the driver's: 21 holds the least over what is reserved here
        ({20: 5_000, 21: 900, 22: 10}, 5_010),
        ({20: 10}, None),
        ({}, None),
        ({7: None}, None),
        ({7: 900, 8: None}, None),
    ],
)
def test_other_programs_are_all_but_this_one(used: dict[int, int | None], others: int | None) -> None:
    assert other_programs_bytes(used, own_pid=7, own_reserved=600) == others


@dataclass
class Process:
    pid: int
    usedGpuMemory: int | None  # noqa: N815 - as the driver has it


@pytest.mark.parametrize(
    ("listed", "others_mib"),
    [((), None), ((Process(3, None),), None), ((Process(os.getpid(), 900 * 2**20),), 0.0)],
    ids=["none", "without sizes", "this one"],
)
def test_a_driver_that_does_not_tell_of_processes_knows_of_no_other_programs(listed, others_mib, monkeypatch):
    def of_memory(card: object, version: int | None = None) -> Any:
        # as a driver does that knows only the older form
        if version is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return pynvml.c_nvmlMemory_t(total=2**34, free=2**33, used=2**33)

    answers = {
        "nvmlDeviceGetMemoryInfo": of_memory,
        "nvmlDeviceGetComputeRunningProcesses": lambda card: list(listed),
        "nvmlDeviceGetGraphicsRunningProcesses": lambda card: [],
        "nvmlDeviceGetPowerUsage": lambda card: 250_000,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(sensors, "start_nvml", lambda: None)
    monkeypatch.setattr(sensors, "nvml_handle", lambda device: None)
    values = NvmlReader(torch.device("cuda:0")).read().values
    # what was not to be had of this driver is left out, and nothing stands for it
    assert values.get("other_programs_mib") == others_mib and values["power_watts"] == 250.0
    assert values["device_used_mib"] == 2**13
    assert sensors.other_programs_mib(torch.device("cuda:0")) == others_mib


def test_the_gpu_of_another_process_is_found_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ["GPU-a-1", "GPU-b-2"]

    def by_uuid(uuid: str) -> int:
        if uuid not in gpus:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return gpus.index(uuid)

    joules = itertools.count(step=100)

    def energy(gpu: int) -> int:
        if gpu == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return next(joules)

    answers = {
        "nvmlDeviceGetCount": lambda: len(gpus),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda gpu: gpus[gpu],
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetPowerUsage": lambda gpu: 1e5 * (gpu + 1),
        "nvmlDeviceGetTotalEnergyConsumption": energy,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    for module in (sensors, instruments):
        monkeypatch.setattr(module, "start_nvml", lambda: None)
    monkeypatch.setattr(instruments, "POWERCAP", Path("/no/such/folder"))
    values = NvmlReader("b-2").read().values
    assert values == {"power_watts": 200.0}
    assert type(sensor_gauge("c-3")) is type(sensor_gauge("")) is SensorGauge
    meters = energy_meters()
    # one that cannot count has none, as a GPU before Volta
    meters["b-2"].count(True)
    found = {name: meter.over(1, 1, 1.0) for name, meter in meters.items()}
    for meter in meters.values():
        meter.close()
    assert set(found) == {"cpu", "b-2"} and found["cpu"] is None
    assert found["b-2"] is None or found["b-2"].source == "nvml"


@pytest.mark.parametrize(("share", "note"), [(0.1, None), (0.5, "other programs used 50% of the CPU")])
def test_only_a_large_share_of_other_programs_is_worth_a_note(share: float, note: str | None) -> None:
    instruments = Instruments(torch.device("cpu"), MemoryMeter(), SensorGauge(), EnergyMeter(None))
    instruments._others = SimpleNamespace(share=lambda: share)  # type: ignore[assignment]
    assert (instruments.disturbance() or "").startswith(note or "")
    assert (instruments.disturbance() is None) == (note is None)


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
    monkeypatch.setattr(sensors, "_LEAST_SECONDS", least_seconds)
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


WATTS = 250.0


def zone(folder: Path, name: str, title: str, joules: float, range_joules: float = 1_000.0) -> Path:
    made = folder / name
    made.mkdir(exist_ok=True)
    (made / "name").write_text(f"{title}\n")
    (made / "energy_uj").write_text(f"{round(joules * 1e6)}\n")
    (made / "max_energy_range_uj").write_text(f"{round(range_joules * 1e6)}\n")
    return made / "energy_uj"


def test_rapl_counts_every_package_once_and_goes_on_where_a_package_starts_again(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", 990.0)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 5.0)
    others = [
        zone(tmp_path, name, title, 0.0)
        for name, title in [
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:2", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ]
    ]
    counter = rapl_counter(tmp_path)
    assert counter.read() == 0.0
    first.write_text("15000000")  # 10 J to its end, and 15 J more
    second.write_text("7000000")
    for part in others:
        part.write_text("500000000")
    assert counter.read() == pytest.approx(27.0)
    first.write_text("16000000")
    assert counter.read() == pytest.approx(28.0)


def test_without_a_package_that_may_be_read_there_is_no_counter(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        rapl_counter(tmp_path / "none")
    with pytest.raises(OSError):
        rapl_counter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 1.0)
    # stands for a file that only root may read, also where the tests are root
    zone(tmp_path, "intel-rapl:1", "package-1", 1.0).unlink()
    with pytest.raises(OSError):
        rapl_counter(tmp_path)


class Machine:
    """A counter and a clock, which goes on with every reading; without power the counter is gone."""

    def __init__(self) -> None:
        self.watts = WATTS
        self.seconds = 0.0
        self._joules = 0.0

    def read(self) -> float:
        if not self.watts:
            raise OSError("no such device")
        self.seconds += 0.125
        self._joules += 0.125 * self.watts
        return self._joules

    def meter(self, least_seconds: float = 0.0) -> EnergyMeter:
        counter = Counter("rapl", self.read)
        return EnergyMeter(counter, 0.0, least_seconds, clock=lambda: self.seconds)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_energy_is_the_mean_power_over_the_measured_seconds(machine: Machine) -> None:
    machine.watts = 60.0
    meter = machine.meter()
    machine.watts = WATTS
    assert meter.over(steps=10, samples=320, seconds=2.0) is None  # nothing counts yet
    meter.count(True)
    energy = meter.over(steps=10, samples=320, seconds=2.0)
    meter.close()
    assert energy is not None and energy.source == "rapl" and energy.idle_watts == 60.0
    assert (energy.joules, energy.per_step()) == (2 * WATTS, WATTS / 5)
    # the energy so far stays available
    assert meter.over(steps=10, samples=320, seconds=2.0) == energy


def test_what_is_not_measured_does_not_count(machine: Machine) -> None:
    meter = machine.meter()
    meter.count(True)
    assert meter.over(1, 1, 1.0) is not None
    meter.count(False)
    before = meter.over(1, 1, 1.0)
    machine.watts = 10_000.0  # a validation
    for _ in range(100):
        machine.read()
    assert meter.over(1, 1, 1.0) == before
    machine.watts = WATTS
    meter.count(True)
    after = meter.over(1, 1, 1.0)
    meter.close()
    assert before is not None and before == after and before.joules == WATTS


def test_a_stretch_too_short_for_the_counter_tells_nothing(machine: Machine) -> None:
    meter = machine.meter(least_seconds=100.0)
    meter.count(True)
    assert meter.over(1, 1, 0.01) is None
    meter.close()


def test_a_counter_that_is_gone_ends_the_stretch(machine: Machine) -> None:
    meter = machine.meter()
    meter.count(True)
    before = meter.over(1, 1, 1.0)
    machine.watts = 0.0
    assert before is not None and meter.over(1, 1, 1.0) == before
    meter.close()


def test_a_run_has_the_energy_of_its_measured_steps(machine, pictures, monkeypatch):
    monkeypatch.setattr(prepare, "energy_meter", lambda device: machine.meter())
    # 2 steps warm up, and every second step ends an epoch, which is validated
    energy = pictures(steps=10).summary.energy
    assert energy is not None and (energy.steps, energy.samples) == (8, 128)
    assert energy.mean_watts == pytest.approx(WATTS)
    assert not any(thread.name == "energy" for thread in threading.enumerate())
