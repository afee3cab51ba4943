"""Whether an installation goes on, waits or ends, as asked from another thread."""

from __future__ import annotations

import threading


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """The installation was asked to end."""


class Control:
    """What the user asks of an installation in progress; all of it from any thread."""

    def __init__(self) -> None:
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def is_paused(self) -> bool:
        return not self._goes_on.is_set()

    def pause(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def stop(self) -> None:
        """Ends a pause too."""
        self._stopped.set()
        self._goes_on.set()

    def check(self) -> None:
        """Waits while it is paused. Raises Stopped."""
        self._goes_on.wait()
        if self.is_stopped:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Waits, but no longer than until it is stopped. Raises Stopped."""
        if self._stopped.wait(seconds):
            raise Stopped
