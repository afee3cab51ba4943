"""Energy over the measured steps, from the device's own counter: NVML for a GPU, RAPL for a CPU.

Counters are updated 10 to 1,000 times per second, so a thread measures between updates and delays no step.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pynvml
import torch

from engine.protocol.summary import Energy
from engine.training.measuring.sensors import nvml_handle, start_nvml

POWERCAP = Path("/sys/class/powercap")

_IDLE_SECONDS = {"nvml": 0.3, "rapl": 0.2}  # every run waits for it: a few updates of the counter, no more
_LEAST_SECONDS = 0.5  # a shorter stretch says more of the counter's updates than of the work
_LONGEST_UPDATE_SECONDS = 0.2
_LOOK_SECONDS = 0.002
_REFRESH_SECONDS = 30.0  # RAPL's counter starts again after some minutes at full power: it is read in time


@dataclass(frozen=True)
class Counter:
    """An energy counter. `read` returns joules since an arbitrary start. Raises OSError or NVMLError."""

    source: Literal["nvml", "rapl"]
    read: Callable[[], float]


def energy_counter(device: torch.device) -> Counter | None:
    """Return the device's counter. None if it has none, or it cannot be read."""
    with suppress(pynvml.NVMLError, OSError, ValueError):
        if device.type == "cuda":
            return _nvml_counter(device)
        if device.type == "cpu":
            return rapl_counter()
    return None


def _nvml_counter(device: torch.device) -> Counter:
    # of the whole GPU; none for a MIG slice, nor before Volta
    start_nvml()
    handle = nvml_handle(device)
    pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    return Counter("nvml", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)


def rapl_counter(folder: Path = POWERCAP) -> Counter:
    """Return RAPL's counter of all CPU packages (Intel, AMD). Raises OSError or ValueError without it."""
    # a zone intel-rapl-mmio counts a package again, and one of another name a part of it or the whole board
    zones = folder.glob("intel-rapl:*")
    packages = [_Package(zone) for zone in zones if (zone / "name").read_text().startswith("package")]
    if not packages:
        raise FileNotFoundError(folder)
    return Counter("rapl", lambda: sum(package.joules() for package in packages))


class _Package:
    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._range = int((zone / "max_energy_range_uj").read_text())
        self._last, self._sum = self._read(), 0

    def joules(self) -> float:
        now = self._read()
        self._sum += now - self._last if now >= self._last else now + self._range - self._last
        self._last = now
        return self._sum / 1e6

    def _read(self) -> int:
        return int(self._file.read_text())


@dataclass(frozen=True)
class _Point:
    joules: float
    seconds: float

    def __sub__(self, other: _Point) -> _Point:
        return _Point(self.joules - other.joules, self.seconds - other.seconds)

    def __add__(self, other: _Point) -> _Point:
        return _Point(self.joules + other.joules, self.seconds + other.seconds)

    @property
    def watts(self) -> float | None:
        """None if the counter began anew, as with a new driver."""
        return self.joules / self.seconds if self.joules >= 0 and self.seconds > 0 else None


_Command = Literal["on", "off", "refresh", "close"]


class EnergyMeter:
    """Measures the mean power of a run, and from it the energy per step. Without a counter it does nothing.

    Create it before the model is on the device, because it first measures the idle power.
    """

    def __init__(
        self,
        counter: Counter | None,
        idle_seconds: float | None = None,
        least_seconds: float = _LEAST_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._counter = counter
        self._clock = clock
        self._least_seconds = least_seconds
        self._total = _Point(0.0, 0.0)
        self._idle_watts = self._idle(idle_seconds)
        self._commands: queue.Queue[_Command] = queue.Queue()
        self._thread = threading.Thread(target=self._follow, name="energy", daemon=True)
        if counter is not None:
            self._thread.start()

    def count(self, is_on: bool) -> None:
        """Set whether the following time belongs to the measurement."""
        if self._thread.is_alive():
            self._commands.put("on" if is_on else "off")

    def over(self, steps: int, samples: int, seconds: float) -> Energy | None:
        """Return the energy of steps that took `seconds`, None if that is too short. Waits some ms."""
        if self._thread.is_alive():
            self._commands.put("refresh")
            self._commands.join()
        watts = self._total.watts
        if self._counter is None or watts is None or not steps or not samples:
            return None
        return Energy(
            source=self._counter.source,
            joules=watts * seconds,
            seconds=seconds,
            steps=steps,
            samples=samples,
            idle_watts=self._idle_watts,
        )

    def close(self) -> None:
        """Stop counting. The energy so far stays available."""
        if self._thread.is_alive():
            self._commands.put("close")
            self._thread.join()

    def _idle(self, seconds: float | None) -> float | None:
        begin = self._point()
        if self._counter is None or begin is None:
            return None
        time.sleep(_IDLE_SECONDS[self._counter.source] if seconds is None else seconds)
        end = self._point()
        return None if end is None else (end - begin).watts

    def _follow(self) -> None:
        ended, begin = self._total, None
        command: _Command = "off"
        while command != "close":
            try:
                command, is_answered = self._commands.get(timeout=_REFRESH_SECONDS), True
            except queue.Empty:
                command, is_answered = "refresh", False
            now = self._point() if begin is not None or command == "on" else None
            if begin is not None and now is not None and (now - begin).seconds >= self._least_seconds:
                self._total = ended + (now - begin)
            if command == "off" or now is None:
                ended, begin = self._total, None
            elif begin is None:
                begin = now
            if is_answered:
                self._commands.task_done()

    def _point(self) -> _Point | None:
        # at its next update
        if self._counter is None:
            return None
        try:
            first = joules = self._counter.read()
            until = self._clock() + _LONGEST_UPDATE_SECONDS
            while joules == first and self._clock() < until:
                time.sleep(_LOOK_SECONDS)
                joules = self._counter.read()
        except (pynvml.NVMLError, OSError, ValueError):
            return None
        return _Point(joules, self._clock())


def energy_meter(device: torch.device) -> EnergyMeter:
    """Return the device's meter. Make it before the model is on the device."""
    return EnergyMeter(energy_counter(device))
