"""The live race: its words in every state, what it draws, and which runs it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.drawing.blocks import Tiles
from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Phase, PhaseName, Pictures, Summary
from engine.protocol.pictures import sheet_of
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.session.experiments import Experiments
from gui.session.live_run import LiveRun
from gui.train.controller import LiveController
from gui.train.panel import LivePanel
from gui.train.race import LiveLane, LiveRaceReader, Scene
from gui.train.race_view import LaneLayout, text_tiles

BUSY = "other programs used 69% of the CPU"


def trained(live: Any, precision: str, rate: float, steps: int = 200, **summary: Any) -> LiveRun:
    figures = Summary(steps=steps, samples_per_second=rate, **summary)
    run: LiveRun = live.run(
        precision, live.started(precision, steps), live.samples(1, steps, rate), Finished(summary=figures)
    )
    return run


def training(live: Any, precision: str, rate: float, steps: int, **settings: Any) -> LiveRun:
    run: LiveRun = live.run(precision, live.started(precision, 200, **settings), live.samples(1, steps, rate))
    return run


def scene(runs: Sequence[LiveRun], **stand_ins: LiveRun) -> Scene:
    return LiveRaceReader().scene(
        runs, {run.run_id: "recorded 14:28" for run in runs if run.is_over}, stand_ins
    )


def test_two_sides_race_on_the_clock_of_the_one_that_trains(live: Any) -> None:
    shown = scene([trained(live, "fp32", 640.0), training(live, "bf16", 1_280.0, 110)])
    full, mixed = shown.lanes
    assert (full.tag, full.count, full.step) == ("recorded 14:28", "3,200", "step 60")
    assert full.end_words == "finished after 19.0 s" and full.fraction == pytest.approx(50 / 190)
    assert (mixed.tag, mixed.count, mixed.step) == ("live", "6,400", "step 110")
    assert mixed.end_words == "200 steps, forecast 9.5 s" and mixed.fraction == pytest.approx(100 / 190)
    assert (shown.number, shown.title) == ("2.00×", "as many images so far")
    assert shown.line == ("in the same ", "5.0 seconds") and shown.baseline == "FP32"
    assert shown.mark is not None
    assert (shown.mark.words, shown.mark.ahead) == ("FP32 was here after 5.0 s", "50 steps ahead")
    assert shown.spoken == (
        "BF16 AMP trained 2.00 times as many images as FP32 so far, in the same 5.0 seconds. "
        "95% interval 2.00 to 2.00."
    )


def test_another_batch_size_counts_images_and_the_shorter_lane_ends_earlier(live: Any) -> None:
    shown = scene([trained(live, "fp32", 640.0), training(live, "bf16", 1_280.0, 60, batch_size=128)])
    assert shown.number == "2.00×" and shown.mark is not None
    assert shown.mark.ahead == "3,200 images ahead"
    assert [lane.end for lane in shown.lanes] == [pytest.approx(0.5), 1.0]


@pytest.mark.parametrize(
    ("state", "title", "line"),
    [
        ("disturbed", "No ratio", f"FP32 was disturbed: {BUSY}."),
        ("failed", "No ratio", "FP32 failed."),
        ("short", "No ratio", "FP32 ended during its warm-up."),
        ("building", "Building", "The race counts from the end of the warm-up"),
        ("warming", "Warming up", "The race counts from the end of the warm-up"),
        ("queued", "Waiting to start", "The race counts from the end of the warm-up"),
        ("early", "No ratio yet", "It takes 20 steps of both sides after the warm-up"),
    ],
)
def test_where_there_is_no_ratio_a_sentence_says_why(live: Any, state: str, title: str, line: str) -> None:
    base, side = trained(live, "fp32", 640.0), training(live, "bf16", 1_280.0, 110)
    match state:
        case "disturbed":
            base = trained(live, "fp32", 640.0, speed_note=BUSY)
        case "failed":
            problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It does not fit.", remedy="")
            base = live.run("fp32", live.started(), Failed(problem=problem))
        case "short":
            base = trained(live, "fp32", 640.0, steps=5)
        case "building":
            side = live.run("bf16", Phase(name=PhaseName.BUILDING))
        case "warming":
            side = training(live, "bf16", 1_280.0, 5)
        case "queued":
            side = live.run("bf16")
        case "early":
            side = training(live, "bf16", 1_280.0, 20)
    shown = scene([base, side])
    assert (shown.number, shown.title, shown.line[0]) == ("", title, line)
    assert line in shown.spoken


def test_the_first_run_shows_its_speed_and_what_is_next(live: Any) -> None:
    alone = scene([training(live, "fp32", 640.0, 110)])
    assert (alone.number, alone.title, alone.line[1]) == ("640", "images per second", "10.0 seconds")
    assert len(alone.lanes) == 1 and alone.mark is None
    first = scene([training(live, "fp32", 640.0, 110), live.run("bf16")])
    assert [lane.tag for lane in first.lanes] == ["live", "next"]
    assert first.spoken.endswith("BF16 AMP is next, on the same clock")


def test_in_a_later_repeat_an_earlier_one_stands_in_for_what_has_not_started(live: Any) -> None:
    earlier, live_one = trained(live, "fp32", 640.0), training(live, "bf16", 1_280.0, 110)
    shown = scene([live.run("fp32"), live_one], **{"run-fp32": earlier})
    assert shown.number == "2.00×" and shown.lanes[0].count == "3,200"
    # and the other way round: the baseline trains beside the recorded side
    shown = scene(
        [training(live, "fp32", 640.0, 110), live.run("bf16")], **{"run-bf16": trained(live, "bf16", 1_280.0)}
    )
    assert shown.number == "2.00×" and shown.baseline == "FP32"
    assert shown.mark is not None and shown.mark.ahead == "95 steps behind"


def test_with_more_sides_each_has_its_ratio_unless_it_was_disturbed(live: Any) -> None:
    runs = [trained(live, "fp32", 640.0), trained(live, "tf32", 960.0)]
    runs += [trained(live, "fp16", 1_100.0, speed_note=BUSY), training(live, "bf16", 1_280.0, 110)]
    shown = scene([*runs, live.run("fp8")])
    assert [lane.ratio for lane in shown.lanes] == ["", "1.50×", "", "2.00×", ""]
    assert shown.line[0] == "BF16 AMP, in the same " and shown.lanes[4].tag == "next"


def test_other_data_has_other_words(live: Any) -> None:
    text = {"dataset": "synthetic-tokens", "model": "gpt-tiny"}
    for settings, unit in (
        ({"dataset": "synthetic-regression", "model": "linear"}, "samples"),
        (text, "sequences"),
    ):
        assert scene([training(live, "fp32", 640.0, 110, **settings)]).unit == unit


@pytest.mark.parametrize(
    ("lane", "columns", "lit", "unlit"),
    [
        (LiveLane(Precision.FP32, "FP32", "recorded 14:28", 0.25), 50, 25.0, "fp32-tint"),
        (LiveLane(Precision.BF16, "BF16 AMP", "live", 0.253), 50, 25.3, "bg2"),
        (LiveLane(Precision.BF16, "BF16 AMP", "next"), 50, 0.0, "bg2"),
        (LiveLane(Precision.BF16, "BF16 AMP", "live", 0.5, 0.5), 25, 50.0, "bg2"),
    ],
)
def test_a_block_is_one_percent_and_a_shorter_training_has_fewer(
    lane: LiveLane, columns: int, lit: float, unlit: str
) -> None:
    blocks = LaneLayout(0.0, 0.0, 1_040.0, 2).blocks(lane, Tiles(text_tiles(3)))
    assert (blocks.columns, blocks.rows, blocks.lit) == (columns, 2, pytest.approx(lit))
    assert blocks.unlit == unlit.replace("bg2", "bg2") and blocks.size[0] < 20.8 * columns


def test_the_panel_shows_the_race_until_all_is_over_and_says_it_at_a_modest_rate(
    panel: LivePanel, live: Any, qtbot: QtBot
) -> None:
    side = training(live, "bf16", 1_280.0, 110)
    panel.resize(1_120, 848)
    panel.set_runs([trained(live, "fp32", 640.0), side])
    race = panel.page.race
    assert race.isVisible() and race.accessibleName() == "Live race"
    said = race.accessibleDescription()
    assert said.startswith("BF16 AMP trained 2.00 times as many images")
    side.add(live.samples(111, 40, 1_280.0))
    panel.refresh()
    assert race.scene is not None and "7.0 seconds" in race.scene.spoken
    assert race.accessibleDescription() == said
    QApplication.processEvents()
    assert len({plot.y() for plot in panel.page.plots.plots}) == 1, "in a row"
    race.grab()
    side.add(Finished(summary=Summary(steps=150)))
    panel.refresh()
    QApplication.processEvents()
    assert not race.isVisible() and len({plot.y() for plot in panel.page.plots.plots}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1_120, 848), (796, 648), (2_240, 1_388), (640, 400)])
@pytest.mark.parametrize("sides", [1, 2, 8])
def test_the_number_is_drawn_whole_in_every_size(
    panel: LivePanel, live: Any, size: tuple[int, int], sides: int
) -> None:
    runs = [trained(live, "fp32", 640.0), training(live, "bf16", 1_280.0, 110)]
    runs += [live.run(one.value) for one in Precision if one not in (Precision.FP32, Precision.BF16)]
    panel.resize(*size)
    panel.set_runs(runs[1:2] if sides == 1 else runs[:sides])
    panel.set_images(np.full((3, 8, 8), 200, np.uint8))
    image = panel.page.race.grab().toImage()
    bright = [
        x
        for x in range(image.width())
        for y in range(0, image.height(), 2)
        if image.pixelColor(x, y).value() > 220
    ]
    assert bright and min(bright) > 0 and max(bright) < image.width() - 1
    edge = [image.pixelColor(x, image.height() - 2).value() for x in range(image.width())]
    assert max(edge) < 120, "nothing is cut off below"


def test_the_controller_finds_times_earlier_repeats_and_images(
    panel: LivePanel, live: Any, store: Store, qtbot: QtBot
) -> None:
    comparison = store.add_comparison("FP32 and BF16 AMP")
    runs = {}
    for seed, precision in ((0, "fp32"), (0, "bf16"), (1, "bf16"), (1, "fp32")):
        begin = live.started(precision, 200, seed=seed)
        label = begin.experiment.precision.label
        run = runs[seed, precision] = store.add(begin.experiment, comparison=comparison, label=label).id
        if (seed, precision) == (1, "fp32"):
            continue
        store.begin(run)
        sheet = sheet_of(np.full((4, 8, 8), 90, np.uint8))
        pictures = Pictures(jpeg=sheet.jpeg, side=sheet.side, count=sheet.count)
        store.record(run, [begin, pictures, live.samples(1, 200 if seed == 0 else 110, 640.0)])
        if seed == 0:
            store.record(run, [Finished(summary=Summary(steps=200, samples_per_second=640.0))])
    experiments = Experiments(store, Launcher(Target.THREAD), panel)
    experiments.load()
    controller = LiveController(panel, experiments, None, panel)
    controller.show_group(runs[1, "bf16"])
    qtbot.waitUntil(lambda: panel.page.race._images is not None)
    shown = panel.page.race.scene
    assert shown is not None and shown.number == "1.00×"
    assert shown.lanes[0].tag.startswith("recorded ") and shown.lanes[1].tag == "live"
    controller.close()
    experiments.shut_down()
