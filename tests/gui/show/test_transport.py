"""The race's transport: keys, slider, speeds, and what it asks of the window."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel, QSlider

from engine.race.race import Race


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

    def test_speeds_are_chosen_and_shown(self, room: Any) -> None:
        room.race.transport.speed.button("0.5").click()
        assert room.clock.speed == 0.5
        room.clock.set_speed(2.0)
        assert room.race.transport.speed.value() == "2"

    def test_what_was_trained_and_how_long_it_takes_is_told(self, room: Any, usual: Race) -> None:
        assert texts(room) == ["0.0", f"of {usual.seconds:,.1f} s", "small-cnn, 64 images at once"]

    def test_a_race_in_slow_motion_has_seconds_that_move(self, room: Any) -> None:
        transport = room.race.transport
        transport.show_race("small-cnn", 0.0342)
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
        with room.qtbot.waitSignal(panel.show_me_wanted):
            next(one for one in actions if "Show me" in one.text()).trigger()

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
