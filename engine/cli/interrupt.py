"""Ctrl+C while something runs: the first asks it to stop as the window's button does, the second ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from engine.cli.output import aside


class InterruptError(Exception):
    """Ctrl+C ended a verb before it could print its outcome."""


class Interrupt:
    """While entered, the first SIGINT calls `stop` and sets `asked`; the next raises KeyboardInterrupt."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.asked = False
        self._stop = stop
        self._before: Any = None

    def __enter__(self) -> Self:
        # elsewhere than in the main thread Python allows no handlers, and Ctrl+C does not arrive either
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _on_first(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        aside("Stopping after the step in flight; Ctrl+C once more ends it at once.")
        # a handler interrupts the main thread anywhere, also where it holds the lock that stop() may want
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
