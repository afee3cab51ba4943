"""The tabs of a page, with a help button."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QTabWidget, QToolButton, QWidget

from gui.widgets.buttons import IconButton


class ViewTab(NamedTuple):
    """A tab of `ViewTabs`: its key, its title, its widget, and the guide page that its help button opens."""

    name: str
    title: str
    page: str
    view: QWidget


class ViewTabs(QTabWidget):
    """Tabs with a help button. `guide_wanted` carries the guide page of the current tab."""

    guide_wanted = Signal(str)

    def __init__(self, accessible_name: str, tabs: Sequence[ViewTab]) -> None:
        super().__init__()
        self._tabs = tuple(tabs)
        self.guide_button = IconButton("help", "Guide to this view", "Explain this view and what to do")
        self.guide_button.clicked.connect(lambda: self.guide_wanted.emit(self._front.page))
        self.setDocumentMode(True)
        self.tabBar().setDrawBase(False)
        self.tabBar().setAccessibleName(accessible_name)
        for arrow in self.tabBar().findChildren(QToolButton):
            arrow.setToolTip(arrow.accessibleName())
        self.setCornerWidget(self.guide_button)
        for tab in self._tabs:
            self.addTab(tab.view, tab.title)

    def open(self, name: str) -> None:
        """Bring the view of that name to the front. Do nothing if it is unknown or hidden."""
        for place, tab in enumerate(self._tabs):
            if tab.name == name and self.isTabVisible(place):
                self.setCurrentIndex(place)

    def show_tab(self, name: str, shows: bool) -> None:
        for place, tab in enumerate(self._tabs):
            if tab.name == name:
                self.setTabVisible(place, shows)

    def name(self) -> str:
        return self._front.name

    @property
    def _front(self) -> ViewTab:
        return self._tabs[self.currentIndex()]
