"""A run of so many steps that they are merged: its figures and curves stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.curves import MOST_ROWS
from engine.protocol.events import Epoch, Finished, Summary
from gui.train import figures
from gui.train.panel import LivePanel, LiveRun

STEPS = 400_000


def columns(first: int, count: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(first)
    step = np.arange(first, first + count, dtype=float)
    loss = 1.0 + 4.0 * np.exp(-step / 50_000) + generator.normal(0, 0.05, count)
    loss[0] = 30.0
    return {
        "step": step,
        "seconds": step * 64 / 880.0,
        "loss": loss,
        "samples_per_second": np.full(count, 880.0),
        "data_wait_ms": generator.uniform(0.0, 14.0, count),
        "allocated_mib": np.where(step % 9_999, 1_000.0, 3_000.0),
    }


@pytest.fixture
def long(live: Any) -> LiveRun:
    run = live.run("fp32", live.started(steps=2 * STEPS))
    for first in range(1, STEPS, 1_000):
        run.load(columns(first, 1_000))
    return run


def test_it_takes_no_more_memory_than_a_shorter_one(long: LiveRun) -> None:
    names = columns(1, 1)
    assert {len(long.column(name)) for name in names} == {len(long.curves)} and len(long.curves) <= MOST_ROWS
    assert long.step == STEPS


def test_its_figures_are_those_of_all_steps(long: LiveRun) -> None:
    losses = np.concatenate([columns(first, 1_000)["loss"] for first in range(1, STEPS, 1_000)])
    assert figures.samples_per_second(long) == pytest.approx(880.0)
    assert figures.peak_memory_mib(long) == 3_000.0
    assert figures.train_loss(long) == pytest.approx(losses.mean())
    assert long.seconds_left() == pytest.approx(STEPS * 64 / 880.0)
    assert figures.waiting_percent(long).mean() == pytest.approx(100 * 7.0 / (64_000 / 880.0), rel=0.02)
    long.take(Epoch(epoch=1, step=STEPS - 100, seconds=1.0, train_loss=2.0))
    assert figures.train_loss(long) == pytest.approx(losses[-100:].mean())


def test_its_plots_show_every_spike_and_a_smooth_line(panel: LivePanel, long: LiveRun) -> None:
    panel.set_runs([long])
    panel.refresh()
    (shown,) = panel.plots.loss._shown.values()
    assert shown.dim is not None and np.nanmax(shown.dim) == 30.0
    spikes = shown.curve.x[shown.dim == 30.0]
    assert all(np.abs(spikes - step).min() <= 64 for step in range(1, STEPS - 8_192, 1_000))
    away = np.abs(shown.line - (1.0 + 4.0 * np.exp(-shown.curve.x / 50_000)))
    assert np.median(away) < 0.02
    before = panel.plots.loss.legend.entries[0].value
    long.load({**columns(STEPS + 1, 20_000), "loss": np.full(20_000, 3.0)})
    panel.set_runs([long])
    panel.refresh()
    assert float(before) == pytest.approx(1.0, abs=0.1)
    assert panel.plots.loss.legend.entries[0].value == "3.00"


def test_a_resumed_run_goes_on_where_it_went_back_to(live: Any, long: LiveRun) -> None:
    long.take(Finished(summary=Summary(steps=STEPS), stopped=True))
    long.take(live.started(steps=2 * STEPS).model_copy(update={"resumed_step": 200_000}))
    assert 200_000 - 64 < long.step <= 200_000
    long.load(columns(200_001, 1_000))
    assert long.step == 201_000 and (np.diff(long.column("step")) > 0).all()


def test_of_very_many_epochs_some_are_kept_and_the_last(live: Any) -> None:
    run = live.run("fp32", live.started())
    for number in range(1, 60_001):
        accuracy = number / 100_000 if number % 2 else None
        run.take(
            Epoch(epoch=number, step=number, seconds=1.0, train_loss=number, validation_accuracy=accuracy)
        )
    assert len(run.epochs) <= 8_192 and run.epochs[-1].epoch == 60_000
    steps = [epoch.step for epoch in figures.accuracies(run)]
    assert len(steps) > 2_000 and steps == sorted(steps) and steps[0] < 100
    assert figures.train_loss(run) == 60_000
