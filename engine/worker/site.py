"""Worker processes, and the sites that start them: this machine, or a remote one with a keeper for each."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import one_line, shortened
from engine.installation.installed import engine_here, require_engine
from engine.lazy_imports import psutil
from engine.protocol import jobs
from engine.protocol.events import Event, Log, from_line
from engine.protocol.jobs import RemotePlace
from engine.worker.guard import MARK, start_guard
from engine.worker.keeper import STDERR_TAIL_LINES, read_stderr, shown, worker_environment

# of a worker, whose ranks have marks of their own, or of a program; not made anew by two threads at once
_OUTER_MARK = os.environ.get(MARK) or uuid.uuid4().hex
_LONGEST_LINE_BYTES = 32 * 2**20  # of an event, of which the largest take less; a longer one is cut
_REAP_SECONDS = 10.0
_LAST_WORDS_SECONDS = 0.5  # stdout's end waits for stderr's, which a process outside the tree may keep open


def interpreter() -> str:
    """Return this process's interpreter. On Windows, return the one with standard streams."""
    path = Path(sys.executable)
    return str(path.with_name("python.exe")) if path.name.lower() == "pythonw.exe" else sys.executable


COMMAND = (interpreter(), "-P", "-m", "engine.worker")

_CREATION_FLAGS = sum(
    getattr(subprocess, name, 0) for name in ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")
)
"""On Windows, Ctrl+C does not reach a worker, and no console opens."""


@dataclass(frozen=True)
class BadLine:
    """A line on a worker's stdout that is not a valid event: its start, and `why` it is invalid."""

    shown: str
    why: str


def parse_line(line: bytes) -> Event | BadLine:
    """Return the event on a line of the worker's stdout. An overlong line may be cut."""
    try:
        if len(line) >= _LONGEST_LINE_BYTES:
            raise ValueError(f"a line has more than {_LONGEST_LINE_BYTES:,} bytes")
        return from_line(line)
    except ValueError as error:
        return BadLine(shortened(line[:400].decode(errors="replace").strip(), 200), str(error))


class WorkerExited:
    """Returned instead of an event when a worker has closed its stdout: it has ended or is about to."""


@dataclass(frozen=True)
class WorkerLost(WorkerExited):
    """Returned instead of an event when a remote worker is gone, for example after a restart of its machine.

    `why` is a sentence. The job counts as interrupted, unless it `has_failed`.
    """

    why: str
    kind: Kind = Kind.WORKER_DIED
    has_failed: bool = False


Item = Event | BadLine | WorkerExited


@cache
def _guard() -> None:
    if MARK not in os.environ:
        start_guard(_OUTER_MARK)


class WorkerProcess:
    """A worker process on this machine. Any thread may call its methods.

    It leads its own POSIX session. Two threads read its stdout and stderr. Raises ProblemError if the process
    cannot be started.
    """

    def __init__(self, command: tuple[str, ...] = COMMAND, environment: dict[str, str] | None = None) -> None:
        self._mark = f"{_OUTER_MARK}/{uuid.uuid4().hex}"
        self._process = _started(command, worker_environment({**(environment or {}), MARK: self._mark}))
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input: IO[bytes] = self._process.stdin
        self._input_lock = threading.Lock()
        self._inbox: queue.Queue[Item] = queue.Queue()
        self._stderr: deque[bytes] = deque(maxlen=STDERR_TAIL_LINES)
        self._is_closed = False
        self._readers = (
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(
                target=read_stderr, args=(self._process.stderr, self._on_stderr, self._stderr), daemon=True
            ),
        )
        # that of stdout waits for the other one, even if the process has ended by now
        for reader in reversed(self._readers):
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    # no connection can be cut to a process of this machine, which ends with this program
    is_away = is_waiting = False
    delay_seconds, place = 0.0, None

    @property
    def has_spoken(self) -> bool:
        """True if a message waits to be read, such as `Ready` from an idle worker."""
        return not self._inbox.empty()

    @property
    def stderr_tail(self) -> str:
        return "\n".join(one_line(shown(line)) for line in tuple(self._stderr))

    def send(self, request: jobs.Request) -> None:
        """Send a request. It is lost if the worker has ended, which its `WorkerExited` shows."""
        with self._input_lock, contextlib.suppress(OSError, ValueError):
            self._input.write(jobs.to_line(request))
            self._input.flush()

    def next_item(self, timeout_seconds: float) -> Item | None:
        """Return the next item from the worker. None after the timeout."""
        try:
            return self._inbox.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def terminate(self) -> None:
        """Ask the process to end, by a signal. Its children are left to `kill`."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.terminate()

    def kill(self) -> None:
        """Kill the process, its children, and orphaned children."""
        if self._process.returncode is not None:
            # it was reaped, and its pid may be another process's by now
            return
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        if hasattr(os, "killpg"):
            # the worker leads its group, whose number is not reused until the worker is reaped
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        # Windows refuses it for a process that is about to end
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.kill()

    def kill_orphans(self) -> None:
        """Kill processes that the worker started and left, in any session."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != self.pid and process.environ().get(MARK, "").startswith(self._mark):
                    process.kill()

    def ask_where(self) -> None:
        """Make the worker print its stack to stderr, if the system has a signal for it."""
        if hasattr(signal, "SIGUSR1") and self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGUSR1)

    def close(self, timeout_seconds: float = 2.0) -> int:
        """Close stdin, which ends a worker, wait up to `timeout_seconds`, and kill remaining processes.

        Return the exit status.
        """
        with self._input_lock, contextlib.suppress(OSError):
            self._input.close()
        # its stdout ends when it does; it is not reaped yet, so that kill() can still signal its group
        self._readers[0].join(timeout_seconds)
        self.kill()
        # one that even a kill cannot end, because it is stuck in a driver, is left to the system
        status = -getattr(signal, "SIGKILL", 9)
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_REAP_SECONDS)
        if not self._is_closed:
            # only once: what left the tree may hold the end of a stream for as long as it lives
            self._is_closed = True
            for reader in self._readers:
                reader.join(timeout_seconds)
        return status

    def keep(self) -> None:
        """No-op: a process of this machine ends with this program."""

    def leave(self) -> None:
        self.discard()

    def forget(self) -> None:
        """No-op: nothing is kept of a process of this machine."""

    def discard(self) -> None:
        """Kill a worker without a job. One that is importing torch would take seconds to end."""
        self.kill()
        self.close()

    def _read_events(self, stream: IO[bytes]) -> None:
        # Each stream is closed by its reader: a process that left the worker's tree may still hold the other
        # end, and closing it from elsewhere would wait for that process.
        with stream:
            while line := stream.readline(_LONGEST_LINE_BYTES):
                item = parse_line(line)
                self._inbox.put(item)
                if isinstance(item, BadLine):
                    break
        # a dying worker's stderr comes before its end, whichever thread the system ran first
        self._readers[1].join(_LAST_WORDS_SECONDS)
        self._inbox.put(WorkerExited())

    def _on_stderr(self, line: bytes) -> None:
        self._stderr.append(line)
        if text := one_line(shown(line)):
            self._inbox.put(Log(level="stderr", message=text))


def _started(command: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    _guard()
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            creationflags=_CREATION_FLAGS,
        )
    except OSError as error:
        problem = Problem(
            kind=Kind.WORKER_DIED,
            message=f"The training process could not be started: {error.strerror or error}.",
            remedy="Close other programs to free memory, then run it again.",
        )
        raise ProblemError(problem) from error


class Worker(Protocol):
    """The interface of a worker, local or remote, to its supervisor. Any thread may call its methods.

    On a remote machine, `keep` lets it continue when this program ends, `leave` disconnects from it, and
    `forget` deletes its files once the end of its job is saved. `place` is how far its output has been read.
    No time limits apply while it `is_away` (disconnected) or `is_waiting` in a cluster's queue.
    `delay_seconds` is the time that an answer takes.
    """

    @property
    def pid(self) -> int: ...
    @property
    def is_alive(self) -> bool: ...
    @property
    def is_away(self) -> bool: ...
    @property
    def is_waiting(self) -> bool: ...
    @property
    def delay_seconds(self) -> float: ...
    @property
    def has_spoken(self) -> bool: ...
    @property
    def stderr_tail(self) -> str: ...
    @property
    def place(self) -> RemotePlace | None: ...
    def send(self, request: jobs.Request) -> None: ...
    def next_item(self, timeout_seconds: float) -> Item | None: ...
    def ask_where(self) -> None: ...
    def keep(self) -> None: ...
    def leave(self) -> None: ...
    def forget(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def kill_orphans(self) -> None: ...
    def close(self, timeout_seconds: float = 2.0) -> int: ...
    def discard(self) -> None: ...


class Site:
    """A machine that runs workers: this one, or in a subclass a remote one. `name` is "" for this machine.

    With `keeps_spare` an idle worker may wait there for the next job. If it `has_nodes` (as a cluster has),
    jobs may run on different nodes. If its C library `is_glibc`, its allocator can be made to return memory.
    """

    name = ""
    keeps_spare = True
    has_nodes = False
    is_glibc = sys.platform == "linux"

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        """Return a new worker. Raises ProblemError if none can be started."""
        return WorkerProcess(command, environment)

    def reconnect(self, place: RemotePlace, job: jobs.Job) -> Worker:
        """Reconnect to a worker that was kept, and send it the job if it has none. Raises ProblemError."""
        raise AssertionError(f"a worker on this machine ends with its program: {place}")

    @property
    def engine(self) -> object:
        """An identifier of the PyTorch installation. Workers with another identifier are outdated."""
        return engine_here().packages

    def require_engine(self) -> None:
        """Raise ProblemError if PyTorch is missing, where that is known."""
        require_engine()

    def checkpoints(self, folder: Path) -> str:
        """Return the path of a run's checkpoints on the site. `folder` is the path on this machine."""
        return str(folder)

    def trace(self, path: Path) -> str:
        """Return the path of a trace on the site."""
        return str(path)

    def fetch(self, path: Path) -> None:
        """Copy the trace from the site to this machine, if it is not there. Raises ProblemError."""

    def begin_block(self, node: str = "") -> None:
        """Start a block of runs to compare. In a cluster they get one node, or the given `node`."""

    def close(self) -> None:
        """Release the site's resources. Runs still training continue."""


HERE = Site()
