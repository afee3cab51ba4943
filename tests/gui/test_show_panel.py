"""The workspace Show: the race and its transport, what stands on its pages, and how it fits its panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QSlider, QToolTip, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.events import Failed, Finished, Samples
from engine.experiment import Precision
from engine.problem import Kind, Problem
from engine.records.comparison import compare
from engine.records.evidence import evidence_from
from engine.records.race import Race, race_of
from engine.records.record import RunRecord
from engine.records.store import Store
from gui.motion import set_reduced_motion
from gui.panels.show import ShowPanel
from gui.panels.show_measuring import MeasuredLane, Measuring
from gui.panels.show_scale import SMALLEST_TEXT, Scale, scale_for
from gui.panels.show_span import explained
from gui.panels.show_text import TextBlock, TextRow
from gui.theme import theme

Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]

# said by the offscreen platform when a popover opens
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

BUSY = "other programs took 34 % of the processor meanwhile"
NO_SPEED = "The run was too short to measure: only 2 whole blocks, and a speed needs 5."
LONG_MODEL = "some_model_with_a_name_that_is_longer_than_anybody_would_think_of_patch14_reg4"
SIZES = ((1440, 848), (1100, 648), (1024, 548), (960, 548), (1280, 720), (1920, 1028), (3840, 2160))


class Room:
    """A panel in a window, as large as asked for."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.panel = ShowPanel()
        column = QVBoxLayout(self.window)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.panel)
        self.resize(1440, 848)
        with qtbot.waitExposed(self.window):
            self.window.show()
        self.race, self.clock = self.panel.race, self.panel.race.clock

    def resize(self, width: int, height: int) -> None:
        self.window.resize(width, height)
        QApplication.processEvents()

    def press(self, key: Qt.Key) -> None:
        self.qtbot.keyClick(self.race, key)

    @property
    def words(self) -> str:
        return self.race.words().replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def room(qtbot: QtBot) -> Iterator[Room]:
    theme().set_mode("dark")
    set_reduced_motion(False)
    room = Room(qtbot)
    yield room
    room.clock.pause()
    set_reduced_motion(None)


@pytest.fixture
def raced(saved: Store) -> Raced:
    """The race of runs, the first one against the others, as it is read from the store."""

    def make(*runs: RunRecord) -> Race:
        curves = {run.id: saved.samples(run.id) for run in runs}
        evidence = [evidence_from(run, saved.events(run.id), curves[run.id]) for run in runs]
        return race_of(compare(evidence), curves)

    return make


@pytest.fixture
def usual(trained: Trained, raced: Raced) -> Race:
    return raced(
        trained("fp32", 1_000.0, peak_allocated_mib=10_445.0),
        trained("fp16", 5_000.0, peak_allocated_mib=3_277.0),
    )


@pytest.fixture
def failed(trained: Trained, raced: Raced, saved: Store) -> Race:
    """Mixed precision fails after 40 of its 200 steps."""
    full, whole = trained("fp32", 1_000.0), trained("fp16", 5_000.0)
    events = [event for event in saved.events(whole.id) if not isinstance(event, Finished)]
    columns = saved.samples(whole.id)
    broken = saved.add(whole.experiment).id
    saved.begin(broken)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take less.")
    saved.record(broken, [*events, _first(columns, 40), Failed(problem=problem)])
    return raced(full, saved.run(broken))


def _first(columns: dict[str, Any], count: int) -> Samples:
    return Samples(**{name: tuple(values[:count].tolist()) for name, values in columns.items()})


def cut_off(panel: QWidget) -> list[str]:
    """Texts with less room than they need; a row may shorten its last words at the left."""
    blocks = [one for one in panel.findChildren(TextBlock) if one.isVisible()]
    rows = [one for one in panel.findChildren(TextRow) if one.isVisible()]
    return [
        *(one.words() for one in blocks if one.height() < one.heightForWidth(one.width())),
        *(f"{one.words()}: {one.width()}" for one in rows if one.width() < one.least_width()),
    ]


def outside(panel: QWidget) -> list[str]:
    """Widgets that reach out of the one they stand in."""
    return [
        f"{type(one).__name__} {one.geometry()} in {one.parentWidget().size()}"
        for one in panel.findChildren(QWidget)
        if one.isVisible() and not one.isWindow() and not one.parentWidget().rect().contains(one.geometry())
    ]


def fits_everywhere(room: Room) -> None:
    """Asserts that nothing is cut off or hidden in a panel of any size."""
    for size in SIZES:
        room.resize(*size)
        assert cut_off(room.panel) == [] and outside(room.panel) == [], size


class TestRace:
    def test_it_stands_at_the_start_of_what_it_is_given(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        assert room.panel.page == "race"
        assert (room.clock.seconds, room.race.stage.full.view.lit) == (0.0, 0)
        assert "as many images and counting" in room.words

    def test_half_way_the_faster_lane_is_further(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.clock.seek(usual.decided / 2)
        full, mixed = room.race.stage.full.view, room.race.stage.mixed.view
        assert 0 < full.lit < mixed.lit < mixed.blocks == usual.blocks
        assert "images, still running" in room.words

    def test_at_the_end_the_number_is_the_comparisons_own(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.clock.seek(usual.seconds)
        assert usual.ratio == pytest.approx(5.0)
        assert room.race.stage.middle.number.shown == "5.0"
        assert room.race.stage.full.view.lit == room.race.stage.mixed.view.lit == usual.blocks
        assert room.words.count("images, finished") == 2
        assert room.race.stage.memory.tanks.fill == 1.0

    def test_another_race_begins_anew(self, room: Room, usual: Race, failed: Race) -> None:
        room.panel.show_race(usual, None)
        room.clock.seek(usual.seconds)
        room.panel.show_race(failed, None)
        assert room.clock.seconds == 0.0 and room.race.stage.mixed.view.lit == 0
        assert room.race.stage.middle.number.isHidden()

    def test_playing_begins_at_once_and_reduced_motion_shows_the_end(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        assert room.clock.is_playing
        set_reduced_motion(True)
        room.panel.play()
        assert room.clock.is_at_end and not room.clock.is_playing

    def test_leaving_the_page_pauses_it(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        room.panel.show_welcome()
        assert room.panel.page == "welcome" and not room.clock.is_playing

    def test_its_state_is_told_to_screen_readers_when_it_stands_still(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        assert "The race is paused." in room.race.accessibleDescription()
        room.press(Qt.Key.Key_End)
        told = room.race.accessibleDescription()
        assert "5.0 times as fast" in room.race.stage.middle.number.accessibleName()
        assert "images, finished" in told and "The race is at the end." in told


class TestTransport:
    @pytest.fixture(autouse=True)
    def show(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)

    @pytest.mark.parametrize("key", [Qt.Key.Key_Space, Qt.Key.Key_Return])
    def test_keys_play_and_pause(self, room: Room, key: Qt.Key) -> None:
        room.press(key)
        assert room.clock.is_playing and room.race.transport.play.accessibleName() == "Pause"
        room.press(key)
        assert not room.clock.is_playing and room.race.transport.play.accessibleName() == "Play"

    def test_arrows_go_by_a_second(self, room: Room, usual: Race) -> None:
        room.press(Qt.Key.Key_Right)
        room.press(Qt.Key.Key_Right)
        room.press(Qt.Key.Key_Left)
        assert room.clock.seconds == pytest.approx(usual.lapse)

    def test_a_presenters_remote_goes_to_the_ends_and_plays_again(self, room: Room) -> None:
        room.press(Qt.Key.Key_PageDown)
        assert room.clock.is_at_end and room.race.transport.play.accessibleName() == "Replay"
        room.press(Qt.Key.Key_PageUp)
        assert room.clock.seconds == 0.0
        room.press(Qt.Key.Key_End)
        room.press(Qt.Key.Key_PageDown)
        assert room.clock.is_playing and not room.clock.is_at_end
        room.press(Qt.Key.Key_Home)
        room.clock.pause()
        assert room.clock.seconds < 1.0

    def test_arrows_mean_the_same_with_the_focus_on_a_button_or_the_slider(self, room: Room) -> None:
        transport = room.race.transport
        for control in (transport.play, transport.full_screen, transport.scrubber):
            room.clock.seek(0.0)
            control.setFocus(Qt.FocusReason.TabFocusReason)
            room.qtbot.keyClick(control, Qt.Key.Key_Right)
            assert room.clock.seconds > 0.0, control

    def test_the_keys_are_the_races_once_the_panel_has_the_focus(self, room: Room) -> None:
        room.panel.setFocus()
        assert room.race.hasFocus()
        room.panel.show_welcome()
        room.panel.setFocus()
        assert not room.race.hasFocus()

    def test_clicking_leaves_the_keys_to_the_race(self, room: Room) -> None:
        room.race.setFocus()
        transport = room.race.transport
        for control in (transport.play, transport.speed.button("2"), transport.full_screen):
            room.qtbot.mouseClick(control, Qt.MouseButton.LeftButton)
            assert not control.hasFocus()
        room.clock.pause()

    def test_the_slider_goes_where_it_is_clicked_and_dragged(self, room: Room, usual: Race) -> None:
        slider = room.race.transport.scrubber
        middle = QPoint(slider.width() // 2, slider.height() // 2)
        room.clock.play()
        room.qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=middle)
        assert not room.clock.is_playing
        assert room.clock.seconds == pytest.approx(usual.seconds / 2, abs=0.05)
        room.qtbot.mouseMove(slider, QPoint(slider.width() - 1, middle.y()))
        room.qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=middle)
        assert room.clock.is_playing or room.clock.is_at_end

    def test_a_screen_readers_action_moves_the_slider(self, room: Room) -> None:
        room.race.transport.scrubber.triggerAction(QSlider.SliderAction.SliderSingleStepAdd)
        assert room.clock.seconds == pytest.approx(1.0)

    def test_speeds_are_chosen_and_shown(self, room: Room) -> None:
        room.race.transport.speed.button("0.5").click()
        assert room.clock.speed == 0.5
        room.clock.set_speed(2.0)
        assert room.race.transport.speed.value() == "2"

    def test_what_was_trained_and_how_long_it_takes_is_told(self, room: Room, usual: Race) -> None:
        rows = [row.words() for row in room.race.transport.findChildren(TextRow)]
        assert "small-cnn, batch 64" in rows and f"0.0 of {usual.seconds:,.1f} s" in rows

    def test_the_menu_saves_and_goes_to_compare(self, room: Room) -> None:
        panel, actions = room.panel, room.race.transport.menu.actions()
        for number, name in enumerate(("animation", "card")):
            with room.qtbot.waitSignal(panel.save_wanted) as saved:
                actions[number].trigger()
            assert saved.args == [name]
        with room.qtbot.waitSignal(panel.compare_wanted):
            next(one for one in actions if "Compare" in one.text()).trigger()

    def test_motion_can_be_switched_off_for_good(self, room: Room) -> None:
        room.race.transport.still.trigger()
        room.panel.play()
        assert room.clock.is_at_end and room.race.transport.still.isChecked()

    def test_the_full_screen_is_asked_for_and_its_button_says_how_to_leave(self, room: Room) -> None:
        button = room.race.transport.full_screen
        with room.qtbot.waitSignal(room.panel.present_toggled):
            button.click()
        room.panel.set_presenting(True)
        assert button.accessibleName() == "Leave full screen" and "Escape" in button.toolTip()
        room.panel.set_presenting(False)
        assert button.accessibleName() == "Full screen"


class TestCertainty:
    def test_the_interval_is_one_click_away(
        self, room: Room, trained: Trained, raced: Raced, saved: Store
    ) -> None:
        group = saved.add_comparison("repeats")
        runs = [
            trained(precision, speed + seed, comparison=group, settings={"seed": seed})
            for seed in range(3)
            for precision, speed in (("fp32", 1_000.0), ("fp16", 5_000.0))
        ]
        room.panel.show_race(raced(*runs), None)
        popover = room.race.popover
        for opener in (room.race.stage.middle.number, room.race.stage.middle.sure):
            opener.click()
            assert popover.isVisible() and "95 % confidence" in popover.words()
            room.qtbot.keyClick(popover, Qt.Key.Key_Escape)
            assert popover.isHidden()

    def test_a_comparison_that_is_not_clean_says_so_and_why(
        self, room: Room, trained: Trained, raced: Raced
    ) -> None:
        race = raced(
            trained("fp32", 1_000.0, speed_note=BUSY), trained("fp16", 5_000.0, settings={"seed": 3})
        )
        room.panel.show_race(race, None)
        headline, popover = room.race.stage.headline, room.race.popover
        assert "Not a clean comparison:" in headline.words() and headline.more.isVisible()
        headline.more.click()
        assert popover.isVisible() and "•" in popover.words()
        with room.qtbot.waitSignal(room.panel.compare_wanted):
            popover.compare.click()
        assert popover.isHidden()

    def test_a_clean_one_has_no_line_for_it(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        assert not room.race.stage.headline.more.isVisible() and "clean" not in room.words

    def test_the_popover_stays_on_the_screen(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        popover = room.race.popover
        popover.open_at(QPoint(5_000, 5_000))
        assert popover.screen().geometry().contains(popover.geometry())
        popover.hide()


class TestUnusual:
    def test_slower_in_mixed_precision(self, room: Room, trained: Trained, raced: Raced) -> None:
        race = raced(trained("fp32", 1_000.0), trained("fp16", 800.0))
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        assert room.race.stage.middle.number.shown == "0.80"
        assert "better choice" in room.words

    @pytest.mark.parametrize(
        ("full", "mixed", "shown"), [(40.0, 50_000.0, "1,250"), (50_000.0, 200.0, "0.004")]
    )
    def test_very_large_and_very_small_ratios_fit(
        self, room: Room, trained: Trained, raced: Raced, full: float, mixed: float, shown: str
    ) -> None:
        race = raced(trained("fp32", full), trained("fp16", mixed))
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        assert room.race.stage.middle.number.shown == shown
        fits_everywhere(room)

    def test_a_run_that_failed_half_way_stops_there(self, room: Room, failed: Race) -> None:
        room.panel.show_race(failed, None)
        room.clock.seek(failed.seconds)
        full, mixed = room.race.stage.full.view, room.race.stage.mixed.view
        assert full.lit == full.blocks and 0 < mixed.lit < mixed.blocks
        assert "then it ran out of memory" in room.words
        assert room.race.stage.middle.number.isHidden() and "No fair figure" in room.words

    def test_without_a_ratio_there_is_a_reason_in_its_place(
        self, room: Room, trained: Trained, raced: Raced
    ) -> None:
        race = raced(trained("fp32", None, speed_note=NO_SPEED), trained("fp16", None, speed_note=NO_SPEED))
        room.panel.show_race(race, None)
        assert room.race.stage.middle.number.isHidden()
        assert room.race.stage.middle.sure.text() == "Why is that?"

    def test_memory_that_was_not_measured_takes_no_room(
        self, room: Room, trained: Trained, raced: Raced
    ) -> None:
        room.panel.show_race(raced(trained("fp32", 1_000.0), trained("fp16", 5_000.0)), None)
        assert room.race.stage.memory.isHidden()

    def test_patterns_stand_in_for_pictures(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, np.zeros((0, 24, 24), np.uint8))
        room.clock.seek(usual.seconds)
        lane = room.race.stage.mixed.view
        image = lane.grab().toImage()
        block = [image.pixelColor(x, 6).name() for x in range(2, 20)]
        assert len(set(block)) > 3

    def test_two_lanes_of_one_precision_are_told_apart(
        self, room: Room, trained: Trained, raced: Raced
    ) -> None:
        fast = {"step": {"recipe": "channels_last+fused+compile"}}
        race = raced(trained("fp32", 1_000.0), trained("fp32", 1_200.0, settings=fast))
        room.panel.show_race(race, None)
        assert race.full.side.title in room.words and race.mixed.side.title in room.words


class TestRoom:
    def test_everything_fits_without_scrolling(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        for at in (0.0, usual.decided, usual.seconds):
            room.clock.seek(at)
            fits_everywhere(room)

    def test_long_names_and_many_doubts_fit(self, room: Room, trained: Trained, raced: Raced) -> None:
        settings = {"model": LONG_MODEL, "batch_size": 1_024}
        recipe = {"step": {"recipe": "channels_last+fused+compile+capture"}}
        figures = {"speed_note": BUSY, "other_programs_mib": 9_000.0, "peak_allocated_mib": 1_045.0}
        race = raced(
            trained("fp32", 1_000.0, settings=settings, name="n" * 90, **figures),
            trained("fp32", 1_100.0, settings=settings | recipe, **figures),
        )
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        fits_everywhere(room)

    def test_the_parts_do_not_cover_one_another(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        stage = room.race.stage
        for size in SIZES:
            room.resize(*size)
            parts = [stage.headline, stage.full, stage.middle, stage.mixed, stage.memory]
            assert [part for part in parts if part.height() < 20] == []
            assert not any(_overlap(one, other) for one in parts for other in parts if one is not other)

    def test_a_window_made_large_can_be_made_small_again(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.resize(3840, 2160)
        room.resize(1024, 548)
        assert room.window.size() == QSize(1024, 548)

    def test_text_grows_with_the_panel_and_never_shrinks_beyond_reading(self) -> None:
        small, large = scale_for(QSize(960, 548)), scale_for(QSize(3840, 2160))
        assert large.text(208) > 2 * Scale().text(208) > 2 * small.text(208)
        assert small.text(17) == SMALLEST_TEXT and small.text(13) == 13
        assert scale_for(QSize(0, 0)).px(48) > 0

    @pytest.mark.parametrize("mode", ["dark", "light"])
    def test_its_theme_can_change_while_it_plays(self, room: Room, usual: Race, mode: str) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        theme().set_mode(mode)
        palette = theme().palette
        image = room.panel.grab().toImage()
        assert image.pixelColor(3, 3).name().upper() == palette.bg0

    def test_every_control_has_a_name_and_a_tooltip(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        buttons = [one for one in room.panel.findChildren(QAbstractButton) if one.isVisible()]
        assert len(buttons) >= 8
        assert [one for one in buttons if not one.accessibleName() or not one.toolTip()] == []


def _overlap(one: QWidget, other: QWidget) -> bool:
    places = [QRect(part.mapToGlobal(QPoint(0, 0)), part.size()) for part in (one, other)]
    return places[0].intersects(places[1])


class TestHover:
    def test_terms_are_explained_each_once(self) -> None:
        told = explained("FP16 AMP with the fast recipe, mixed precision").splitlines()
        assert [line.partition(":")[0] for line in told] == ["AMP", "FP16", "Fast recipe", "Mixed precision"]
        assert explained("12,800 images") == ""

    def test_a_word_in_a_row_is_explained_where_the_pointer_is(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        row = room.race.stage.full.findChildren(TextRow)[0]
        for x, expected in ((60, "Full precision: "), (260, "FP32: ")):
            place = QPoint(x, row.height() // 2)
            QApplication.sendEvent(row, QHelpEvent(QEvent.Type.ToolTip, place, row.mapToGlobal(place)))
            assert QToolTip.text().startswith(expected)
        QToolTip.hideText()


def measuring(
    running: str, *, samples: Sequence[float], left: float | None = 4.0, phase: str = ""
) -> Measuring:
    full = MeasuredLane(Precision.FP32, "Full precision", "FP32", 1_000, samples[0], 900.0, "images so far")
    mixed = MeasuredLane(
        Precision.BF16, "Mixed precision", "BF16 AMP", 1_000, samples[1], None, "not begun yet"
    )
    which: Any = running
    return Measuring("The same training", "Twice.", "small-cnn, batch 64", which, full, mixed, left, phase)


class TestMeasuring:
    def test_it_says_which_run_trains_and_for_how_long(self, room: Room) -> None:
        room.panel.show_measuring(measuring("full", samples=(500, 0)))
        page = room.panel.measuring
        assert room.panel.page == "measuring"
        assert "Measuring full precision 4 s left" in page.words() and "500 images so far" in page.words()
        assert page.stage.full.view.lit == page.stage.full.view.blocks / 2
        assert page.stage.mixed.view.lit == 0

    def test_it_follows_the_second_run(self, room: Room) -> None:
        room.panel.show_measuring(measuring("full", samples=(1_000, 0)))
        room.panel.show_measuring(measuring("mixed", samples=(1_000, 10), left=None))
        assert "Measuring mixed precision just begun" in room.panel.measuring.words()
        assert room.panel.measuring.stage.mixed.view.lit > 0

    def test_a_phase_without_steps_is_named(self, room: Room) -> None:
        room.panel.show_measuring(measuring("full", samples=(0, 0), phase="getting the pictures"))
        assert "getting the pictures" in room.panel.measuring.words()

    def test_it_can_be_stopped(self, room: Room) -> None:
        room.panel.show_measuring(measuring("full", samples=(0, 0)))
        with room.qtbot.waitSignal(room.panel.stop_wanted):
            room.panel.measuring.stop.click()

    def test_it_fits(self, room: Room) -> None:
        room.panel.show_measuring(measuring("mixed", samples=(1_000, 10)))
        fits_everywhere(room)


class TestOtherPages:
    def test_a_refusal_says_why_and_what_to_do(self, room: Room) -> None:
        room.panel.show_refusal("The run “x” has no steps to replay. " * 3, "Choose another run. " * 4)
        assert room.panel.page == "refused"
        assert "nothing to show" in room.panel.refused.accessibleName()
        assert "no steps to replay" in room.panel.refused.words()
        fits_everywhere(room)

    def test_both_ways_on_from_a_refusal(self, room: Room) -> None:
        room.panel.show_refusal("No.", "Yes.")
        with room.qtbot.waitSignal(room.panel.compare_wanted):
            room.panel.refused.compare.click()
        with room.qtbot.waitSignal(room.panel.show_me_wanted):
            room.panel.refused.show_me.click()

    def test_the_welcome_offers_its_three_ways(self, room: Room) -> None:
        room.panel.show_welcome()
        welcome, panel = room.panel.welcome, room.panel
        for button, signal in (
            (welcome.show_me, panel.show_me_wanted),
            (welcome.experiment, panel.experiment_wanted),
            (welcome.limit, panel.limit_wanted),
        ):
            with room.qtbot.waitSignal(signal):
                button.click()

    def test_keys_of_the_race_do_nothing_on_them(self, room: Room, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.panel.show_welcome()
        room.qtbot.keyClick(room.panel, Qt.Key.Key_Space)
        assert not room.clock.is_playing
