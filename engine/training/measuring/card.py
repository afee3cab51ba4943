"""What the card itself tells of a run, asked beside it in a thread: some answers take milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import pynvml
import torch

from engine.training.measuring.nvml import NvmlReader, Reading

PERIOD_SECONDS = 0.2

_MEANS = ("gpu_utilization_percent", "power_watts", "clock_mhz")
_HIGHEST = ("temperature_celsius", "other_programs_mib")


@dataclass(frozen=True)
class CardFigures:
    """The measured time in figures, None where the card did not say.

    Utilisation, power and clock are means; temperature and other programs' memory the highest seen.
    `slowed_by` says what held the clocks down in the meantime, such as "heat".
    """

    gpu_utilization_percent: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    other_programs_mib: float | None = None
    slowed_by: tuple[str, ...] = ()


class CardGauge(Protocol):
    def sample(self) -> dict[str, float]:
        """The card's columns of a `Samples` event, as last heard; those it does not tell are absent."""
        ...

    def count(self, is_on: bool) -> None:
        """Says whether what follows belongs to the measurement."""
        ...

    def figures(self) -> CardFigures:
        """The figures of the measured time so far."""
        ...

    def close(self) -> None:
        """Ends the asking; what was heard can still be had."""
        ...


def card_gauge(device: torch.device) -> CardGauge:
    """A gauge for the device, already asking. One that tells nothing where there is no NVML for it."""
    if device.type == "cuda":
        with suppress(pynvml.NVMLError):
            reader = NvmlReader(device)
            return ThreadedGauge(reader.read, on_close=reader.close)
    return NoGauge()


class ThreadedGauge:
    """Asks `read` again and again in a thread of its own, `period_seconds` apart, until it is closed."""

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
        self._measured = _Measured()
        self._counts = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="card", daemon=True)
        self._thread.start()

    def sample(self) -> dict[str, float]:
        with self._lock:
            return dict(self._last)

    def count(self, is_on: bool) -> None:
        with self._lock:
            self._counts = is_on

    def figures(self) -> CardFigures:
        with self._lock:
            return self._measured.figures()

    def close(self) -> None:
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self._on_close()

    def _ask(self) -> None:
        while not self._closing.is_set():
            reading = self._read()
            with self._lock:
                self._last = reading.values
                if self._counts:
                    self._measured.add(reading)
            self._closing.wait(self._period_seconds)


class NoGauge:
    """For a device that does not tell."""

    def sample(self) -> dict[str, float]:
        return {}

    def count(self, is_on: bool) -> None:
        """Nothing is counted."""

    def figures(self) -> CardFigures:
        return CardFigures()

    def close(self) -> None:
        """Nothing was begun."""


@dataclass
class _Measured:
    """Sums and maxima of the readings that count; a quantity may be missing in some of them."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)
    slowed_by: set[str] = field(default_factory=set)

    def add(self, reading: Reading) -> None:
        for name, value in reading.values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + 1
            self.highest[name] = max(self.highest.get(name, value), value)
        self.slowed_by |= reading.slowed_by

    def figures(self) -> CardFigures:
        means = {name: self.sums[name] / self.counts[name] for name in _MEANS if name in self.sums}
        highest = {name: self.highest[name] for name in _HIGHEST if name in self.highest}
        return CardFigures(**means, **highest, slowed_by=tuple(sorted(self.slowed_by)))
