"""The relay: the program that ssh starts on a remote machine. It copies the files of a worker's keeper to its
stdout, and requests from its stdin to the keeper.

    python -P -m engine.worker.relay HOME WORKER EVENTS_AT ERRORS_AT NONCE

Input, one JSON object per line: first {"open": {...}}, which creates the worker if there is none, or {}. Then
{"n": 1, "do": ...} for the keeper, which may be sent again, and {"ping": 7}.

Output: first the text printed by the login, then a header with the nonce, `ammeter NONCE {...}`, then lines
whose first byte is their kind:

    o e   a line of the worker's stdout or stderr. O and E: part of an unfinished line
    .     the answer to a ping
    s     the worker waits for Slurm: the state of its job. "KEPT" once it has a keeper
    x     the worker has ended, and all its output was sent: its status, and why
    g     the worker has no keeper: it was lost at a restart, with its keeper or its job, or was never here

The offsets are bytes of the two files, so a relay continues where another one was cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from engine import __version__
from engine.worker.keeper import boot_id, is_kept, requests_in, write_whole
from engine.worker.slurm import Allocation, JobWatch, job_of, start_keeper

PROTOCOL = 2
_SLEEP_SECONDS = 0.02
_KEPT_LOOK_SECONDS = 0.5
_KEEPER_SECONDS = 20.0
_BLOCK_BYTES = 256 * 2**10
_LONGEST_REQUEST_BYTES = 64 * 2**20
_LONGEST_EVENT_BYTES = 33 * 2**20
_LONGEST_ERROR_BYTES = 8 * 2**10
_DAYS_KEPT = 14
_GONE = ".gone"  # the ending of a folder that is being removed
FOLDERS = {"AMMETER_HOME": "home", "AMMETER_DATA": "datasets", "AMMETER_ENGINE": "engine"}


class Tail:
    """Sends the lines appended to a file to stdout, from a byte offset on."""

    def __init__(self, kind: bytes, path: Path, at: int, longest: int) -> None:
        self._kind, self._path, self._longest = kind, path, longest
        self._at = at
        self._rest = b""
        self._file = -1

    @property
    def is_beyond(self) -> bool:
        """True if the file is shorter than the offset, as after a power failure."""
        return self._at > (self._path.stat().st_size if self._path.exists() else 0)

    def send(self) -> bool:
        """Send the next lines. Return True if there may be more."""
        if self._file < 0:
            with contextlib.suppress(FileNotFoundError):
                self._file = os.open(self._path, os.O_RDONLY)
        new = b"" if self._file < 0 else os.pread(self._file, _BLOCK_BYTES, self._at)
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        out = b"".join(self._kind + line + b"\n" for line in lines)
        if len(self._rest) > self._longest:
            out += self._kind.upper() + self._rest + b"\n"
            self._rest = b""
        _write(out)
        return len(new) == _BLOCK_BYTES


class Relay:
    """Connects ssh to one worker on a remote machine: sends the worker's output and receives requests."""

    def __init__(self, home: Path, worker: str, events_at: int, errors_at: int) -> None:
        self._home, self._folder = home, home / "workers" / worker
        self._ping: int | None = None
        self._forgets = self._ends = self._is_cut = self._is_short = False
        self._job: JobWatch | None = None
        self._tails = (
            Tail(b"o", self._folder / "events", events_at, _LONGEST_EVENT_BYTES),
            Tail(b"e", self._folder / "errors", errors_at, _LONGEST_ERROR_BYTES),
        )

    def open(self, opened: dict[str, Any]) -> None:
        """Create the worker's folder and start its keeper, unless an earlier relay did."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (self._folder / "keeper.json").exists():
            return
        own = {name: str(self._home / folder) for name, folder in FOLDERS.items()}
        environment = {**own, "AMMETER_REMOTE": "1", **opened["environment"]}
        asked = opened.get("allocation")
        kept = {"environment": environment, "patience": opened["patience"], "allocation": asked}
        write_whole(self._folder / "opened.json", {"protocol": PROTOCOL, **kept})
        if asked is not None:
            try:
                Allocation(self._home, asked["name"]).ask(self._folder.name, asked["arguments"])
            except OSError:
                _remove(self._folder)
                raise
            return
        keeper = start_keeper(self._home, self._folder)
        deadline = time.monotonic() + _KEEPER_SECONDS
        while not (self._folder / "keeper.json").exists():
            if keeper.poll() or time.monotonic() > deadline:
                log_lines = (self._folder / "keeper.log").read_text(errors="replace").splitlines()
                if keeper.poll():
                    _remove(self._folder)
                raise OSError(f"the keeper did not start: {log_lines[-1] if log_lines else 'unknown reason'}")
            time.sleep(_SLEEP_SECONDS)

    def send_header(self, nonce: str) -> None:
        requests = self._requests()
        header = {
            "protocol": PROTOCOL,
            "taken": max((request["n"] for request in requests), default=0),
            "has_job": any(request["do"] == "send" for request in requests),
            "home": str(self._home),
            "host": socket.gethostname(),
            "version": __version__,
        }
        # what the login printed may lack the end of its line
        _write(f"\nammeter {nonce} {json.dumps(header)}\n".encode())

    def relay(self) -> None:
        """Copy until the worker is forgotten or unknown, or the other side is gone."""
        self._job = job_of(self._home, self._folder)
        if self._job is None and not (self._folder / "keeper.json").exists():
            return _send("g", {"why": "unknown"})
        self._is_short = any(tail.is_beyond for tail in self._tails)
        threading.Thread(target=self._read_requests, daemon=True).start()
        ended, looked, was_told = self._folder / "ended", 0.0, False
        while not self._is_cut or self._forgets:
            is_over = ended.exists()
            is_lost, now = self._is_short, time.monotonic()
            if self._job is not None and not (is_over or was_told):
                self._follow(self._job)
            if not (is_over or is_lost or was_told) and now - looked > _KEPT_LOOK_SECONDS:
                looked = now
                is_lost = self._is_unkept() and not ended.exists()
                if is_lost:
                    # the worker ends as its keeper does, but a moment later
                    time.sleep(_KEPT_LOOK_SECONDS)
            has_more = any([tail.send() for tail in self._tails])  # noqa: C419 - both of them
            if (ping := self._ping) is not None:
                self._ping = None
                _write(f".{ping}\n".encode())
            if has_more:
                # an end counts once all that was written before it has been read
                continue
            if self._forgets and (is_over or is_lost or was_told):
                if self._job is not None:
                    self._job.allocation.withdraw(self._folder.name)
                _remove(self._folder)
                return _send("g", {"why": "forgotten"})
            if is_over or is_lost:
                # it stays for the request to forget
                if not was_told and is_over:
                    _send("x", json.loads(ended.read_text()))
                elif not was_told:
                    _send("g", self._why_lost())
                was_told = True
            time.sleep(_SLEEP_SECONDS)
        return None

    def _follow(self, job: JobWatch) -> None:
        """Report Slurm's state of a waiting worker, and let it be ended before it starts."""
        if (news := job.news()) is not None:
            _send("s", news)
        if self._ends:
            self._ends = False
            if job.allocation.withdraw(self._folder.name):
                write_whole(self._folder / "ended", {"status": 0, "why": ""})

    def _is_unkept(self) -> bool:
        if self._job is not None and (self._job.is_over or not (self._folder / "keeper.json").exists()):
            return self._job.is_over
        return not is_kept(self._folder)

    def _why_lost(self) -> dict[str, Any]:
        if self._is_short:
            return {"why": "rebooted"}
        if self._job is not None:
            return {"why": "job", **self._job.ending()}
        kept = json.loads((self._folder / "keeper.json").read_text())
        is_here = kept["host"] == socket.gethostname()
        return {"why": "rebooted" if is_here and kept["boot"] != boot_id() else "gone"}

    def _requests(self) -> list[dict[str, Any]]:
        path = self._folder / "requests"
        return requests_in(path.read_bytes()) if path.exists() else []

    def _read_requests(self) -> None:
        # never waits for stdout, which may be full
        path = self._folder / "requests"
        # a relay that was killed may have left half a line
        half = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        with path.open("ab", buffering=0) as file:
            if half:
                file.write(b"\n")
            while (line := sys.stdin.buffer.readline(_LONGEST_REQUEST_BYTES)).endswith(b"\n"):
                request = json.loads(line)
                (self._folder / "seen").touch()
                if "ping" in request:
                    self._ping = int(request["ping"])
                else:
                    file.write(line)
                    self._forgets |= request["do"] == "forget"
                    self._ends |= request["do"] in ("close", "kill", "forget")
        self._is_cut = True
        if not self._forgets:
            # also while the other thread waits for a stdout that nobody reads
            os._exit(0)


def _send(kind: str, value: dict[str, Any]) -> None:
    _write(f"{kind}{json.dumps(value)}\n".encode())


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def _remove(folder: Path) -> None:
    # under another name first: half a folder must not pass for a worker
    gone = folder.with_name(folder.name.removesuffix(_GONE) + _GONE)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _clean(home: Path) -> None:
    """Remove the folders of old workers, but no run that was not read to its end, and no waiting job.

    Only harmless decisions depend on the clock, which may jump.
    """
    oldest = time.time() - _DAYS_KEPT * 24 * 3_600
    workers, asked = [*home.glob("workers/*")], set[str]()
    for folder in workers:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            asked.add(json.loads((folder / "opened.json").read_text())["allocation"]["name"])
    for folder in (*workers, *home.glob("allocations/*")):
        with contextlib.suppress(FileNotFoundError):
            newest = max((path.stat().st_mtime for path in folder.iterdir()), default=folder.stat().st_mtime)
            if newest < oldest and not (is_kept(folder) or folder.name in asked or _is_unread(folder)):
                _remove(folder)


def _is_unread(folder: Path) -> bool:
    """Return whether a worker's folder has a run that its reader has not acknowledged."""
    requests = folder / "requests"
    if folder.suffix == _GONE or not requests.exists():
        return False
    done = {request["do"] for request in requests_in(requests.read_bytes())}
    return "keep" in done and "forget" not in done


def main() -> int:
    """Relay between the worker named in `sys.argv` and the standard streams. Return the exit status."""
    home, worker, events_at, errors_at, nonce = sys.argv[1:]
    if not re.fullmatch(r"[0-9a-f]{32}", worker) or not re.fullmatch(r"[0-9a-f]+", nonce):
        raise ValueError("neither a worker nor a nonce looks like this")
    os.umask(0o077)
    relay = Relay(Path(home).resolve(), worker, int(events_at), int(errors_at))
    try:
        first = json.loads(sys.stdin.buffer.readline(_LONGEST_REQUEST_BYTES))
        if "open" in first:
            relay.open(first["open"])
            _clean(Path(home).resolve())
        relay.send_header(nonce)
        relay.relay()
    except BrokenPipeError:
        return 0
    except OSError as error:
        sys.stderr.write(f"ammeter: {error}\n")
        sys.stderr.flush()
        return 1
    return 0


if __name__ == "__main__":
    # the thread that reads stdin would hold up the interpreter's end
    os._exit(main())
