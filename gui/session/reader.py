"""Reading from the store in a thread while a page is in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Problem
from gui.session.background import Background


class Reader(QObject):
    """Reads in a thread while its page is in sight. The newest request wins.

    `next_work` is called when a read starts. It returns the function for the thread, as for `Background.do`,
    or None if nothing is to be read. `read` carries its result, and `failed` the Problem that it raised. A
    result is dropped if another one was requested meanwhile.
    """

    read = Signal(object)
    failed = Signal(object)

    def __init__(
        self,
        next_work: Callable[[], Callable[[], Any] | None],
        parent: QObject | None = None,
        *,
        is_in_sight: bool = True,
    ) -> None:
        super().__init__(parent)
        self._next_work, self._is_in_sight = next_work, is_in_sight
        self._background = Background(self)
        self._is_requested = self._is_dropped = False
        self.stop = self._background.stop
        """Waits for the current read, before the window closes. Nothing is reported any more."""

    @property
    def is_busy(self) -> bool:
        return self._background.is_busy

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether the page is visible. Otherwise nothing is read, to leave the cores to a run."""
        self._is_in_sight = is_in_sight
        self._read_if_requested()

    def refresh(self) -> None:
        """Request a read, now or when the page is in sight."""
        self._is_requested = True
        self._read_if_requested()

    def drop(self) -> None:
        """Forget what was requested. The result of the current read is not reported."""
        self._is_requested, self._is_dropped = False, self.is_busy

    def _read_if_requested(self) -> None:
        if not self._is_requested or not self._is_in_sight or self.is_busy:
            return
        self._is_requested = False
        work = self._next_work()
        if work is not None:
            self._background.do(work, self._on_read, self._on_failed)

    def _on_read(self, result: Any) -> None:
        self._report(lambda: self.read.emit(result))

    def _on_failed(self, problem: Problem) -> None:
        self._report(lambda: self.failed.emit(problem))

    def _report(self, emit: Callable[[], None]) -> None:
        is_dropped, self._is_dropped = self._is_dropped, False
        if not is_dropped and not self._is_requested:
            emit()
        self._read_if_requested()
