"""The pages beside the race: while two runs are measured, a refusal, and the welcome."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Phase, PhaseName
from engine.race.race import Race
from engine.race.showcase import Showcase
from gui.session.live_run import LiveRun
from gui.show import pages
from gui.show.pages import Measuring, Progress

CASE = Showcase(
    "Show me",
    (
        ("FP32", Experiment(batch_size=10, steps=200)),
        ("BF16", Experiment(batch_size=10, steps=200, precision=Precision.BF16)),
    ),
    "Twice.",
)


def run(run_id: str, steps: int) -> LiveRun:
    live = LiveRun.of(run_id, CASE.sides[0][1])
    if steps:
        live.phase = Phase(name=PhaseName.MEASURING)
        columns = {"step": range(1, steps + 1), "samples_per_second": [100.0] * steps}
        live.load({**columns, "allocated_mib": [900.0] * steps})
    return live


def measuring(full: int, mixed: int | None = None, *, phase: str = "") -> Measuring:
    """The page after so many steps of the full run, and then of the mixed one."""
    second = None if mixed is None else run("b", mixed)
    running: Any = "full" if mixed is None else "mixed"
    return pages.measuring(Progress(CASE, running, run("a", full), second, phase))


class TestMeasuring:
    def test_it_says_which_run_trains_and_for_how_long(self, room: Any) -> None:
        room.panel.show_measuring(measuring(100))
        page = room.panel.measuring
        assert room.panel.page == "measuring"
        assert "Measuring full precision about 30 s left" in page.words()
        assert "1,000 images so far" in page.words() and "Full: 900 MiB; Mixed: not yet." in page.words()
        full, mixed = page.view.instant.counts
        assert (full.blocks, mixed.blocks) == (100, 0)

    def test_it_follows_the_second_run(self, room: Any) -> None:
        room.panel.show_measuring(measuring(200))
        room.panel.show_measuring(measuring(200, 0))
        assert "Measuring mixed precision starting" in room.panel.measuring.words()
        room.panel.show_measuring(measuring(200, 100))
        page = room.panel.measuring
        assert "2,000 images, measured" in page.words() and "10 s left" in page.words()
        assert page.view.instant.counts[1].blocks == 100

    def test_screen_readers_hear_of_each_run_and_not_of_each_count(self, room: Any) -> None:
        page = room.panel.measuring
        room.panel.show_measuring(measuring(50))
        told = page.accessibleDescription()
        assert "Measuring full precision" in told
        room.panel.show_measuring(measuring(60))
        assert page.accessibleDescription() == told and "600 images" in page.words()
        room.panel.show_measuring(measuring(200, 1))
        assert "Measuring mixed precision" in page.accessibleDescription()

    def test_a_phase_without_steps_is_named(self, room: Any) -> None:
        room.panel.show_measuring(measuring(0, phase="getting the pictures"))
        assert "getting the pictures" in room.panel.measuring.words()

    def test_it_can_be_stopped(self, room: Any) -> None:
        room.panel.show_measuring(measuring(0))
        with room.qtbot.waitSignal(room.panel.stop_wanted):
            room.panel.measuring.stop.click()

    def test_it_fits(self, room: Any) -> None:
        room.panel.show_measuring(measuring(200, 1))
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
