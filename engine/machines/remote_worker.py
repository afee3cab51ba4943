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
from engine.experiment.value import Bounded, one_line, shortened
from engine.experiment.value import Line as OneLine
from engine.machines.slurm import JobState, ending, job_state, waiting_words
from engine.machines.ssh import NOT_FOUND, Channel, SshConnection, lasts, program_words
from engine.protocol import jobs
from engine.protocol.events import Event, Log, Phase, PhaseName
from engine.protocol.jobs import RemotePlace
from engine.worker.follower import PROTOCOL
from engine.worker.keeper import CANCELED, STDERR_TAIL_LINES
from engine.worker.site import BadLine, Item, WorkerExited, WorkerLost, parse_line

_HEADER_SECONDS = 30.0
_MOST_CHATTER_BYTES = 64 * 2**10
_LONGEST_LINE_BYTES = 32 * 2**20
_MOST_ITEMS = 4_096
_PING_SECONDS = 1.0
_AWAY_SECONDS = 3.0  # a connection silent for so long counts as lost, and is closed after `_DEAD_SECONDS`
_DEAD_SECONDS = 15.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 30.0
_LOOK_WAITING_SECONDS, _LOOK_SECONDS, _ENDING_SECONDS = 5.0, 10.0, 8.0
"""Seconds between two questions to Slurm, and those that it gets to notice that a job has ended."""
_SLOW_SECONDS = 1.0
_REAP_SECONDS = 10.0
_NO_SUCH_VERB = 2  # the status of a program there that is older than its verb
_FORGET_SECONDS = 2.0


class RemoteHeader(Bounded, frozen=True):
    """The first line of the program on the remote machine that follows a worker's events.

    `taken` is the number of the last request that it has. The worker `has_begun` once it has a keeper. In a
    cluster, `slurm_job` is the id of the worker's job, and `allocation` the name that Ammeter gave it.
    """

    protocol: int
    taken: Annotated[int, Field(ge=0)] = 0
    has_job: bool = False
    has_begun: bool = False
    home: Annotated[str, Field(max_length=4_096, pattern=r"^/[^\x00-\x1f\x7f]*$")] = "/"
    host: OneLine = ""
    allocation: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")] = ""
    slurm_job: Annotated[str, Field(pattern=r"^\d{0,19}$")] = ""


class _FollowerLine(Bounded, frozen=True, extra="forbid"):
    """A line of the follower's own: a ping's answer, the worker's exit status, or why it was lost."""

    ping: int | None = None
    status: Annotated[int, Field(ge=-64, le=255)] | None = None
    why: Literal["", "patience", "full"] = ""
    gone: Literal["unknown", "rebooted", "gone"] | None = None


@dataclass(frozen=True)
class JobRequest:
    """The Slurm job in which workers are to run: its name, given by Ammeter, and the arguments of sbatch."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """The instructions for starting a worker on a remote machine: its environment variables and `patience`.

    These are the seconds after which a disconnected worker ends, first without a job, then with one. On a
    cluster the worker starts in the Slurm job `allocation`, which is submitted if it does not exist.
    """

    environment: dict[str, str]
    patience: tuple[float, float] = (60.0, 600.0)
    allocation: JobRequest | None = None


class RemoteWorker:
    """A worker on a remote machine, which survives a lost connection. Any thread may call its methods.

    With `opening` it is started. Without, an earlier program has started it, and its events are read on from
    byte `at`. It then gets the job `first` if it has not received one. Raises ProblemError if the machine
    does not answer, except for a worker with a job, which is only away unless no later try would help.
    """

    def __init__(
        self,
        line: SshConnection,
        worker: str,
        *,
        opening: Opening | None,
        at: int = 0,
        first: jobs.Job | None = None,
    ) -> None:
        self._line, self._name = line, line.machine.name
        self._worker, self._opening, self._first = worker, opening, first
        self._at = at
        self.place = RemotePlace(self._name, worker, at)
        self._inbox: queue.Queue[tuple[Item, int]] = queue.Queue(_MOST_ITEMS)
        self._stderr_lines: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._lock = threading.Lock()
        # those that the follower has not certainly taken, and how many came before them
        self._requests: list[dict[str, Any]] = []
        self._taken = 0
        self.header: RemoteHeader | None = None
        self.delay_seconds = 0.0
        self._status = -9
        self._channel: Channel | None = None
        self._mark = b""
        self._silent_since: float | None = None
        self._away_since: float | None = None
        self._sent_pings: dict[int, float] = {}
        self._has_line = self.has_spoken = self._is_deaf = self._is_slow = False
        self._is_kept = self._is_forgotten = False
        self.is_waiting = opening is not None and opening.allocation is not None
        self._job_state: JobState | None = None
        self._waits_for = ""
        # its output is at its end; nothing more is wanted of it
        self._ended, self._closed = threading.Event(), threading.Event()
        self._is_first = True
        self._connect()
        self._is_first = False
        self._reader = threading.Thread(target=self._read, name="remote-worker", daemon=True)
        self._reader.start()
        threading.Thread(target=self._ping, name="remote-pings", daemon=True).start()
        threading.Thread(target=self._watch_job, name="remote-job", daemon=True).start()

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
        self._request(_send_request(request))

    def next_item(self, timeout_seconds: float) -> Item | None:
        try:
            item, at = self._inbox.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None
        self.place = RemotePlace(self._name, self._worker, at)
        return item

    def ask_where(self) -> None:
        self._request({"do": "where"})

    def keep(self) -> None:
        self._is_kept = True
        self._request({"do": "keep"})

    def leave(self) -> None:
        """Disconnect from the worker, which continues on the remote machine."""
        self._is_forgotten = True
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

        After `keep`, its output stays there until `forget`, unless it still waits for its job.
        """
        if self.is_alive and not self.is_waiting:
            self._request({"do": "close"})
            if not self._wait_for_end(timeout_seconds):
                self._request({"do": "kill"})
                self._wait_for_end(_REAP_SECONDS)
        if self.is_waiting or not self._is_kept:
            self.forget()
        return self._status

    def forget(self) -> None:
        """Delete the worker's files there, after all its output was read. Ends it if it still runs.

        Returns at once if it is away, and keeps trying for some seconds.
        """
        if not self._is_forgotten:
            self._is_forgotten = True
            thread = threading.Thread(target=self._delete, name="remote-forgotten", daemon=True)
            thread.start()
            if not self.is_away:
                thread.join(_FORGET_SECONDS)

    def discard(self) -> None:
        self.forget()

    def _delete(self) -> None:
        self._close()
        deadline = time.monotonic() + _REAP_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._line.ask(program_words(self._line.machine.folder, "forget", self._worker), seconds=left)
                return
            except ProblemError:
                time.sleep(min(left, _FIRST_WAIT_SECONDS))

    def _close(self) -> None:
        self._closed.set()
        # what was put before is sent, and the follower ends by itself; one that was just begun is ended too
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
            self._send_value({"n": self._taken + len(self._requests), **request})

    def _send_value(self, value: Mapping[str, Any]) -> None:
        if self._has_line and self._channel is not None:
            self._channel.put(_line_of(value))

    def _ping(self) -> None:
        number = 0
        while not self._closed.wait(_PING_SECONDS) and self.is_alive:
            channel, since = self._channel, self._silent_since
            if not self._has_line or channel is None or since is None:
                continue
            if time.monotonic() - since > _DEAD_SECONDS:
                channel.kill()
            number += 1
            self._sent_pings[number] = time.monotonic()
            self._send_value({"ping": number})

    def _watch_job(self) -> None:
        """Ask Slurm about the worker's job, as long as it has one."""
        while self.is_alive:
            header = self.header
            if header is not None and header.slurm_job:
                state = job_state(self._line, header.slurm_job, header.home, header.allocation)
                if state is not None:
                    self._job_state = state
                    self._on_job_state(state)
            elif header is not None:
                return
            self._closed.wait(_LOOK_WAITING_SECONDS if self.is_waiting else _LOOK_SECONDS)

    def _on_job_state(self, state: JobState) -> None:
        if state.is_over:
            # it is lost unless all that it has written says otherwise
            self._send_value({"lost": True})
        elif self.is_waiting and (words := waiting_words(state)) != self._waits_for:
            self._waits_for = words
            self._put(Phase(name=PhaseName.WAITING, detail=words))

    # what follows runs in the reader's thread, but for the first connection

    def _read(self) -> None:
        wait_seconds = _FIRST_WAIT_SECONDS
        try:
            while self.is_alive:
                if self._has_line or self._connect():
                    wait_seconds = _FIRST_WAIT_SECONDS
                    self._read_lines()
                    self._end_line()
                if self.is_alive:
                    self._closed.wait(wait_seconds)
                    wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
        except ProblemError as error:
            self._end(WorkerLost(error.problem.message))
        finally:
            self._end(WorkerExited())

    def _connect(self) -> bool:
        """Connect. Return False if the machine was not reached. Raises ProblemError if it never will be."""
        nonce = secrets.token_hex(8)
        self._mark = f"ammeter {nonce} ".encode()
        words = program_words(self._line.machine.folder, "follow", self._worker, str(self._at), nonce)
        channel = self._channel = self._line.open(words)
        channel.put(_line_of({} if self._opening is None else {"open": asdict(self._opening)}))
        timer = threading.Timer(_HEADER_SECONDS, channel.kill)
        timer.daemon = True
        timer.start()
        chatter, header = _header_in(channel.stdout, self._mark)
        timer.cancel()
        if header:
            try:
                self._greet(self._checked_header(header))
            except ProblemError:
                channel.close()
                raise
            return True
        said = shortened(chatter.decode(errors="replace").strip(), 200)
        self._end_line(f"it only answered '{said}'" if said else "")
        return False

    def _checked_header(self, header: bytes) -> RemoteHeader:
        try:
            checked = RemoteHeader.model_validate_json(header)
        except ValidationError:
            raise self._line.problem("its answer is not from Ammeter") from None
        if checked.protocol != PROTOCOL:
            raise self._line.outdated()
        return checked

    def _greet(self, header: RemoteHeader) -> None:
        with self._lock:
            if self.header is None:
                # an earlier program's requests have the numbers up to here
                self._taken = header.taken
                if self._first is not None and not header.has_job:
                    self._requests.insert(0, _send_request(self._first))
            del self._requests[: max(0, header.taken - self._taken)]
            self._taken = max(self._taken, header.taken)
            self.header = header
            self.is_waiting = bool(header.slurm_job) and not header.has_begun
            # from now on a folder that is missing there was removed, and is not to be made anew
            self._opening = None
            self._sent_pings.clear()
            self._has_line = True
            for number, request in enumerate(self._requests, self._taken + 1):
                self._send_value({"n": number, **request})
        if self._away_since is not None:
            minutes = (time.monotonic() - self._away_since) / 60
            self._away_since = None
            self._log("info", f"Reconnected to {self._name} after {minutes:.1f} min.")

    def _end_line(self, answer: str = "") -> None:
        """Close a connection that was lost, and log why. Raises ProblemError for the first one, if no later
        try would help."""
        self._has_line = False
        assert self._channel is not None
        status, complaint = self._channel.close()
        if not self.is_alive:
            return
        why = complaint or answer or "it was closed"
        if self._is_first and status == _NO_SUCH_VERB:
            raise self._line.outdated()
        if self._is_first and (self._opening is not None or lasts(why) or status in NOT_FOUND):
            raise self._line.failure(status, why)
        if self._away_since is None:
            self._away_since = time.monotonic()
            trouble = self._line.remote_trouble(status, why)
            lost = f"Lost the connection to {self._name}: {why.rstrip('.')}."
            lost = lost if trouble is None else trouble.problem.message
            self._log("warning", f"{lost} Reconnecting. The run there continues.")

    def _read_lines(self) -> None:
        assert self._channel is not None
        while self.is_alive:
            self._silent_since = time.monotonic()
            line = self._channel.stdout.readline(_LONGEST_LINE_BYTES)
            self._silent_since = None
            if not line.endswith(b"\n") and len(line) < _LONGEST_LINE_BYTES:
                # half of one: it is sent again
                return
            if line.startswith(self._mark):
                try:
                    self._on_follower_line(_FollowerLine.model_validate_json(line[len(self._mark) :]))
                except ValidationError:
                    shown = line[:400].decode(errors="replace").strip()
                    self._put(BadLine(shortened(shown, 200), "not from a follower"))
                continue
            self._at += len(line)
            if not (self._is_deaf or line.endswith(CANCELED)):
                self._on_item(parse_line(line))

    def _on_item(self, item: Event | BadLine) -> None:
        self.is_waiting, self._is_deaf = False, isinstance(item, BadLine)
        if isinstance(item, Log) and item.level == "stderr":
            self._stderr_lines.append(one_line(item.message))
        else:
            self.has_spoken = True
        self._put(item)

    def _on_follower_line(self, said: _FollowerLine) -> None:
        if said.ping is not None:
            self._note_answer(said.ping)
        elif said.status is not None:
            self._status = said.status
            if said.why:
                self._log("warning", _WHY_ENDED[said.why].format(name=self._name))
            self._end(WorkerExited())
        elif said.gone == "gone" and self.header is not None and self.header.slurm_job:
            self._end(ending(self._last_job_state(self.header), self._name))
        elif said.gone is not None:
            self._is_forgotten = said.gone == "unknown"
            self._end(WorkerLost(_WHY_GONE[said.gone].format(name=self._name)))

    def _last_job_state(self, header: RemoteHeader) -> JobState:
        """Return how the Slurm job has ended, once Slurm reports it, which may be late."""
        deadline = time.monotonic() + _ENDING_SECONDS
        while True:
            state = self._job_state
            if (state is not None and state.is_over) or time.monotonic() > deadline:
                return state or JobState(state="")
            self._job_state = job_state(self._line, header.slurm_job, header.home, header.allocation) or state
            self._closed.wait(0.5)

    def _note_answer(self, number: int) -> None:
        sent = self._sent_pings.pop(number, None)
        if sent is None:
            return
        delay = self.delay_seconds = time.monotonic() - sent
        if delay > _SLOW_SECONDS and not self._is_slow:
            self._log("warning", f"The connection to {self._name} is slow: an answer took {delay:.1f} s.")
        # it is told again once it was fast in between
        self._is_slow = delay > _SLOW_SECONDS / (2 if self._is_slow else 1)

    def _log(self, level: Literal["info", "warning"], message: str) -> None:
        # nobody reads those of a worker that waits for its first job
        if self._requests or self._taken:
            self._put(Log(level=level, message=message))

    def _end(self, item: WorkerExited) -> None:
        if not self._ended.is_set():
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


def _header_in(stream: IO[bytes], mark: bytes) -> tuple[bytes, bytes]:
    """Return the text that the login printed and the follower's header after it, empty if missing."""
    chatter = bytearray()
    while len(chatter) < _MOST_CHATTER_BYTES and (line := stream.readline(_MOST_CHATTER_BYTES)):
        if line.startswith(mark) and line.endswith(b"\n"):
            return bytes(chatter), line[len(mark) :]
        chatter += line
    return bytes(chatter), b""


def _send_request(request: jobs.Request) -> dict[str, Any]:
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
}
