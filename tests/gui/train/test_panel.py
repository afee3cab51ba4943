"""The live panel: events in; cards, details, hints and the line on top out."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Phase, PhaseName, Summary
from engine.protocol.summary import Energy, RankMemory, RankMetrics
from gui.charts.live_plot import LEAST_HEIGHT
from gui.train.figures import step_ms
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
    panel.set_runs(live.pair())
    assert not panel.page.failure.isVisible() and panel.plots.isVisible() and panel.cards.isVisible()


def test_a_side_that_failed_says_so_above_the_other_one_that_trains(
    panel: LivePanel, live: Any, qtbot: QtBot
) -> None:
    taken: list[str] = []
    panel.offers_after = lambda _run_ids: [("Try batch 100", lambda: taken.append("100"))]
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It does not fit.", remedy="Lower it.")
    failed = live.run("fp32", live.started(), Failed(problem=problem))
    panel.set_runs([failed, live.run("fp16", live.started("fp16"), live.samples(1, 50))])
    card = panel.page.failure
    assert card.isVisible() and panel.plots.isVisible() and panel.failure == problem
    assert card.accessibleName() == "FP32 failed. It does not fit. Lower it."
    assert panel.cards.throughput.texts() == ("FP32 failed", "FP16 AMP 880")
    (remedy,) = card.remedies()
    qtbot.mouseClick(remedy, Qt.MouseButton.LeftButton)
    assert taken == ["100"] and remedy.text() == "Try batch 100"
    assert not card.check.isVisible() and not card.again.isVisible(), "the same would run out again"


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
    cards.loss_switch.click()
    assert cards.quality.ratio() == "at step 126" and cards.loss_switch.text() == "Accuracy"
    cards.loss_switch.click()
    assert cards.quality.texts()[0] == "FP32 61.3"


def test_after_a_stop_both_are_compared_at_the_step_of_the_shorter_one(panel: LivePanel, live: Any) -> None:
    whole, cut = live.pair()
    cut.take(Finished(summary=Summary(steps=126, final_train_loss=0.04), stopped=True))
    panel.set_runs([whole, cut])
    panel.cards.loss_switch.click()
    assert panel.cards.quality.ratio() == "at step 126"
    assert "1.53" not in panel.cards.quality.texts()[0], "which is the loss at the end of the longer one"


@pytest.mark.parametrize("size", [(1_120, 840), (780, 640), (640, 500)])
def test_the_cards_of_many_runs_are_not_squeezed_while_they_train(
    panel: LivePanel, live: Any, qtbot: QtBot, squeezed: Any, size: tuple[int, int]
) -> None:
    panel.resize(*size)
    runs = [live.run(one.value, live.started(one.value), live.samples(1, 50)) for one in Precision]
    panel.set_runs(runs)
    qtbot.waitUntil(lambda: not squeezed(panel.cards))


def test_the_cards_name_the_memory_and_the_samples_as_what_they_are(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32")])
    assert panel.cards.memory.accessibleName().startswith("Peak memory"), "nobody knows yet whose"
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert panel.cards.memory.accessibleName() == "Peak memory MiB: FP32 300"
    panel.set_runs([LiveRun.of("one", Experiment(dataset="synthetic-tokens"))])
    assert panel.cards.throughput.accessibleName().startswith("Throughput /s"), "with room for its ratio"


def test_the_cards_own_figures_stand_in_a_line_where_there_is_room_and_a_cpu_has_none(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    columns: dict[str, tuple[float, ...]] = {
        "gpu_utilization_percent": (97.0,) * 50,
        "power_watts": (1_012.4,) * 50,
        "temperature_celsius": (61.0,) * 50,
        "data_wait_ms": (0.64 / 880 * 1000,) * 50,
    }
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, **columns))])
    words = panel.gauges.words.whole_text()
    assert words == "FP32   GPU busy 97%  ·  1,012 W  ·  61 °C  ·  waiting for data 1%"
    assert panel.gauges.isVisible()
    panel.resize(1120, 500)
    qtbot.waitUntil(lambda: not panel.gauges.isVisible())
    panel.resize(1120, 660)
    qtbot.waitUntil(panel.gauges.isVisible)
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert not panel.gauges.isVisible()


def test_the_memory_of_each_device_stands_in_a_line_while_it_trains_and_once_it_has(
    panel: LivePanel, live: Any
) -> None:
    strip = panel.page.ranks
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50))])
    assert not strip.isVisible(), "a single device has its card and its curve"
    events = (live.started(), live.samples(1, 50), RankMemory(mib=(2_048.0, 3_072.0)))
    panel.set_runs([live.run("fp16", *events)])
    assert strip.isVisible()
    assert strip.accessibleName().startswith("Memory by rank. Rank 0: 2.0 GiB, Rank 1: 3.0 GiB, A full bar")
    ranks = tuple(RankMetrics(device=f"cuda:{rank}", peak_mib=4_096.0 + rank) for rank in range(2))
    panel.set_runs([live.run("fp16", *events, Finished(summary=Summary(ranks=ranks)))])
    assert strip.accessibleName().startswith("Peak memory by rank. Rank 0: 4.0 GiB, Rank 1: 4.0 GiB")


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
        "FP16 AMP   Tensor Cores 42%  ·  SMs 88%  ·  1,410 MHz (throttled by heat and the power limit)"
    )


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
        "Applied optimizations",
        "Plain",
        "Channels last + fused optimizer + captured",
    )
    for words in (
        "compiling: this model has a loop that changes",
        "48.1 s, including compiling 41.0 s",
        "at step 1,204",
        "12.5 s",
        "100 J/1,000 samples, 64.0 J per step, 320 W on average, of which 60 W idle",
        "parameters 0.10 GiB, gradients 0.10 GiB, activations 1.86 GiB",
    ):
        assert words in texts
    panel.set_runs([live.run("fp32", live.started(step={"recipe": "fast"}))])
    later = "The rest is known once the run has ended."
    assert panel.details.texts() == ("FP32", "Requested optimizations", "Fast", later)
    qtbot.mouseClick(panel.strip.details, Qt.MouseButton.LeftButton)
    assert not panel.details.isVisible()


def test_a_narrow_panel_has_two_rows_of_cards_and_nothing_is_cut_off(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    panel.set_runs(live.pair())
    assert len({card.y() for card in panel.cards.cards}) == 1
    panel.resize(780, 440)
    qtbot.waitUntil(lambda: len({card.y() for card in panel.cards.cards}) == 2)
    assert panel.width() == 780
    qtbot.waitUntil(lambda: panel.plots.loss.height() >= LEAST_HEIGHT)
    for plot in (panel.plots.loss, panel.plots.speed):
        assert plot.canvas.area().height() > 50 and plot.canvas.area().width() > 200
    for card in panel.cards.cards:
        assert card.height() >= card.minimumSizeHint().height()


def test_every_control_says_what_it_does_and_new_runs_take_the_place_of_the_old_ones(
    panel: LivePanel, live: Any
) -> None:
    panel.set_runs(live.pair())
    for button in panel.findChildren(QAbstractButton):
        assert button.accessibleName() and button.toolTip(), button
    assert all(plot.canvas.accessibleName() and plot.legend.accessibleName() for plot in panel.plots.plots)
    panel.set_runs([live.run("tf32", live.started("tf32"), live.samples(1, 30))])
    assert panel.cards.throughput.texts() == ("TF32 880",)
    assert [entry.name for entry in panel.plots.loss.legend.entries] == ["TF32"]
    panel.set_runs([])
    panel.refresh()
    assert panel.runs() == ()


def test_the_strip_says_what_runs_how_far_it_is_and_how_long_all_work_takes(
    panel: LivePanel, live: Any
) -> None:
    def train_on(first: int) -> None:
        runs[1].take(live.samples(first, 10, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 10))
        panel.refresh()

    runs = live.pair()
    panel.set_runs(runs)
    strip, left = panel.strip, panel.strip.left
    assert strip.title.whole_text() == "FP32 against FP16 AMP"
    assert strip.status.whole_text() == "FP16 AMP running, 2 of 2"
    assert strip.step.text() == "step 126 of 200" and strip.progress.fraction() == pytest.approx(0.63)
    assert left.text() == "3 s left"
    panel.set_title("Fashion")
    strip.set_work_left(90.0, at_least=True)
    train_on(127)
    assert strip.title.whole_text() == "Fashion"
    assert left.text() == "at least 1 min 30 s left" and left.toolTip().endswith("This run: 3 s left")
    strip.set_work_left(0.0, at_least=True)
    panel.set_runs(runs)
    assert left.text() == "at least 3 s left"
    strip.set_work_left(None)
    train_on(137)
    assert left.text() == "3 s left"


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (Phase(name=PhaseName.VALIDATING), " · validating"),
        (Phase(name=PhaseName.MEASURING), ""),
        (Phase(name=PhaseName.CHECKING, detail="lstm_tagger.py"), " · checking lstm_tagger.py"),
        (Phase(name=PhaseName.CHECKING, fraction=0.5), " · checking the images"),
        (
            Phase(name=PhaseName.DOWNLOADING, fraction=0.42, detail="CIFAR-100, 161 MiB"),
            " · downloading CIFAR-100, 161 MiB",
        ),
    ],
)
def test_a_phase_other_than_measuring_is_named(panel: LivePanel, live: Any, phase: Phase, words: str) -> None:
    panel.set_runs([live.run("fp32", phase)])
    assert panel.strip.status.whole_text() == f"FP32 running{words}"
    if phase.fraction is not None:
        assert panel.strip.step.text() == f"{100 * phase.fraction:.0f}%"
        assert panel.strip.progress.fraction() == pytest.approx(phase.fraction)


def test_compiling_says_that_it_takes_time_and_for_how_long_it_has(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", Phase(name=PhaseName.COMPILING))
    panel.set_runs([run])
    status = panel.strip.status
    assert status.whole_text() == "FP32 running · compiling, this can take a minute"
    assert not panel.strip.step.isVisible()
    run.phase_began -= 23
    panel.refresh()
    assert status.whole_text() == "FP32 running · compiling, this can take a minute · 23 s"
    panel.resize(780, 500)
    panel.set_runs([run])
    status.resize(150, 20)
    assert status.text() == "FP32 compiling · 23 s"


def test_what_a_run_in_a_cluster_waits_for_is_shown(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", Phase(name=PhaseName.WAITING, detail="waiting for a free node"))
    panel.set_runs([run])
    assert panel.strip.status.whole_text() == "FP32 running · waiting for a free node"


def test_a_pause_is_asked_then_there_then_over(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    def shown(asked: bool | None) -> tuple[str, str]:
        panel.set_pause_asked(asked)
        return panel.strip.pause.text(), panel.strip.status.whole_text()

    run = live.pair()[1]
    panel.set_runs([run])
    with qtbot.waitSignal(panel.pause_toggled):
        qtbot.mouseClick(panel.strip.pause, Qt.MouseButton.LeftButton)
    assert shown(True) == ("Resume", "FP16 AMP pausing")
    run.take(Phase(name=PhaseName.PAUSED))
    assert shown(None) == ("Resume", "FP16 AMP paused")
    assert panel.strip.left.text() == "" and panel.strip.stop.isEnabled()
    assert shown(False) == ("Pause", "FP16 AMP resuming")
    run.take(Phase(name=PhaseName.MEASURING))
    assert shown(None) == ("Pause", "FP16 AMP running")


def test_stop_asks_once_and_a_failed_run_tells_why(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    with qtbot.waitSignal(panel.stop_requested):
        qtbot.mouseClick(panel.strip.stop, Qt.MouseButton.LeftButton)
    assert not panel.strip.stop.isEnabled()
    assert panel.strip.status.whole_text() == "FP16 AMP stopping, 2 of 2"
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 3), Failed(problem=problem))])
    assert panel.strip.status.whole_text() == "FP32 failed"
    assert "It did not fit." in panel.page.failure.accessibleName() and panel.plots.isVisible()
    assert not panel.strip.stop.isVisible()


def test_the_details_have_a_row_for_each_device(panel: LivePanel, live: Any) -> None:
    ranks = tuple(
        RankMetrics(
            device=f"cuda:{place}",
            samples_per_second=speed,
            step_ms=128_000 / speed / 2,
            peak_mib=peak,
            exposed_ms=exposed,
        )
        for place, (speed, peak, exposed) in enumerate(((640.0, 512.0, 40.0), (500.0, 400.0, 8.0)))
    )
    summary = Summary(recipe="plain", ranks=ranks)
    shared = live.run("fp16", live.started("fp16", devices=2), Finished(summary=summary))
    panel.set_runs([live.run("fp32", live.started(), Finished(summary=Summary(recipe="plain"))), shared])
    panel.open_details()
    texts = panel.details.texts()
    first = texts.index("Rank 0, cuda:0")
    assert texts[first + 1 : first + 6] == (
        "–",
        "640 img/s · step 100 ms · peak 512 MiB, largest",
        "Rank 1, cuda:1",
        "–",
        "500 img/s, slowest · step 128 ms · peak 400 MiB",
    )


def test_a_step_takes_the_samples_of_all_devices(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", live.started(devices=2), live.samples(1, 100, rate=1_280.0))
    assert step_ms(run) == pytest.approx(100.0)
