"""Sends events without making the sender wait: a thread writes, and sample batches merge when it lags."""

from __future__ import annotations

import os
import threading
from collections import deque

from engine.events import Event, Samples, to_line


class EventWriter:
    """Writes events to a file descriptor, in order, from a thread of its own.

    `put` never blocks. While more than `capacity` events wait, a sample batch is merged into the waiting one
    before it, so that a reader that stalls costs memory for its numbers alone and none of them is lost.
    """

    def __init__(self, file_descriptor: int, capacity: int = 64) -> None:
        self._file_descriptor = file_descriptor
        self._capacity = capacity
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._reader_is_gone = False
        self._thread = threading.Thread(target=self._write_all, name="event-writer", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Leaves the event to be written; once the other end was closed it goes nowhere."""
        if self._reader_is_gone:
            return
        with self._changed:
            last = self._waiting[-1] if self._waiting else None
            full = len(self._waiting) >= self._capacity
            if full and isinstance(event, Samples) and isinstance(last, Samples) and last.has_room_for(event):
                self._waiting[-1] = last.followed_by(event)
            else:
                self._waiting.append(event)
            self._changed.notify()

    def close(self) -> None:
        """Waits until all has been written or the reader is gone, however long the reader stalls."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            try:
                _write(self._file_descriptor, to_line(event))
            except OSError:
                self._reader_is_gone = True
                return


def _write(file_descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file_descriptor, view) :]
