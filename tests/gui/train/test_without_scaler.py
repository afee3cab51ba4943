"""What the live panel tells in the place of the grad scale and the skipped steps, where nothing is scaled."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.events import Epoch, Event, Finished, Samples, Summary
from gui.train.panel import LivePanel, LiveRun

WAIT_MS, RATE = 5.0, 640.0
"""At a batch of 64 a step takes 100 ms, of which it waits 5 %."""


def run_of(precision: str, *events: Event, **settings: object) -> LiveRun:
    experiment = Experiment.model_validate({"precision": precision, "batch_size": 64, **settings})
    run = LiveRun.of(f"run-{precision}", experiment)
    run.set_status("running")
    run.take(
        Samples(
            step=tuple(range(1, 101)),
            seconds=tuple(step * 0.1 for step in range(100)),
            loss=tuple(5.0 / step for step in range(1, 101)),
            samples_per_second=(RATE,) * 100,
            learning_rate=(0.1,) * 100,
            data_wait_ms=(WAIT_MS,) * 100,
        )
    )
    run.take_all(events)
    return run


def epochs(*accuracies: float | None) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(epoch=n, step=50 * n, seconds=5.0 * n, train_loss=1.0, validation_accuracy=accuracy)
        for n, accuracy in enumerate(accuracies, start=1)
    )


@pytest.fixture
def panel(qtbot: QtBot) -> LivePanel:
    panel = LivePanel()
    qtbot.addWidget(panel)
    panel.resize(1_120, 820)
    panel.show()
    return panel


def titles(panel: LivePanel) -> list[str]:
    assert all(one.isVisible() for one in (*panel.cards.cards, *panel.plots.plots))
    return [card.accessibleName().partition(":")[0].strip() for card in panel.cards.cards]


def test_accuracy_and_waiting_have_the_cards_that_a_scaler_would_have(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp32", *epochs(0.5)), run_of("bf16", *epochs(0.4, 0.6))])
    assert titles(panel)[3:] == ["Epoch loss", "Accuracy %", "Waiting for data %"]
    assert panel.cards.accuracy.texts() == ("FP32 50.0", "BF16 AMP 60.0")
    assert panel.cards.waiting.texts() == ("FP32 5.0", "BF16 AMP 5.0")
    assert not panel.cards.scale.isVisible() and not panel.cards.loss_switch.isVisible()


def test_the_accuracy_of_each_epoch_has_the_plot_of_the_grad_scale(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp32", *epochs(0.5, 0.7))])
    plot = panel.plots.plots[1]
    assert plot is panel.plots.accuracy and plot.isVisible() and not panel.plots.scale.isVisible()
    assert [(entry.name, entry.value) for entry in plot.legend.entries] == [("FP32", "70.0")]
    plot.hovered.emit(50.0)
    assert plot.legend.entries[0].value == "50.0"
    panel.set_by("seconds")
    panel.plots.set_crosshair(5.0)
    assert plot.legend.entries[0].value == "50.0"


def test_where_there_is_no_accuracy_the_plot_is_of_waiting(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp32", *epochs(None))])
    assert panel.plots.plots[1] is panel.plots.waiting
    assert panel.plots.waiting.legend.entries[0].value == "5.00"
    over = run_of("bf16", *epochs(None), Finished(summary=Summary(steps=100, data_wait_fraction=0.2)))
    panel.set_runs([over])
    assert panel.plots.plots[1] is panel.plots.waiting
    assert panel.cards.waiting.texts() == ("BF16 AMP 20.0",)


def test_before_the_first_epoch_the_accuracy_is_waited_for(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp32")])
    assert panel.plots.plots[1] is panel.plots.accuracy
    assert "after each epoch" in panel.plots.accuracy.canvas.frame.hint


@pytest.mark.parametrize(
    "settings",
    [{"validation": {"every": 0}}, {"model": "linear", "dataset": "synthetic-regression"}],
    ids=["not asked for", "nothing to validate on"],
)
def test_an_accuracy_that_will_never_come_is_not_waited_for(
    panel: LivePanel, settings: dict[str, object]
) -> None:
    panel.set_runs([run_of("fp32", **settings)])
    assert panel.plots.plots[1] is panel.plots.waiting


def test_the_grad_scale_stays_where_any_of_the_runs_has_a_scaler(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp32", *epochs(0.5)), run_of("bf16")])
    panel.set_runs([run_of("fp32", *epochs(0.5)), run_of("fp16", *epochs(0.6))])
    assert titles(panel)[3:] == ["Accuracy %", "Grad scale", "Skipped steps"]
    assert panel.plots.plots[1] is panel.plots.scale and panel.cards.loss_switch.isVisible()
    assert panel.cards.scale.texts()[0] == "FP32 not used"
    panel.set_runs([run_of("fp16", scaler={"mode": "off"})])
    assert panel.plots.plots[1] is panel.plots.accuracy


def test_what_was_looked_at_is_looked_at_in_the_other_plot_too(panel: LivePanel) -> None:
    panel.set_runs([run_of("fp16")])
    panel.plots.set_x_range((20.0, 60.0))
    panel.plots.show_runs([run_of("fp32", *epochs(0.5))])
    panel.plots.refresh()
    assert {plot.canvas.frame.x_range for plot in panel.plots.plots} == {(20.0, 60.0)}
