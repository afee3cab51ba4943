"""The live panel: events in; cards, details and hints out."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Summary
from engine.protocol.summary import Energy
from gui.charts.live_plot import LEAST_HEIGHT
from gui.train.panel import LivePanel, LiveRun


def test_without_runs_it_asks_the_question(panel: LivePanel, qtbot: QtBot) -> None:
    panel.set_offer("What does BF16 AMP gain?", "It trains twice.", [(Precision.FP32, "FP32")])
    assert panel.empty.words() == "What does BF16 AMP gain? It trains twice."
    with qtbot.waitSignal(panel.experiment_wanted):
        panel.empty.button.click()
    panel.set_pilot("Pilot of cell 2")
    assert panel.empty.words().startswith("Pilot of cell 2")


def test_a_run_that_failed_before_its_first_step_says_so_and_what_to_do(panel: LivePanel, live: Any) -> None:
    problem = Problem(
        kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower batch size."
    )
    run = live.run("fp32", live.started(), Failed(problem=problem))
    run.set_status("failed", None, problem)
    panel.set_runs([run])
    panel.open_details()
    assert panel.page.failure.isVisible() and not panel.plots.isVisible() and not panel.cards.isVisible()
    assert panel.page.failure.accessibleName() == "The device ran out of memory. Lower batch size."
    assert panel.strip.status.whole_text() == "FP32 failed"
    texts = panel.details.texts()
    assert texts[texts.index("What to do") + 1] == "Lower batch size."
    assert "The device ran out of memory." in texts


def test_a_failure_gives_way_to_curves(panel: LivePanel, live: Any) -> None:
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="")
    panel.set_runs([live.run("fp32", live.started(), Failed(problem=problem))])
    assert panel.page.failure.isVisible()
    panel.set_runs(live.pair())
    assert not panel.page.failure.isVisible() and panel.plots.isVisible() and panel.cards.isVisible()


def test_the_cards_compare_both_runs(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    cards = panel.cards
    assert cards.throughput.texts() == ("FP32 880", "FP16 AMP 1,663")
    assert cards.throughput.ratio() == "1.89×"
    assert cards.step_time.texts() == ("FP32 72.7", "FP16 AMP 38.5")
    assert cards.step_time.ratio() == "0.53×"
    assert cards.memory.texts() == ("FP32 10.2", "FP16 AMP 3.10")
    assert cards.memory.accessibleName().startswith("Peak VRAM GiB")
    assert cards.quality.texts() == ("FP32 61.3", "FP16 AMP 54.8")
    assert cards.scale.texts() == ("FP32 not used", "FP16 AMP 32,768")
    assert cards.skipped.texts() == ("FP32 not used", "FP16 AMP 3of 126")


def test_until_memory_is_told_nobody_says_whose_it_is(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32")])
    assert panel.cards.memory.accessibleName().startswith("Peak memory")


def test_a_throughput_without_pictures_leaves_room_for_its_ratio(panel: LivePanel) -> None:
    panel.set_runs([LiveRun.of("one", Experiment(dataset="synthetic-tokens"))])
    assert panel.cards.throughput.accessibleName().startswith("Throughput /s")


def test_the_accuracy_card_switches_to_the_loss_and_back(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    qtbot.mouseClick(panel.cards.loss_switch, Qt.MouseButton.LeftButton)
    assert panel.cards.quality.texts()[0] == "FP32 1.530"
    assert panel.cards.loss_switch.text() == "Accuracy"
    qtbot.mouseClick(panel.cards.loss_switch, Qt.MouseButton.LeftButton)
    assert panel.cards.quality.texts()[0] == "FP32 61.3"


def test_the_cards_own_figures_stand_in_a_line_and_a_cpu_has_none(panel: LivePanel, live: Any) -> None:
    columns: dict[str, tuple[float, ...]] = {
        "gpu_utilization_percent": (97.0,) * 50,
        "power_watts": (1_012.4,) * 50,
        "temperature_celsius": (61.0,) * 50,
        "data_wait_ms": (0.64 / 880 * 1000,) * 50,
    }
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, **columns))])
    words = panel.gauges.words.whole_text()
    assert words == "FP32   GPU busy 97 %  ·  1,012 W  ·  61 °C  ·  waiting for data 1 %"
    assert panel.gauges.isVisible()
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert not panel.gauges.isVisible()


def test_a_card_that_tells_its_activity_has_a_card_for_its_tensor_cores(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp16", live.started(), live.samples(1, 50))])
    assert panel.cards.tensor_cores not in panel.cards.cards and not panel.cards.tensor_cores.isVisible()
    columns: dict[str, tuple[float, ...]] = {
        "tensor_activity_percent": (41.6,) * 50,
        "sm_activity_percent": (88.0,) * 50,
        "clock_mhz": (1_410.0,) * 50,
        "slowdown": (5.0,) * 50,
    }
    panel.set_runs([live.run("fp16", live.started(), live.samples(1, 50, **columns))])
    assert panel.cards.tensor_cores.isVisible() and len(panel.cards.cards) == 7
    assert panel.cards.tensor_cores.texts() == ("FP16 AMP 42SMs 88",)
    assert panel.gauges.words.whole_text() == (
        "FP16 AMP   Tensor Cores 42 %  ·  SMs 88 %  ·  1,410 MHz (held down by heat and the power limit)"
    )


def test_a_low_panel_keeps_its_height_for_the_plots(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, power_watts=(600.0,) * 50))])
    assert panel.gauges.isVisible()
    panel.resize(1120, 500)
    qtbot.waitUntil(lambda: not panel.gauges.isVisible())


def test_the_details_say_what_was_in_force_and_what_was_not(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    summary = Summary(
        recipe="channels_last+fused+capture",
        left_out={"compile": "this model has a loop that changes."},
        float32_mode="strict",
        warmup_seconds=48.1,
        compile_seconds=41.0,
        parameters_mib=97.5,
        gradients_mib=97.5,
        activations_mib=1_900.0,
        first_nan_step=1_204,
        paused_seconds=12.5,
        energy=Energy(source="nvml", joules=6_400, seconds=20, steps=100, samples=64_000, idle_watts=60),
    )
    plain = live.run("fp32", live.started(), live.samples(1, 20), Finished(summary=Summary(recipe="plain")))
    panel.set_runs([plain, live.run("fp16", live.started("fp16"), Finished(summary=summary))])
    assert not panel.details.isVisible()
    qtbot.mouseClick(panel.strip.details, Qt.MouseButton.LeftButton)
    assert panel.details.isVisible()
    texts = panel.details.texts()
    assert texts[:5] == (
        "FP32",
        "FP16 AMP",
        "Recipe used",
        "Plain",
        "Channels last + fused optimizer + captured",
    )
    for words in (
        "compiling: this model has a loop that changes",
        "48.1 s, including compiling 41.0 s",
        "at step 1,204",
        "12.5 s",
        "100 J/1,000 samples, 64.0 J a step, 320 W on average, 60 W of it idle",
        "parameters 0.10 GiB, gradients 0.10 GiB, activations 1.86 GiB",
    ):
        assert words in texts
    qtbot.mouseClick(panel.strip.details, Qt.MouseButton.LeftButton)
    assert not panel.details.isVisible()


def test_before_the_end_the_details_say_what_was_asked_for(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32", live.started(step={"recipe": "fast"}))])
    panel.open_details()
    assert panel.details.texts() == (
        "FP32",
        "Requested recipe",
        "Fast",
        "The rest is known once the run has ended.",
    )


def test_on_a_cpu_the_words_are_of_memory_in_mib(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert panel.cards.memory.accessibleName() == "Peak memory MiB: FP32 300"


def test_a_narrow_panel_has_two_rows_of_three_cards(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    assert len({card.y() for card in panel.cards.cards}) == 1
    panel.resize(780, 500)
    qtbot.waitUntil(lambda: len({card.y() for card in panel.cards.cards}) == 2)
    assert panel.width() == 780


def test_nothing_is_cut_off_in_the_smallest_window(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.resize(780, 440)
    qtbot.waitUntil(lambda: panel.plots.loss.height() >= LEAST_HEIGHT)
    for plot in (panel.plots.loss, panel.plots.speed):
        assert plot.canvas.area().height() > 50 and plot.canvas.area().width() > 200
    for card in panel.cards.cards:
        assert card.height() >= card.minimumSizeHint().height()


def test_every_control_says_what_it_does(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    for button in panel.findChildren(QAbstractButton):
        assert button.accessibleName() and button.toolTip(), button
    for plot in panel.plots.plots:
        assert plot.canvas.accessibleName() and plot.legend.accessibleName()


def test_new_runs_take_the_place_of_the_old_ones(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.set_runs([live.run("tf32", live.started("tf32"), live.samples(1, 30))])
    assert panel.cards.throughput.texts() == ("TF32 880",)
    assert [entry.name for entry in panel.plots.loss.legend.entries] == ["TF32"]
    panel.set_runs([])
    panel.refresh()
    assert panel.runs() == ()
