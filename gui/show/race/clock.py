"""The clock of a race: how far the replay has come, by a monotonic clock and never by counting ticks."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from gui.theme.theme import reduces_motion

FRAME_MS = 16
SPEEDS = (0.5, 1.0, 2.0)
JUMPS = 5
"""The number of steps of a replay where motion is reduced."""


class RaceClock(QObject):
    """Runs from 0 to the race's end, in the race's own seconds, while its owner is on screen.

    `ticked` carries the seconds whenever they changed, by time or by hand; `state_changed` says that it plays
    or pauses, `ended` that playing has reached the end. While the owner is hidden nothing ticks; when it is
    shown again, the race goes on from where it was.
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
        self._total, self._playback_rate, self._speed = 0.0, 1.0, 1.0
        self._seconds = 0.0
        self._is_playing = False
        self._begun_at = 0.0
        self._begun_seconds = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)
        self._frame_ms = FRAME_MS
        owner.installEventFilter(self)

    @property
    def seconds(self) -> float:
        """Where the race is, in its own seconds."""
        return self._seconds

    @property
    def total(self) -> float:
        """The length of the race, in its own seconds."""
        return self._total

    @property
    def speed(self) -> float:
        """One of `SPEEDS`."""
        return self._speed

    @property
    def is_playing(self) -> bool:
        return self._is_playing

    @property
    def is_at_end(self) -> bool:
        return self._seconds >= self._total

    @property
    def is_ticking(self) -> bool:
        """True if time passes right now: it plays and its owner is on screen."""
        return self._timer.isActive()

    def set_race_seconds(self, total: float, playback_rate: float) -> None:
        """Takes another race, at its start. `playback_rate` is race seconds per second on screen."""
        self.pause()
        self._total, self._playback_rate = max(total, 0.0), playback_rate if playback_rate > 0 else 1.0
        self._stand_at(0.0)

    def begin(self) -> None:
        """Plays a new race, or shows its end where motion is reduced."""
        if self._reduced():
            self.seek(self._total)
        else:
            self.replay()

    def play(self) -> None:
        """Goes on, or starts again at the end."""
        if self.is_at_end:
            self._stand_at(0.0)
        if not self._is_playing and self._total > 0:
            self._is_playing = True
            self._hold_or_run()
            self.state_changed.emit()

    def pause(self) -> None:
        """Stops where it is."""
        if self._is_playing:
            self._catch_up()
            self._is_playing = False
            self._timer.stop()
            self.state_changed.emit()

    def toggle(self) -> None:
        """Pauses or plays."""
        if self._is_playing:
            self.pause()
        else:
            self.play()

    def replay(self) -> None:
        """Plays from the start."""
        self._stand_at(0.0)
        self.play()

    def seek(self, seconds: float) -> None:
        """Goes to `seconds`, within the ends, and plays on from there if it was playing."""
        self._stand_at(min(max(seconds, 0.0), self._total))
        if self._is_playing and self.is_at_end:
            self._end()

    def set_speed(self, speed: float) -> None:
        """Plays at half, true or double speed. Raises ValueError for another."""
        if speed not in SPEEDS:
            raise ValueError(f"There is no speed {speed:g}: choose one of 0.5, 1 and 2.")
        if speed != self._speed:
            self._catch_up()
            self._speed = speed
            self._hold_or_run()
            self.state_changed.emit()

    def set_frame_ms(self, frame_ms: int | None) -> None:
        """Sets the time between ticks; None for the usual one."""
        self._frame_ms = FRAME_MS if frame_ms is None else frame_ms
        if self._timer.isActive():
            self._timer.setInterval(self._frame_ms)

    def tick(self) -> None:
        """Catches up with the time; the timer calls this some 60 times a second."""
        self._catch_up()
        if self._is_playing and self.is_at_end:
            self._end()

    def _end(self) -> None:
        self._is_playing = False
        self._timer.stop()
        self.state_changed.emit()
        self.ended.emit()

    def _catch_up(self) -> None:
        if not self._timer.isActive():
            return
        elapsed = (self._now() - self._begun_at) * self._playback_rate * self._speed
        reached = min(self._begun_seconds + elapsed, self._total)
        if self._reduced():
            jump = self._total / JUMPS
            # a jump that is due by a hair's breadth is due
            reached = (
                min(int(reached / jump + 1e-6) * jump, self._total) if reached < self._total else reached
            )
            reached = max(reached, self._seconds)
        self._move_to(reached)

    def _stand_at(self, seconds: float) -> None:
        self._begun_at, self._begun_seconds = self._now(), seconds
        self._move_to(seconds)

    def _move_to(self, seconds: float) -> None:
        if seconds != self._seconds:
            self._seconds = seconds
            self.ticked.emit(seconds)

    def _hold_or_run(self) -> None:
        """Counts from here while the owner is on screen, and stops while it is not."""
        if not self._is_playing:
            return
        self._begun_at, self._begun_seconds = self._now(), self._seconds
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
