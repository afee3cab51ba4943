"""The worker process. It reads jobs from its stdin, runs them, and writes events to its stdout.

    python -P -m engine.worker

It ends after one measured job, and when its stdin closes, so a killed window leaves no process behind.
Only the protocol uses its stdout. Output of libraries goes to stderr.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import queue
import signal
import sys
import threading
from collections import deque
from contextlib import suppress

import psutil

from engine.experiment.paths import keep_folders
from engine.installation.installed import add_to_path
from engine.protocol import jobs
from engine.protocol.events import Event, Heartbeat, Held, Samples, to_line

HEARTBEAT_SECONDS = 1.0


class EventWriter:
    """Writes a worker's events in order to a file descriptor, in its own thread. `put` never blocks.

    While more than `capacity` events wait, a batch of samples is merged into the waiting one. A stalled
    reader therefore loses no samples, and costs only the memory for them.
    """

    def __init__(self, file_descriptor: int, capacity: int = 64) -> None:
        self._file_descriptor = file_descriptor
        self._capacity = capacity
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = self._reader_is_gone = False
        self._thread = threading.Thread(target=self._write_all, name="event-writer", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue the event. It is dropped once the other end has closed."""
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
        """Wait until all is written or the reader is gone, however long it stalls."""
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
            unwritten = memoryview(to_line(event))
            try:
                while unwritten:
                    unwritten = unwritten[os.write(self._file_descriptor, unwritten) :]
            except OSError:
                self._reader_is_gone = True
                return


def claim_private_streams() -> tuple[int, int]:
    """Duplicates of stdin and stdout for the protocol. The originals read nothing and write to stderr."""
    private_input, private_output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return private_input, private_output


def main() -> int:
    """Run jobs from stdin until it closes, or a job ends the worker. Return the exit status."""
    input_descriptor, output_descriptor = claim_private_streams()
    # a native crash dumps its frames to stderr, and the supervisor's signal those of all threads
    faulthandler.enable(all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1)
    # a program in the background ignores it, and so would a script of the user's, which is ended by it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_folders()
    add_to_path()
    # torch with it, once the streams are private: what a library prints as it loads goes to stderr too
    from engine.worker.perform import perform, ready

    # a job collects garbage where it measures memory: not again among what was imported, which stays
    gc.freeze()
    writer = EventWriter(output_descriptor)
    reader = _RequestReader()
    reader.control.held = lambda begun: writer.put(Held(begun=begun))
    threading.Thread(target=reader.read, args=(input_descriptor,), name="job-reader", daemon=True).start()
    writer.put(ready())
    while (job := reader.next_job()) is not None:
        done = threading.Event()
        beats = (reader.control, writer, done)
        threading.Thread(target=_beat, args=beats, name="heartbeat", daemon=True).start()
        for event in perform(job, reader.control):
            writer.put(event)
        done.set()
        if jobs.ends_worker(job):
            break
    writer.close()
    # what the user's code started ends with it
    _end_children()
    # skips the interpreter's shutdown: a library's exit handler must not hold the VRAM a second longer
    with suppress(Exception):
        # the user's code may have put anything in its place
        sys.stderr.flush()
    os._exit(0)


def _beat(control: jobs.Control, writer: EventWriter, done: threading.Event) -> None:
    while not done.wait(HEARTBEAT_SECONDS):
        writer.put(Heartbeat(step=control.step, has_spilled=control.has_spilled()))


class _RequestReader:
    """Reads requests. Jobs are queued, commands reach the running job at once."""

    def __init__(self) -> None:
        self.control = jobs.Control()
        self._jobs: queue.SimpleQueue[jobs.Job | None] = queue.SimpleQueue()
        self._busy = self._is_closed = False

    def next_job(self) -> jobs.Job | None:
        """Wait for the next job. Return None if there are no more, or the supervisor is gone."""
        self._busy = False
        job = self._jobs.get()
        # Set before checking whether the input has closed; the reader does it the other way round, so one of
        # the two sees the other, and no job runs without a supervisor.
        self._busy = job is not None
        return None if self._is_closed else job

    def read(self, input_descriptor: int) -> None:
        """Read to the end of the input, or to the first line that is not a request."""
        try:
            with os.fdopen(input_descriptor, "rb") as lines:
                for line in lines:
                    request = jobs.from_line(line)
                    if isinstance(request, jobs.Command):
                        self.control.obey(request)
                    else:
                        self._jobs.put(request)
        except ValueError as error:
            # the supervisor shows the end of this process's stderr
            sys.stderr.write(f"The worker received an invalid request: {error}\n")
        self._is_closed = True
        if self._busy:
            _end_children()
            if hasattr(signal, "SIGKILL"):
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)
        self._jobs.put(None)


def _end_children() -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
