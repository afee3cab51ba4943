"""Every step's figures arrive once and in order."""

from __future__ import annotations

import numpy as np
import torch

from engine.training.run import samples_of
from engine.training.telemetry import Rows, Telemetry

CPU = torch.device("cpu")


def record(telemetry: Telemetry, steps: int) -> None:
    telemetry.begin()
    for number in range(steps):
        telemetry.record({"loss": torch.tensor(float(number))}, samples=8)


def test_more_steps_than_a_block_holds_arrive_in_order() -> None:
    telemetry = Telemetry(CPU, ("loss",))
    record(telemetry, 2_500)
    arrived = telemetry.flush()
    steps = np.concatenate([rows.step for rows in arrived])
    losses = np.concatenate([rows.figures["loss"] for rows in arrived])
    assert steps.tolist() == list(range(1, 2_501)) and losses.tolist() == list(range(2_500))


def test_what_was_collected_is_not_collected_again() -> None:
    telemetry = Telemetry(CPU, ("loss",))
    record(telemetry, 3)
    assert [rows.last_step for rows in telemetry.collect()] == [3]
    assert telemetry.collect() == telemetry.flush() == []


def test_a_gap_is_no_steps_time() -> None:
    telemetry = Telemetry(CPU, ("loss",))
    record(telemetry, 2)
    sum(range(1_000_000))  # a gap, as a validation makes one
    record(telemetry, 1)
    (rows,) = telemetry.flush()
    gap = rows.seconds[2] - rows.seconds[1] - rows.step_seconds[2]
    assert gap > rows.step_seconds[2]
    assert (np.diff(rows.seconds) > 0).all()


def test_collecting_is_due_again_after_the_interval() -> None:
    assert Telemetry(CPU, ("loss",), interval_seconds=0).is_due()
    assert not Telemetry(CPU, ("loss",), interval_seconds=3_600).is_due()


def test_samples_repeat_the_memory_and_keep_a_nan() -> None:
    rows = Rows(
        step=np.array([1, 2]),
        samples=np.array([8, 4]),
        seconds=np.array([0.5, 1.0]),
        step_seconds=np.array([0.5, 0.5]),
        figures={"loss": np.array([1.0, np.nan]), "found_inf": np.array([0.0, 1.0])},
    )
    event = samples_of([rows], learning_rate=0.1, memory={"resident_mib": 7.0})
    assert event.samples_per_second == (16, 8) and event.resident_mib == (7, 7)
    assert np.isnan(event.loss[1]) and event.grad_scale is None
