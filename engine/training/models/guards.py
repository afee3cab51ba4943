"""Guards of the process that runs a workload file: the file may neither exit it nor run it twice."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

_FORKS = ("fork", "forkpty")
_guarded: list[str] = []


def guard_process(is_users: Callable[[str], bool]) -> None:
    """Makes these calls safe in files whose paths `is_users` knows; all others call the system's own.

    os._exit raises SystemExit, and os.fork RuntimeError. Outside the main thread, where Python allows no
    signal handlers, signal.signal leaves them as they are.
    """
    if _guarded:
        return

    def guarded(module: Any, name: str, instead: Callable[..., Any]) -> None:
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            function = instead if is_users(sys._getframe(1).f_code.co_filename) else real
            return function(*arguments, **named)

        setattr(module, name, call)
        _guarded.append(name)

    set_handler = signal.signal

    def handler_in_main_thread(number: signal.Signals, handler: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return set_handler(number, handler)
        return signal.getsignal(number)

    guarded(os, "_exit", _leave)
    guarded(signal, "signal", handler_in_main_thread)
    for name in _FORKS:
        if hasattr(os, name):
            guarded(os, name, _refuse_fork)


def _leave(status: int) -> NoReturn:
    raise SystemExit(status)


def _refuse_fork() -> NoReturn:
    raise RuntimeError("os.fork() would train twice; start another process by subprocess or multiprocessing")
