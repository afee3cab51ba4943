"""Runs the event loop from a script that drives the window: for benchmarks and screenshots."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEventLoop, QTimer


def run_until(is_true: Callable[[], bool], asked_every_ms: int = 20) -> None:
    """Runs the event loop, idle as the program is, until `is_true`."""
    loop, timer = QEventLoop(), QTimer(interval=asked_every_ms)
    timer.timeout.connect(lambda: loop.quit() if is_true() else None)
    timer.start()
    loop.exec()
    timer.stop()
