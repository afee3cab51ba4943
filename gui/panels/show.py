"""The workspace Show: the speed-up for people who do not code."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QLayout, QStackedWidget, QVBoxLayout, QWidget

from engine.records.race import Race
from gui.panels.show_measuring import Measuring
from gui.panels.show_measuring_page import MeasuringPage
from gui.panels.show_race import RacePage
from gui.panels.show_refused import RefusedPage
from gui.panels.show_scale import Scale, scale_for, sizes
from gui.panels.welcome import Welcome

Page = Literal["welcome", "measuring", "race", "refused"]
SCRUB_SECONDS = 1.0
_LEAST = QSize(640, 400)


class ShowPanel(QFrame):
    """One page at a time: a welcome, two runs being measured, their race, or why there is none.

    `save_wanted` is "animation" or "card". `present_toggled` asks for the full screen, or to leave it:
    whoever does that tells `set_presenting`.
    """

    show_me_wanted = Signal()
    experiment_wanted = Signal()
    limit_wanted = Signal()
    present_toggled = Signal()
    save_wanted = Signal(str)
    stop_wanted = Signal()
    compare_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.setAccessibleName("Show")
        self.welcome, self.measuring = Welcome(is_large=True), MeasuringPage()
        self.race, self.refused = RacePage(), RefusedPage()
        self._pages = QStackedWidget()
        for page in (self.welcome, self.measuring, self.race, self.refused):
            # no focus ring around all that there is
            page.setProperty("surface", "page")
            self._pages.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        # what it needs goes by what it is given: asking for it would keep a window from being made smaller
        column.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        column.addWidget(self._pages)
        self.setFocusProxy(self.welcome)
        self._scale: Scale | None = None
        self._set_scale(Scale())
        self._connect()

    @property
    def page(self) -> Page:
        """Which page is shown."""
        pages: tuple[Page, ...] = ("welcome", "measuring", "race", "refused")
        return pages[self._pages.currentIndex()]

    def show_race(self, race: Race, tiles: NDArray[np.uint8] | None) -> None:
        """Stands at the start of a race. `tiles` are grey pictures, (count, side, side), or None."""
        self.race.show_race(race, tiles)
        self._turn_to(self.race)

    def play(self) -> None:
        """Plays the race from its beginning; where it is seen, its keys work at once."""
        self.race.play()
        self._take_keys()

    def show_measuring(self, measuring: Measuring) -> None:
        """Shows how far the measuring of a race is."""
        self.measuring.show_measuring(measuring)
        self._turn_to(self.measuring)

    def show_refusal(self, sentence: str, remedy: str) -> None:
        """Says why there is nothing to show, and what to do."""
        self.refused.show_refusal(sentence, remedy)
        self._turn_to(self.refused)

    def show_welcome(self) -> None:
        """Says what Show is for, and offers to begin."""
        self._turn_to(self.welcome)

    def set_presenting(self, is_on: bool) -> None:
        """Whether the panel has the whole screen."""
        self.race.transport.set_presenting(is_on)
        self._take_keys()

    def _connect(self) -> None:
        welcome, race = self.welcome, self.race
        welcome.show_me_wanted.connect(self.show_me_wanted)
        welcome.experiment_wanted.connect(self.experiment_wanted)
        welcome.limit_wanted.connect(self.limit_wanted)
        self.measuring.stop_wanted.connect(self.stop_wanted)
        race.save_wanted.connect(self.save_wanted)
        race.present_toggled.connect(self.present_toggled)
        race.compare_wanted.connect(self.compare_wanted)
        self.refused.compare_wanted.connect(self.compare_wanted)
        self.refused.show_me_wanted.connect(self.show_me_wanted)

    def _turn_to(self, page: QWidget) -> None:
        if self._pages.currentWidget() is page:
            return
        if page is not self.race:
            self.race.clock.pause()
        self._pages.setCurrentWidget(page)
        # whoever gives the panel the focus means its page, which says to screen readers where it stands
        self.setFocusProxy(page)

    def _take_keys(self) -> None:
        focused = QApplication.focusWidget()
        if self.race.isVisible() and (focused is None or not self.isAncestorOf(focused)):
            self.race.setFocus(Qt.FocusReason.OtherFocusReason)

    def _set_scale(self, scale: Scale) -> None:
        if scale == self._scale:
            return
        self._scale = scale
        self.setStyleSheet(sizes(scale))
        for page in (self.measuring, self.race, self.refused):
            page.set_scale(scale)

    def minimumSizeHint(self) -> QSize:
        return _LEAST

    def hasHeightForWidth(self) -> bool:
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_scale(scale_for(event.size()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        race = self.race
        actions = {
            Qt.Key.Key_Space: race.clock.toggle,
            Qt.Key.Key_Return: race.clock.toggle,
            Qt.Key.Key_Enter: race.clock.toggle,
            Qt.Key.Key_Left: lambda: race.go_by(-SCRUB_SECONDS),
            Qt.Key.Key_Right: lambda: race.go_by(SCRUB_SECONDS),
            Qt.Key.Key_Home: lambda: race.clock.seek(0.0),
            Qt.Key.Key_PageUp: lambda: race.clock.seek(0.0),
            Qt.Key.Key_End: lambda: race.clock.seek(race.clock.total),
            Qt.Key.Key_PageDown: race.go_to_end,
        }
        act = actions.get(Qt.Key(event.key())) if self.page == "race" else None
        if act is None:
            super().keyPressEvent(event)
        else:
            act()
