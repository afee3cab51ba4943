"""The pages of Demo: the race from start to end, the two runs while they are measured, and a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Phase, PhaseName
from engine.race.card import BLOCKS
from engine.race.race import Race
from engine.race.showcase import Showcase
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.demo.pages import DemoProgress
from gui.demo.race_view import explained
from gui.session.live_run import LiveRun
from gui.theme.theme import DARK, LIGHT, set_reduced_motion, theme

Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]

# said by the offscreen platform when a popover opens
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

BUSY = "other programs used 34% of the CPU"
CASE = Showcase(
    "Demo",
    (
        ("FP32", Experiment(batch_size=10, steps=200)),
        ("BF16", Experiment(batch_size=10, steps=200, precision=Precision.BF16)),
    ),
    "Twice.",
)


def run(run_id: str, steps: int, *, is_over: bool = False) -> LiveRun:
    live = LiveRun.queued(run_id, CASE.sides[0][1])
    live.total_steps = 200
    if steps:
        live.phase = Phase(name=PhaseName.MEASURING)
        columns = {"step": range(1, steps + 1), "samples_per_second": [100.0] * steps}
        seconds = [0.1 * step for step in range(steps)]
        live.add_samples({**columns, "seconds": seconds, "allocated_mib": [900.0] * steps})
    if is_over:
        live.set_status("finished")
    return live


def measuring(full: int, mixed: int | None = None, **how: Any) -> DemoProgress:
    """The progress after so many steps of the full run, and then of the mixed one."""
    second = None if mixed is None else run("b", mixed)
    return DemoProgress(CASE, (run("a", full, is_over=mixed is not None), second), **how)


class TestRace:
    def test_from_its_start_to_the_end_whose_number_is_the_comparisons_own(
        self, room: Any, usual: Race, failed: Race
    ) -> None:
        room.panel.show_race(usual, None)
        assert room.panel.page == "race" and room.clock.seconds == 0.0
        assert (room.view.frame.lit, room.view.frame.number) == ((0, 0), "")
        room.clock.seek(usual.seconds / 2)
        assert (room.view.frame.lit, room.view.frame.number) == ((20, 100), "5.00")
        room.clock.seek(usual.seconds)
        assert (room.view.frame.lit, room.view.frame.number) == ((40, BLOCKS), "5.00")
        assert "The replay is at the end." in room.race.accessibleDescription()
        room.panel.show_race(failed, None)
        assert room.clock.seconds == 0.0 and room.view.frame.number is None, "another begins anew"

    def test_it_plays_at_once_leaving_pauses_it_and_reduced_motion_shows_the_end(
        self, room: Any, usual: Race
    ) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        assert room.clock.is_playing
        room.panel.show_welcome()
        assert room.panel.page == "welcome" and not room.clock.is_playing
        room.qtbot.keyClick(room.panel, Qt.Key.Key_Space)
        assert not room.clock.is_playing, "keys of the race do nothing on other pages"
        room.panel.show_race(usual, None)
        set_reduced_motion(True)
        room.panel.play()
        assert room.clock.is_at_end and not room.clock.is_playing

    @pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
    def test_it_is_painted_in_the_theme_with_images_in_its_blocks_at_any_size(
        self, room: Any, usual: Race, palette: Any
    ) -> None:
        room.panel.show_race(usual, np.full((3, 24, 24), 255, np.uint8))
        room.clock.seek(usual.seconds)
        theme().set_mode(palette.name)
        look = palette.look(Precision.FP16)
        bright = QColor(look.color if palette.is_dark else look.dim)
        for size in (*room.SIZES, (640, 400)):
            room.resize(*size)
            image = room.view.grab().toImage()
            assert image.pixelColor(2, 2) == QColor(palette.bg0)
            colors = {image.pixelColor(image.width() // 2, y).name() for y in range(image.height())}
            assert bright.name() in colors, size
        theme().set_mode("dark")

    def test_patterns_stand_in_for_images(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, np.zeros((0, 24, 24), np.uint8))
        assert len(room.view.card.tiles.gray) == BLOCKS


class TestCertainty:
    def test_the_interval_is_one_click_away_and_a_presenters_remote_closes_it(
        self, room: Any, trained: Trained, raced: Raced, saved: Store
    ) -> None:
        group = saved.add_comparison("repeats")
        runs = [
            trained(precision, speed + seed, comparison=group, settings={"seed": seed})
            for seed in range(3)
            for precision, speed in (("fp32", 1_000.0), ("fp16", 5_000.0))
        ]
        room.panel.show_race(raced(*runs), None)
        room.press(Qt.Key.Key_End)
        popover = room.race.popover
        for key in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Escape):
            room.view.number.click()
            assert popover.isVisible() and "95% interval" in popover.words()
            assert not popover.results.hasFocus(), "the remote would leave Demo by its link"
            room.qtbot.keyClick(popover, key)
            assert popover.isHidden()
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            with room.qtbot.waitSignal(room.view.number.clicked):
                room.qtbot.keyClick(room.view.number, key)
            popover.hide()

    def test_reasons_for_caution_are_listed_and_lead_to_results(
        self, room: Any, trained: Trained, raced: Raced
    ) -> None:
        rate = {"optimizer": {"learning_rate": 0.5}}
        room.panel.show_race(raced(trained("fp32", 1_000.0), trained("fp16", 5_000.0, settings=rate)), None)
        assert not room.race.transport.again.isVisible()
        popover = room.race.popover
        room.view.number.click()
        assert popover.isVisible() and "•  Differs from the baseline in learning rate" in popover.words()
        with room.qtbot.waitSignal(room.panel.compare_wanted):
            popover.results.click()
        assert popover.isHidden()

    def test_a_disturbed_measurement_leads_with_that_and_offers_to_be_made_again(
        self, room: Any, trained: Trained, raced: Raced
    ) -> None:
        race = raced(trained("fp32", 1_000.0, speed_note=BUSY), trained("fp16", 5_000.0))
        room.panel.show_race(race, None)
        room.press(Qt.Key.Key_End)
        assert room.view.frame.number is None and "disturbed" in room.view.card.title
        with room.qtbot.waitSignal(room.panel.again_wanted):
            room.race.transport.again.click()
        room.assert_fits()

    def test_the_popover_stays_on_the_screen_and_another_page_takes_it_away(
        self, room: Any, usual: Race
    ) -> None:
        room.panel.show_race(usual, None)
        popover = room.race.popover
        popover.open_at(QPoint(5_000, 5_000))
        assert popover.screen().geometry().contains(popover.geometry())
        room.panel.show_refusal("It failed.", "Try it again.")
        assert not popover.isVisible()

    def test_terms_are_explained_each_once(self) -> None:
        told = explained("FP16 AMP with fast optimizations, mixed precision").splitlines()
        terms = ["AMP", "FP16", "Mixed precision", "Fast optimizations"]
        assert [line.partition(":")[0] for line in told] == terms
        assert explained("12,800 images") == ""


class TestOtherPages:
    def test_blocks_are_lit_at_each_count_and_screen_readers_hear_of_each_phase(self, room: Any) -> None:
        room.panel.show_measuring(measuring(20, is_pilot=True))
        page = room.panel.measuring
        assert page.view.frame.lit == (0.0, 0.0) and "Testing the speed" in page.accessibleDescription()
        room.panel.show_measuring(measuring(100))
        assert page.view.frame.lit == (100.0, 0.0) and page.view.frame.caption[1] == "10 s left"
        told = page.accessibleDescription()
        room.panel.show_measuring(measuring(110))
        assert page.accessibleDescription() == told and "1,100 images" in page.words(), "not at each count"
        room.panel.show_measuring(measuring(200, 100))
        assert "Measuring mixed precision" in page.accessibleDescription()
        assert page.view.frame.words == ("images, measured", "images so far")
        room.assert_fits()

    def test_each_button_asks_for_what_it_says(self, room: Any) -> None:
        panel = room.panel
        panel.show_welcome()
        panel.show_measuring(measuring(0, phase="compiling"))
        panel.show_refusal("The run “x” has no steps to replay. " * 3, "Choose another run. " * 4)
        room.assert_fits()
        for button, signal in (
            (panel.refused.results, panel.compare_wanted),
            (panel.refused.run_demo, panel.demo_wanted),
            (panel.measuring.stop, panel.stop_wanted),
            (panel.welcome.run_demo, panel.demo_wanted),
            (panel.welcome.experiment, panel.experiment_wanted),
            (panel.welcome.limit, panel.limit_wanted),
        ):
            with room.qtbot.waitSignal(signal):
                button.click()
