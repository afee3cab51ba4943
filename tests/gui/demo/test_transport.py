"""The race's transport: keys, slider, speeds, and what it asks of the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QSlider, QWidget
from pytestqt.qtbot import QtBot

from engine.race.race import Race
from gui.demo.transport import RaceClock


def texts(room: Any) -> list[str]:
    return sorted(one.text() for one in room.race.transport.findChildren(QLabel))


class TestTransport:
    @pytest.fixture(autouse=True)
    def show(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)

    @pytest.mark.parametrize("key", [Qt.Key.Key_Space, Qt.Key.Key_Return])
    def test_keys_play_and_pause(self, room: Any, key: Qt.Key) -> None:
        room.press(key)
        assert room.clock.is_playing and room.race.transport.play.accessibleName() == "Pause"
        room.press(key)
        assert not room.clock.is_playing and room.race.transport.play.accessibleName() == "Play"

    def test_arrows_go_by_a_second(self, room: Any, usual: Race) -> None:
        room.press(Qt.Key.Key_Right)
        room.press(Qt.Key.Key_Right)
        room.press(Qt.Key.Key_Left)
        assert room.clock.seconds == pytest.approx(usual.playback_rate)

    def test_a_presenters_remote_goes_to_the_ends_and_plays_again(self, room: Any) -> None:
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

    def test_arrows_mean_the_same_with_the_focus_on_a_button_or_the_slider(self, room: Any) -> None:
        transport, number = room.race.transport, room.view.number
        for control in (transport.play, transport.full_screen, transport.scrubber, number):
            room.clock.seek(0.0)
            control.setFocus(Qt.FocusReason.TabFocusReason)
            room.qtbot.keyClick(control, Qt.Key.Key_Right)
            assert room.clock.seconds > 0.0, control

    def test_the_keys_are_the_races_once_the_panel_has_the_focus(self, room: Any) -> None:
        room.panel.setFocus()
        assert room.race.hasFocus()
        room.panel.show_welcome()
        room.panel.setFocus()
        assert not room.race.hasFocus()

    def test_clicking_leaves_the_keys_to_the_race(self, room: Any) -> None:
        room.race.setFocus()
        transport = room.race.transport
        for control in (transport.play, transport.speed.button("2"), transport.full_screen):
            room.qtbot.mouseClick(control, Qt.MouseButton.LeftButton)
            assert not control.hasFocus()
        room.clock.pause()

    def test_the_slider_goes_where_it_is_clicked_and_dragged(self, room: Any, usual: Race) -> None:
        slider = room.race.transport.scrubber
        middle = QPoint(slider.width() // 2, slider.height() // 2)
        room.clock.play()
        room.qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=middle)
        assert not room.clock.is_playing
        assert room.clock.seconds == pytest.approx(usual.seconds / 2, abs=0.05)
        room.qtbot.mouseMove(slider, QPoint(slider.width() - 1, middle.y()))
        room.qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=middle)
        assert room.clock.is_playing or room.clock.is_at_end

    def test_a_screen_readers_action_moves_the_slider(self, room: Any) -> None:
        room.race.transport.scrubber.triggerAction(QSlider.SliderAction.SliderSingleStepAdd)
        assert room.clock.seconds == pytest.approx(1.0)

    def test_a_race_in_slow_motion_has_seconds_that_move(self, room: Any) -> None:
        transport = room.race.transport
        transport.show_race(0.0342, is_disturbed=False)
        transport.set_seconds(0.012)
        assert texts(room)[:2] == ["0.012", "of 0.034 s"]

    def test_the_menu_saves_goes_to_compare_and_measures_anew(self, room: Any) -> None:
        panel, actions = room.panel, room.race.transport.menu.actions()
        for number, name in enumerate(("animation", "card")):
            with room.qtbot.waitSignal(panel.save_wanted) as saved:
                actions[number].trigger()
            assert saved.args == [name]
        with room.qtbot.waitSignal(panel.compare_wanted):
            next(one for one in actions if "Results" in one.text()).trigger()
        with room.qtbot.waitSignal(panel.demo_wanted):
            next(one for one in actions if "Run demo" in one.text()).trigger()

    def test_motion_can_be_switched_off_for_good(self, room: Any) -> None:
        room.race.transport.still.trigger()
        room.panel.play()
        assert room.clock.is_at_end and room.race.transport.still.isChecked()

    def test_the_full_screen_is_asked_for_and_its_button_says_how_to_leave(self, room: Any) -> None:
        button = room.race.transport.full_screen
        with room.qtbot.waitSignal(room.panel.present_toggled):
            button.click()
        room.panel.set_presenting(True)
        assert button.accessibleName() == "Leave full screen" and "Escape" in button.toolTip()
        room.panel.set_presenting(False)
        assert button.accessibleName() == "Full screen"


class Hands:
    """The time as this test wants it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.is_reduced = False

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def owner(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    return widget


@pytest.fixture
def clock(owner: QWidget, hands: Hands) -> Iterator[RaceClock]:
    made = RaceClock(owner, now=hands, reduced=lambda: hands.is_reduced)
    made.set_race_seconds(10.0, 1.0)
    yield made
    if shiboken6.isValid(made):
        made.pause()


def pass_by(clock: RaceClock, hands: Hands, seconds: float) -> None:
    hands.now += seconds
    clock.tick()


def test_it_goes_by_the_time_that_passed_once_it_is_played(clock: RaceClock, hands: Hands) -> None:
    pass_by(clock, hands, 3.0)
    assert clock.seconds == 0.0
    clock.play()
    for _ in range(50):
        clock.tick()
    assert clock.seconds == 0.0, "not by how often it looked"
    pass_by(clock, hands, 7.0)
    assert clock.seconds == 7.0
    clock.set_frame_ms(200)
    pass_by(clock, hands, 1.0)
    clock.set_frame_ms(None)
    assert (clock.seconds, clock.is_ticking) == (8.0, True)


def test_lapse_and_speed_multiply_and_another_speed_counts_from_where_it_is(
    clock: RaceClock, hands: Hands
) -> None:
    clock.set_race_seconds(600.0, 30.0)
    clock.set_speed(2)
    clock.play()
    pass_by(clock, hands, 2.0)
    assert clock.seconds == 120.0
    hands.now += 1.0
    clock.set_speed(0.5)
    assert clock.seconds == 180.0
    pass_by(clock, hands, 2.0)
    assert clock.seconds == 210.0
    with pytest.raises(ValueError, match="no speed 3"):
        clock.set_speed(3)


def test_a_pause_is_not_counted(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    hands.now += 2.0
    clock.pause()
    assert clock.seconds == 2.0 and not clock.is_ticking
    hands.now += 50.0
    clock.play()
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 3.0


def test_it_ends_once_stays_at_the_end_and_playing_there_begins_anew(clock: RaceClock, hands: Hands) -> None:
    ends: list[float] = []
    seen: list[float] = []
    clock.ended.connect(lambda: ends.append(clock.seconds))
    clock.ticked.connect(seen.append)
    clock.play()
    for seconds in (4.0, 60.0, 60.0):
        pass_by(clock, hands, seconds)
    assert (ends, seen) == ([10.0], [4.0, 10.0])
    assert clock.is_at_end and not clock.is_playing
    clock.play()
    assert clock.seconds == 0.0
    pass_by(clock, hands, 1.0)
    clock.replay()
    assert (clock.seconds, clock.is_playing) == (0.0, True)


def test_seeking_stays_within_the_race_and_playing_goes_on_from_there(clock: RaceClock, hands: Hands) -> None:
    clock.seek(-5.0)
    assert clock.seconds == 0.0
    clock.play()
    hands.now += 1.0
    clock.seek(6.0)
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 7.0
    clock.seek(99.0)
    assert clock.seconds == 10.0 and not clock.is_playing


def test_another_race_begins_at_its_start_and_waits_and_one_of_no_time_cannot_be_played(
    clock: RaceClock, hands: Hands
) -> None:
    clock.play()
    pass_by(clock, hands, 4.0)
    clock.set_race_seconds(3.0, 1.0)
    assert (clock.seconds, clock.is_playing, clock.total) == (0.0, False, 3.0)
    clock.set_race_seconds(0.0, 1.0)
    clock.play()
    assert not clock.is_playing


def test_out_of_sight_nothing_ticks_and_no_time_passes(
    clock: RaceClock, hands: Hands, owner: QWidget
) -> None:
    owner.hide()
    clock.play()
    assert clock.is_playing and not clock.is_ticking
    hands.now += 5.0
    owner.show()
    assert clock.is_ticking
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 1.0
    hands.now += 1.0
    owner.hide()
    hands.now += 30.0
    clock.tick()
    assert clock.seconds == 2.0
    owner.show()
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 3.0


def test_it_ticks_by_itself_and_stops_with_its_owner(
    qtbot: QtBot, qapp: QApplication, owner: QWidget, hands: Hands
) -> None:
    clock = RaceClock(owner, reduced=lambda: False)
    clock.set_race_seconds(0.05, 1.0)
    with qtbot.waitSignal(clock.ended):
        clock.play()
    assert clock.seconds == 0.05
    short_lived = QWidget()
    short_lived.show()
    clock = RaceClock(short_lived, now=hands)
    clock.set_race_seconds(10.0, 1.0)
    clock.play()
    short_lived.deleteLater()
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert not shiboken6.isValid(clock)


def test_with_reduced_motion_a_race_is_at_its_end_and_a_replay_comes_there_in_five_jumps(
    clock: RaceClock, hands: Hands
) -> None:
    clock.start()
    assert clock.is_playing
    hands.is_reduced = True
    clock.start()
    assert clock.is_at_end and not clock.is_ticking
    seen: list[float] = []
    clock.ticked.connect(seen.append)
    clock.replay()
    for _ in range(100):
        pass_by(clock, hands, 0.1)
    assert seen == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
