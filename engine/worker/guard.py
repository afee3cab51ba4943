"""Kills the processes left by a killed program: its workers, their ranks and loader processes, and processes
of the user's code.

    python -P -m engine.worker.guard MARK

A worker ends by itself when its stdin closes, but not while it is stopped or while the user's code holds the
interpreter's lock. A keeper has a guard too. It needs only the standard library and /proc.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

MARK = "AMMETER_WORKER"
"""An environment variable of a worker and of all its processes, whose marks start with the worker's."""
_GRACE_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_STUCK_SECONDS = 5.0  # after a kill: a process may hang in a driver
# its stdin stays open for as long as this process lives
_guards: list[subprocess.Popen[bytes]] = []


def start_guard(mark: str) -> None:
    """Start the guard process, which kills this process's children when it ends. `mark` identifies them.

    Call it before the first child is started.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):
        command = (sys.executable, "-P", "-m", "engine.worker.guard", mark)
        none = subprocess.DEVNULL
        guard = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True
        )
        _guards.append(guard)
        # it goes on in a child, which is no child of ours
        threading.Thread(target=guard.wait, name="guard", daemon=True).start()


def kill_marked(mark: str) -> int:
    """Kill each process with the mark, or one that starts with it, and return their number."""
    killed = 0
    for pid in _marked(mark):
        killed += 1
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return killed


def _marked(mark: str) -> Iterator[int]:
    sought = f"\0{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sought in b"\0" + (process / "environ").read_bytes():
                yield int(process.name)


@contextmanager
def private_folder(kind: str) -> Iterator[Path]:
    """Make a temporary folder for this process, and delete those of its kind that killed processes left."""
    from engine.lazy_imports import psutil

    prefix = f"ammeter-{kind}-"  # before the number of the process
    for folder in Path(gettempdir()).glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
            shutil.rmtree(folder, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def main() -> None:
    """Wait until the guarded process has ended, then kill its processes."""
    (mark,) = sys.argv[1:]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.chdir("/")
    if os.fork():
        os._exit(0)
    sys.stdin.buffer.read()
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(True for _ in _marked(mark)):
        now = time.monotonic()
        if now > deadline:
            kill_marked(mark)
        if now > deadline + _STUCK_SECONDS:
            break
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main()
