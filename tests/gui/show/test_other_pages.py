"""The pages beside the race: while two runs are measured, a refusal, and the welcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from PySide6.QtCore import Qt

from engine.experiment.experiment import Experiment, Precision
from engine.race.race import Race
from gui.session.live_run import LiveRun
from gui.show.guided import pages
from gui.show.guided.pages import MeasuredLane, Measuring


def measuring(
    running: str, *, samples: Sequence[float], left: float | None = 4.0, phase: str = ""
) -> Measuring:
    full = MeasuredLane(Precision.FP32, "Full precision", "FP32", 1_000, samples[0], 900.0, "images so far")
    mixed = MeasuredLane(
        Precision.BF16, "Mixed precision", "BF16 AMP", 1_000, samples[1], None, "not begun yet"
    )
    which: Any = running
    return Measuring(
        "The same training", "Twice.", "small-cnn, 64 images at once", which, full, mixed, left, phase
    )


class TestMeasuring:
    def test_it_says_which_run_trains_and_for_how_long(self, room: Any) -> None:
        room.panel.show_measuring(measuring("full", samples=(500, 0)))
        page = room.panel.measuring
        assert room.panel.page == "measuring"
        assert (
            "Measuring full precision about 4 s left" in page.words() and "500 images so far" in page.words()
        )
        assert page.stage.full.view.lit == page.stage.full.view.blocks / 2
        assert page.stage.mixed.view.lit == 0

    def test_the_time_left_is_that_of_both_runs(self) -> None:
        live = LiveRun.of("a", Experiment(batch_size=10, steps=200))
        live.load({"step": range(1, 101), "samples_per_second": [100.0] * 100})
        assert pages.measuring(pages.Progress(None, "full", full=live)).seconds_left == pytest.approx(30.0)
        assert pages.measuring(pages.Progress(None, "mixed", mixed=live)).seconds_left == pytest.approx(10.0)

    def test_it_follows_the_second_run(self, room: Any) -> None:
        room.panel.show_measuring(measuring("full", samples=(1_000, 0)))
        room.panel.show_measuring(measuring("mixed", samples=(1_000, 10), left=None))
        assert "Measuring mixed precision just begun" in room.panel.measuring.words()
        assert room.panel.measuring.stage.mixed.view.lit > 0

    def test_screen_readers_hear_of_each_run_and_not_of_each_count(self, room: Any) -> None:
        page = room.panel.measuring
        room.panel.show_measuring(measuring("full", samples=(500, 0)))
        told = page.accessibleDescription()
        assert "Measuring full precision" in told
        room.panel.show_measuring(measuring("full", samples=(600, 0)))
        assert page.accessibleDescription() == told and "600 images" in page.words()
        room.panel.show_measuring(measuring("mixed", samples=(1_000, 0)))
        assert "Measuring mixed precision" in page.accessibleDescription()

    def test_a_phase_without_steps_is_named(self, room: Any) -> None:
        room.panel.show_measuring(measuring("full", samples=(0, 0), phase="getting the pictures"))
        assert "getting the pictures" in room.panel.measuring.words()

    def test_it_can_be_stopped(self, room: Any) -> None:
        room.panel.show_measuring(measuring("full", samples=(0, 0)))
        with room.qtbot.waitSignal(room.panel.stop_wanted):
            room.panel.measuring.stop.click()

    def test_it_fits(self, room: Any) -> None:
        room.panel.show_measuring(measuring("mixed", samples=(1_000, 10)))
        room.assert_fits()


class TestOtherPages:
    def test_a_refusal_says_why_and_what_to_do(self, room: Any) -> None:
        room.panel.show_refusal("The run “x” has no steps to replay. " * 3, "Choose another run. " * 4)
        assert room.panel.page == "refused"
        assert "nothing to show" in room.panel.refused.accessibleName()
        assert "no steps to replay" in room.panel.refused.words()
        room.assert_fits()

    def test_both_ways_on_from_a_refusal(self, room: Any) -> None:
        room.panel.show_refusal("No.", "Yes.")
        with room.qtbot.waitSignal(room.panel.compare_wanted):
            room.panel.refused.compare.click()
        with room.qtbot.waitSignal(room.panel.show_me_wanted):
            room.panel.refused.show_me.click()

    def test_the_welcome_offers_its_three_ways(self, room: Any) -> None:
        room.panel.show_welcome()
        welcome, panel = room.panel.welcome, room.panel
        for button, signal in (
            (welcome.show_me, panel.show_me_wanted),
            (welcome.experiment, panel.experiment_wanted),
            (welcome.limit, panel.limit_wanted),
        ):
            with room.qtbot.waitSignal(signal):
                button.click()

    def test_keys_of_the_race_do_nothing_on_them(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.panel.show_welcome()
        room.qtbot.keyClick(room.panel, Qt.Key.Key_Space)
        assert not room.clock.is_playing
