"""The transport bar of the replay (play, speed, position, export, subject), and its clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QSlider, QWidget

from engine.words.numbers import three_figures
from gui.demo.race_view import DemoButton
from gui.theme.theme import reduces_motion, set_reduced_motion
from gui.widgets import Segmented, label, set_text
from gui.widgets.boxes import Surface, in_row, wide

MS = 1_000
_HANDLE = 14  # the width of the slider's handle, as in its style


class Scrubber(QSlider):
    """The slider for the position in a replay. `sought` carries the chosen position in seconds.

    `held` carries whether the slider is being dragged. A click moves it there at once. Keys are handled by
    the panel, whatever has the focus.
    """

    sought = Signal(float)
    held = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setProperty("kind", "show")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Position in the replay")
        self.setToolTip("Drag to any moment (arrow keys: one second)")
        self.setSingleStep(MS)
        self.setPageStep(MS)
        # a screen reader moves it by an action, a mouse by the events below
        self.actionTriggered.connect(lambda _action: self._seek(self.sliderPosition()))

    def set_seconds(self, seconds: float, total: float) -> None:
        """Show the position, without emitting `sought`."""
        self.setRange(0, round(total * MS))
        self.setValue(round(seconds * MS))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.held.emit(True)
            self._seek(self._value_at(event.position()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._seek(self._value_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.held.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()

    def _value_at(self, place: QPointF) -> int:
        # the middle of the handle moves to the pointer
        share = (place.x() - _HANDLE / 2) / max(self.width() - _HANDLE, 1)
        return round(min(max(share, 0.0), 1.0) * self.maximum())

    def _seek(self, value: int) -> None:
        self.setValue(value)
        self.sought.emit(value / MS)


FOOT_HEIGHT, FOOT_MARGIN = 56, 32
_SPEEDS = (("0.5", "½×"), ("1", "1×"), ("2", "2×"))
_PLAY = {
    "play": (" Play", "play", "Play from here (Space)"),
    "pause": (" Pause", "pause", "Pause (Space)"),
    "replay": (" Replay", "reset", "Play from the start (Space)"),
}
_SAVE = (
    ("animation", "Save the replay as an animation…"),
    ("card", "Save an image with the results…"),
)


class DemoTransport(Surface):
    """The playback controls of a replay, with a menu to save, compare or repeat it.

    `save_wanted` carries "animation" or "card". `again` is shown if the measurement was disturbed.
    """

    save_wanted = Signal(str)
    results_wanted = Signal()
    demo_wanted = Signal()
    full_screen_toggled = Signal()

    def __init__(self) -> None:
        super().__init__("foot")
        self._total, self._state = 0.0, ""
        self.play = DemoButton(" Replay", "showPrimary", "", "reset")
        self.speed = Segmented(_SPEEDS, "Replay speed", "Replay at half, normal or double speed")
        for key, _ in _SPEEDS:
            self.speed.button(key).setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.scrubber = Scrubber()
        self._now, self._of = label("", "showNow"), label("", "showFoot")
        self._now.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.again = DemoButton("Measure again", "show", "Train both again, one after the other")
        self._make_menu()
        self.save = DemoButton("", "showIcon", "", "export", do=self._open_menu)
        self.save.set_words("", "Save the replay as a file, and more", name="Save the replay")
        self.full_screen = DemoButton("", "showIcon", "", "expand", do=self.full_screen_toggled)
        time = in_row(self._now, self._of, spacing=5)
        ends = in_row(self.again, self.save, self.full_screen, spacing=8)
        self.play.setFixedWidth(106)
        self.speed.setFixedWidth(146)
        self.setFixedHeight(FOOT_HEIGHT)
        in_row(
            self.play,
            self.speed,
            wide(self.scrubber),
            time,
            ends,
            parent=self,
            margins=(FOOT_MARGIN, 0, FOOT_MARGIN, 0),
            spacing=18,
        )
        self.set_state("replay")
        self.set_presenting(False)

    def show_race(self, total: float, *, is_disturbed: bool) -> None:
        """Show the length of a replay in seconds, and *Measure again* if its measurement was disturbed."""
        self._total = total
        self.again.setVisible(is_disturbed)
        # as wide as it will ever be, so that the slider does not move
        self.set_seconds(total)
        self._now.setMinimumWidth(0)
        self._now.setMinimumWidth(self._now.sizeHint().width())
        self.set_seconds(0.0)

    def set_seconds(self, seconds: float) -> None:
        self.scrubber.set_seconds(seconds, self._total)
        digits = max(1, three_figures(self._total) - 1)
        set_text(self._now, f"{seconds:,.{digits}f}")
        set_text(self._of, f"of {self._total:,.{digits}f} s")

    def set_state(self, state: str) -> None:
        """Set the action of the first button: "play", "pause" or "replay"."""
        if state == self._state:
            return
        self._state = state
        text, icon_name, tip = _PLAY[state]
        self.play.set_words(text, tip)
        self.play.set_icon(icon_name)

    def set_presenting(self, is_on: bool) -> None:
        name, keys = ("Leave full screen", "F11 or Escape") if is_on else ("Full screen", "F11")
        self.full_screen.set_words("", f"{name} ({keys})", name=name)
        self.full_screen.set_icon("shrink" if is_on else "expand")

    def _make_menu(self) -> None:
        self.menu = menu = QMenu(self)
        menu.setAccessibleName("Save the replay, and more")
        for name, text in _SAVE:
            menu.addAction(text).triggered.connect(lambda _=False, name=name: self.save_wanted.emit(name))
        menu.addSeparator()
        menu.addAction("All metrics in Results").triggered.connect(lambda: self.results_wanted.emit())
        again = menu.addAction("Run demo: measure this machine again")
        again.triggered.connect(lambda: self.demo_wanted.emit())
        self.still = menu.addAction("Reduce motion")
        self.still.setCheckable(True)
        self.still.triggered.connect(set_reduced_motion)

    def _open_menu(self) -> None:
        size = self.menu.sizeHint()
        self.menu.popup(self.save.mapToGlobal(QPoint(self.save.width() - size.width(), -size.height())))


FRAME_MS = 16
SPEEDS = (0.5, 1.0, 2.0)
JUMPS = 5
"""The number of steps of a replay where motion is reduced."""


class RaceClock(QObject):
    """The playback clock of a replay, from 0 to the end of the race, in seconds of the race.

    `ticked` carries the position whenever it changes. `state_changed` is emitted when playback starts or
    pauses, `ended` when it reaches the end. It pauses while its `owner` is hidden.
    """

    ticked = Signal(float)
    state_changed = Signal()
    ended = Signal()

    def __init__(
        self,
        owner: QWidget,
        *,
        now: Callable[[], float] = time.monotonic,
        reduced: Callable[[], bool] = reduces_motion,
    ) -> None:
        super().__init__(owner)
        self._owner, self._now, self._reduced = owner, now, reduced
        self.seconds, self.total, self._playback_rate = 0.0, 0.0, 1.0
        """The position and the length of the race in its own seconds, and its seconds per second."""
        self.speed, self.is_playing = 1.0, False
        self._begun_at = self._begun_seconds = 0.0
        self._timer = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)
        self._frame_ms = FRAME_MS
        owner.installEventFilter(self)

    @property
    def is_at_end(self) -> bool:
        return self.seconds >= self.total

    @property
    def is_ticking(self) -> bool:
        """True if time passes now: the race plays and its owner is on screen."""
        return self._timer.isActive()

    def set_race_seconds(self, total: float, playback_rate: float) -> None:
        """Set another race, at its start. `playback_rate` is race seconds per second on screen."""
        self.pause()
        self.total, self._playback_rate = max(total, 0.0), playback_rate if playback_rate > 0 else 1.0
        self._stand_at(0.0)

    def start(self) -> None:
        """Play a new race, or show its end where motion is reduced."""
        if self._reduced():
            self.seek(self.total)
        else:
            self.replay()

    def play(self) -> None:
        """Resume, or start again at the end."""
        if self.is_at_end:
            self._stand_at(0.0)
        if not self.is_playing and self.total > 0:
            self.is_playing = True
            self._hold_or_run()
            self.state_changed.emit()

    def pause(self) -> None:
        """Pause the race."""
        if self.is_playing:
            self._catch_up()
            self.is_playing = False
            self._timer.stop()
            self.state_changed.emit()

    def toggle(self) -> None:
        """Pause or play."""
        if self.is_playing:
            self.pause()
        else:
            self.play()

    def replay(self) -> None:
        """Play from the start."""
        self._stand_at(0.0)
        self.play()

    def seek(self, seconds: float) -> None:
        """Go to `seconds`, limited to the race, and keep playing if it was playing."""
        self._stand_at(min(max(seconds, 0.0), self.total))
        if self.is_playing and self.is_at_end:
            self._end()

    def set_speed(self, speed: float) -> None:
        """Set half, true or double speed. Raises ValueError for another."""
        if speed not in SPEEDS:
            raise ValueError(f"There is no speed {speed:g}: choose one of 0.5, 1 and 2.")
        if speed != self.speed:
            self._catch_up()
            self.speed = speed
            self._hold_or_run()
            self.state_changed.emit()

    def set_frame_ms(self, frame_ms: int | None) -> None:
        """Set the time between ticks. None restores the usual one."""
        self._frame_ms = FRAME_MS if frame_ms is None else frame_ms
        if self._timer.isActive():
            self._timer.setInterval(self._frame_ms)

    def tick(self) -> None:
        """Catch up with the time. The timer calls this some 60 times a second."""
        self._catch_up()
        if self.is_playing and self.is_at_end:
            self._end()

    def _end(self) -> None:
        self.is_playing = False
        self._timer.stop()
        self.state_changed.emit()
        self.ended.emit()

    def _catch_up(self) -> None:
        if not self._timer.isActive():
            return
        elapsed = (self._now() - self._begun_at) * self._playback_rate * self.speed
        reached = min(self._begun_seconds + elapsed, self.total)
        if self._reduced():
            jump = self.total / JUMPS
            if reached < self.total:
                # a jump that is due by a hair's breadth is due
                reached = min(int(reached / jump + 1e-6) * jump, self.total)
            reached = max(reached, self.seconds)
        self._move_to(reached)

    def _stand_at(self, seconds: float) -> None:
        self._begun_at, self._begun_seconds = self._now(), seconds
        self._move_to(seconds)

    def _move_to(self, seconds: float) -> None:
        if seconds != self.seconds:
            self.seconds = seconds
            self.ticked.emit(seconds)

    def _hold_or_run(self) -> None:
        if not self.is_playing:
            return
        self._begun_at, self._begun_seconds = self._now(), self.seconds
        if self._owner.isVisible():
            self._timer.start(self._frame_ms)
        else:
            self._timer.stop()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show:
            self._hold_or_run()
        elif event.type() == QEvent.Type.Hide:
            self._catch_up()
            self._timer.stop()
        return False
