"""The GPU's energy counter beside the integral of its power sensor."""

from __future__ import annotations

import threading
import time

import numpy as np
import torch

from day.work import Work
from engine.training.measuring.instruments import EnergyMeter, energy_counter
from engine.training.measuring.sensors import NvmlReader

_PERIOD_SECONDS = 0.1


class _PowerSampler(threading.Thread):
    """Samples the power in watts ten times a second until it is stopped."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._reader, self._stopped = NvmlReader(device), threading.Event()
        self.points: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._stopped.wait(_PERIOD_SECONDS):
            self.points.append((time.perf_counter(), self._reader.read().values["power_watts"]))

    def mean_watts(self) -> float:
        """Stop; return the integral by trapezoids, divided by its time."""
        self._stopped.set()
        self.join()
        seconds, watts = np.array(self.points).T
        return float(np.trapezoid(watts, seconds) / (seconds[-1] - seconds[0]))


def energy(work: Work) -> None:
    """Count the energy of matmuls and integrate the power. A rehearsal has no sensor and reports nothing."""
    device, size, seconds = torch.device(work.device), work.small(8_192, 64), work.small(30.0, 0.1)
    counter = energy_counter(device)
    _multiply(device, size, seconds / 10)
    if counter is None or work.is_rehearsal:
        print("nothing to measure: no energy counter")
        return
    meter, sampler = EnergyMeter(counter), _PowerSampler(device)
    meter.count(True)
    sampler.start()
    _multiply(device, size, seconds)
    integral = sampler.mean_watts() * seconds
    found = meter.over(1, 1, seconds)
    meter.close()
    if found is None:
        print("The stretch was too short for the counter.")
        return
    words = f"({found.joules:,.0f} J and {integral:,.0f} J, {len(sampler.points)} samples of the power)"
    work.report("energy", 100 * abs(found.joules / integral - 1), words)


def _multiply(device: torch.device, size: int, seconds: float) -> None:
    first, second = (torch.randn(size, size, device=device) for _ in range(2))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(10):
            torch.mm(first, second)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
