"""The replay of two recorded runs side by side at their own pace, with the certainty of their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QWidget

from engine.drawing.blocks import Tiles
from engine.protocol.pictures import patterns
from engine.race.card import BLOCKS
from engine.race.race import Race
from engine.race.words import card_of, frame_of
from gui.demo.race_view import DemoButton, RaceView, explained
from gui.demo.transport import DemoTransport, RaceClock
from gui.theme.theme import reduces_motion
from gui.widgets import label
from gui.widgets.boxes import Placed, in_column, wide

_CLOSING = (Qt.Key.Key_Escape, Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
_WIDTH = 420
_MARGIN = 8


class CertaintyPopover(QFrame):
    """A popover with the comparison's verdict and the reasons to doubt it.

    Escape, Space, Return or a click elsewhere closes it.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("surface", "popover")
        self.setAccessibleName("How certain the ratio is")
        self._verdict, self._doubts = (label("", "showPopText", wraps=True) for _ in range(2))
        self._doubts.setTextFormat(Qt.TextFormat.RichText)
        self._points: tuple[str, ...] = ()
        self._doubts_title = label("Reasons for caution", "showPopTitle")
        self.results = DemoButton("All metrics in Results", "showLink", "Open these runs in Results")
        self.results.clicked.connect(self.hide)
        self._column = in_column(
            label("How certain is this?", "showPopTitle"),
            self._verdict,
            self._doubts_title,
            self._doubts,
            Placed(self.results, 0, Qt.AlignmentFlag.AlignLeft),
            parent=self,
            margins=20,
            spacing=10,
        )
        self.setFixedWidth(_WIDTH)

    def show_words(self, verdict: str, doubts: Sequence[str]) -> None:
        """Show the verdict in sentences, and a list item for each doubt."""
        self._verdict.setText(verdict)
        self._verdict.setToolTip(explained(verdict))
        self._points = tuple(doubts)
        points = "".join(f"<li>{escape(doubt)}</li>" for doubt in doubts)
        self._doubts.setText(f'<ul style="margin: 0 0 0 16px; -qt-list-indent: 0">{points}</ul>')
        self._doubts_title.setVisible(bool(doubts))
        self._doubts.setVisible(bool(doubts))
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """Return the whole text."""
        return "\n".join([self._verdict.text(), *(f"•  {doubt}" for doubt in self._points)])

    def open_at(self, corner: QPoint) -> None:
        """Open with its upper left corner at `corner`, or as near as the screen allows."""
        self.ensurePolished()
        width = self.width()
        height = self._column.heightForWidth(width)
        self.resize(width, height if height > 0 else self.sizeHint().height())
        screen = QGuiApplication.screenAt(corner) or self.screen()
        self.move(_kept_inside(QRect(corner, self.size()), screen.availableGeometry()))
        self.show()
        # not the link: with it, the next press of a presenter's remote would leave Demo
        self.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _CLOSING:
            self.hide()
        else:
            super().keyPressEvent(event)


def _kept_inside(rect: QRect, room: QRect) -> QPoint:
    inner = room.adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
    x = max(inner.left(), min(rect.x(), inner.right() - rect.width()))
    return QPoint(x, max(inner.top(), min(rect.y(), inner.bottom() - rect.height())))


class RacePage(QWidget):
    """The page that replays two runs side by side, with playback controls."""

    def __init__(self) -> None:
        super().__init__()
        # the keys of a presenter's remote come here, and continue to the panel
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("The replay")
        self.race: Race | None = None
        self.view, self.transport = RaceView(), DemoTransport()
        self.popover = CertaintyPopover(self)
        self.clock = RaceClock(self)
        self._resumes = False
        in_column(wide(self.view), self.transport, parent=self, spacing=0)
        self._connect()

    def show_race(self, race: Race, images: NDArray[np.uint8] | None) -> None:
        """Show the start of a replay, with patterns in its blocks if there are no images."""
        self.race = race
        self.popover.hide()
        card = card_of(race, Tiles(images if images is not None and len(images) else patterns(BLOCKS)))
        split = race.report.split
        came_from = "" if split is None else f" Where the gain comes from: {split.sentence}."
        self.popover.show_words(race.verdict.sentence + came_from, card.doubts)
        self.view.show_card(card, frame_of(race, 0.0), explains_number=True)
        self.transport.show_race(race.seconds, is_disturbed=race.verdict.kind == "spoiled")
        self.clock.set_race_seconds(race.seconds, race.playback_rate)
        self._show_moment(0.0)
        self._show_state()

    def leave(self) -> None:
        """Pause the replay, before another page is shown."""
        self.clock.pause()
        self.popover.hide()

    def go_by(self, seconds: float) -> None:
        """Move by so many seconds on screen, forward or back."""
        playback_rate = self.race.playback_rate if self.race is not None else 1.0
        self.clock.seek(self.clock.seconds + playback_rate * seconds)

    def go_to_end(self) -> None:
        """Go to the end, or from the end play again."""
        if self.clock.is_at_end:
            self.clock.replay()
        else:
            self.clock.seek(self.clock.total)

    def words(self) -> str:
        """Return the whole text, without the transport bar's."""
        return self.view.words()

    def _connect(self) -> None:
        transport, clock = self.transport, self.clock
        transport.play.clicked.connect(clock.toggle)
        transport.speed.changed.connect(lambda key: clock.set_speed(float(key)))
        transport.scrubber.sought.connect(clock.seek)
        transport.scrubber.held.connect(self._hold)
        clock.ticked.connect(self._show_moment)
        clock.state_changed.connect(self._show_state)
        self.view.number.clicked.connect(self._open)
        self.popover.results.clicked.connect(transport.results_wanted)

    def _show_moment(self, seconds: float) -> None:
        if self.race is None:
            return
        self.view.show_frame(frame_of(self.race, seconds))
        self.transport.set_seconds(seconds)
        if not self.clock.is_playing:
            self._show_state()

    def _show_state(self) -> None:
        clock = self.clock
        self.transport.set_state("pause" if clock.is_playing else "replay" if clock.is_at_end else "play")
        self.transport.speed.set_value(f"{clock.speed:g}")
        self.transport.still.setChecked(reduces_motion())
        state = "playing" if clock.is_playing else "at the end" if clock.is_at_end else "paused"
        self.setAccessibleDescription(f"{self.words()} The replay is {state}.")
        self.view.announce()

    def _hold(self, is_held: bool) -> None:
        if is_held:
            self._resumes = self.clock.is_playing
            self.clock.pause()
        elif self._resumes and not self.clock.is_at_end:
            self.clock.play()

    def _open(self) -> None:
        number = self.view.number
        self.popover.open_at(number.mapToGlobal(QPoint(number.width() // 2, number.height())))
