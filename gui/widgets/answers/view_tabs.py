"""The views of a page as tabs, with a button for the page of the guide on the view in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QTabWidget, QToolButton, QWidget

from gui.widgets.buttons import IconButton


class ViewTab(NamedTuple):
    """A view by its name, its title, and its page of the guide."""

    name: str
    title: str
    page: str
    view: QWidget


class ViewTabs(QTabWidget):
    """`guide_wanted` carries a page of the guide."""

    guide_wanted = Signal(str)

    def __init__(self, accessible_name: str, tabs: Sequence[ViewTab]) -> None:
        super().__init__()
        self._tabs = tuple(tabs)
        self.guide_button = IconButton("help", "Guide to this view", "What this view shows, and what to do")
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
        """Brings the view of that name to the front; an unknown name changes nothing."""
        for place, tab in enumerate(self._tabs):
            if tab.name == name:
                self.setCurrentIndex(place)

    def name(self) -> str:
        """The name of the view in front."""
        return self._front.name

    @property
    def _front(self) -> ViewTab:
        return self._tabs[self.currentIndex()]
