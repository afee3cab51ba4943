"""The panel of Demo: the speedup by mixed precision, for people who do not code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QLayout, QStackedWidget, QWidget

from engine.race.race import Race
from gui.demo.pages import DemoProgress, MeasuringPage, RefusedPage
from gui.demo.race_page import RacePage
from gui.widgets.boxes import Surface, in_column
from gui.widgets.welcome import Welcome

Page = Literal["welcome", "measuring", "race", "refused"]
SCRUB_SECONDS = 1.0
_LEAST = QSize(640, 400)

P = TypeVar("P", bound=QWidget)


class DemoPanel(Surface):
    """The page Demo: a welcome, two runs being measured, their replay, or the reason why there is none.

    To keep the start of the window fast, each of these pages is made when first shown. `save_wanted` carries
    "animation" or "card". `present_toggled` asks to enter or leave full screen. The controller then calls
    `set_presenting`.
    """

    demo_wanted = Signal()
    experiment_wanted = Signal()
    limit_wanted = Signal()
    present_toggled = Signal()
    save_wanted = Signal(str)
    stop_wanted = Signal()
    compare_wanted = Signal()
    again_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("page", "Demo", parent)
        self._pages = QStackedWidget()
        # the first page added would be shown at once, while it is still empty
        self._pages.addWidget(QWidget())
        self.page: Page | None = None
        """The current page. None before the first."""
        self._is_presenting = False
        self._frame_ms: int | None = None
        column = in_column(parent=self)
        # its content scales with its size: a minimum size would keep the window from shrinking
        column.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        column.addWidget(self._pages)

    @cached_property
    def welcome(self) -> Welcome:
        page = self._added(Welcome(is_large=True))
        page.demo_wanted.connect(self.demo_wanted)
        page.experiment_wanted.connect(self.experiment_wanted)
        page.limit_wanted.connect(self.limit_wanted)
        return page

    @cached_property
    def measuring(self) -> MeasuringPage:
        page = self._added(MeasuringPage())
        page.stop_wanted.connect(self.stop_wanted)
        return page

    @cached_property
    def race(self) -> RacePage:
        page = self._added(RacePage())
        transport = page.transport
        transport.save_wanted.connect(self.save_wanted)
        transport.results_wanted.connect(self.compare_wanted)
        transport.demo_wanted.connect(self.demo_wanted)
        transport.full_screen_toggled.connect(self.present_toggled)
        transport.again.clicked.connect(self.again_wanted)
        transport.set_presenting(self._is_presenting)
        page.clock.set_frame_ms(self._frame_ms)
        return page

    @cached_property
    def refused(self) -> RefusedPage:
        page = self._added(RefusedPage())
        page.demo_wanted.connect(self.demo_wanted)
        page.results_wanted.connect(self.compare_wanted)
        return page

    def show_race(self, race: Race, images: NDArray[np.uint8] | None) -> None:
        """Show the start of a replay. `images` are gray, of shape (count, side, side), or None."""
        self.race.show_race(race, images)
        self._turn_to("race", self.race)

    def play(self) -> None:
        """Play from the start. If the page is visible, it gets the keyboard focus."""
        self.race.clock.start()
        self._focus_page()

    def show_measuring(self, progress: DemoProgress) -> None:
        """Show the progress of the measurement."""
        self.measuring.show_progress(progress)
        self._turn_to("measuring", self.measuring)

    def show_refusal(self, sentence: str, remedy: str, *, was_measured: bool = False) -> None:
        """Show why there is no replay. If it `was_measured`, the measurement can be repeated."""
        self.refused.show_refusal(sentence, remedy, was_measured=was_measured)
        self._turn_to("refused", self.refused)

    def show_welcome(self) -> None:
        self._turn_to("welcome", self.welcome)

    def set_presenting(self, is_on: bool) -> None:
        """Set whether the panel is in full screen."""
        self._is_presenting = is_on
        if self._has_race:
            self.race.transport.set_presenting(is_on)
            self._focus_page()

    def set_frame_ms(self, frame_ms: int | None) -> None:
        """Set the milliseconds between frames. None uses the usual rate."""
        self._frame_ms = frame_ms
        if self._has_race:
            self.race.clock.set_frame_ms(frame_ms)

    @property
    def _has_race(self) -> bool:
        # asking for the page would make it
        return "race" in vars(self)

    def _added(self, page: P) -> P:
        # no focus ring around a whole page
        page.setProperty("surface", "page")
        self._pages.addWidget(page)
        return page

    def _turn_to(self, name: Page, page: QWidget) -> None:
        if self.page == name:
            return
        if self.page == "race":
            self.race.leave()
        self.page = name
        self._pages.setCurrentWidget(page)
        # the focus belongs to the page, which tells screen readers its state
        self.setFocusProxy(page)

    def _focus_page(self) -> None:
        focused = QApplication.focusWidget()
        if self.race.isVisible() and (focused is None or not self.isAncestorOf(focused)):
            self.race.setFocus(Qt.FocusReason.OtherFocusReason)

    def minimumSizeHint(self) -> QSize:
        return _LEAST

    def hasHeightForWidth(self) -> bool:
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        act = self._actions().get(event.key()) if self.page == "race" else None
        if act is None:
            super().keyPressEvent(event)
        else:
            act()

    def _actions(self) -> dict[int, Callable[[], object]]:
        race, clock = self.race, self.race.clock
        return {
            Qt.Key.Key_Space: clock.toggle,
            Qt.Key.Key_Return: clock.toggle,
            Qt.Key.Key_Enter: clock.toggle,
            Qt.Key.Key_Left: lambda: race.go_by(-SCRUB_SECONDS),
            Qt.Key.Key_Right: lambda: race.go_by(SCRUB_SECONDS),
            Qt.Key.Key_Home: lambda: clock.seek(0.0),
            Qt.Key.Key_PageUp: lambda: clock.seek(0.0),
            Qt.Key.Key_End: lambda: clock.seek(clock.total),
            Qt.Key.Key_PageDown: race.go_to_end,
        }
