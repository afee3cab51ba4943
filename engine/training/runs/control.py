"""Signals between a running job and the threads beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Control:
    """Shared by the loop and the worker's other threads.

    `stop_requested` asks the loop to end after the step in flight, `pause_requested` to wait there while it
    is set. `step` is the last step known to have completed on the device; the loop writes it and the
    heartbeat reads it. `has_spilled` says whether a trial crawls in the host's memory.
    """

    stop_requested: threading.Event = field(default_factory=threading.Event)
    pause_requested: threading.Event = field(default_factory=threading.Event)
    step: int = 0
    has_spilled: Callable[[], bool] = lambda: False
