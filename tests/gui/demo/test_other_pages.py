"""The pages beside the race: while two runs are measured, a refusal, and the welcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from PySide6.QtCore import QSize, Qt

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Phase, PhaseName
from engine.race.race import Race
from engine.race.showcase import Showcase
from engine.store.record import RunRecord
from gui.demo import pages
from gui.demo.pages import Measuring, Progress
from gui.demo.scale import SMALLEST_TEXT, Scale, scale_for
from gui.session.live_run import LiveRun
from tests.race_cards import assert_clear, texts_of

CASE = Showcase(
    "Demo",
    (
        ("FP32", Experiment(batch_size=10, steps=200)),
        ("BF16", Experiment(batch_size=10, steps=200, precision=Precision.BF16)),
    ),
    "Twice.",
)


def run(run_id: str, steps: int) -> LiveRun:
    live = LiveRun.queued(run_id, CASE.sides[0][1])
    if steps:
        live.phase = Phase(name=PhaseName.MEASURING)
        columns = {"step": range(1, steps + 1), "samples_per_second": [100.0] * steps}
        live.add_samples({**columns, "allocated_mib": [900.0] * steps})
    return live


def measuring(full: int, mixed: int | None = None, *, phase: str = "") -> Measuring:
    """The page after so many steps of the full run, and then of the mixed one."""
    second = None if mixed is None else run("b", mixed)
    running: Any = "full" if mixed is None else "mixed"
    return pages.measuring(Progress(CASE, running, run("a", full), second, phase))


class TestMeasuring:
    def test_blocks_are_lit_at_each_count_and_screen_readers_hear_of_each_phase(self, room: Any) -> None:
        room.panel.show_measuring(measuring(100))
        page = room.panel.measuring
        assert [count.blocks for count in page.view.instant.counts] == [100, 0]
        told = page.accessibleDescription()
        room.panel.show_measuring(measuring(110))
        assert page.accessibleDescription() == told and "1,100 images" in page.words(), "not at each count"
        room.panel.show_measuring(measuring(200, 100))
        assert "Measuring mixed precision" in page.accessibleDescription()
        room.assert_fits()


class TestOtherPages:
    def test_each_button_asks_for_what_it_says(self, room: Any) -> None:
        panel = room.panel
        panel.show_welcome()
        panel.show_measuring(measuring(0, phase="compiling"))
        panel.show_refusal("The run “x” has no steps to replay. " * 3, "Choose another run. " * 4)
        room.assert_fits()
        for button, signal in (
            (panel.refused.compare, panel.compare_wanted),
            (panel.refused.run_demo, panel.demo_wanted),
            (panel.measuring.stop, panel.stop_wanted),
            (panel.welcome.run_demo, panel.demo_wanted),
            (panel.welcome.experiment, panel.experiment_wanted),
            (panel.welcome.limit, panel.limit_wanted),
        ):
            with room.qtbot.waitSignal(signal):
                button.click()

    def test_keys_of_the_race_do_nothing_on_them(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.panel.show_welcome()
        room.qtbot.keyClick(room.panel, Qt.Key.Key_Space)
        assert not room.clock.is_playing


Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]

BUSY = "other programs used 34% of the CPU"
LONG_MODEL = "some_model_with_a_name_that_is_longer_than_anybody_would_think_of_patch14_reg4"


class TestRoom:
    def test_everything_fits_without_scrolling(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        for at in (0.0, usual.seconds / 2, usual.seconds):
            room.clock.seek(at)
            room.assert_fits()

    def test_long_names_and_many_doubts_fit(self, room: Any, trained: Trained, raced: Raced) -> None:
        settings = {"model": LONG_MODEL, "batch_size": 1_024}
        recipe = {"step": {"recipe": "channels_last+fused+compile+capture"}}
        figures = {"speed_note": BUSY, "other_programs_mib": 9_000.0, "peak_allocated_mib": 1_045.0}
        race = raced(
            trained("fp32", 1_000.0, settings=settings, name="n" * 90, **figures),
            trained("fp32", 1_100.0, settings=settings | recipe, **figures),
        )
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        room.assert_fits()

    @pytest.mark.parametrize("rest", ["in the same 1,234.5 seconds", "in the same time, over the whole runs"])
    @pytest.mark.parametrize("number", ["0.80", "1,250"])
    def test_no_line_beside_the_number_is_cut_off(
        self, room: Any, usual: Race, rest: str, number: str
    ) -> None:
        room.panel.show_race(usual, None)
        scene = room.view.scene
        end = replace(scene.end, number=number, caption=("as many images", rest))
        room.view.show_scene(replace(scene, at=lambda seconds: end), end, "How certain is this?")
        for size in room.SIZES:
            room.resize(*size)
            assert_clear(room.view.card, end)
            text = " ".join(texts_of(room.view.card, end))
            assert f"as many images {rest}" in text and "…" not in text, size

    def test_the_parts_do_not_cover_one_another(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        for size in room.SIZES:
            room.resize(*size)
            areas = [part.area for part in room.view.card.parts]
            assert all(area.width > 20 and area.height > 15 for area in areas)
            # a part may begin on the line on which another ends
            inner = [replace(area, bottom=area.bottom - 1) for area in areas]
            assert not any(one.meets(other) for one, other in combinations(inner, 2)), size

    def test_text_grows_with_the_panel_and_never_shrinks_beyond_reading(self) -> None:
        small, large = scale_for(QSize(960, 548)), scale_for(QSize(3840, 2160))
        assert large.text(208) > 2 * Scale().text(208) > 2 * small.text(208)
        assert small.text(17) == SMALLEST_TEXT and small.text(13) == 13
        assert scale_for(QSize(0, 0)).px(48) > 0
