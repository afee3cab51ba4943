"""Runs the event loop from a script that drives the window: for benchmarks and screenshots."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEventLoop, QTimer


def run_until(
    is_true: Callable[[], bool], asked_every_ms: int = 20, *, within_seconds: float | None = None
) -> None:
    """Runs the event loop, idle as the program is, until `is_true`.

    Raises TimeoutError where that is not within so many seconds.
    """
    until = None if within_seconds is None else time.monotonic() + within_seconds
    loop, timer = QEventLoop(), QTimer(interval=asked_every_ms)

    def is_over() -> bool:
        return is_true() or (until is not None and time.monotonic() > until)

    timer.timeout.connect(lambda: loop.quit() if is_over() else None)
    timer.start()
    loop.exec()
    timer.stop()
    if until is not None and not is_true():
        raise TimeoutError(f"What was waited for did not come in {within_seconds:,.0f} s.")
