"""The values and the time of each step, gathered without stalling the device.

Each step's row of values stays on the device. About 20 times per second the new rows are stacked and copied
asynchronously to pinned memory, and another block replaces them. The host reads a copy only once the device
has completed it. Steps are timed on the device if it has its own clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.protocol.events import Samples

Mark = float | torch.Event


class HostClock:
    """Times steps on a CPU, where the work of a call is done when the call returns."""

    def mark(self) -> Mark:
        """Mark the point after all work given to the device so far. Never waits."""
        return time.perf_counter()

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        """Return the seconds between two marks that the device has passed.

        A device measures milliseconds in float32, which lose a quarter of one after an hour, so add up short
        times.
        """
        assert isinstance(earlier, float) and isinstance(later, float)
        return later - earlier

    def release(self, mark: Mark) -> None:
        """Take back a mark that will not be read again."""


class DeviceClock(HostClock):
    """Times steps on an accelerator with events on its stream, because the host runs ahead of it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._released: list[torch.Event] = []  # to make and destroy an event costs more than to record it

    def mark(self) -> Mark:
        event = self._released.pop() if self._released else torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def release(self, mark: Mark) -> None:
        assert isinstance(mark, torch.Event)
        self._released.append(mark)

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        assert isinstance(earlier, torch.Event) and isinstance(later, torch.Event)
        return float(earlier.elapsed_time(later)) / 1e3


def clock_for(device: torch.device) -> HostClock:
    """Return the clock that times a device's steps."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)


INTERVAL_SECONDS = 0.05
_ROWS = 1_024


@dataclass(frozen=True)
class Rows:
    """The values and times of completed steps, as columns of equal length.

    `step` counts from 1. `seconds` runs from the start of the first step to the end of each step, without
    pauses. `step_seconds` is the duration of the step, and `wait_seconds` the part of it in which the device
    had no data to work on. `figures` has the other values by name, such as "loss".
    """

    step: NDArray[np.int64]
    samples: NDArray[np.int64]
    seconds: NDArray[np.float64]
    step_seconds: NDArray[np.float64]
    wait_seconds: NDArray[np.float64]
    learning_rate: NDArray[np.float64]
    figures: dict[str, NDArray[np.float64]]

    @property
    def last_step(self) -> int:
        return int(self.step[-1])

    @property
    def is_given_up(self) -> NDArray[np.bool_]:
        """True for steps that the model file's own step did not make, as after a loss that is not finite."""
        loss = self.figures["loss"]
        return (self.figures.get("own_skip", np.zeros(len(loss))) > 0) & ~np.isfinite(loss)


class Telemetry:
    """Records each step's values and times without waiting for the device, and returns them later as `Rows`.

    `columns` are the names of a step's values. A resumed run continues after `first_step` steps that took
    `first_seconds`.
    """

    def __init__(
        self,
        device: torch.device,
        columns: tuple[str, ...],
        interval_seconds: float = INTERVAL_SECONDS,
        *,
        first_step: int = 0,
        first_seconds: float = 0.0,
    ) -> None:
        self._columns = columns
        self._clock = clock_for(device)
        self._interval_seconds = interval_seconds
        self._blocks = [_Block(device, len(columns)), _Block(device, len(columns))]
        self._in_flight: _Block | None = None
        self._ready: list[Rows] = []
        self._last: Mark | None = None
        # the end of the rows made so far: its mark, and its seconds since the start of the first step
        self._reached: Mark | None = None
        self._reached_seconds = 0.0
        self._ready_at: Mark | None = None
        self._offset_seconds = first_seconds
        self._collected = time.perf_counter()
        self.steps = first_step

    def begin(self, paused_seconds: float = 0.0) -> None:
        """Start a series of steps. The time since the last step is a gap that belongs to no step.

        `paused_seconds` of the gap are excluded from the `seconds` of all later rows.
        """
        self._offset_seconds -= paused_seconds
        self._last, self._ready_at = self._clock.mark(), None
        if self._reached is None:
            self._reached = self._last

    def data_ready(self) -> None:
        """Note that the device has all the work for the next step's data, if there is any."""
        self._ready_at = self._clock.mark()

    def record(
        self, row: torch.Tensor, samples: int, learning_rate: float, *, is_reused: bool = True
    ) -> None:
        """Record the values, float32 (columns,), of the step just given to the device.

        `is_reused`: the next step writes to the same row, as a captured one does.
        """
        assert self._last is not None, "begin() comes before the first step"
        end = self._clock.mark()
        self.steps += 1
        ready = self._ready_at if self._ready_at is not None else self._last
        span = _Span(self.steps, samples, learning_rate, self._last, ready, end, self._offset_seconds)
        self._blocks[0].add(row.clone() if is_reused else row, span)
        self._last, self._ready_at = end, None
        if self._blocks[0].is_full:
            self._receive_block()
            self._send()

    def is_due(self) -> bool:
        return time.perf_counter() - self._collected >= self._interval_seconds

    def collect(self) -> list[Rows]:
        """Return the rows that have arrived and send the next block. Never waits for the device."""
        self._collected = time.perf_counter()
        if self._in_flight is not None and self._in_flight.has_arrived():
            self._receive_block()
        if self._in_flight is None:
            self._send()
            if self._in_flight is not None and self._in_flight.has_arrived():
                self._receive_block()
        return self._take()

    def flush(self) -> list[Rows]:
        """Return all recorded rows. Waits until the device has completed them."""
        self._receive_block()
        self._send()
        self._receive_block()
        return self._take()

    def _take(self) -> list[Rows]:
        ready, self._ready = self._ready, []
        return ready

    def _send(self) -> None:
        if self._blocks[0].spans:
            self._in_flight = self._blocks[0]
            self._in_flight.send()
            self._blocks.reverse()

    def _receive_block(self) -> None:
        block, self._in_flight = self._in_flight, None
        if block is not None:
            self._ready.append(self._rows(block.spans, block.receive()))
            block.spans.clear()

    def _rows(self, spans: list[_Span], values: NDArray[np.float64]) -> Rows:
        times = np.array([self._span_times(span) for span in spans])
        return Rows(
            step=np.array([span.step for span in spans]),
            samples=np.array([span.samples for span in spans]),
            seconds=times[:, 0],
            step_seconds=times[:, 1],
            wait_seconds=times[:, 2],
            learning_rate=np.array([span.learning_rate for span in spans]),
            figures={name: values[:, column] for column, name in enumerate(self._columns)},
        )

    def _span_times(self, span: _Span) -> tuple[float, float, float]:
        # from the start of the first step to this step's end, including the gap before it; the step's own
        # time; and its wait. Each question to a device costs microseconds, so each is asked once.
        between, reached = self._clock.seconds_between, self._reached
        assert reached is not None, "begin() comes before the first step"
        gap = 0.0
        if span.begin is not reached:
            gap = between(reached, span.begin)
            self._clock.release(reached)
        own = between(span.begin, span.end)
        wait = 0.0
        if span.ready is not span.begin:
            wait = between(span.begin, span.ready)
            self._clock.release(span.ready)
        self._clock.release(span.begin)
        self._reached = span.end
        self._reached_seconds += gap + own
        return self._reached_seconds + span.offset_seconds, own, wait


@dataclass(frozen=True)
class _Span:
    step: int
    samples: int
    learning_rate: float
    begin: Mark
    ready: Mark
    end: Mark
    offset_seconds: float


class _Block:
    def __init__(self, device: torch.device, columns: int) -> None:
        # On a CPU the rows are already where they are read, with nothing to wait for.
        is_host = device.type == "cpu"
        is_pinned = device.type in ("cuda", "xpu")
        self._on_host = torch.zeros(0 if is_host else _ROWS, columns, pin_memory=is_pinned)
        self._passed = None if is_host else torch.Event(device)
        self._rows: list[torch.Tensor] = []
        self.spans: list[_Span] = []

    @property
    def is_full(self) -> bool:
        return len(self.spans) == _ROWS

    def add(self, row: torch.Tensor, span: _Span) -> None:
        self._rows.append(row)
        self.spans.append(span)

    def send(self) -> None:
        rows = torch.stack(self._rows)
        self._rows.clear()
        if self._passed is None:
            self._on_host = rows
        else:
            self._on_host[: len(rows)].copy_(rows, non_blocking=True)
            self._passed.record()

    def has_arrived(self) -> bool:
        return self._passed is None or bool(self._passed.query())

    def receive(self) -> NDArray[np.float64]:
        if self._passed is not None:
            self._passed.synchronize()
        values: NDArray[np.float64] = self._on_host[: len(self.spans)].double().numpy().copy()
        return values


_OWN_FIGURES = ("loss", "grad_scale", "grad_norm")


def samples_event(rows: list[Rows], now: dict[str, float]) -> Samples:
    """Return completed steps as one `Samples` event, with the values `now` in each row."""
    columns: dict[str, list[float]] = {}
    for part in rows:
        own = {
            "step": part.step,
            "seconds": part.seconds,
            "samples_per_second": part.samples / part.step_seconds,
            "learning_rate": part.learning_rate,
            "data_wait_ms": part.wait_seconds * 1e3,
            **{name: part.figures[name] for name in _OWN_FIGURES if name in part.figures},
        }
        for name, values in own.items():
            columns.setdefault(name, []).extend(values.tolist())
    length = len(columns["step"])
    columns |= {name: [value] * length for name, value in now.items()}
    return Samples.model_validate({name: tuple(column) for name, column in columns.items()})
