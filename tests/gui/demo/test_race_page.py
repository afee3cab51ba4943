"""The race's page: what it shows from start to end, also of unusual races, and how sure it is said to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt

from engine.race.race import Race
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.demo.scale import explained
from gui.theme.theme import set_reduced_motion

Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]

# said by the offscreen platform when a popover opens
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

BUSY = "other programs used 34% of the CPU"


class TestRace:
    def test_from_its_start_to_the_end_whose_number_is_the_comparisons_own(
        self, room: Any, usual: Race, failed: Race
    ) -> None:
        room.panel.show_race(usual, None)
        assert room.panel.page == "race" and (room.clock.seconds, room.lit) == (0.0, (0, 0))
        assert room.number == "" and not room.view.more.isVisible()
        room.clock.seek(usual.seconds / 2)
        full, mixed = room.lit
        assert 0 < full < mixed < usual.blocks, "the faster lane is further"
        assert room.number == "5.00"
        room.clock.seek(usual.seconds)
        assert usual.ratio == pytest.approx(5.0) and room.number == "5.00"
        assert room.lit == (usual.blocks // 5, usual.blocks) and room.view.instant.fill == 1.0
        assert "The replay is at the end." in room.race.accessibleDescription()
        room.panel.show_race(failed, None)
        assert (room.clock.seconds, room.lit, room.number) == (0.0, (0, 0), None), "another begins anew"

    def test_it_plays_at_once_leaving_pauses_it_and_reduced_motion_shows_the_end(
        self, room: Any, usual: Race
    ) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        assert room.clock.is_playing
        room.panel.show_welcome()
        assert room.panel.page == "welcome" and not room.clock.is_playing
        room.panel.show_race(usual, None)
        set_reduced_motion(True)
        room.panel.play()
        assert room.clock.is_at_end and not room.clock.is_playing


class TestCertainty:
    def test_the_interval_is_one_click_away(
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
        for opener in (room.view.number, room.view.certainty):
            opener.click()
            assert popover.isVisible() and "95% interval" in popover.words()
            room.qtbot.keyClick(popover, Qt.Key.Key_Escape)
            assert popover.isHidden()

    def test_the_keys_of_a_presenters_remote_close_it_and_do_not_leave_show_by_its_link(
        self, room: Any, usual: Race
    ) -> None:
        room.panel.show_race(usual, None)
        room.press(Qt.Key.Key_End)
        popover = room.race.popover
        for key in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Escape):
            room.view.number.click()
            assert popover.isVisible() and not popover.compare.hasFocus()
            with room.qtbot.assertNotEmitted(room.panel.compare_wanted):
                room.qtbot.keyClick(popover, key)
            assert not popover.isVisible(), key

    def test_a_comparison_that_is_not_clean_says_so_and_why(
        self, room: Any, trained: Trained, raced: Raced
    ) -> None:
        race = raced(
            trained("fp32", 1_000.0), trained("fp16", 5_000.0, settings={"optimizer": {"learning_rate": 0.5}})
        )
        room.panel.show_race(race, None)
        assert not room.view.again.isVisible()
        popover = room.race.popover
        room.view.more.click()
        assert popover.isVisible() and "•" in popover.words()
        with room.qtbot.waitSignal(room.panel.compare_wanted):
            popover.compare.click()
        assert popover.isHidden()

    def test_a_disturbed_measurement_leads_with_that_and_offers_to_be_made_again(
        self, room: Any, trained: Trained, raced: Raced
    ) -> None:
        race = raced(trained("fp32", 1_000.0, speed_note=BUSY), trained("fp16", 5_000.0))
        room.panel.show_race(race, None)
        room.press(Qt.Key.Key_End)
        assert room.number is None
        with room.qtbot.waitSignal(room.panel.again_wanted):
            room.view.again.click()
        room.assert_fits()

    def test_the_popover_stays_on_the_screen(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        popover = room.race.popover
        popover.open_at(QPoint(5_000, 5_000))
        assert popover.screen().geometry().contains(popover.geometry())
        popover.hide()
        room.view.certainty.click()
        room.panel.show_refusal("It failed.", "Try it again.")
        assert not popover.isVisible(), "another page takes it away"


class TestUnusual:
    @pytest.mark.parametrize(
        ("full", "mixed", "shown"), [(1_000.0, 800.0, "1.25"), (40.0, 50_000.0, "1,250"), (5e4, 200.0, "250")]
    )
    def test_slower_in_mixed_precision_and_very_large_and_very_small_ratios(
        self, room: Any, trained: Trained, raced: Raced, full: float, mixed: float, shown: str
    ) -> None:
        race = raced(trained("fp32", full), trained("fp16", mixed))
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        assert room.number == shown
        room.assert_fits()

    def test_patterns_stand_in_for_pictures(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, np.zeros((0, 24, 24), np.uint8))
        room.clock.seek(usual.seconds)
        blocks, image = room.view.card.lanes[1], room.view.grab().toImage()
        colors = {image.pixelColor(round(blocks.x) + x, round(blocks.y) + 6).name() for x in range(2, 20)}
        assert len(colors) > 3


class TestHover:
    def test_terms_are_explained_each_once(self) -> None:
        told = explained("FP16 AMP with fast optimizations, mixed precision").splitlines()
        terms = ["AMP", "FP16", "Mixed precision", "Fast optimizations"]
        assert [line.partition(":")[0] for line in told] == terms
        assert explained("12,800 images") == ""
