"""Which work of a kind a workspace shows, and its buttons to stop, open and delete it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from PySide6.QtCore import QObject

from gui.session.orders.work import OrderedWork, View
from gui.widgets import Button
from gui.widgets.messages import may_delete
from gui.widgets.saved_menu import SavedMenu


class ShownWork(QObject, Generic[View]):
    """Shows work by its key as long as it goes on, and work that has begun in place of other work.

    `show` shows a view, None for the empty state; `stop` and `menu` are the workspace's.
    """

    def __init__(
        self,
        work: OrderedWork[View],
        show: Callable[[View | None], object],
        *,
        stop: Button,
        menu: SavedMenu,
    ) -> None:
        super().__init__(stop)
        self._work, self._show_view, self._menu = work, show, menu
        self.key: str | None = None
        stop.clicked.connect(self._stop)
        menu.opened.connect(self.show)
        menu.delete_asked.connect(self._delete)
        work.changed.connect(self._update)
        work.began.connect(self.show)
        work.ended.connect(self._end)
        work.deleted.connect(self._drop)

    def show(self, key: str) -> None:
        """Shows work of this session, or saved work."""
        self.key = key
        self._show_view(self._work.view(key))

    def open_newest(self) -> None:
        """Shows the work in progress, else the newest saved, unless some is shown."""
        if self.key is None and (key := self._work.running or self._work.newest()) is not None:
            self.show(key)

    def _update(self, key: str) -> None:
        if key == self.key:
            self.show(key)

    def _end(self, key: str) -> None:
        if self._work.view(key) is None:
            # it was taken out of the queue, or stopped before anything was known
            self._drop(key)

    def _stop(self) -> None:
        if self.key is not None:
            self._work.stop(self.key)

    def _delete(self, key: str) -> None:
        if may_delete(self._menu, self._menu.whole):
            self._work.delete(key)

    def _drop(self, key: str) -> None:
        if key == self.key:
            self.key = None
            self._show_view(None)
            self.open_newest()
