"""Locks between installations, and requests to pause or stop one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.experiment.paths import plain_file
from engine.experiment.problem import request_error
from engine.installation.problems import writing


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Raised in an installation when the user has stopped it."""


class Control:
    """Pauses, resumes and stops an installation, which calls `check` regularly. Any thread may use it."""

    def __init__(self) -> None:
        self._running = threading.Event()
        self._running.set()
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def is_paused(self) -> bool:
        return not self._running.is_set()

    def pause(self) -> None:
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def stop(self) -> None:
        """Stop the installation, also while it is paused."""
        self._stopped.set()
        self._running.set()

    def check(self) -> None:
        """Wait while the installation is paused. Raises Stopped."""
        self._running.wait()
        if self.is_stopped:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. Raises Stopped as soon as the installation is stopped."""
        if self._stopped.wait(seconds):
            raise Stopped


IN_USE = "in-use"  # in an installation's folder: locked by every worker that has it on its path


@contextmanager
def sole(folder: Path) -> Iterator[None]:
    """Lock the folder of installations against changes. Raises ProblemError if it is already locked."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "lock", "ab", opener=plain_file)  # noqa: SIM115 - closed below
    with file:
        if not _locked(file.fileno(), shared=False):
            message = "Another Ammeter process is installing or removing PyTorch."
            raise request_error(message, "Wait until it has finished, or stop it there.")
        yield


def mark_in_use(place: Path) -> None:
    """Keep an installation from being removed until this process ends."""
    # where nothing can be written, nothing can be removed either
    with suppress(OSError):
        # closed by the system
        _locked(plain_file(place / IN_USE, os.O_RDWR | os.O_CREAT), shared=True)


def is_in_use(place: Path) -> bool:
    """Return True while a worker has the installation on its path."""
    path = place / IN_USE
    try:
        if sys.platform == "win32":
            # which refuses this while the file is open
            path.unlink(missing_ok=True)
            return False
        with open(path, "ab", opener=plain_file) as file:
            return not _locked(file.fileno(), shared=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True


if sys.platform == "win32":
    import msvcrt

    def _locked(descriptor: int, *, shared: bool) -> bool:
        if shared:
            return True
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(descriptor: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
