"""Finished runs lie faintly under the curves of a run that trains: those ticked, or of another precision."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Environment, Finished, Samples, Started, Summary
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from gui.theme.theme import theme
from gui.train.controller import runs_beneath
from gui.train.panel import LivePanel, LiveRun
from gui.window.main_window import MainWindow

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

MACHINE = Environment(
    device_name="A CPU", device_memory_mib=16_384, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)


def record(number: int, precision: str, status: Status = Status.FINISHED, **settings: Any) -> RunRecord:
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        started=None,
        ended=None,
        experiment=Experiment.model_validate({"precision": precision, **settings}),
        environment=None,
        detail="",
        comparison=None,
        label=None,
        total_steps=None,
        name=f"Run {number}",
        status=status,
        summary=None,
        problem=None,
    )


TRAINS = record(9, "bf16", Status.RUNNING)
SAVED = (
    TRAINS,
    record(8, "fp16", Status.STOPPED),
    record(7, "fp32", batch_size=8),
    record(6, "bf16"),
    record(5, "fp32"),
    record(4, "fp16"),
    record(3, "fp32"),
)


def numbers(*ticked: int) -> list[int]:
    ids = [f"{number:012x}" for number in ticked]
    return [run.number for run in runs_beneath(SAVED, [TRAINS.id], ids)]


def test_by_default_it_is_the_newest_finished_one_of_each_other_precision() -> None:
    assert numbers() == [5, 4]


def test_ticks_choose_others_but_never_what_is_in_view_or_still_waits() -> None:
    assert numbers(3, 7) == [7, 3]
    assert numbers(9) == [5, 4]
    assert numbers(3, 4, 5, 6, 7, 8) == [8, 7, 6, 5]


def events(precision: str, steps: int, loss: float, **settings: Any) -> tuple[Started, Samples]:
    experiment = Experiment.model_validate({"precision": precision, "steps": 100, **settings})
    begin = Started(
        experiment=experiment,
        environment=MACHINE,
        total_steps=100,
        steps_per_epoch=50,
        parameters=11,
        loss_name="cross-entropy",
        loss_unit="nats",
    )
    return begin, Samples(
        step=tuple(range(1, steps + 1)),
        seconds=tuple(0.1 * step for step in range(steps)),
        loss=(loss,) * steps,
        samples_per_second=(100.0,) * steps,
        learning_rate=(0.1,) * steps,
    )


def live(run_id: str, precision: str, steps: int, loss: float, **settings: Any) -> LiveRun:
    begin, samples = events(precision, steps, loss, **settings)
    run = LiveRun.of(run_id, begin.experiment)
    run.take_all([begin, samples])
    return run


@pytest.fixture
def panel(qtbot: QtBot) -> LivePanel:
    panel = LivePanel()
    qtbot.addWidget(panel)
    panel.resize(1_120, 700)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def test_what_lies_beneath_is_named_and_does_not_stretch_the_plot(panel: LivePanel) -> None:
    panel.set_runs([live("a", "bf16", 50, 1.0)])
    reach = panel.plots.loss.canvas.frame.x_range
    panel.set_beneath([(live("b", "fp32", 5_000, 3.0), "Run 5")])
    panel.refresh()
    legend = panel.plots.loss.legend.entries
    assert [(entry.name, entry.is_faint) for entry in legend] == [("BF16 AMP", False), ("Run 5", True)]
    assert panel.plots.loss.canvas.frame.x_range == reach
    # in view, though: the y axis reaches up to it
    assert panel.plots.loss.canvas.frame.y_range[1] > 3.0
    panel.set_beneath([])
    panel.refresh()
    assert len(panel.plots.loss.legend.entries) == 1


def test_it_is_drawn_in_the_lighter_opaque_ink(panel: LivePanel) -> None:
    panel.set_beneath([(live("b", "fp32", 100, 3.0), "Run 5")])
    panel.set_runs([live("a", "bf16", 100, 1.0)])
    picture = panel.plots.loss.canvas.grab().toImage()
    colors = {
        picture.pixelColor(x, y).name().upper()
        for x in range(picture.width())
        for y in range(picture.height())
    }
    look = theme().palette.look(Precision.FP32)
    assert look.dim in colors and look.color not in colors


def test_what_has_nothing_to_show_in_a_plot_is_not_named_there(panel: LivePanel) -> None:
    panel.set_beneath([(live("b", "fp32", 50, 3.0), "Run 5")])
    panel.set_runs([live("a", "bf16", 50, 1.0)])
    assert [entry.name for entry in panel.plots.memory.legend.entries] == ["BF16 AMP"]


def test_what_counts_something_else_is_left_out_of_that_plot(panel: LivePanel) -> None:
    other = live("b", "fp32", 50, 3.0, dataset="synthetic-regression", model="linear")
    other.loss_name = "mean squared error"
    panel.set_beneath([(other, "Run 5")])
    panel.set_runs([live("a", "bf16", 50, 1.0)])
    for plot in (panel.plots.loss, panel.plots.speed):
        assert len(plot.legend.entries) == 1


def test_the_window_lays_the_other_precision_under_the_run_that_trains(
    store: Store, start: Callable[[], MainWindow]
) -> None:
    ids = {}
    for precision, steps in (("fp32", 100), ("fp16", 100), ("bf16", 20)):
        begin, samples = events(precision, steps, 1.0)
        ids[precision] = store.add(begin.experiment).id
        store.begin(ids[precision])
        store.record(ids[precision], [begin, samples])
        if steps == 100:
            store.record(ids[precision], [Finished(summary=Summary(steps=steps))])
    window = start()

    def shown() -> list[str]:
        return [curve.precision.value for curve in window.live.plots.loss._curves]

    window.in_view.show((ids["bf16"],))
    assert shown() == ["bf16", "fp16", "fp32"]
    window.runs.set_checked([ids["fp32"]])
    assert shown() == ["bf16", "fp32"]
    store.record(ids["bf16"], [Finished(summary=Summary(steps=20))])
    window.experiments.runs.reload()
    window.runs.set_checked([ids["fp16"], ids["bf16"]])
    assert shown() == ["bf16"]
    window.in_view.show((ids["fp16"],))
    assert shown() == ["fp16"]
    np.testing.assert_array_equal(window.live.plots.loss._curves[0].x, np.arange(1, 101))
