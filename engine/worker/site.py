"""Where workers are made: on this machine, or on another, where each has a keeper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

from engine.installation.installed import engine_here, require_engine
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.protocol.jobs import FarPlace
from engine.worker.process import End, Garbage, WorkerProcess


class Worker(Protocol):
    """A worker as its supervisor sees it; any thread may call its methods.

    On another machine it has a keeper, which `keep` asks to have it live without this program; `leave` loses
    sight of it while it goes on there, and `forget` removes it there, once its job's end is recorded. `place`
    is that after the last item given. While the connection is cut it `is_away`: nothing of it is overdue, nor
    while it `is_waiting` for its turn in a cluster.
    `delay_seconds` is how long an answer takes.
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
    def place(self) -> FarPlace | None: ...
    def send(self, request: jobs.Request) -> None: ...
    def next_item(self, timeout_seconds: float) -> Event | Garbage | End | None: ...
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
    """Makes workers on one machine, and knows what they need there. `name` is "" for this machine.

    With `keeps_spare` a worker may wait there for the next job; where it `has_nodes`, one job may train on
    another computer than the next.
    """

    name: str
    keeps_spare: bool
    has_nodes: bool

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        """A new worker. Raises ProblemError where none can be started."""

    def take_up(self, place: FarPlace, job: jobs.Job) -> Worker:
        """A worker that was kept, read on from its place; it is given the job if it was not. Raises
        ProblemError."""

    @property
    def engine(self) -> object:
        """What tells one installation of the engine from the next: workers of another one are outdated."""

    def require_engine(self) -> None:
        """Raises ProblemError where there is no engine."""

    @property
    def is_glibc(self) -> bool:
        """True where the C library is glibc, whose allocator can be told to return memory."""

    def checkpoints(self, folder: Path) -> str:
        """The path of a run's folder of checkpoints, as its worker reads it; `folder` is that of this
        machine."""

    def trace(self, path: Path) -> str:
        """The path of a trace, as its worker reads it."""

    def fetch(self, path: Path) -> None:
        """Brings the file here that `trace` named there. Raises ProblemError."""

    def begin_block(self, node: str = "") -> None:
        """What is measured from now on is compared: in a cluster it gets a node of its own, or that node."""

    def close(self) -> None:
        """Gives back what it holds there; what still trains goes on."""


class ThisMachine:
    """The site of this machine."""

    name = ""
    keeps_spare = True
    has_nodes = False

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        return WorkerProcess(command, environment)

    def take_up(self, place: FarPlace, job: jobs.Job) -> Worker:
        raise AssertionError(f"a worker of this machine ends with its program: {place}")

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
        """It is here."""

    def begin_block(self, node: str = "") -> None:
        """It is always on this machine."""

    def close(self) -> None:
        """It holds nothing."""


HERE = ThisMachine()
