"""The four plots: one axis and crosshair, curves that grow, the height of a window, and the runs beneath."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QActionGroup, QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Finished, Skipped, Summary
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from engine.words.numbers import number
from engine.worker.launcher import Launcher, Target
from gui.charts.legend import LegendRow
from gui.charts.live_plot import LEAST_HEIGHT, MOST_HEIGHT
from gui.charts.smoothing import WINDOWS, smoothing
from gui.session.experiments import Experiments
from gui.theme.theme import theme
from gui.train.controller import LiveController, background_runs
from gui.train.panel import LivePanel, LiveRun


def test_skipped_steps_are_no_more_ticks_than_there_are_pixels_and_stand_at_their_time(
    panel: LivePanel, live: Any
) -> None:
    count = 50_000
    skips = Skipped(steps=tuple(range(2, count, 2)))
    scaled = live.samples(1, count, grad_scale=(1.0,) * count)
    panel.set_runs([live.run("fp16", live.started("fp16", count), scaled, skips)])
    frame, area = panel.page.plots.scale.canvas.frame, panel.page.plots.scale.canvas.area()
    assert 100 < len(frame.skips) <= area.width() + 1 and frame.skips[0][0] == 2.0
    assert "skipped" in panel.page.plots.scale.legend.findChild(LegendRow).toolTip()
    panel.page.plots.set_x_range((1_000.0, 1_010.0))
    places = [place for place, _ in panel.page.plots.scale.canvas.frame.skips]
    assert places == [1000.0, 1002.0, 1004.0, 1006.0, 1008.0, 1010.0]
    panel.set_runs(live.pair())
    panel.set_by("seconds")
    places = [place for place, _ in panel.page.plots.scale.canvas.frame.skips]
    assert places == pytest.approx([step * 64 / 1663.0 for step in (4, 12, 26)])


def test_curves_grow_with_the_events_at_the_next_refresh_and_nothing_is_drawn_without_news(
    panel: LivePanel, live: Any
) -> None:
    runs = live.pair()
    panel.set_runs(runs)
    QApplication.processEvents()
    panel.refresh()
    frames = [plot.canvas.frame for plot in panel.page.plots.plots]
    panel.refresh()
    assert all(plot.canvas.frame is frame for plot, frame in zip(panel.page.plots.plots, frames, strict=True))
    assert panel.page.plots.loss.legend.entries[1].value == "0.0397"
    runs[1].add(live.samples(127, 50, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 50))
    panel.refresh()
    assert panel.page.plots.scale.legend.entries[0].value == "16,384"


def test_a_smoothed_throughput_is_all_samples_over_all_time(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", live.started(steps=400), live.samples(1, 1))
    panel.set_runs([run])
    for first in (2, 202):
        # as many samples in a third of the time: the mean of the two rates would be 200
        run.add(live.samples(first, 200, samples_per_second=(100.0, 300.0) * 100))
        panel.refresh()
    for place in (100.0, 300.0):
        panel.page.plots.set_crosshair(place)
        assert 140 < float(panel.page.plots.speed.legend.entries[0].value) < 160


def test_one_crosshair_one_range_and_one_axis_hold_for_all_four_plots(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    def ranges() -> set[tuple[float, float]]:
        return {plot.canvas.frame.x_range for plot in panel.page.plots.plots}

    panel.set_runs(live.pair())
    canvas = panel.page.plots.speed.canvas
    qtbot.mouseMove(canvas.viewport(), canvas.area().center().toPoint())
    places = {plot.canvas.crosshair for plot in panel.page.plots.plots}
    assert len(places) == 1 and places != {None}
    (place,) = {plot.legend.place for plot in panel.page.plots.plots}
    assert place in ("step 106", "step 107")
    panel.page.plots.loss.x_range_chosen.emit((20.0, 60.0))
    assert ranges() == {(20.0, 60.0)}
    panel.page.strip.view.whole_wanted.emit()
    assert ranges() == {(0.0, 213.0)}
    qtbot.mouseClick(panel.page.strip.by.button("seconds"), Qt.MouseButton.LeftButton)
    ((_, end),) = ranges()
    assert end == pytest.approx(200 * 64 / 880 * 1.065)
    assert all(plot.canvas.frame.x_ticks[-1].text.endswith(" s") for plot in panel.page.plots.plots)


def test_the_capacity_on_a_cpu_is_the_machines_memory(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    capacity = panel.page.plots.memory.canvas.frame.capacity
    assert capacity is not None and capacity.text == "GPU memory 139.8 GiB" and capacity.position is None
    panel.set_runs([live.run("fp32", live.started(device="cpu"))])
    tip = panel.page.plots.memory.header.toolTip()
    assert "GPU" not in tip and "system memory" in tip, "before any of it is told"


@pytest.fixture
def ended(panel: LivePanel, live: Any) -> LivePanel:
    """With a run of 100 steps that is over."""
    summary = Summary(steps=100, recipe="plain", data_wait_fraction=0.1)
    panel.resize(1_120, 640)
    panel.set_runs([live.run("fp32", live.samples(1, 100, 100.0), Finished(summary=summary))])
    return panel


def heights(panel: LivePanel) -> set[int]:
    QApplication.processEvents()
    return {plot.height() for plot in panel.page.plots.plots if plot.isVisible()}


def test_a_low_panel_shows_two_plots_whose_titles_are_a_menu_of_all(ended: LivePanel) -> None:
    plots = ended.page.plots
    assert [plot.isVisible() for plot in plots.plots] == [True, True, False, False]
    menu = plots.speed.header.others
    titles = [menu.itemText(row) for row in range(menu.count())]
    assert titles == ["Training loss", "Throughput", "Memory", "Waiting for data"]
    assert menu.isVisible() and menu.currentIndex() == 1
    menu.activated.emit(2)
    assert [plot.isVisible() for plot in plots.plots] == [True, False, True, False]
    assert plots.memory.header.others.currentIndex() == 2
    plots.memory.header.others.activated.emit(0)
    assert heights(ended) and plots.loss.x() > plots.memory.x(), "they change places"
    ended.resize(1_120, 900)
    assert all(plot.isVisible() and not plot.header.others.isVisible() for plot in plots.plots)


def test_one_menu_is_for_all_plots(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.page.strip.view.log.toggle()
    assert (
        panel.page.plots.loss.header.log.isChecked() and not panel.page.plots.accuracy.header.log.isChecked()
    )
    assert not any(
        plot.header.log.isVisible() or plot.header.follow.isVisible() for plot in panel.page.plots.plots
    )
    panel.page.strip.view.choices.aboutToShow.emit()
    *_, largest = panel.page.strip.view.findChild(QActionGroup).actions()
    largest.trigger()
    assert smoothing().steps == WINDOWS[-1]
    smoothing().set_steps(15)


@pytest.mark.parametrize("with_details", [False, True])
def test_a_plot_is_between_its_least_and_its_most_height_and_then_the_page_scrolls(
    ended: LivePanel, with_details: bool
) -> None:
    bar = ended.findChild(QScrollArea).verticalScrollBar()
    assert heights(ended) and bar.maximum() == 0
    if with_details:
        ended.open_details()
    for height in (300, 400, 640, 1_000, 1_600):
        ended.resize(1_120, height)
        assert all(LEAST_HEIGHT <= one <= MOST_HEIGHT for one in heights(ended)), height
    ended.resize(1_120, 190)
    assert heights(ended) == {LEAST_HEIGHT} and bar.maximum() > 0


@pytest.mark.parametrize("keys", [Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier])
def test_the_wheel_is_for_the_page_where_it_scrolls_but_with_ctrl_for_the_plot(
    ended: LivePanel, keys: Qt.KeyboardModifier
) -> None:
    ended.resize(1_120, 190)
    heights(ended)
    canvas, ranges = ended.page.plots.loss.canvas, []
    ended.page.plots.loss.x_range_chosen.connect(ranges.append)
    place = QPointF(canvas.area().center())
    at, turned = QPointF(canvas.mapToGlobal(place.toPoint())), QPoint(0, -120)
    no_button, no_phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(place, at, QPoint(), turned, no_button, keys, no_phase, False)
    QApplication.sendEvent(canvas.viewport(), event)
    # Qt hands on to the page only what is ignored, and only of what comes from a device
    assert bool(ranges) == event.isAccepted() == (keys is Qt.KeyboardModifier.ControlModifier)


def unscaled(live: Any, precision: str, *events: object, **settings: object) -> LiveRun:
    """A hundred steps of 100 ms, of which it waits 5%, and no loss scale."""
    run: LiveRun = live.run(precision, batch_size=64, **settings)
    run.set_status("running")
    run.add(live.samples(1, 100, 640.0, data_wait_ms=(5.0,) * 100))
    run.add_all(events)  # type: ignore[arg-type]
    return run


def notes(panel: LivePanel) -> dict[str, str]:
    return {plot.header.title(): plot.header.note() for plot in panel.page.plots.plots}


def test_beside_the_titles_is_what_compares_the_sides(panel: LivePanel, live: Any) -> None:
    def end(loss: float, speed: float, accuracy: float, steps: int = 200) -> Finished:
        return Finished(
            summary=Summary(
                steps=steps,
                samples_per_second=speed,
                peak_allocated_mib=speed,
                final_train_loss=loss,
                final_validation_accuracy=accuracy,
            )
        )

    ahead = live.run(
        "fp32", live.started(), live.samples(1, 200), *live.epochs(0.2, 0.3, 0.4, 0.5), end(0.03, 800.0, 0.5)
    )
    behind = live.run("bf16", live.started("bf16"), live.samples(1, 120), *live.epochs(0.1, 0.25))
    panel.set_runs([ahead, behind])
    # of unlike steps nothing is compared
    same = number(5.0 / 120)
    assert notes(panel) == {
        "Training loss": f"same step: {same}",
        "Throughput": "after warm-up",
        "Memory": "12.50×",
        "Accuracy": "same step: 30.0",
    }
    behind.add(live.samples(121, 80))
    behind.add(end(0.035, 1_200.0, 0.49))
    panel.refresh()
    ended = {"Training loss": "+0.005", "Throughput": "1.50×", "Memory": "1.50×", "Accuracy": "−1.0"}
    assert notes(panel) == ended
    behind.add(end(0.035, 1_200.0, 0.49, steps=150))
    panel.refresh()
    assert notes(panel)["Training loss"].startswith("same step"), "it was stopped early"
    panel.set_runs([ahead, live.run("bf16", live.started("bf16", model="mlp"), end(0.03, 1_200.0, 0.5))])
    assert set(notes(panel).values()) == {""}, "another training"
    scaled = live.pair()[1]
    panel.set_runs([scaled])
    assert notes(panel)["Loss scale"] == "3 steps skipped"


def test_the_fourth_plot_is_a_menu_of_what_the_runs_have(panel: LivePanel, live: Any) -> None:
    plots = panel.page.plots

    def offered() -> list[str]:
        menu = plots.plots[3].header.others
        return [menu.itemText(row) for row in range(menu.count())]

    panel.set_runs([live.run("fp32", live.started())])
    assert plots.plots[3] is plots.accuracy and "after each epoch" in plots.accuracy.canvas.frame.hint
    assert not plots.accuracy.header.others.isVisible(), "there is nothing else to choose"
    for never in (
        {"validation": {"every": 0}},
        {"model": "linear", "dataset": "synthetic-regression"},
    ):
        panel.set_runs([unscaled(live, "fp32", **never)])
        assert plots.plots[3] is plots.waiting, "what will never come is not waited for"
    panel.set_runs([unscaled(live, "fp32", command={"line": "python train.py"})])
    assert plots.plots[3] is plots.rate and plots.rate.legend.entries[0].value == "0.100"
    panel.set_runs([unscaled(live, "fp32", *live.epochs(None))])
    assert plots.plots[3] is plots.waiting and plots.waiting.legend.entries[0].value == "5.00"
    panel.set_runs([unscaled(live, "fp32", *live.epochs(0.5)), unscaled(live, "fp16", *live.epochs(0.6))])
    panel.resize(1_120, 848)
    assert plots.plots[3] is plots.scale and offered() == ["Loss scale", "Accuracy", "Waiting for data"]
    plots.set_x_range((20.0, 60.0))
    plots.scale.header.others.activated.emit(1)
    assert plots.plots[3] is plots.accuracy and plots.accuracy.isVisible() and not plots.scale.isVisible()
    plots.accuracy.refresh()
    assert plots.accuracy.canvas.frame.x_range == (20.0, 60.0), "what was looked at stays"
    panel.set_runs([unscaled(live, "fp16", *live.epochs(0.5))])
    assert plots.plots[3] is plots.accuracy, "so does what was chosen"
    panel.set_runs([unscaled(live, "fp16", scaler={"mode": "off"})])
    assert "Loss scale" not in offered()


def record(number: int, precision: str, status: Status = Status.FINISHED, **settings: Any) -> RunRecord:
    empty = ("started", "ended", "environment", "comparison", "label", "total_steps", "summary", "problem")
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        experiment=Experiment.model_validate({"precision": precision, **settings}),
        detail="",
        name=f"Run {number}",
        status=status,
        **dict.fromkeys(empty),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("ticked", "beneath"),
    [((), [5, 4]), ((3, 7), [7, 3]), ((9,), [5, 4]), ((3, 4, 5, 6, 7, 8), [8, 7, 6, 5])],
)
def test_beneath_is_the_newest_of_each_other_precision_or_what_is_ticked_and_over(
    ticked: tuple[int, ...], beneath: list[int]
) -> None:
    trains = record(9, "bf16", Status.RUNNING)
    stopped, other = record(8, "fp16", Status.STOPPED), record(7, "fp32", batch_size=8)
    rest = [record(n, precision) for n, precision in ((6, "bf16"), (5, "fp32"), (4, "fp16"), (3, "fp32"))]
    ids = [f"{number:012x}" for number in ticked]
    chosen = background_runs((trains, stopped, other, *rest), [trains.id], ids)
    assert [run.number for run in chosen] == beneath


def flat(live: Any, precision: str, steps: int, loss: float, **settings: Any) -> LiveRun:
    run: LiveRun = live.run(
        precision, live.started(precision, 100, **settings), live.samples(1, steps, loss=(loss,) * steps)
    )
    return run


def test_what_lies_beneath_is_named_in_lighter_ink_and_does_not_stretch_the_plot(
    panel: LivePanel, live: Any
) -> None:
    panel.set_runs([flat(live, "bf16", 50, 1.0)])
    canvas, reach = panel.page.plots.loss.canvas, panel.page.plots.loss.canvas.frame.x_range
    panel.set_background_runs([(flat(live, "fp32", 5_000, 3.0), "Run 5")])
    panel.refresh()
    legend = panel.page.plots.loss.legend.entries
    assert [(entry.name, entry.is_background) for entry in legend] == [("BF16 AMP", False), ("Run 5", True)]
    assert canvas.frame.x_range == reach and canvas.frame.y_range[1] > 3.0
    image = canvas.grab().toImage()
    pixels = ((x, y) for x in range(image.width()) for y in range(image.height()))
    colors = {image.pixelColor(x, y).name().upper() for x, y in pixels}
    look = theme().palette.look(Precision.FP32)
    assert look.dim in colors and look.color not in colors
    panel.set_background_runs([])
    panel.refresh()
    assert len(panel.page.plots.loss.legend.entries) == 1


def test_what_has_nothing_to_show_in_a_plot_or_counts_something_else_is_not_there(
    panel: LivePanel, live: Any
) -> None:
    other = flat(live, "fp32", 50, 3.0, dataset="synthetic-regression", model="linear")
    other.loss_name = "mean squared error"
    bare = live.run("tf32", live.started("tf32"), live.samples(1, 50, resident_mib=(1.0,) * 50))
    panel.set_background_runs([(other, "Run 5"), (bare, "Run 6")])
    panel.set_runs([flat(live, "bf16", 50, 1.0)])
    names = [[entry.name for entry in plot.legend.entries] for plot in panel.page.plots.plots]
    assert names[0] == names[1] == ["BF16 AMP", "Run 6"] and "Run 6" not in names[2]


def test_the_other_precision_lies_under_the_run_that_trains(
    panel: LivePanel, live: Any, store: Store
) -> None:
    ids = {}
    for precision, steps in (("fp32", 100), ("fp16", 100), ("bf16", 20)):
        begin = live.started(precision, 100)
        ids[precision] = store.add(begin.experiment).id
        store.begin(ids[precision])
        store.record(ids[precision], [begin, live.samples(1, steps)])
        if steps == 100:
            store.record(ids[precision], [Finished(summary=Summary(steps=steps))])
    experiments = Experiments(store, Launcher(Target.THREAD), panel)
    experiments.load()
    controller = LiveController(panel, experiments, None, panel)

    def shown() -> list[str]:
        return [curve.precision.value for curve in panel.page.plots.loss._curves]

    controller.show((ids["bf16"],))
    assert shown() == ["bf16", "fp16", "fp32"]
    controller.set_selected((ids["fp32"],))
    assert shown() == ["bf16", "fp32"]
    store.record(ids["bf16"], [Finished(summary=Summary(steps=20))])
    experiments.runs.reload()
    controller.set_selected((ids["fp16"], ids["bf16"]))
    assert shown() == ["bf16"]
    controller.show((ids["fp16"],))
    assert shown() == ["fp16"]
    np.testing.assert_array_equal(panel.page.plots.loss._curves[0].x, np.arange(1, 101))
    experiments.shut_down()
