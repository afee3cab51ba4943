"""The four plots: one x axis, one crosshair, and curves that grow with the events."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.protocol.events import Skipped
from gui.train.panel import LivePanel


def test_thousands_of_skipped_steps_are_no_more_ticks_than_there_are_pixels(
    panel: LivePanel, live: Any
) -> None:
    count = 50_000
    run = live.run(
        "fp16",
        live.started("fp16", count),
        live.samples(1, count, grad_scale=(1.0,) * count),
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


def test_skipped_steps_stand_at_their_time_too(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.set_by("seconds")
    places = [place for place, _ in panel.plots.scale.canvas.frame.skips]
    assert places == pytest.approx([step * 64 / 1663.0 for step in (4, 12, 26)])


def test_curves_grow_with_the_events_at_the_next_refresh(panel: LivePanel, live: Any) -> None:
    runs = live.pair()
    panel.set_runs(runs)
    assert panel.plots.loss.legend.entries[1].value == "0.0397"
    runs[1].take(live.samples(127, 50, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 50))
    panel.refresh()
    assert panel.plots.scale.legend.entries[0].value == "16,384"
    assert panel.strip.step.text() == "step 176 of 200"


def test_a_smoothed_throughput_is_all_samples_over_all_time(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", live.started(steps=400), live.samples(1, 1))
    panel.set_runs([run])
    for first in (2, 202):
        # as many samples in a third of the time: the mean of the two rates would be 200
        rates = (100.0, 300.0) * 100
        run.take(live.samples(first, 200).model_copy(update={"samples_per_second": rates}))
        panel.refresh()
    for place in (100.0, 300.0):
        panel.plots.set_crosshair(place)
        assert 140 < float(panel.plots.speed.legend.entries[0].value) < 160


def test_a_refresh_without_news_draws_nothing(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    frames = [plot.canvas.frame for plot in panel.plots.plots]
    panel.refresh()
    assert all(plot.canvas.frame is frame for plot, frame in zip(panel.plots.plots, frames, strict=True))


def test_one_crosshair_goes_through_all_four_plots(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    canvas = panel.plots.speed.canvas
    qtbot.mouseMove(canvas.viewport(), canvas.area().center().toPoint())
    places = {plot.canvas.crosshair for plot in panel.plots.plots}
    assert len(places) == 1 and places != {None}
    assert {plot.legend.place for plot in panel.plots.plots} == {"step 106"} or {
        plot.legend.place for plot in panel.plots.plots
    } == {"step 107"}


def test_one_x_range_holds_for_all_four_plots(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.plots.loss.x_range_chosen.emit((20.0, 60.0))
    assert {plot.canvas.frame.x_range for plot in panel.plots.plots} == {(20.0, 60.0)}
    panel.plots.memory.header.follow.click()
    assert {plot.canvas.frame.x_range for plot in panel.plots.plots} == {(0.0, 213.0)}


def test_time_as_the_x_axis_shows_seconds_on_all_four(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    qtbot.mouseClick(panel.strip.by.button("seconds"), Qt.MouseButton.LeftButton)
    ranges = {plot.canvas.frame.x_range for plot in panel.plots.plots}
    assert len(ranges) == 1 and ranges.pop()[1] == pytest.approx(200 * 64 / 880 * 1.065)
    assert all(plot.canvas.frame.x_ticks[-1].text.endswith(" s") for plot in panel.plots.plots)


def test_on_a_cpu_the_capacity_is_the_machines_before_its_memory_is_told(panel: LivePanel, live: Any) -> None:
    panel.set_runs([live.run("fp32", live.started(device="cpu"))])
    assert "card" not in panel.plots.memory.header.toolTip()
    assert "machine's memory" in panel.plots.memory.header.toolTip()


def test_the_card_capacity_is_pinned_to_the_top_of_the_memory_plot(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    capacity = panel.plots.memory.canvas.frame.capacity
    assert capacity is not None and capacity.text == "card capacity 139.8 GiB"
    assert capacity.position is None
