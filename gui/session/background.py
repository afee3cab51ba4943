"""A thread for work that takes longer than a frame, one task after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from PySide6.QtCore import QObject, QThread, SignalInstance

from engine.experiment.problem import Kind, Problem, ProblemError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class _Task(NamedTuple):
    work: Callable[[], Any]
    done: Callable[[Any], object]
    failed: Callable[[Problem], object]


def own_error(error: Exception, continues: str = "") -> Problem:
    """Return the problem of an internal error. `continues` is a sentence on what still works."""
    return Problem(
        kind=Kind.INTERNAL,
        message=f"This failed with an internal error: {error}.",
        remedy=f"{continues} Please report it with the log.".lstrip(),
    )


def attempt(change: Callable[[], object], problem: SignalInstance) -> bool:
    """Make a change and return True. If it raises ProblemError, emit `problem` and return False."""
    try:
        change()
    except ProblemError as error:
        problem.emit(error.problem)
        return False
    return True


class Background(QObject):
    """Runs tasks that read and write files, one after another, in a thread.

    A task must open its own store and must not touch widgets. Its result is reported in the caller's thread.
    """

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
        """Call `work` in the thread, then `done` with its result, or `failed`, in the caller's thread."""
        self._waiting.append(_Task(work, done, failed))
        self._start_next()

    def stop(self) -> None:
        """Drop the waiting tasks and wait for the current one. Nothing is reported any more."""
        self._waiting.clear()
        if self._thread is not None:
            self._thread.finished.disconnect(self._on_finished)
            self._thread.wait()
            self._thread = None

    def _start_next(self) -> None:
        if self._thread is None and self._waiting:
            # without a parent: Python deletes it with the last reference. Of a child that Qt deletes,
            # PySide 6.11 may use the wrapper after it was freed, and the program crashes
            self._thread = _Worker(self._waiting.popleft())
            self._thread.finished.connect(self._on_finished)
            self._thread.start(QThread.Priority.LowPriority)

    def _on_finished(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        # `finished` is emitted just before the thread has ended
        thread.wait()
        try:
            thread.report()
        finally:
            self._start_next()


class _Worker(QThread):
    def __init__(self, task: _Task) -> None:
        super().__init__()
        self.setObjectName("background")
        self._task = task
        self.report: Callable[[], object]

    def run(self) -> None:
        try:
            self.report = partial(self._task.done, self._task.work())
        except ProblemError as error:
            self.report = partial(self._task.failed, error.problem)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the window
            _log.exception("Work in the background failed.")
            self.report = partial(self._task.failed, own_error(error))
