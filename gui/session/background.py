"""Work that would take longer than a frame, done in a thread: one thing after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QThread

from engine.experiment.problem import Kind, Problem, ProblemError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Task:
    work: Callable[[], Any]
    done: Callable[[Any], object]
    failed: Callable[[Problem], object]


class Background(QObject):
    """For reading and writing files. What is done there opens a store of its own, and touches no widget."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[_Task] = deque()
        self._thread: _Worker | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    def do(
        self, work: Callable[[], _T], done: Callable[[_T], object], failed: Callable[[Problem], object]
    ) -> None:
        """Calls `work` in the thread, then `done` with what it returned, or `failed`, in the caller's."""
        self._waiting.append(_Task(work, done, failed))
        self._begin_next()

    def stop(self) -> None:
        """Forgets what waits and waits for what is being done; nothing is told any more."""
        self._waiting.clear()
        if self._thread is not None:
            self._thread.finished.disconnect(self._end)
            self._thread.wait()
            self._thread = None

    def _begin_next(self) -> None:
        if self._thread is None and self._waiting:
            self._thread = _Worker(self._waiting.popleft(), self)
            self._thread.finished.connect(self._end)
            self._thread.start(QThread.Priority.LowPriority)

    def _end(self) -> None:
        thread = self._thread
        if thread is None:
            return
        self._thread = None
        # it says that it is finished just before it is
        thread.wait()
        thread.deleteLater()
        try:
            thread.tell()
        finally:
            self._begin_next()


class _Worker(QThread):
    def __init__(self, task: _Task, parent: QObject) -> None:
        super().__init__(parent)
        self.setObjectName("background")
        self._task = task
        self._result: Any = None
        self._problem: Problem | None = None

    def run(self) -> None:
        try:
            self._result = self._task.work()
        except ProblemError as error:
            self._problem = error.problem
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the window
            _log.exception("Work in the background failed.")
            self._problem = Problem(
                kind=Kind.INTERNAL,
                message=f"That failed for a reason that Ammeter does not know: {error}.",
                remedy="Report it with the log.",
            )

    def tell(self) -> None:
        if self._problem is not None:
            self._task.failed(self._problem)
        else:
            self._task.done(self._result)
