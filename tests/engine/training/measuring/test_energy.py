"""Counters of energy: RAPL's files as a kernel shows them, and a meter on a counter of constant power."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.training.measuring.energy import Counter, EnergyMeter, rapl_counter

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


def constant(watts: float = WATTS) -> Counter:
    return Counter("rapl", lambda: watts * time.perf_counter())


@pytest.fixture
def meter() -> Iterator[EnergyMeter]:
    made = EnergyMeter(constant(), idle_seconds=0.01, least_seconds=0.0)
    yield made
    made.close()


def test_energy_is_the_mean_power_over_the_measured_seconds(meter: EnergyMeter) -> None:
    assert meter.over(steps=10, samples=320, seconds=2.0) is None  # nothing counts yet
    meter.count(True)
    energy = meter.over(steps=10, samples=320, seconds=2.0)
    assert energy is not None and energy.source == "rapl"
    assert energy.joules == pytest.approx(2 * WATTS, rel=0.02)
    assert energy.per_step() == pytest.approx(energy.joules / 10)
    assert energy.idle_watts == pytest.approx(WATTS, rel=0.05)


class Script:
    """Power that changes at once."""

    def __init__(self) -> None:
        self._joules, self._at, self._watts = 0.0, time.perf_counter(), 0.0

    @property
    def watts(self) -> float:
        return self._watts

    @watts.setter
    def watts(self, watts: float) -> None:
        self.read()
        self._watts = watts

    def read(self) -> float:
        now = time.perf_counter()
        self._joules += self._watts * (now - self._at)
        self._at = now
        return self._joules


def test_what_is_not_measured_does_not_count() -> None:
    readings = Script()
    meter = EnergyMeter(Counter("nvml", readings.read), idle_seconds=0.0, least_seconds=0.0)
    readings.watts = 100.0
    meter.count(True)
    assert meter.over(1, 1, 1.0) is not None
    meter.count(False)
    before = meter.over(1, 1, 1.0)
    readings.watts = 10_000.0  # a validation
    assert meter.over(1, 1, 1.0) == before
    readings.watts = 100.0
    meter.count(True)
    after = meter.over(1, 1, 1.0)
    meter.close()
    assert after is not None and after.joules == pytest.approx(100.0, rel=0.05)
    # the energy so far stays available
    assert meter.over(1, 1, 1.0) is not None


def test_a_stretch_too_short_for_the_counter_tells_nothing() -> None:
    meter = EnergyMeter(constant(), idle_seconds=0.0)
    meter.count(True)
    assert meter.over(1, 1, 0.01) is None
    meter.close()


def test_a_counter_that_is_gone_ends_the_stretch() -> None:
    readings = Script()

    def read() -> float:
        if readings.watts == 0:
            raise OSError("no such device")
        return readings.read()

    meter = EnergyMeter(Counter("rapl", read), idle_seconds=0.0, least_seconds=0.0)
    meter.count(True)
    assert meter.over(1, 1, 1.0) is None
    meter.close()


def test_without_a_counter_a_meter_tells_nothing() -> None:
    meter = EnergyMeter(None)
    meter.count(True)
    assert meter.over(1, 1, 1.0) is None
    meter.close()
