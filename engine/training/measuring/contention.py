"""How much of the processor other programs took while a CPU run was measured: they share its cores."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

TOLERATED_SHARE = 0.15
"""A window that repaints five times a second stays below this on two cores."""

_LEAST_CORE_SECONDS = 1.0
"""Systems count processor time in ticks of some 10 ms: of less than this they tell nothing."""


class OtherPrograms:
    """Counts processor time that was neither idle nor this process's own, while it is switched on.

    The processes that it started, such as those that load data, are its own too.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._others_seconds = 0.0
        self._core_seconds = 0.0
        self._since: tuple[float, float, float] | None = None

    def count(self, is_on: bool) -> None:
        """Switches the counting on or off."""
        if is_on and self._since is None:
            self._since = self._read()
        elif not is_on and self._since is not None:
            self._others_seconds, self._core_seconds = self._so_far()
            self._since = None

    def share(self) -> float:
        """The fraction of all cores' time that others took, 0 to 1; 0 before enough was counted to tell."""
        others, whole = self._so_far()
        return max(0.0, others / whole) if whole >= _LEAST_CORE_SECONDS else 0.0

    def _so_far(self) -> tuple[float, float]:
        if self._since is None:
            return self._others_seconds, self._core_seconds
        busy, whole, own = (now - then for now, then in zip(self._read(), self._since, strict=True))
        return self._others_seconds + busy - own, self._core_seconds + whole

    def _read(self) -> tuple[float, float, float]:
        """Busy seconds of all cores, all their seconds, and this process's own."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return whole - idle, whole, self._own_seconds()

    def _own_seconds(self) -> float:
        own = self._process.cpu_times()
        seconds: float = own.user + own.system + own.children_user + own.children_system
        for child in self._process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended, and is among the children that were waited for
                times = child.cpu_times()
                seconds += times.user + times.system
        return seconds


def contention_note(share: float) -> str | None:
    """What to say of a speed that was measured beside other programs; None where it is little."""
    if share < TOLERATED_SHARE:
        return None
    return (
        f"other programs took {100 * share:.0f} % of the processor meanwhile ({os.cpu_count()} cores), "
        "so the speed is lower than it could be"
    )
