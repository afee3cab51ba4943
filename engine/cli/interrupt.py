"""Ctrl+C: the first asks what runs to stop, as the window's button does; the second ends it.

On another machine a run or sweep outlives the command line, so there the second leaves it training.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar

from engine.cli.output import aside
from engine.experiment.problem import Problem

_T = TypeVar("_T")


class InterruptError(Exception):
    """Ctrl+C ended a verb before it could print its outcome; `problem` says what became of its work."""

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__()
        self.problem = problem


class Interrupt:
    """While entered, the first SIGINT calls `stop` and sets `asked`; the second raises KeyboardInterrupt.

    `remark` is what the first says on a terminal. What trains on another `machine` goes on there after the
    second, and when a terminal is closed or the program is told to end.
    """

    def __init__(
        self, stop: Callable[[], None], remark: str = "Stopping after this step.", machine: str = ""
    ) -> None:
        self.asked = False
        self._stop, self._remark, self._machine = stop, remark, machine
        self._before: Any = None

    def __enter__(self) -> Self:
        # Python allows handlers in the main thread only, and Ctrl+C arrives nowhere else
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_first)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def heeded(self, events: Iterable[_T]) -> Iterator[_T]:
        """The events of work that may begin after Ctrl+C came: it is asked again to stop, without harm."""
        for event in events:
            yield event
            if self.asked:
                self._stop()

    def _on_first(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._machine and number != signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        then = f"leave it training on {self._machine}" if self._machine else "end at once"
        aside(f"{self._remark} Press Ctrl+C again to {then}.")
        # the handler may have interrupted the main thread while it held the lock that stop() wants
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
