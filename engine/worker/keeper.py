"""The keeper: a process on a remote machine that owns one worker there, and keeps it while disconnected.

It communicates through files in a private folder, so the connection may be lost at any moment. A follower
(`follower.py`) reads and writes them for the program at the other end:

    opened.json  written first, by the follower: the worker's environment, and the keeper's patience
    keeper.json  process ids of the keeper and its worker
    lock         held (flock) while the keeper lives
    events       the worker's stdout, which it writes itself. The keeper adds its stderr, as log events
    requests     one JSON object per line, numbered. Each number is taken once
    seen         touched while a follower is connected
    ended        the worker's exit status, and why it was ended, if so. Written last

It needs only the standard library, without torch, so it stays small.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from engine.experiment.paths import boot_id
from engine.worker.guard import MARK, kill_marked, start_guard

if sys.platform != "win32":
    import fcntl

_LOOK_SECONDS = 0.05
_LAST_WORDS_SECONDS = 0.5
_END_SECONDS = 5.0
_DISK_LOOK_SECONDS = 5.0
_LEAST_DISK_BYTES = 2**20
SCRIPTS_PATH = "AMMETER_SCRIPTS_PATH"
"""The environment variable with the whole PYTHONPATH for scripts, set by a launcher or for a worker."""
STDERR_TAIL_LINES = 200
_STDERR_LINES_PASSED_ON = 2_000
_STDERR_BYTES_PASSED_ON = 2**20
_LONGEST_STDERR_BYTES = 8 * 2**10
CANCELED = b"\x18\n"
"""The end of a line of the events that is none: half of one, which a killed worker left, or nothing."""


def is_kept(folder: Path) -> bool:
    """Return True while the keeper of a worker's folder runs, on any node that shares the file system."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def worker_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a worker, with its `own` variables.

    A worker runs in the folder of the user's model, so neither it nor a process started by torch may import
    or run files just because they are in the current folder. A script may.
    """
    whole = os.environ.get("PYTHONPATH", "")
    path = filter(os.path.isabs, whole.split(os.pathsep))
    safe = {"PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}
    return {SCRIPTS_PATH: whole, **os.environ, "PYTHONPATH": os.pathsep.join(path), **safe, **own}


def write_whole(path: Path, value: dict[str, Any]) -> None:
    """Write JSON atomically."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


class Keeper:
    """Runs one worker on a remote machine, independently of the connection, until the worker ends.

    Its `folder` has the worker's output and the requests to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        opened = json.loads((folder / "opened.json").read_text())
        self._patience_idle, self._patience_busy = (float(seconds) for seconds in opened["patience"])
        # the space for the last word is taken now: the disk may be full by then
        (folder / "ended.part").write_bytes(b" " * 4_096)
        self._events = os.open(folder / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        node = os.environ.get("SLURMD_NODENAME", "")
        if node:
            self._say({"event": "phase", "name": "building", "detail": f"on {node}"})
        self._worker = subprocess.Popen(
            (sys.executable, "-P", "-m", "engine.worker"),
            stdin=subprocess.PIPE,
            stdout=self._events,
            stderr=subprocess.PIPE,
            env=worker_environment({**opened["environment"], MARK: folder.name}),
            start_new_session=True,
        )
        assert self._worker.stdin and self._worker.stderr
        self._input = self._worker.stdin
        # a worker that imports torch reads nothing for seconds, in which a request to kill it must be seen
        os.set_blocking(self._input.fileno(), False)
        self._errors = threading.Thread(target=self._read_errors, args=(self._worker.stderr,), daemon=True)
        self._errors.start()
        self._unsent = bytearray()
        self._has_job = self._is_kept = self._closes = False
        self._taken = self._requests_at = 0
        self._seen, self._seen_at = 0, time.monotonic()
        self._kill_at: float | None = None
        self._why = ""
        pids = {"pid": os.getpid(), "worker": self._worker.pid}
        write_whole(folder / "keeper.json", {**pids, "host": socket.gethostname(), "boot": boot_id()})

    def keep(self) -> None:
        """Run until the worker has ended and `ended` is written."""
        disk_looked = time.monotonic()
        while (status := self._worker.poll()) is None:
            self._read_requests()
            self._send()
            now = time.monotonic()
            patience = self._patience_busy if self._has_job else self._patience_idle
            if not self._is_kept and now - self._last_seen(now) > patience:
                self._end("patience")
            if now - disk_looked > _DISK_LOOK_SECONDS:
                disk_looked = now
                if self._disk_is_full:
                    self._end("full")
            if self._kill_at is not None and now > self._kill_at:
                self._kill()
            time.sleep(_LOOK_SECONDS)
        if status and not self._why and self._disk_is_full:
            # it failed to write before anybody looked
            self._why = "full"
        kill_marked(self._folder.name)
        self._errors.join(_LAST_WORDS_SECONDS)
        part = self._folder / "ended.part"
        with contextlib.suppress(FileNotFoundError):
            with part.open("r+b") as file:
                file.write(json.dumps({"status": status, "why": self._why}).encode())
            part.replace(self._folder / "ended")

    @property
    def _disk_is_full(self) -> bool:
        space = os.statvfs(self._folder.parent)
        return space.f_bavail * space.f_frsize < _LEAST_DISK_BYTES

    def _last_seen(self, now: float) -> float:
        with contextlib.suppress(FileNotFoundError):
            # only that it changes counts: the clocks of a shared file system may differ
            seen = (self._folder / "seen").stat().st_mtime_ns
            if seen != self._seen:
                self._seen, self._seen_at = seen, now
        return self._seen_at

    def _read_requests(self) -> None:
        path = self._folder / "requests"
        try:
            if path.stat().st_size <= self._requests_at:
                return
        except FileNotFoundError:
            if not self._folder.exists():
                # it was forgotten while this node was thought to be lost
                self._kill()
            return
        with path.open("rb") as file:
            file.seek(self._requests_at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._requests_at += len(whole)
        for request in requests_in(whole):
            if request["n"] > self._taken:
                self._taken = request["n"]
                self._do(request)

    def _do(self, request: dict[str, Any]) -> None:
        match request["do"]:
            case "send":
                self._has_job = True
                self._unsent += request["line"].encode() + b"\n"
            case "keep":
                self._is_kept = True
            case "terminate":
                self._worker.send_signal(signal.SIGTERM)
            case "where":
                self._worker.send_signal(signal.SIGUSR1)
            case "close":
                self._closes = True
            case "kill" | "forget":
                self._kill()

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                while self._unsent:
                    del self._unsent[: os.write(self._input.fileno(), self._unsent)]
            except BrokenPipeError:
                self._unsent.clear()
            if self._closes and not self._input.closed:
                self._input.close()

    def _end(self, why: str) -> None:
        if self._kill_at is None:
            self._why, self._closes = why, True
            self._kill_at = time.monotonic() + _END_SECONDS

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._worker.pid, signal.SIGKILL)
        kill_marked(self._folder.name)

    def _read_errors(self, stream: IO[bytes]) -> None:
        tail: deque[bytes] = deque(maxlen=STDERR_TAIL_LINES)
        read_stderr(stream, self._log, tail)
        for line in tail:
            self._log(line)

    def _log(self, line: bytes) -> None:
        if message := shown(line):
            self._say({"event": "log", "level": "stderr", "message": message})

    def _say(self, event: dict[str, Any]) -> None:
        # in one write: the worker appends to the same file. A full disk must not stop the reading.
        with contextlib.suppress(OSError):
            os.write(self._events, CANCELED + json.dumps(event).encode() + b"\n")


def read_stderr(stream: IO[bytes], pass_on: Callable[[bytes], None], tail: deque[bytes]) -> None:
    """Read a worker's stderr to its end. Pass on 2,000 lines, at most 1 MiB, and append others to `tail`."""
    lines_left, bytes_left = _STDERR_LINES_PASSED_ON, _STDERR_BYTES_PASSED_ON
    with stream:
        for line in iter(partial(stream.readline, _LONGEST_STDERR_BYTES), b""):
            if min(lines_left, bytes_left) > 0:
                pass_on(line)
            else:
                tail.append(line)
            lines_left, bytes_left = lines_left - 1, bytes_left - len(line)


def shown(line: bytes) -> str:
    """Return what a terminal would show of a line of stderr."""
    # a progress bar overwrites itself by returning to the line's start
    return line.decode(errors="replace").rstrip().rpartition("\r")[2]


def requests_in(lines: bytes) -> list[dict[str, Any]]:
    """Return the requests on complete lines. Part of a line, left by a killed follower, is ignored."""
    found = []
    for line in lines.splitlines():
        with contextlib.suppress(ValueError):
            request = json.loads(line)
            if isinstance(request, dict) and isinstance(request.get("n"), int) and "do" in request:
                found.append(request)
    return found


def start_keeper(home: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the keeper of a worker's folder, without our streams, for which ssh would wait."""
    with (folder / "keeper.log").open("ab") as log:
        return subprocess.Popen(
            program_words(home, "keep", folder.name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd=home,
        )


def program_words(home: Path, *words: str) -> tuple[str, ...]:
    """Return the command that runs a verb of the program there."""
    # in its program's own folder, because `current` may change
    python = Path(sys.executable)
    interpreter = str(python.parent.resolve() / python.name)
    return (interpreter, "-P", "-m", "engine.remote_main", str(home), *words)


def keep(folder: Path) -> None:
    """Start the worker of a folder and keep it until it has ended. Do so at most once in all."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    # one whose keeper was killed is gone
    if not (folder / "keeper.json").exists():
        start_guard(folder.name)
        Keeper(folder).keep()
