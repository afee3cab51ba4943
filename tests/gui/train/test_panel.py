"""The live panel: events in, figures and curves out."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import (
    Environment,
    Epoch,
    Event,
    Failed,
    Finished,
    Heartbeat,
    Phase,
    PhaseName,
    Samples,
    Skipped,
    Started,
    Summary,
)
from gui.charts.live_plot import LEAST_HEIGHT
from gui.theme.theme import theme
from gui.train import figures as figures
from gui.train.panel import NONE_OPEN, NOTHING_YET, LivePanel, LiveRun


def started(precision: str = "fp32", steps: int = 200, **more: object) -> Started:
    settings = {"precision": precision, "steps": steps, "batch_size": 64, **more}
    return Started(
        experiment=Experiment.model_validate(settings),
        environment=Environment(
            device_name="NVIDIA H200",
            device_memory_mib=143_155.0,
            torch="2.11",
            python="3.12",
            os="Linux",
            ammeter="0.1.0",
        ),
        total_steps=steps,
        steps_per_epoch=100,
        parameters=25_600_000,
        loss_name="cross-entropy",
        loss_unit="nats",
    )


def samples(
    first: int, count: int, rate: float = 880.0, mib: float = 10_000.0, **columns: tuple[float, ...]
) -> Samples:
    steps = tuple(range(first, first + count))
    memory = {} if "resident_mib" in columns else {"allocated_mib": (mib,) * count}
    return Samples(
        step=steps,
        seconds=tuple(step * 64 / rate for step in steps),
        loss=tuple(5.0 / step for step in steps),
        samples_per_second=(rate,) * count,
        learning_rate=(0.1,) * count,
        **memory,
        **columns,
    )


def made(precision: str, *events: Event) -> LiveRun:
    run = LiveRun.of(f"run-{precision}", Experiment(precision=Precision(precision)))
    run.take_all(events)
    return run


def pair() -> tuple[LiveRun, LiveRun]:
    """FP32, finished, and FP16 AMP in the middle of its run."""
    summary = Summary(
        steps=200,
        samples_per_second=880.0,
        step_ms=72.73,
        peak_allocated_mib=10_400.0,
        final_train_loss=1.53,
        final_validation_accuracy=0.613,
    )
    scale = (65_536.0,) * 26 + (32_768.0,) * 100
    return (
        made("fp32", started(), samples(1, 200), Finished(summary=summary)),
        made(
            "fp16",
            started("fp16"),
            samples(1, 126, 1663.0, 3_174.0, grad_scale=scale),
            Skipped(steps=(4, 12, 26)),
            Epoch(epoch=1, step=100, seconds=4.0, train_loss=2.0, validation_accuracy=0.548),
        ),
    )


@pytest.fixture
def panel(qtbot: QtBot) -> LivePanel:
    theme().set_mode("dark")
    panel = LivePanel()
    qtbot.addWidget(panel)
    panel.resize(1120, 660)
    panel.show()
    return panel


class TestLiveRun:
    def test_batches_are_appended_and_the_last_step_is_known(self) -> None:
        run = made("fp32", started(), samples(1, 3000), samples(3001, 10))
        assert run.step == 3010 and run.total_steps == 200
        np.testing.assert_array_equal(run.column("step"), np.arange(1, 3011))
        assert len(run.column("grad_scale")) == 0
        assert run.status == "running" and not run.is_over

    def test_it_is_named_for_its_precision_unless_it_has_a_label(self) -> None:
        assert made("bf16").label == "BF16 AMP"
        assert LiveRun.of("a", Experiment(), "Run 3").label == "Run 3"

    def test_it_ends_as_the_last_event_says(self) -> None:
        assert made("fp32", started(), Finished(summary=Summary())).status == "finished"
        assert made("fp32", started(), Finished(summary=Summary(), stopped=True)).status == "stopped"
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
        failed = made("fp32", started(), Failed(problem=problem))
        assert failed.status == "failed" and failed.problem == problem and failed.is_over

    def test_a_heartbeat_changes_nothing(self) -> None:
        run = made("fp32", started())
        before = run.revision
        run.take(Heartbeat(step=3))
        assert run.revision == before

    def test_a_phase_before_the_start_is_of_a_run_that_runs(self) -> None:
        run = made("fp32", Phase(name=PhaseName.BUILDING, detail="resnet50"))
        assert run.status == "running"

    def test_a_resumed_run_forgets_what_it_trains_again(self) -> None:
        run = pair()[1]
        run.take(Finished(summary=Summary(steps=126), stopped=True))
        run.set_status("queued")
        again = started("fp16").model_copy(update={"resumed_step": 20})
        run.take_all([again, samples(21, 5, 1663.0, 3_174.0, grad_scale=(8_192.0,) * 5)])
        np.testing.assert_array_equal(run.column("step"), np.arange(1, 26))
        assert list(run.skipped.values) == [4, 12]
        assert run.epochs == [] and run.summary is None and run.status == "running"

    def test_a_step_counts_all_that_it_accumulates(self) -> None:
        run = made("fp32", started(step={"gradient_accumulation": 4}), samples(1, 40, 512.0))
        assert run.batch_size == 256
        assert figures.step_ms(run) == pytest.approx(500.0)

    def test_without_pictures_the_unit_is_samples(self) -> None:
        run = made("fp32", started(model="linear", dataset="synthetic-regression"))
        assert run.unit == "samples/s"


class TestFigures:
    def test_speed_leaves_the_warm_up_out(self) -> None:
        run = made("fp32", started(), samples(1, 10, 10.0), samples(11, 40, 500.0))
        assert figures.samples_per_second(run) == pytest.approx(500.0)
        assert figures.step_ms(run) == pytest.approx(128.0)

    def test_speed_of_a_block_is_all_its_samples_over_all_its_time(self) -> None:
        run = made("fp32", started(), samples(1, 10))
        run.load({"samples_per_second": [100.0, 300.0] * 5})
        assert figures.samples_per_second(run) == pytest.approx(150.0)

    def test_the_summary_holds_once_it_is_there(self) -> None:
        run = pair()[0]
        assert figures.samples_per_second(run) == 880.0
        assert figures.peak_memory_mib(run) == 10_400.0
        assert figures.accuracy(run) == 0.613
        assert figures.grad_scale(run) is None and figures.skipped_steps(run) is None

    def test_what_is_not_known_yet_is_none(self) -> None:
        run = made("fp32", started())
        for figure in (
            figures.samples_per_second,
            figures.step_ms,
            figures.peak_memory_mib,
            figures.accuracy,
            figures.train_loss,
            figures.grad_scale,
            figures.skipped_steps,
            figures.seconds_left,
        ):
            assert figure(run) is None

    def test_on_a_cpu_memory_is_the_resident_one(self) -> None:
        run = made("fp32", started(), samples(1, 20, resident_mib=tuple(range(100, 120))))
        assert figures.is_on_cpu(run)
        assert figures.peak_memory_mib(run) == 119.0

    def test_the_time_left_follows_the_pace(self) -> None:
        run = made("fp32", started(), samples(1, 100, 640.0))
        assert figures.seconds_left(run) == pytest.approx(10.0)


class TestLivePanel:
    def test_without_runs_it_says_what_to_do(self, panel: LivePanel) -> None:
        panel.refresh()
        shown = [label.text() for label in panel.findChildren(QLabel) if label.isVisible()]
        assert shown == list(NOTHING_YET[:2])

    def test_without_runs_it_offers_the_first_one_or_to_open_the_newest(
        self, panel: LivePanel, qtbot: QtBot
    ) -> None:
        with qtbot.waitSignal(panel.experiment_wanted):
            panel.empty.button.click()
        panel.set_has_saved(True)
        assert panel.empty.words() == " ".join(NONE_OPEN[:2])
        with qtbot.waitSignal(panel.newest_wanted), qtbot.assertNotEmitted(panel.experiment_wanted):
            panel.empty.button.click()

    def test_a_run_that_failed_before_its_first_step_says_so_and_what_to_do(self, panel: LivePanel) -> None:
        problem = Problem(
            kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower batch_size."
        )
        run = made("fp32", started(), Failed(problem=problem))
        run.set_status("failed", None, problem)
        panel.set_runs([run])
        panel.open_details()
        hints = {plot.canvas.frame.hint for plot in panel.plots.plots}
        assert hints == {"No curve: it ended before its first step."}
        texts = panel.details.texts()
        assert texts[texts.index("What to do") + 1] == "Lower batch size."
        assert "The device ran out of memory." in texts

    def test_the_cards_compare_both_runs(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
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

    def test_until_memory_is_told_nobody_says_whose_it_is(self, panel: LivePanel) -> None:
        panel.set_runs([made("fp32")])
        assert panel.cards.memory.accessibleName().startswith("Peak memory")

    def test_a_throughput_without_pictures_leaves_room_for_its_ratio(self, panel: LivePanel) -> None:
        panel.set_runs([LiveRun.of("one", Experiment(dataset="synthetic-tokens"))])
        assert panel.cards.throughput.accessibleName().startswith("Throughput /s")

    def test_the_accuracy_card_switches_to_the_loss_and_back(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        qtbot.mouseClick(panel.cards.loss_switch, Qt.MouseButton.LeftButton)
        assert panel.cards.quality.texts()[0] == "FP32 1.530"
        assert panel.cards.loss_switch.text() == "Accuracy"
        qtbot.mouseClick(panel.cards.loss_switch, Qt.MouseButton.LeftButton)
        assert panel.cards.quality.texts()[0] == "FP32 61.3"

    def test_the_strip_says_what_runs_and_how_far_it_is(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        strip = panel.strip
        assert strip.title.whole_text() == "FP32 against FP16 AMP"
        assert strip.status.whole_text() == "FP16 AMP running, 2 of 2"
        assert strip.step.text() == "step 126 of 200"
        assert strip.progress.fraction() == pytest.approx(0.63)
        assert strip.left.text() == "3 s left"
        panel.set_title("Fashion")
        panel.refresh()
        assert strip.title.whole_text() == "Fashion"

    def test_a_phase_other_than_measuring_is_named(self, panel: LivePanel) -> None:
        run = made("fp32", started(), Phase(name=PhaseName.VALIDATING))
        panel.set_runs([run])
        assert panel.strip.status.whole_text() == "FP32 running · validating"
        run.take(Phase(name=PhaseName.MEASURING))
        panel.refresh()
        assert panel.strip.status.whole_text() == "FP32 running"

    def test_compiling_says_that_it_takes_time_and_for_how_long_it_has(self, panel: LivePanel) -> None:
        run = made("fp32", Phase(name=PhaseName.COMPILING))
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

    def test_a_download_shows_how_far_it_is(self, panel: LivePanel) -> None:
        panel.set_runs(
            [made("fp32", Phase(name=PhaseName.DOWNLOADING, fraction=0.42, detail="CIFAR-100, 161 MiB"))]
        )
        strip = panel.strip
        assert strip.status.whole_text() == "FP32 running · downloading CIFAR-100, 161 MiB"
        assert strip.step.text() == "42 %" and strip.progress.fraction() == pytest.approx(0.42)

    def test_a_pause_is_asked_then_there_then_over(self, qtbot: QtBot, panel: LivePanel) -> None:
        run = pair()[1]
        panel.set_runs([run])
        with qtbot.waitSignal(panel.pause_toggled):
            qtbot.mouseClick(panel.strip.pause, Qt.MouseButton.LeftButton)
        panel.set_pause_asked(True)
        words = [(panel.strip.pause.text(), panel.strip.status.whole_text())]
        run.take(Phase(name=PhaseName.PAUSED))
        panel.set_pause_asked(None)
        words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
        assert panel.strip.left.text() == "" and panel.strip.stop.isEnabled()
        panel.set_pause_asked(False)
        words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
        run.take(Phase(name=PhaseName.MEASURING))
        panel.set_pause_asked(None)
        words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
        assert words == [
            ("Continue", "FP16 AMP pausing"),
            ("Continue", "FP16 AMP paused"),
            ("Pause", "FP16 AMP going on"),
            ("Pause", "FP16 AMP running"),
        ]

    def test_the_cards_own_figures_stand_in_a_line_and_a_cpu_has_none(self, panel: LivePanel) -> None:
        columns: dict[str, tuple[float, ...]] = {
            "gpu_utilization_percent": (97.0,) * 50,
            "power_watts": (1_012.4,) * 50,
            "temperature_celsius": (61.0,) * 50,
            "data_wait_ms": (0.64 / 880 * 1000,) * 50,
        }
        panel.set_runs([made("fp32", started(), samples(1, 50, **columns))])
        words = panel.gauges.words.whole_text()
        assert words == "FP32   GPU busy 97 %  ·  1,012 W  ·  61 °C  ·  waiting for data 1 %"
        assert panel.gauges.isVisible()
        panel.set_runs([made("fp32", started(), samples(1, 50, resident_mib=(300.0,) * 50))])
        assert not panel.gauges.isVisible()

    def test_a_low_panel_keeps_its_height_for_the_plots(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs([made("fp32", started(), samples(1, 50, power_watts=(600.0,) * 50))])
        assert panel.gauges.isVisible()
        panel.resize(1120, 500)
        qtbot.waitUntil(lambda: not panel.gauges.isVisible())

    def test_the_details_say_what_was_in_force_and_what_was_not(self, qtbot: QtBot, panel: LivePanel) -> None:
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
        )
        plain = made("fp32", started(), samples(1, 20), Finished(summary=Summary(recipe="plain")))
        panel.set_runs([plain, made("fp16", started("fp16"), Finished(summary=summary))])
        assert not panel.details.isVisible()
        qtbot.mouseClick(panel.strip.details, Qt.MouseButton.LeftButton)
        assert panel.details.isVisible()
        texts = panel.details.texts()
        assert texts[:5] == (
            "FP32",
            "FP16 AMP",
            "Recipe in force",
            "Plain",
            "Channels last + fused optimizer + captured",
        )
        for words in (
            "compiling: this model has a loop that changes",
            "48.1 s, of it compiling 41.0 s",
            "at step 1,204",
            "12.5 s",
            "parameters 0.10 GiB, gradients 0.10 GiB, activations 1.86 GiB",
        ):
            assert words in texts
        qtbot.mouseClick(panel.strip.details, Qt.MouseButton.LeftButton)
        assert not panel.details.isVisible()

    def test_before_the_end_the_details_say_what_was_asked_for(self, panel: LivePanel) -> None:
        panel.set_runs([made("fp32", started(step={"recipe": "fast"}))])
        panel.open_details()
        assert panel.details.texts() == (
            "FP32",
            "Recipe asked for",
            "Fast",
            "The rest is known when the run has ended.",
        )

    def test_thousands_of_skipped_steps_are_no_more_ticks_than_there_are_pixels(
        self, panel: LivePanel
    ) -> None:
        count = 50_000
        run = made(
            "fp16",
            started("fp16", count),
            samples(1, count, grad_scale=(1.0,) * count),
            Skipped(steps=tuple(range(2, count, 2))),
        )
        panel.set_runs([run])
        frame, area = panel.plots.scale.canvas.frame, panel.plots.scale.canvas.area()
        assert 100 < len(frame.skips) <= area.width() + 1
        assert frame.skips[0][0] == 2.0
        assert "skipped" in panel.plots.scale.legend.toolTip()
        panel.plots.set_x_range((1_000.0, 1_010.0))
        places = [place for place, _ in panel.plots.scale.canvas.frame.skips]
        assert places == [1000.0, 1002.0, 1004.0, 1006.0, 1008.0, 1010.0]

    def test_skipped_steps_stand_at_their_time_too(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        panel.set_x_axis("seconds")
        places = [place for place, _ in panel.plots.scale.canvas.frame.skips]
        assert places == pytest.approx([step * 64 / 1663.0 for step in (4, 12, 26)])

    def test_a_failed_run_tells_why(self, panel: LivePanel) -> None:
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
        panel.set_runs([made("fp32", started(), Failed(problem=problem))])
        assert panel.strip.status.whole_text() == "FP32 failed: It did not fit."
        assert not panel.strip.stop.isVisible()

    def test_stop_asks_once_and_says_that_it_stops(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        with qtbot.waitSignal(panel.stop_requested):
            qtbot.mouseClick(panel.strip.stop, Qt.MouseButton.LeftButton)
        assert not panel.strip.stop.isEnabled()
        assert panel.strip.status.whole_text() == "FP16 AMP stopping, 2 of 2"

    def test_curves_grow_with_the_events_at_the_next_refresh(self, panel: LivePanel) -> None:
        runs = pair()
        panel.set_runs(runs)
        assert panel.plots.loss.legend.entries()[1].value == "0.0397"
        runs[1].take(samples(127, 50, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 50))
        panel.refresh()
        assert panel.plots.scale.legend.entries()[0].value == "16,384"
        assert panel.strip.step.text() == "step 176 of 200"

    def test_a_refresh_without_news_draws_nothing(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        frames = [plot.canvas.frame for plot in panel.plots.plots]
        panel.refresh()
        assert all(plot.canvas.frame is frame for plot, frame in zip(panel.plots.plots, frames, strict=True))

    def test_one_crosshair_goes_through_all_four_plots(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        canvas = panel.plots.speed.canvas
        qtbot.mouseMove(canvas.viewport(), canvas.area().center().toPoint())
        places = {plot.canvas.crosshair() for plot in panel.plots.plots}
        assert len(places) == 1 and places != {None}
        assert {plot.legend.place() for plot in panel.plots.plots} == {"step 106"} or {
            plot.legend.place() for plot in panel.plots.plots
        } == {"step 107"}

    def test_one_x_range_holds_for_all_four_plots(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        panel.plots.loss.x_range_chosen.emit((20.0, 60.0))
        assert {plot.canvas.frame.x_range for plot in panel.plots.plots} == {(20.0, 60.0)}
        panel.plots.memory.header.follow.click()
        assert {plot.canvas.frame.x_range for plot in panel.plots.plots} == {(0.0, 213.0)}

    def test_time_as_the_x_axis_shows_seconds_on_all_four(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        qtbot.mouseClick(panel.strip.x_axis.button("seconds"), Qt.MouseButton.LeftButton)
        ranges = {plot.canvas.frame.x_range for plot in panel.plots.plots}
        assert len(ranges) == 1 and ranges.pop()[1] == pytest.approx(200 * 64 / 880 * 1.065)
        assert all(plot.canvas.frame.x_ticks[-1].text.endswith(" s") for plot in panel.plots.plots)

    def test_on_a_cpu_the_words_are_of_memory_in_mib(self, panel: LivePanel) -> None:
        panel.set_runs([made("fp32", started(), samples(1, 50, resident_mib=(300.0,) * 50))])
        assert panel.cards.memory.accessibleName() == "Peak memory MiB: FP32 300"

    def test_the_card_capacity_is_pinned_to_the_top_of_the_memory_plot(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        capacity = panel.plots.memory.canvas.frame.capacity
        assert capacity is not None and capacity.text == "card capacity 139.8 GiB"
        assert capacity.position is None

    def test_a_narrow_panel_has_two_rows_of_three_cards(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        assert len({card.y() for card in panel.cards.cards}) == 1
        panel.resize(780, 500)
        qtbot.waitUntil(lambda: len({card.y() for card in panel.cards.cards}) == 2)
        assert panel.width() == 780

    def test_nothing_is_cut_off_in_the_smallest_window(self, qtbot: QtBot, panel: LivePanel) -> None:
        panel.set_runs(pair())
        panel.resize(780, 440)
        qtbot.waitUntil(lambda: panel.plots.loss.height() == LEAST_HEIGHT)
        for plot in panel.plots.plots:
            assert plot.canvas.area().height() > 50 and plot.canvas.area().width() > 200
        for card in panel.cards.cards:
            assert card.height() >= card.minimumSizeHint().height()

    def test_every_control_says_what_it_does(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        for button in panel.findChildren(QAbstractButton):
            assert button.accessibleName() and button.toolTip(), button
        for plot in panel.plots.plots:
            assert plot.canvas.accessibleName() and plot.legend.accessibleName()

    def test_new_runs_take_the_place_of_the_old_ones(self, panel: LivePanel) -> None:
        panel.set_runs(pair())
        panel.set_runs([made("tf32", started("tf32"), samples(1, 30))])
        assert panel.cards.throughput.texts() == ("TF32 880",)
        assert [entry.name for entry in panel.plots.loss.legend.entries()] == ["TF32"]
        panel.set_runs([])
        panel.refresh()
        assert panel.runs() == ()
