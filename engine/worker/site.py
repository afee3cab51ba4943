"""Sites, which start workers: on this machine, or on a remote one, where each worker has a keeper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

from engine.installation.installed import engine_here, require_engine
from engine.protocol import jobs
from engine.protocol.jobs import RemotePlace
from engine.worker.process import Item, WorkerProcess


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


class Site(Protocol):
    """The interface of a machine that runs workers, this one or a remote one. `name` is "" for this machine.

    With `keeps_spare` an idle worker may wait there for the next job. If it `has_nodes` (as a cluster has),
    jobs may run on different nodes.
    """

    name: str
    keeps_spare: bool
    has_nodes: bool

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        """Return a new worker. Raises ProblemError if none can be started."""

    def reconnect(self, place: RemotePlace, job: jobs.Job) -> Worker:
        """Reconnect to a worker that was kept, and send it the job if it has none. Raises ProblemError."""

    @property
    def engine(self) -> object:
        """An identifier of the PyTorch installation. Workers with another identifier are outdated."""

    def require_engine(self) -> None:
        """Raise ProblemError if PyTorch is missing."""

    @property
    def is_glibc(self) -> bool:
        """True if the C library is glibc, whose allocator can be made to return memory."""

    def checkpoints(self, folder: Path) -> str:
        """Return the path of a run's checkpoints on the site. `folder` is the path on this machine."""

    def trace(self, path: Path) -> str:
        """Return the path of a trace on the site."""

    def fetch(self, path: Path) -> None:
        """Copy the trace from the site to this machine. Raises ProblemError."""

    def begin_block(self, node: str = "") -> None:
        """Start a block of runs to compare. In a cluster they get one node, or the given `node`."""

    def close(self) -> None:
        """Release the site's resources. Runs still training continue."""


class ThisMachine:
    """The `Site` for this machine: workers are its own processes, and files need no copying."""

    name = ""
    keeps_spare = True
    has_nodes = False

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        return WorkerProcess(command, environment)

    def reconnect(self, place: RemotePlace, job: jobs.Job) -> Worker:
        raise AssertionError(f"a worker on this machine ends with its program: {place}")

    @property
    def engine(self) -> object:
        return engine_here().packages

    def require_engine(self) -> None:
        require_engine()

    @property
    def is_glibc(self) -> bool:
        return sys.platform == "linux"

    def checkpoints(self, folder: Path) -> str:
        return str(folder)

    def trace(self, path: Path) -> str:
        return str(path)

    def fetch(self, path: Path) -> None:
        """No-op: the file is already on this machine."""

    def begin_block(self, node: str = "") -> None:
        """No-op: all runs are on this machine."""

    def close(self) -> None:
        """No-op: this machine has no resources to release."""


HERE = ThisMachine()
