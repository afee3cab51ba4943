"""The instruments of a run: energy, memory, GPU sensors, and the load of other programs.

Energy is read from the device's own counter: NVML for a GPU, RAPL for a CPU. Counters are updated 10 to 1,000
times per second, so a thread measures between updates and delays no step.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pynvml
import torch

from engine.busyness import TOLERATED_SHARE, OtherPrograms
from engine.protocol.summary import Energy
from engine.training.measuring.memory import MemoryMeter, activations_of, breakdown_of
from engine.training.measuring.sensors import SensorGauge, nvml_handle, start_nvml
from engine.training.measuring.speed import Speed
from engine.training.ranks import current_rank
from engine.training.steps.plain import PlainStep

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
            start_nvml()
            return _nvml_counter(nvml_handle(device))
        if device.type == "cpu":
            return rapl_counter()
    return None


def _nvml_counter(handle: Any) -> Counter:
    # of the whole GPU; none for a MIG slice, nor before Volta
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
        """The mean power of this difference. None if the counter was reset meanwhile, as by a new driver."""
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


def energy_meters() -> dict[str, EnergyMeter]:
    """Return the meters of the CPU, as "cpu", and of each NVIDIA GPU, by its UUID without "GPU-".

    Make them before any of these devices is used.
    """
    counters = {"cpu": energy_counter(torch.device("cpu"))}
    with suppress(pynvml.NVMLError):
        start_nvml()
        for index in range(pynvml.nvmlDeviceGetCount()):
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid = str(pynvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")
                counters[uuid] = _nvml_counter(handle)
    # the idle power of all is measured at the same time
    with ThreadPoolExecutor(len(counters)) as pool:
        return dict(zip(counters, pool.map(EnergyMeter, counters.values()), strict=True))


class Instruments:
    """The instruments of a run, which measure its memory, GPU sensors, energy, and other programs' load.

    Create the memory meter before the model.
    """

    def __init__(
        self, device: torch.device, memory: MemoryMeter, sensors: SensorGauge, energy: EnergyMeter
    ) -> None:
        self._device = device
        self._memory = memory
        self._sensors = sensors
        self.energy = energy
        # several ranks are of one family
        root = os.getppid() if current_rank().count > 1 else None
        self._others = OtherPrograms(root) if device.type == "cpu" else None
        self._activations_mib: float | None = None

    def close(self) -> None:
        """End the threads that read the GPU and its energy."""
        self._sensors.close()
        self.energy.close()

    def count(self, is_measured: bool, *, is_capturing: bool = False) -> None:
        """Set whether the following steps belong to the measurement, or are the capture of a step."""
        self._memory.count(is_measured, captures=is_capturing)
        self._sensors.count(is_measured)
        self.energy.count(is_measured)
        if self._others is not None:
            self._others.count(is_measured)

    def settle(self) -> None:
        """Free memory that only the first steps needed. Call it before the last warm-up step."""
        self._memory.settle()

    def now(self) -> dict[str, float]:
        """Return the columns of a `Samples` event that describe this moment."""
        return {**self._memory.sample(), **self._sensors.sample()}

    @contextmanager
    def measuring_memory(self, step: PlainStep) -> Iterator[None]:
        """Measure the memory that the forward of one eager step leaves for its backward."""
        with activations_of(step.watched, self._device) as meter:
            yield
        self._activations_mib = meter.mib

    def figures(self, step: PlainStep) -> dict[str, Any]:
        """Return the fields of a `Summary` that the instruments know."""
        peaks = self._memory.peaks()
        parts = breakdown_of(step.model, step.optimizer, self._activations_mib)
        peak_mib = peaks.resident_mib if self._device.type == "cpu" else peaks.allocated_mib
        return {
            "peak_allocated_mib": peaks.allocated_mib,
            "peak_reserved_mib": peaks.reserved_mib,
            "whole_run_peak_mib": peaks.whole_run_mib,
            "peak_resident_mib": peaks.resident_mib,
            "spilled_mib": peaks.spilled_mib,
            **asdict(parts),
            "other_mib": parts.other_mib(peak_mib),
            **self._sensors.figures(),
            "slowed_by": self._sensors.slowed_by,
        }

    def with_note(self, speed: Speed) -> Speed:
        return speed if speed.samples_per_second is None else replace(speed, note=self.disturbance())

    def disturbance(self) -> str | None:
        """Return the cause of a disturbed measurement, as a clause. None if none is known."""
        note = throttled_note(self._sensors.slowed_by)
        return note or (None if self._others is None else busy_note(self._others.share()))


def throttled_note(reasons: Sequence[str]) -> str | None:
    """Return a clause on throttled clocks, such as by heat. None without a reason."""
    return f"the GPU's clocks were throttled by {' and '.join(reasons)}" if reasons else None


def busy_note(share: float) -> str | None:
    """Return a clause on the share of the CPU that other programs used. None if it is tolerable."""
    if share < TOLERATED_SHARE:
        return None
    return (
        f"other programs used {100 * share:.0f}% of the CPU ({os.cpu_count()} cores) during the run, "
        "so the measured throughput is too low"
    )
