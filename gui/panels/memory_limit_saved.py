"""The menu of the saved searches: open one, or delete the one that is shown."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget

from gui.panels.memory_limit_words import menu_words
from gui.search_view import SearchView

_NO_SAVED = "No search has been saved yet. Each one is kept here when it ends."


class SavedMenu(QMenu):
    """`opened` and `delete_asked` carry a series. It is filled anew whenever it is shown."""

    opened = Signal(str)
    delete_asked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Saved searches")
        self.setToolTipsVisible(True)
        self._source: Callable[[], tuple[SearchView, ...]] = tuple
        self._shown: str | None = None
        self.aboutToShow.connect(self._fill)

    def set_source(self, source: Callable[[], tuple[SearchView, ...]]) -> None:
        """Says where the saved searches are to be had."""
        self._source = source

    def set_shown(self, series: str | None) -> None:
        """Says which search is shown and could be deleted."""
        self._shown = series

    def _fill(self) -> None:
        self.clear()
        views = self._source()
        for view in views:
            self._add(view)
        if not views:
            self.addAction(_NO_SAVED).setEnabled(False)
            return
        self.addSeparator()
        delete = self.addAction("Delete the search that is shown…")
        delete.setEnabled(self._shown in [view.series for view in views])
        delete.triggered.connect(lambda: self.delete_asked.emit(self._shown or ""))

    def _add(self, view: SearchView) -> None:
        action = self.addAction(menu_words(view))
        action.setCheckable(True)
        action.setChecked(view.series == self._shown)
        action.setToolTip(f"{view.trial_count} trials, dataset {view.sides[0].experiment.dataset}")
        action.triggered.connect(lambda: self.opened.emit(view.series))
