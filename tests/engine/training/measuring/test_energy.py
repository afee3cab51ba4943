"""Counters of energy: RAPL's files as a kernel shows them, and a meter on a counter of constant power."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.training.measuring.instruments import Counter, EnergyMeter, rapl_counter
from engine.training.runs import prepare

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
