"""The time that steps take, on the device where one keeps its own."""

from __future__ import annotations

import time
from typing import Protocol

import torch

Mark = float | torch.Event


class Clock(Protocol):
    """Marks points of the run and tells the time between two of them."""

    def mark(self) -> Mark:
        """Marks the point that the device reaches after all that it was given so far; never waits."""
        ...

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        """Seconds from one mark to another, both of which the device has passed.

        A device tells them as milliseconds in float32: a quarter of one is lost after an hour, so what is
        long is to be added up from what is short.
        """
        ...


class HostClock:
    """For a CPU, which is done when the call returns."""

    def mark(self) -> Mark:
        return time.perf_counter()

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        assert isinstance(earlier, float) and isinstance(later, float)
        return later - earlier


class DeviceClock:
    """For an accelerator, which runs behind the host: events on its own time line."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> Mark:
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        assert isinstance(earlier, torch.Event) and isinstance(later, torch.Event)
        return float(earlier.elapsed_time(later)) / 1e3


def clock_for(device: torch.device) -> Clock:
    return HostClock() if device.type == "cpu" else DeviceClock(device)
