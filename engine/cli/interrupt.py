"""Ctrl+C: the first stops the running work, as the window's button does, and the second ends it at once.

On a remote machine a run or sweep outlives the command, so there the second leaves it training.
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
    """Ctrl+C ended a command before it could print its outcome. `problem` describes the state of its work."""

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__()
        self.problem = problem


class Interrupt:
    """While entered, the first SIGINT calls `stop` and sets `asked`, and the second raises KeyboardInterrupt.

    The first prints `remark` on a terminal. After the second, and when the terminal is closed or the program
    is ended, training on a remote `machine` continues.
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
        """Yield the events of work, and stop it again if it started after Ctrl+C."""
        for event in events:
            yield event
            if self.asked:
                self._stop()

    def _on_first(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._machine and number != signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        then = f"leave it training on {self._machine}" if self._machine else "stop immediately"
        aside(f"{self._remark} Press Ctrl+C again to {then}.")
        # the handler may have interrupted the main thread while it held the lock that stop() needs
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
