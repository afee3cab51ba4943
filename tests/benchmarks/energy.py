"""The energy that `EnergyMeter` counts over the integral of the power sampled ten times a second meanwhile.

    uv run python tests/benchmarks/energy.py [--device cuda:0] [--seconds 30] [--size 8192]

The load is products of square matrices. A graphics card has a sensor of power beside its counter of energy; a
processor has only RAPL's counter, whose readings are then summed package by package. Without either there is
nothing to measure, and it says so. The aim is a ratio within 5% of 1.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np
import torch

from engine.training.measuring.energy import POWERCAP, EnergyMeter, energy_counter
from engine.training.measuring.sensors import NvmlReader

AIM = 0.05
_PERIOD_SECONDS = 0.1


class Sampler(threading.Thread):
    """Samples the power in watts ten times a second until it is stopped."""

    def __init__(self, read: Callable[[], float]) -> None:
        super().__init__()
        self._read, self._stopped = read, threading.Event()
        self.points: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._stopped.wait(_PERIOD_SECONDS):
            self.points.append((time.perf_counter(), self._read()))

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def mean_watts(self) -> float:
        """The integral by trapezoids over its time."""
        seconds, watts = np.array(self.points).T
        return float(np.trapezoid(watts, seconds) / (seconds[-1] - seconds[0]))


def sensor(device: torch.device) -> Callable[[], float]:
    """Reads the power: of the card's sensor, or of RAPL between two readings."""
    if device.type == "cuda":
        reader = NvmlReader(device)
        return lambda: reader.read().values["power_watts"]
    packages = [zone / "energy_uj" for zone in POWERCAP.glob("intel-rapl:?")]
    packages = [path for path in packages if (path.parent / "name").read_text().startswith("package")]
    last = [time.perf_counter(), *(int(path.read_text()) for path in packages)]

    def watts() -> float:
        now = [time.perf_counter(), *(int(path.read_text()) for path in packages)]
        seconds, *joules = (after - before for after, before in zip(now, last, strict=True))
        last[:] = now
        # a counter that has just started again tells nothing of this tenth of a second
        return sum(max(0.0, part) for part in joules) / 1e6 / seconds

    return watts


def work(device: torch.device, size: int, seconds: float) -> None:
    """Multiplies for so many seconds."""
    first, second = (torch.randn(size, size, device=device) for _ in range(2))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(10):
            torch.mm(first, second)
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def measured(device: torch.device, size: int, seconds: float) -> tuple[float, float] | None:
    """The joules counted while it works, and its power's integral; None where nothing can be measured."""
    counter = energy_counter(device)
    if counter is None:
        print("It has neither NVML's counter of energy nor RAPL's that may be read: nothing to measure.")
        return None
    meter, sampler = EnergyMeter(counter), Sampler(sensor(device))
    work(device, size, seconds / 10)
    meter.count(True)
    sampler.start()
    work(device, size, seconds)
    sampler.stop()
    energy = meter.over(1, 1, seconds)
    meter.close()
    if energy is None:
        print("The stretch was too short for the counter.")
        return None
    idle = "unknown" if energy.idle_watts is None else f"{energy.idle_watts:.1f} W"
    print(f"source {energy.source}, {len(sampler.points)} samples, idle {idle}")
    return energy.joules, sampler.mean_watts() * seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--size", type=int)
    options = parser.parse_args()
    device = torch.device(options.device)
    print(f"energy of {device} over {options.seconds:g} s")
    size = options.size or (8192 if device.type == "cuda" else 1024)
    found = measured(device, size, options.seconds)
    if found is not None:
        counted, integral = found
        ratio = counted / integral
        verdict = "within" if abs(ratio - 1) <= AIM else "not within"
        print(f"counter {counted:,.1f} J, integral of power {integral:,.1f} J")
        print(f"ratio {ratio:.4f}: {verdict} {AIM:.0%} of 1")


if __name__ == "__main__":
    main()
