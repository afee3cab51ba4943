"""A run as its events come in, and its figures, which stay as they were where so many steps are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.curves import MOST_ROWS
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Epoch, Failed, Finished, Heartbeat, Phase, PhaseName, Summary
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.session.saved_runs import SavedRuns
from gui.train import figures
from gui.train.panel import LivePanel, LiveRun


def test_batches_are_appended_and_a_heartbeat_changes_nothing(live: Any) -> None:
    run = live.run("fp32", live.started(), live.samples(1, 3000), live.samples(3001, 10))
    assert (run.step, run.total_steps, run.status, run.is_over) == (3010, 200, "running", False)
    np.testing.assert_array_equal(run.column("step"), np.arange(1, 3011))
    assert len(run.column("grad_scale")) == 0
    before = run.revision
    run.add(Heartbeat(step=3))
    assert run.revision == before


def test_its_status_is_what_the_last_event_says(live: Any) -> None:
    assert live.run("fp32", Phase(name=PhaseName.BUILDING, detail="resnet50")).status == "running"
    assert live.run("fp32", live.started(), Finished(summary=Summary())).status == "finished"
    assert live.run("fp32", live.started(), Finished(summary=Summary(), stopped=True)).status == "stopped"
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
    failed = live.run("fp32", live.started(), Failed(problem=problem))
    assert failed.status == "failed" and failed.problem == problem and failed.is_over


def test_a_resumed_run_forgets_what_it_trains_again(live: Any) -> None:
    run = live.pair()[1]
    run.add(Finished(summary=Summary(steps=126), stopped=True))
    run.set_status("queued")
    again = live.started("fp16").model_copy(update={"resumed_step": 20})
    run.add_all([again, live.samples(21, 5, 1663.0, 3_174.0, grad_scale=(8_192.0,) * 5)])
    np.testing.assert_array_equal(run.column("step"), np.arange(1, 26))
    assert list(run.skipped.values) == [4, 12]
    assert run.epochs == [] and run.summary is None and run.status == "running"


def test_speed_leaves_the_warm_up_out_and_a_step_counts_all_that_it_accumulates(live: Any) -> None:
    run = live.run("fp32", live.started(), live.samples(1, 10, 10.0), live.samples(11, 40, 500.0))
    assert figures.samples_per_second(run) == pytest.approx(500.0)
    run = live.run("fp32", live.started(step={"gradient_accumulation": 4}), live.samples(1, 40, 512.0))
    assert run.batch_size == 256
    run = live.run("fp32", live.started(devices=2), live.samples(1, 100, rate=1_280.0))
    assert run.batch_size == 128, "it takes the samples of all devices"
    run = live.run("fp32", live.started(), live.samples(1, 10))
    run.add_samples({"samples_per_second": [100.0, 300.0] * 5})
    assert figures.samples_per_second(run) == pytest.approx(150.0), "all samples of a block over all its time"


def test_the_summary_holds_once_it_is_there_and_what_is_not_known_yet_is_none(live: Any) -> None:
    run = live.pair()[0]
    assert (figures.samples_per_second(run), figures.peak_memory_mib(run)) == (880.0, 10_400.0)
    assert figures.accuracy_percent(run) == 61.3
    assert figures.skipped_steps(run) is None
    run, known = live.run("fp32", live.started()), (figures.samples_per_second,)
    known += (figures.peak_memory_mib, figures.accuracy_percent, figures.train_loss)
    for figure in (*known, figures.skipped_steps, LiveRun.seconds_left):
        assert figure(run) is None
    run = live.run("fp32", live.started(), live.samples(1, 100, 640.0))
    assert run.seconds_left() == pytest.approx(10.0)


def test_on_a_cpu_memory_is_the_resident_one_and_that_of_the_warm_up_is_no_peak(live: Any) -> None:
    run = live.run("fp32", live.started(), live.samples(1, 10, resident_mib=(80.2,) * 10))
    assert figures.is_on_cpu(run) and figures.peak_memory_mib(run) is None
    run.add(live.samples(11, 10, resident_mib=tuple(range(60, 70))))
    assert figures.peak_memory_mib(run) == 69.0


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
        run.add_samples(columns(first, 1_000))
    return run


def test_a_long_run_takes_no_more_memory_and_its_figures_are_those_of_all_steps(long: LiveRun) -> None:
    names = columns(1, 1)
    assert {len(long.column(name)) for name in names} == {len(long.curves)} and len(long.curves) <= MOST_ROWS
    losses = np.concatenate([columns(first, 1_000)["loss"] for first in range(1, STEPS, 1_000)])
    assert long.step == STEPS and figures.samples_per_second(long) == pytest.approx(880.0)
    assert figures.peak_memory_mib(long) == 3_000.0
    assert figures.train_loss(long) == pytest.approx(losses.mean())
    assert long.seconds_left() == pytest.approx(STEPS * 64 / 880.0)
    assert figures.waiting_percent(long).mean() == pytest.approx(100 * 7.0 / (64_000 / 880.0), rel=0.02)
    long.add(Epoch(epoch=1, step=STEPS - 100, seconds=1.0, train_loss=2.0))
    assert figures.train_loss(long) == pytest.approx(losses[-100:].mean())


def test_its_plots_show_every_spike_and_a_smooth_line(panel: LivePanel, long: LiveRun) -> None:
    panel.set_runs([long])
    panel.refresh()
    (shown,) = panel.page.plots.loss._shown.values()
    assert shown.dim is not None and np.nanmax(shown.dim) == 30.0
    spikes = shown.curve.x[shown.dim == 30.0]
    assert all(np.abs(spikes - step).min() <= 64 for step in range(1, STEPS - 8_192, 1_000))
    away = np.abs(shown.line - (1.0 + 4.0 * np.exp(-shown.curve.x / 50_000)))
    assert np.median(away) < 0.02
    assert float(panel.page.plots.loss.legend.entries[0].value) == pytest.approx(1.0, abs=0.1)
    long.add_samples({**columns(STEPS + 1, 20_000), "loss": np.full(20_000, 3.0)})
    panel.set_runs([long])
    panel.refresh()
    assert panel.page.plots.loss.legend.entries[0].value == "3.00"


def test_a_resumed_long_run_goes_on_where_it_went_back_to(live: Any, long: LiveRun) -> None:
    long.add(Finished(summary=Summary(steps=STEPS), stopped=True))
    long.add(live.started(steps=2 * STEPS).model_copy(update={"resumed_step": 200_000}))
    assert 200_000 - 64 < long.step <= 200_000
    long.add_samples(columns(200_001, 1_000))
    assert long.step == 201_000 and (np.diff(long.column("step")) > 0).all()


def test_of_very_many_epochs_some_are_kept_and_the_last(live: Any) -> None:
    run = live.run("fp32", live.started())
    for n in range(1, 60_001):
        accuracy = n / 100_000 if n % 2 else None
        run.add(Epoch(epoch=n, step=n, seconds=1.0, train_loss=n, validation_accuracy=accuracy))
    assert len(run.epochs) <= 8_192 and run.epochs[-1].epoch == 60_000
    steps = [epoch.step for epoch in figures.accuracies(run)]
    assert len(steps) > 2_000 and steps == sorted(steps) and steps[0] < 100
    assert figures.train_loss(run) == 60_000


def test_the_curves_of_many_runs_are_not_all_kept_but_those_that_are_shown_or_used_last_are(
    saved: Store, trained: Callable[..., RunRecord]
) -> None:
    ids = [trained("fp32", 800.0, losses=[1.0]).id for _ in range(40)]
    runs = SavedRuns(saved)
    runs.reload()
    shown = runs.live(ids[0])
    for run_id in ids:
        runs.live(run_id)
        runs.live(ids[1])
    held = [run_id for run_id in ids if runs.opened(run_id) is not None]
    assert len(held) < 20 and {ids[0], ids[1], *ids[-8:]} <= set(held)
    assert runs.live(ids[0]) is shown, "else it would miss what happens to the run"
    shown_again = runs.live(ids[5])
    assert shown_again.step == 1, "the others are read again"
    runs.delete([ids[0]])
    assert runs.opened(ids[0]) is None
