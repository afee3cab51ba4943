"""A worker on a remote machine, as its supervisor sees it. A lost connection is made again."""

from __future__ import annotations

import json
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import IO, Annotated, Any, Literal

from pydantic import Field, ValidationError

from engine.experiment.problem import ProblemError
from engine.experiment.value import Bounded, shortened
from engine.experiment.value import Line as OneLine
from engine.machines.slurm import JobState, ending, waiting_words
from engine.machines.ssh import NOT_FOUND, Channel, SshConnection, lasts
from engine.protocol import jobs
from engine.protocol.events import Log, Phase, PhaseName
from engine.protocol.jobs import RemotePlace
from engine.worker.relay import PROTOCOL
from engine.worker.site import BadLine, Item, WorkerExited, WorkerLost, parse_line, stderr_text

PROGRAM = "program/current/bin/python"
_HEADER_SECONDS = 30.0
_MOST_CHATTER_BYTES = 64 * 2**10
_LONGEST_LINE_BYTES = 32 * 2**20 + 2
_MOST_ITEMS = 4_096
_PING_SECONDS = 1.0
_AWAY_SECONDS = 3.0  # a connection silent for so long counts as lost, and is closed after `_DEAD_SECONDS`
_DEAD_SECONDS = 15.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 30.0
_SLOW_SECONDS = 1.0
_REAP_SECONDS = 10.0
_FORGET_SECONDS = 2.0
_STDERR_TAIL_LINES = 200
_STDERR_LINES_PASSED_ON = 2_000
_STDERR_BYTES_PASSED_ON = 2**20


class _Version(Bounded, frozen=True):
    protocol: int


class RelayHeader(_Version):
    """The first message of the relay, the program that ssh starts on the remote machine."""

    taken: Annotated[int, Field(ge=0)]
    has_job: bool
    home: Annotated[str, Field(max_length=4_096, pattern=r"^/[^\x00-\x1f\x7f]*$")]
    host: OneLine = ""


class _Ended(Bounded, frozen=True):
    status: Annotated[int, Field(ge=-64, le=255)]
    why: Literal["", "patience", "full"] = ""


class _Gone(JobState):
    why: Literal["unknown", "rebooted", "gone", "forgotten", "job"]
    state: OneLine = ""


@dataclass(frozen=True)
class Opening:
    """The instructions for starting a worker on a remote machine: environment variables, and when to end it.

    `patience` is how many seconds a worker without a connection is kept: without a job, and with one. On a
    cluster the worker starts in the Slurm job `allocation`, which is submitted if it does not exist.
    """

    environment: dict[str, str]
    patience: tuple[float, float] = (60.0, 600.0)
    allocation: Allocation | None = None


@dataclass(frozen=True)
class Allocation:
    """A Slurm job in which workers run: its name, given by Ammeter, and the arguments of sbatch."""

    name: str
    arguments: tuple[str, ...]


class RemoteWorker:
    """A worker on a remote machine, which survives a lost connection. Any thread may call its methods.

    With `opening` it is started. Without, an earlier program has started it, and its output is read on from
    the byte offsets `at`. It then gets the job `first` if it has not received one. `wait` blocks until the
    machine has answered.
    """

    def __init__(
        self,
        line: SshConnection,
        worker: str,
        *,
        opening: Opening | None,
        at: tuple[int, int] = (0, 0),
        first: jobs.Job | None = None,
    ) -> None:
        self._line, self._name = line, line.machine.name
        self._worker, self._opening, self._first = worker, opening, first
        self._at = at
        self.place = RemotePlace(self._name, worker, *at)
        self._inbox: queue.Queue[tuple[Item, tuple[int, int]]] = queue.Queue(_MOST_ITEMS)
        self._stderr_lines: deque[str] = deque(maxlen=_STDERR_TAIL_LINES)
        self._stderr_lines_left, self._stderr_bytes_left = _STDERR_LINES_PASSED_ON, _STDERR_BYTES_PASSED_ON
        self._lock = threading.Lock()
        # those that the keeper has not certainly taken, and how many came before them
        self._requests: list[dict[str, Any]] = []
        self._taken = 0
        self.header: RelayHeader | None = None
        self.delay_seconds = 0.0
        self._status = -9
        self._channel: Channel | None = None
        self._silent_since: float | None = time.monotonic()
        self._away_since: float | None = None
        self._sent_pings: dict[bytes, float] = {}
        self._problem: ProblemError | None = None
        self._has_line = self.has_spoken = self._is_deaf = self._is_slow = False
        self._is_kept = self._is_forgotten = False
        self.is_waiting = opening is not None and opening.allocation is not None
        self._waits_for = ""
        # in this order: reached or refused; its output is at its end; nothing more is wanted of it
        self._tried, self._ended, self._closed = (threading.Event() for _ in range(3))
        self._reader = threading.Thread(target=self._connect_and_read, name="remote-worker", daemon=True)
        self._reader.start()
        threading.Thread(target=self._ping, name="remote-pings", daemon=True).start()

    def wait(self) -> None:
        """Wait until the machine answers. Raises ProblemError if it does not, except for a worker with a job,
        which is only away unless no later try would help."""
        self._tried.wait()
        if self._problem is not None:
            raise self._problem

    @property
    def pid(self) -> int:
        """Process ID of the local ssh process."""
        channel = self._channel
        return 0 if channel is None else channel.pid

    @property
    def is_alive(self) -> bool:
        return not (self._ended.is_set() or self._closed.is_set())

    @property
    def is_away(self) -> bool:
        """True while the connection is lost or silent."""
        since = self._silent_since
        is_silent = since is not None and time.monotonic() - since > _AWAY_SECONDS
        return self.is_alive and (not self._has_line or is_silent)

    @property
    def stderr_tail(self) -> str:
        return "\n".join(self._stderr_lines)

    def send(self, request: jobs.Request) -> None:
        self._request(_sent(request))

    def next_item(self, timeout_seconds: float) -> Item | None:
        try:
            item, at = self._inbox.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None
        self.place = RemotePlace(self._name, self._worker, *at)
        return item

    def ask_where(self) -> None:
        self._request({"do": "where"})

    def keep(self) -> None:
        self._is_kept = True
        self._request({"do": "keep"})

    def leave(self) -> None:
        """Disconnect from the worker, which continues on the remote machine."""
        self._close()

    def terminate(self) -> None:
        self._request({"do": "terminate"})

    def kill(self) -> None:
        if self.is_alive:
            self._request({"do": "kill"})

    def kill_orphans(self) -> None:
        """No-op: on the remote machine, the worker's keeper does this when it ends."""

    def close(self, timeout_seconds: float = 2.0) -> int:
        """End the worker and return its exit status. One that is away is left to its keeper's patience.

        After `keep`, its output stays there until `forget`.
        """
        if self.is_alive:
            self._request({"do": "close"})
            if not self._wait_for_end(timeout_seconds):
                self._request({"do": "kill"})
                self._wait_for_end(_REAP_SECONDS)
        if not self._is_kept:
            self.forget()
        return self._status

    def forget(self) -> None:
        """Delete the worker's files there, after all its output was read. Ends it if it still runs.

        Returns at once if it is away, and keeps trying for some seconds.
        """
        if not self._is_forgotten and not self._closed.is_set():
            self._is_forgotten = True
            self._request({"do": "forget"})
            threading.Thread(target=self._close_later, name="remote-forgotten", daemon=True).start()
            if not self.is_away:
                self._closed.wait(_FORGET_SECONDS)

    def discard(self) -> None:
        self.forget()

    def _close_later(self) -> None:
        self._closed.wait(_REAP_SECONDS)
        self._close()

    def _close(self) -> None:
        self._closed.set()
        # what was put before is sent, and the relay ends by itself; one that was just begun is ended too
        for end in (lambda channel: channel.put(None), Channel.kill, Channel.kill):
            if (channel := self._channel) is not None:
                end(channel)
            self._reader.join(2.0)

    def _wait_for_end(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._ended.wait(0.05):
            if time.monotonic() > deadline or self.is_away:
                return False
            # nobody takes the items any more, and its end comes after them
            while not self._inbox.empty():
                self._inbox.get()
        return True

    def _request(self, request: dict[str, Any]) -> None:
        with self._lock:
            self._requests.append(request)
            if self._has_line and self._channel is not None:
                self._channel.put(_line_of({"n": self._taken + len(self._requests), **request}))

    def _ping(self) -> None:
        number = 0
        while not self._closed.wait(_PING_SECONDS):
            number += 1
            channel, since = self._channel, self._silent_since
            if channel is None or since is None:
                continue
            if time.monotonic() - since > (_DEAD_SECONDS if self._has_line else _HEADER_SECONDS):
                channel.kill()
            elif self._has_line:
                self._sent_pings[b"%d" % number] = time.monotonic()
                channel.put(_line_of({"ping": number}))

    # what follows runs in the reader's thread

    def _connect_and_read(self) -> None:
        wait_seconds = _FIRST_WAIT_SECONDS
        try:
            while not self._closed.is_set():
                had_header = self._read_once()
                while self._ended.is_set() and not self._is_forgotten and not self._closed.wait(0.2):
                    """Its output is here; the folder there stays until it is forgotten."""
                wait_seconds = _FIRST_WAIT_SECONDS if had_header else wait_seconds
                self._closed.wait(wait_seconds)
                wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
        except ProblemError as error:
            if self._tried.is_set():
                self._end(WorkerLost(error.problem.message))
            else:
                self._problem = error
        finally:
            self._has_line = False
            self._end(WorkerExited())
            self._closed.set()
            self._tried.set()

    def _read_once(self) -> bool:
        """Read until the connection is lost. Return whether the other side had answered."""
        self._silent_since = time.monotonic()
        at = (str(number) for number in self._at)
        nonce = secrets.token_hex(8)
        program = f"{self._line.machine.folder}/{PROGRAM}"
        words = (program, "-P", "-m", "engine.worker.relay", self._line.machine.folder, self._worker, *at)
        channel = self._channel = self._line.open((*words, nonce))
        channel.put(_line_of({} if self._opening is None else {"open": asdict(self._opening)}))
        chatter, header = b"", b""
        try:
            chatter, header = _header_in(channel.stdout, nonce)
            if header:
                self._greet(self._checked(header), channel)
                self._read_lines(channel.stdout)
        finally:
            self._has_line = False
            status, complaint = channel.close()
        if not self._closed.is_set():
            said = shortened(chatter.decode(errors="replace").strip(), 200)
            if said and not header and not complaint:
                complaint = f"it only answered '{said}'"
            self._be_away(status, complaint or "it was closed")
        return bool(header)

    def _checked(self, header: bytes) -> RelayHeader:
        try:
            if _Version.model_validate_json(header).protocol != PROTOCOL:
                raise self._line.outdated()
            return RelayHeader.model_validate_json(header)
        except ValidationError:
            raise self._line.problem("its answer is not from Ammeter") from None

    def _greet(self, header: RelayHeader, channel: Channel) -> None:
        with self._lock:
            if self.header is None:
                # an earlier program's requests have the numbers up to here
                self._taken = header.taken
                if self._first is not None and not header.has_job:
                    self._requests.insert(0, _sent(self._first))
            del self._requests[: max(0, header.taken - self._taken)]
            self._taken = max(self._taken, header.taken)
            self.header = header
            # from now on a folder that is missing there was removed, and is not to be made anew
            self._opening = None
            self._sent_pings.clear()
            for number, request in enumerate(self._requests, self._taken + 1):
                channel.put(_line_of({"n": number, **request}))
            self._silent_since = None
            self._has_line = True
        if self._away_since is not None:
            minutes = (time.monotonic() - self._away_since) / 60
            self._away_since = None
            self._log("info", f"Reconnected to {self._name} after {minutes:.1f} min.")
        self._tried.set()

    def _be_away(self, status: int, why: str) -> None:
        is_first = not self._tried.is_set()
        if is_first and (self._opening is not None or lasts(why) or status in NOT_FOUND):
            raise self._line.failure(status, why)
        if self._away_since is None and not self._ended.is_set():
            self._away_since = time.monotonic()
            trouble = self._line.remote_trouble(status, why)
            lost = f"Lost the connection to {self._name}: {why.rstrip('.')}."
            lost = lost if trouble is None else trouble.problem.message
            self._log("warning", f"{lost} Reconnecting. The run there continues.")
        self._tried.set()

    def _read_lines(self, stream: IO[bytes]) -> None:
        while not self._closed.is_set():
            self._silent_since = time.monotonic()
            line = stream.readline(_LONGEST_LINE_BYTES)
            self._silent_since = None
            if not line.endswith(b"\n") and len(line) < _LONGEST_LINE_BYTES:
                # half of one: it is sent again
                return
            if self._is_deaf and line[:1] not in b"xgs.":
                continue
            try:
                self._on_line(line[:1], line[1:])
            except ValidationError:
                self._refuse(line)

    def _on_line(self, kind: bytes, rest: bytes) -> None:
        events_at, errors_at = self._at
        match kind:
            case b"o" | b"O":
                self._at = (events_at + len(rest) - (kind == b"O"), errors_at)
                item = parse_line(rest)
                self.has_spoken = True
                self._is_deaf = isinstance(item, BadLine)
                self._put(item)
            case b"e" | b"E":
                self._at = (events_at, errors_at + len(rest) - (kind == b"E"))
                self._on_error(rest)
            case b".":
                self._note_answer(rest)
            case b"s":
                self._on_job_state(JobState.model_validate_json(rest))
            case b"x":
                self._on_end(_Ended.model_validate_json(rest))
            case b"g":
                gone = _Gone.model_validate_json(rest)
                why = _WHY_GONE.get(gone.why)
                self._end(WorkerLost(why.format(name=self._name)) if why else ending(gone, self._name))
                if gone.why in ("unknown", "forgotten"):
                    self._closed.set()
            case _:
                self._refuse(kind + rest)

    def _on_error(self, line: bytes) -> None:
        text = stderr_text(line)
        self._stderr_lines.append(text)
        self._stderr_lines_left -= 1
        self._stderr_bytes_left -= len(line)
        if text and min(self._stderr_lines_left, self._stderr_bytes_left) >= 0:
            self._put(Log(level="stderr", message=text))

    def _on_job_state(self, job: JobState) -> None:
        self.is_waiting = job.state != "KEPT"
        words = waiting_words(job) if self.is_waiting else f"on {job.node}" if job.node else ""
        if words != self._waits_for or not self.is_waiting:
            self._waits_for = words
            self._put(Phase(name=PhaseName.WAITING if self.is_waiting else PhaseName.BUILDING, detail=words))

    def _on_end(self, ended: _Ended) -> None:
        if not self._ended.is_set():
            self._status = ended.status
            if ended.why:
                self._log("warning", _WHY_ENDED[ended.why].format(name=self._name))
            self._end(WorkerExited())

    def _note_answer(self, rest: bytes) -> None:
        sent = self._sent_pings.pop(rest.strip(), None)
        if sent is None:
            return
        delay = self.delay_seconds = time.monotonic() - sent
        if delay > _SLOW_SECONDS and not self._is_slow:
            self._log("warning", f"The connection to {self._name} is slow: an answer took {delay:.1f} s.")
        # it is told again once it was fast in between
        self._is_slow = delay > _SLOW_SECONDS / (2 if self._is_slow else 1)

    def _refuse(self, line: bytes) -> None:
        self._is_deaf = True
        self._put(BadLine(shortened(line[:400].decode(errors="replace").strip(), 200), "not from a relay"))

    def _log(self, level: Literal["info", "warning"], message: str) -> None:
        # nobody reads those of a worker that waits for its first job
        if self._requests or self._taken:
            self._put(Log(level=level, message=message))

    def _end(self, item: WorkerExited) -> None:
        if not self._ended.is_set():
            self._is_deaf = True
            self._put(item)
            self._ended.set()

    def _put(self, item: Item) -> None:
        while not self._closed.is_set():
            try:
                self._inbox.put((item, self._at), timeout=_PING_SECONDS)
                return
            except queue.Full:
                # the connection is not slow: nobody reads what it brings
                self._sent_pings.clear()


def _header_in(stream: IO[bytes], nonce: str) -> tuple[bytes, bytes]:
    """Return the text that the login printed and the relay's header after it, empty if missing."""
    mark, chatter = f"ammeter {nonce} ".encode(), bytearray()
    while len(chatter) < _MOST_CHATTER_BYTES and (line := stream.readline(_MOST_CHATTER_BYTES)):
        if line.startswith(mark) and line.endswith(b"\n"):
            return bytes(chatter), line[len(mark) :]
        chatter += line
    return bytes(chatter), b""


def _sent(request: jobs.Request) -> dict[str, Any]:
    return {"do": "send", "line": jobs.to_line(request).decode().rstrip("\n")}


def _line_of(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


_WHY_ENDED = {
    "patience": "No program reconnected to {name} in time, so the run was ended there.",
    "full": "The disk of {name} is full, so the run was ended there.",
}
_WHY_GONE = {
    "unknown": "{name} no longer has this run.",
    "rebooted": "{name} was restarted during the run.",
    "gone": "The process that supervises the run on {name} was ended.",
    "forgotten": "The run was removed from {name}.",
}
