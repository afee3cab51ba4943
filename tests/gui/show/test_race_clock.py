"""The clock of a race: by the time that passed, never by how often it looked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gui.show.transport import RaceClock
from gui.theme import theme


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


def test_it_stands_still_until_it_is_played(clock: RaceClock, hands: Hands) -> None:
    pass_by(clock, hands, 3.0)
    assert clock.seconds == 0.0
    clock.play()
    pass_by(clock, hands, 3.0)
    assert clock.seconds == 3.0


def test_a_late_look_finds_the_true_time(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    for _ in range(50):
        clock.tick()
    assert clock.seconds == 0.0
    pass_by(clock, hands, 7.0)
    assert clock.seconds == 7.0


def test_lapse_and_speed_multiply(clock: RaceClock, hands: Hands) -> None:
    clock.set_race_seconds(600.0, 30.0)
    clock.set_speed(2)
    clock.play()
    pass_by(clock, hands, 2.0)
    assert clock.seconds == 120.0


def test_another_speed_counts_from_where_it_is(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    hands.now += 2.0
    clock.set_speed(0.5)
    assert clock.seconds == 2.0
    pass_by(clock, hands, 2.0)
    assert clock.seconds == 3.0
    with pytest.raises(ValueError, match="no speed 3"):
        clock.set_speed(3)


def test_a_pause_is_not_counted(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    hands.now += 2.0
    clock.pause()
    assert clock.seconds == 2.0
    assert not clock.is_ticking
    hands.now += 50.0
    clock.play()
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 3.0


def test_it_ends_once_and_stays_at_the_end(clock: RaceClock, hands: Hands) -> None:
    ends: list[float] = []
    seen: list[float] = []
    clock.ended.connect(lambda: ends.append(clock.seconds))
    clock.ticked.connect(seen.append)
    clock.play()
    pass_by(clock, hands, 4.0)
    pass_by(clock, hands, 60.0)
    pass_by(clock, hands, 60.0)
    assert (ends, seen) == ([10.0], [4.0, 10.0])
    assert clock.is_at_end
    assert not clock.is_playing


def test_playing_at_the_end_begins_anew(clock: RaceClock, hands: Hands) -> None:
    clock.seek(10.0)
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
    assert clock.seconds == 10.0
    assert not clock.is_playing


def test_another_race_begins_at_its_start_and_waits(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    pass_by(clock, hands, 4.0)
    clock.set_race_seconds(3.0, 1.0)
    assert (clock.seconds, clock.is_playing, clock.total) == (0.0, False, 3.0)


def test_a_race_of_no_time_cannot_be_played(clock: RaceClock) -> None:
    clock.set_race_seconds(0.0, 1.0)
    clock.play()
    assert not clock.is_playing


def test_out_of_sight_nothing_ticks_and_no_time_passes(
    clock: RaceClock, hands: Hands, owner: QWidget
) -> None:
    clock.play()
    hands.now += 2.0
    owner.hide()
    assert clock.is_playing
    assert not clock.is_ticking
    hands.now += 30.0
    clock.tick()
    assert clock.seconds == 2.0
    owner.show()
    assert clock.is_ticking
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 3.0


def test_played_out_of_sight_it_begins_when_it_is_seen(
    clock: RaceClock, hands: Hands, owner: QWidget
) -> None:
    owner.hide()
    clock.play()
    assert not clock.is_ticking
    hands.now += 5.0
    owner.show()
    pass_by(clock, hands, 1.0)
    assert clock.seconds == 1.0


def test_it_may_look_less_often_while_it_plays(clock: RaceClock, hands: Hands) -> None:
    clock.play()
    clock.set_frame_ms(200)
    pass_by(clock, hands, 2.0)
    clock.set_frame_ms(None)
    assert (clock.seconds, clock.is_ticking) == (2.0, True)


def test_it_ticks_by_itself(qtbot: QtBot, owner: QWidget) -> None:
    clock = RaceClock(owner, reduced=lambda: False)
    clock.set_race_seconds(0.05, 1.0)
    with qtbot.waitSignal(clock.ended):
        clock.play()
    assert clock.seconds == 0.05


def test_it_stops_with_its_owner(qapp: QApplication, hands: Hands) -> None:
    owner = QWidget()
    owner.show()
    clock = RaceClock(owner, now=hands)
    clock.set_race_seconds(10.0, 1.0)
    clock.play()
    owner.deleteLater()
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert not shiboken6.isValid(clock)


class TestReducedMotion:
    def test_a_race_is_shown_at_its_end_at_once(self, clock: RaceClock, hands: Hands) -> None:
        hands.is_reduced = True
        clock.begin()
        assert clock.is_at_end
        assert not clock.is_ticking

    def test_else_it_plays(self, clock: RaceClock) -> None:
        clock.begin()
        assert clock.is_playing

    def test_a_replay_comes_to_its_end_in_five_jumps(self, clock: RaceClock, hands: Hands) -> None:
        hands.is_reduced = True
        seen: list[float] = []
        clock.seek(10.0)
        clock.ticked.connect(seen.append)
        clock.replay()
        for _ in range(100):
            pass_by(clock, hands, 0.1)
        assert seen == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0, 10.0])

    def test_the_choice_made_here_counts(self, qapp: QApplication) -> None:
        try:
            theme.set_reduced_motion(True)
            assert theme.reduces_motion()
            theme.set_reduced_motion(False)
            assert not theme.reduces_motion()
            assert theme.reduced_motion_choice() is False
        finally:
            theme.set_reduced_motion(None)
        assert isinstance(theme.reduces_motion(), bool)
