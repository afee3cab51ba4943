"""Every step's figures arrive once and in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine.training.measuring import telemetry as telemetry_module
from engine.training.measuring.telemetry import HostClock, Mark, Rows, Telemetry, samples_event

CPU = torch.device("cpu")


def record(telemetry: Telemetry, steps: int) -> None:
    telemetry.begin()
    for number in range(steps):
        telemetry.data_ready()
        telemetry.record(torch.tensor([float(number)]), samples=8, learning_rate=0.1)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(CPU, ("loss",))


def test_more_steps_than_a_block_holds_arrive_in_order(telemetry: Telemetry) -> None:
    record(telemetry, 2_500)
    arrived = telemetry.flush()
    steps = np.concatenate([rows.step for rows in arrived])
    losses = np.concatenate([rows.figures["loss"] for rows in arrived])
    assert steps.tolist() == list(range(1, 2_501)) and losses.tolist() == list(range(2_500))


def test_what_was_collected_is_not_collected_again(telemetry: Telemetry) -> None:
    record(telemetry, 3)
    assert [rows.last_step for rows in telemetry.collect()] == [3]
    assert telemetry.collect() == telemetry.flush() == []


def test_a_pause_is_in_no_rows_seconds(telemetry: Telemetry) -> None:
    record(telemetry, 1)
    (before,) = telemetry.flush()
    telemetry.begin(paused_seconds=1_000)
    telemetry.record(torch.zeros(1), samples=8, learning_rate=0.1)
    (after,) = telemetry.flush()
    assert after.seconds[0] - before.seconds[0] < -900
    assert 0 < after.step_seconds[0] < 1


def test_a_resumed_run_counts_on() -> None:
    telemetry = Telemetry(CPU, ("loss",), first_step=40, first_seconds=100)
    record(telemetry, 2)
    (rows,) = telemetry.flush()
    assert rows.step.tolist() == [41, 42] and 100 < rows.seconds[0] < rows.seconds[1]


class CoarseClock(HostClock):
    """Tells the time between marks as a device does, on a time line of its own: float32 milliseconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> Mark:
        return self.now

    def seconds_between(self, earlier: Mark, later: Mark) -> float:
        assert isinstance(earlier, float) and isinstance(later, float)
        return float(np.float32((later - earlier) * 1e3)) / 1e3


def test_after_hours_a_short_step_still_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = CoarseClock()
    monkeypatch.setattr(telemetry_module, "clock_for", lambda device: clock)
    telemetry = Telemetry(CPU, ("loss",))
    telemetry.begin()
    for begins in (0.0, 3_600.0, 7_200.0, 10_800.0):
        clock.now = begins
        telemetry.begin()
        for _ in range(20):
            clock.now += 0.0011
            telemetry.record(torch.zeros(1), samples=8, learning_rate=0.1)
    (rows,) = telemetry.flush()
    assert rows.step_seconds == pytest.approx(0.0011)
    assert np.diff(rows.seconds)[-19:] == pytest.approx(0.0011)
    assert rows.seconds[-1] == pytest.approx(10_800.022, abs=1e-3)


def test_samples_repeat_the_memory_and_keep_a_nan() -> None:
    rows = Rows(
        step=np.array([1, 2]),
        samples=np.array([8, 4]),
        seconds=np.array([0.5, 1.0]),
        step_seconds=np.array([0.5, 0.5]),
        wait_seconds=np.array([0.25, 0.0]),
        learning_rate=np.array([0.1, 0.05]),
        figures={"loss": np.array([1.0, np.nan]), "found_inf": np.array([0.0, 1.0])},
    )
    event = samples_event([rows], {"resident_mib": 7.0})
    assert event.samples_per_second == (16, 8) and event.resident_mib == (7, 7)
    assert np.isnan(event.loss[1]) and event.grad_scale is None
    assert event.learning_rate == (0.1, 0.05) and event.data_wait_ms == (250, 0)


class EventClock(HostClock):
    """Counts its marks as a device's events, which are used again, and what is asked of them."""

    def __init__(self) -> None:
        self.made = self.recorded = self.asked = 0
        self.now = 0.0
        self.released: list[list[float]] = []

    def mark(self) -> Mark:
        self.recorded += 1
        self.made += not self.released
        event = self.released.pop() if self.released else [0.0]
        event[0] = self.now
        return event  # type: ignore[return-value]

    def release(self, mark: Mark) -> None:
        assert not any(mark is other for other in self.released), "released twice"
        self.released.append(mark)  # type: ignore[arg-type]

    def seconds_between(self, earlier: Any, later: Any) -> float:
        self.asked += 1
        assert not any(mark is other for mark in (earlier, later) for other in self.released)
        return float(later[0] - earlier[0])


@pytest.mark.parametrize(
    ("is_waited_for", "marks", "questions"),
    [
        pytest.param(False, 1, 1, id="data on the device"),
        pytest.param(True, 2, 2, id="data that are loaded"),
    ],
)
def test_a_steps_marks_are_used_again_and_each_time_is_asked_for_once(
    is_waited_for: bool, marks: int, questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = EventClock()
    monkeypatch.setattr(telemetry_module, "clock_for", lambda device: clock)
    telemetry = Telemetry(CPU, ("loss",))
    seconds: list[float] = []
    for _ in range(50):
        telemetry.begin()  # after a gap of a second
        for _ in range(10):
            clock.now += 0.25
            if is_waited_for:
                telemetry.data_ready()
            clock.now += 0.75
            telemetry.record(torch.zeros(1), samples=8, learning_rate=0.1)
        clock.now += 1
        (rows,) = telemetry.flush()
        seconds += rows.seconds.tolist()
        assert rows.step_seconds.tolist() == [1.0] * 10
        assert rows.wait_seconds.tolist() == [0.25 if is_waited_for else 0.0] * 10
    assert np.diff(seconds).tolist() == ([1.0] * 9 + [2.0]) * 49 + [1.0] * 9
    gaps, steps = 49, 500
    assert clock.recorded == 50 + marks * steps and clock.asked == questions * steps + gaps
    assert clock.made <= 10 * marks + 2


@pytest.mark.parametrize("is_reused", [True, False])
def test_a_row_that_the_next_step_overwrites_is_copied_and_another_is_not(is_reused: bool) -> None:
    telemetry, row = Telemetry(CPU, ("loss", "grad_scale")), torch.tensor([1.0, 8.0])
    telemetry.begin()
    telemetry.record(row, samples=8, learning_rate=0.1, is_reused=is_reused)
    row.fill_(2.0)
    (rows,) = telemetry.flush()
    assert rows.figures["loss"].tolist() == [1.0 if is_reused else 2.0]


def test_a_pause_after_a_batch_was_ready_is_no_wait(telemetry: Telemetry) -> None:
    telemetry.begin()
    telemetry.data_ready()
    telemetry.begin()
    telemetry.record(torch.zeros(1), samples=8, learning_rate=0.1)
    (rows,) = telemetry.flush()
    assert rows.wait_seconds.tolist() == [0.0]
