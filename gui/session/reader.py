"""Reading in a thread: from the store while a page is in sight, and facts that are looked up by a key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

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


_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_MOST_FOUND = 64


class Lookups(QObject, Generic[_K, _V]):
    """Looks up facts by a key in a thread. `changed` is emitted when a result changes."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self._found: dict[_K, _V] = {}
        self._wanted: dict[_K, Callable[[], _V]] = {}
        # a form that is checked asks several times for the same
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._start)

    def request(self, key: _K, work: Callable[[], _V]) -> _V | None:
        """Return the last result, and start a new lookup. None while there is no result yet."""
        self._wanted[key] = work
        self._timer.start()
        return self._found.get(key)

    def known(self, key: _K) -> _V | None:
        """Return the last result, if there is one."""
        return self._found.get(key)

    def failed(self, problem: Problem) -> _V | None:
        """Return the result of a lookup that raised. None keeps the last one."""
        return None

    def stop(self) -> None:
        """Wait for the thread. Pending lookups are dropped."""
        self._timer.stop()
        self._wanted.clear()
        self._background.stop()

    def _start(self) -> None:
        # what is being read may have changed since, so it is read once more afterwards
        if self._background.is_busy:
            return
        wanted, self._wanted = self._wanted, {}
        for key, work in wanted.items():
            self._background.do(work, partial(self._on_found, key), partial(self._on_failed, key))

    def _on_failed(self, key: _K, problem: Problem) -> None:
        self._on_found(key, self.failed(problem))

    def _on_found(self, key: _K, found: _V | None) -> None:
        if self._wanted:
            self._timer.start()
        if found is not None and self._found.get(key) != found:
            self._found[key] = found
            if len(self._found) > _MOST_FOUND:
                del self._found[next(iter(self._found))]
            self.changed.emit()
