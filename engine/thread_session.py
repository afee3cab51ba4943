"""A job in a thread of this very process: for debugging, and to show what sharing an interpreter costs."""

from __future__ import annotations

import queue
import threading

from engine import jobs
from engine.events import Event, is_last
from engine.perform import perform, ready
from engine.training.control import Control


class ThreadSession:
    """See `engine.launcher.Session`. A thread cannot be killed: closing waits for the step in flight."""

    def __init__(self, job: jobs.Job) -> None:
        self._control = Control()
        self._events: queue.Queue[Event] = queue.Queue()
        self._over = False
        self._events.put(ready())
        self._thread = threading.Thread(target=self._work, args=(job,), name="engine", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._over

    def stop(self) -> None:
        self._control.stop_requested.set()

    def pause(self) -> None:
        self._control.pause_requested.set()

    def go_on(self) -> None:
        self._control.pause_requested.clear()

    def close(self) -> None:
        self.stop()
        self._thread.join()
        self._over = True

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self._over:
            return None
        try:
            event = self._events.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if is_last(event):
            self._over = True
            self._thread.join()
        return event

    def _work(self, job: jobs.Job) -> None:
        for event in perform(job, self._control):
            self._events.put(event)
