"""What ssh starts on a remote machine for a worker there: it opens and follows its files, or deletes them.

`follow` copies the events to its stdout, from a byte on, and the requests on its stdin to the keeper.

Input, one JSON object per line: first {"open": {...}}, which creates the worker if there is none, or {}. Then
{"n": 1, "do": ...} for the keeper, which may be sent again, {"ping": 7}, and {"lost": true} once Slurm ended
the worker's job.

Output: first the text printed by the login, then lines of the events. Lines that start with "ammeter NONCE "
are the follower's own: a header first, the answers to pings, and how the worker ended or was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from engine import __version__
from engine.experiment.paths import boot_id
from engine.worker.allocation import Allocation
from engine.worker.keeper import is_kept, requests_in, start_keeper, write_whole

PROTOCOL = 3
_SLEEP_SECONDS = 0.02
_KEPT_LOOK_SECONDS = 0.5
_KEEPER_SECONDS = 20.0
_BLOCK_BYTES = 256 * 2**10
_LONGEST_REQUEST_BYTES = 64 * 2**20
_LONGEST_EVENT_BYTES = 32 * 2**20
_FORGET_SECONDS = 5.0
_DAYS_KEPT = 14
_GONE = ".gone"  # the ending of a folder that is being removed
FOLDERS = {"AMMETER_HOME": "home", "AMMETER_DATA": "datasets", "AMMETER_ENGINE": "engine"}


class Follower:
    """Connects ssh to one worker on a remote machine: sends its events, and receives the requests to it."""

    def __init__(self, home: Path, worker: str, at: int, nonce: str) -> None:
        self._home, self._folder = home, home / "workers" / worker
        self._at, self._mark = at, f"ammeter {nonce} "
        self._events = self._folder / "events"
        self._ping: int | None = None
        self._is_lost = False

    def follow(self) -> None:
        """Follow the worker until it has ended, is lost, or the other side is gone."""
        first = json.loads(sys.stdin.buffer.readline(_LONGEST_REQUEST_BYTES))
        if "open" in first:
            open_worker(self._home, self._folder, first["open"])
            clean(self._home)
        allocation = allocation_of(self._home, self._folder)
        self._send_header(allocation)
        if allocation is None and not (self._folder / "keeper.json").exists():
            return self._say(gone="unknown")
        if self._at > (self._events.stat().st_size if self._events.exists() else 0):
            # as after a power failure
            return self._say(gone="rebooted")
        threading.Thread(target=self._take_requests, daemon=True).start()
        looked = time.monotonic()
        while True:
            # an end counts once all that was written before it has been read
            is_over, is_lost = (self._folder / "ended").exists(), self._is_lost
            if not (is_over or is_lost) and time.monotonic() - looked > _KEPT_LOOK_SECONDS:
                looked = time.monotonic()
                self._is_lost = self._has_no_keeper()
            elif is_lost and not is_over:
                # the worker ends as its keeper does, but a moment later
                time.sleep(_KEPT_LOOK_SECONDS)
                is_over = (self._folder / "ended").exists()
            while self._send_events():
                self._answer()
            self._answer()
            if is_over:
                return self._say(**json.loads((self._folder / "ended").read_text()))
            if is_lost:
                return self._say(gone=self._why_lost())
            time.sleep(_SLEEP_SECONDS)

    def _send_header(self, allocation: Allocation | None) -> None:
        path = self._folder / "requests"
        requests = requests_in(path.read_bytes()) if path.exists() else []
        # what the login printed may lack the end of its line
        _write(b"\n")
        self._say(
            protocol=PROTOCOL,
            taken=max((request["n"] for request in requests), default=0),
            has_job=any(request["do"] == "send" for request in requests),
            has_begun=(self._folder / "keeper.json").exists(),
            home=str(self._home),
            host=socket.gethostname(),
            version=__version__,
            allocation="" if allocation is None else allocation.folder.name,
            slurm_job="" if allocation is None else allocation.job,
        )

    def _send_events(self) -> bool:
        """Send the next whole lines. Return True if there may be more."""
        if not self._events.exists():
            return False
        size = _BLOCK_BYTES
        with self._events.open("rb", buffering=0) as file:
            while True:
                data = os.pread(file.fileno(), size, self._at)
                end = data.rfind(b"\n") + 1
                if end or len(data) < size:
                    break
                size *= 2
                if size > _LONGEST_EVENT_BYTES:
                    # no event is as long: let the other side see it
                    end = len(data)
                    break
        self._at += end
        _write(data[:end])
        return len(data) == size

    def _answer(self) -> None:
        if (ping := self._ping) is not None:
            self._ping = None
            self._say(ping=ping)

    def _has_no_keeper(self) -> bool:
        if (self._folder / "keeper.json").exists():
            return not is_kept(self._folder)
        # it waits for its keeper, or its folder was removed
        return not (self._folder / "opened.json").exists()

    def _why_lost(self) -> str:
        try:
            kept = json.loads((self._folder / "keeper.json").read_text())
        except FileNotFoundError:
            return "gone" if (self._folder / "opened.json").exists() else "unknown"
        is_here = kept["host"] == socket.gethostname()
        return "rebooted" if is_here and kept["boot"] != boot_id() else "gone"

    def _take_requests(self) -> None:
        # never waits for stdout, which may be full
        path = self._folder / "requests"
        # a follower that was killed may have left half a line
        half = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        try:
            with path.open("ab", buffering=0) as file:
                if half:
                    file.write(b"\n")
                while (line := sys.stdin.buffer.readline(_LONGEST_REQUEST_BYTES)).endswith(b"\n"):
                    request = json.loads(line)
                    (self._folder / "seen").touch()
                    if "n" in request:
                        file.write(line)
                    else:
                        self._ping = request.get("ping", self._ping)
                        self._is_lost |= "lost" in request
        except FileNotFoundError:
            self._is_lost = True
            return
        # also while the other thread waits for a stdout that nobody reads
        os._exit(0)

    def _say(self, **value: object) -> None:
        _write(f"{self._mark}{json.dumps(value)}\n".encode())


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def open_worker(home: Path, folder: Path, opened: dict[str, Any]) -> None:
    """Create a worker's folder and start its keeper, unless that was done before. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "keeper.json").exists():
        return
    own = {name: str(home / each) for name, each in FOLDERS.items()}
    environment = {**own, "AMMETER_REMOTE": "1", **opened["environment"]}
    write_whole(folder / "opened.json", {**opened, "environment": environment})
    if (allocation := allocation_of(home, folder)) is not None:
        try:
            allocation.ask(folder.name, opened["allocation"]["arguments"])
        except OSError:
            _remove(folder)
            raise
        return
    keeper = start_keeper(home, folder)
    deadline = time.monotonic() + _KEEPER_SECONDS
    while not (folder / "keeper.json").exists():
        if keeper.poll() or time.monotonic() > deadline:
            log_lines = (folder / "keeper.log").read_text(errors="replace").splitlines()
            if keeper.poll():
                _remove(folder)
            raise OSError(f"the keeper did not start: {log_lines[-1] if log_lines else 'unknown reason'}")
        time.sleep(_SLEEP_SECONDS)


def allocation_of(home: Path, folder: Path) -> Allocation | None:
    """Return the allocation that a worker waits for or runs in. None for a worker without one."""
    with contextlib.suppress(FileNotFoundError):
        if asked := json.loads((folder / "opened.json").read_text()).get("allocation"):
            return Allocation(home, asked["name"])
    return None


def forget(home: Path, worker: str) -> None:
    """Delete a worker's folder. A keeper whose folder is gone ends its worker."""
    folder = home / "workers" / worker
    if (allocation := allocation_of(home, folder)) is not None:
        allocation.withdraw(worker)
    _remove(folder)


def _remove(folder: Path) -> None:
    # under another name first: half a folder must not pass for a worker
    gone = folder.with_name(folder.name.removesuffix(_GONE) + _GONE)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    deadline = time.monotonic() + _FORGET_SECONDS
    while is_kept(gone) and time.monotonic() < deadline:
        time.sleep(_SLEEP_SECONDS)
    shutil.rmtree(gone, ignore_errors=True)


def clean(home: Path) -> None:
    """Remove the folders of old workers, but no run that was not read to its end, and no waiting job.

    Only harmless decisions depend on the clock, which may jump.
    """
    oldest = time.time() - _DAYS_KEPT * 24 * 3_600
    workers, asked = [*home.glob("workers/*")], set[Path]()
    for folder in workers:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            if (allocation := allocation_of(home, folder)) is not None:
                asked.add(allocation.folder)
    for folder in (*workers, *home.glob("allocations/*")):
        # what cannot be removed, or is no folder, must not keep a worker from starting
        with contextlib.suppress(OSError):
            newest = max((path.stat().st_mtime for path in folder.iterdir()), default=folder.stat().st_mtime)
            if newest < oldest and not (is_kept(folder) or folder in asked or _is_unread(folder)):
                _remove(folder)


def _is_unread(folder: Path) -> bool:
    """Return whether a worker's folder has a run that its reader has not acknowledged."""
    requests = folder / "requests"
    return (
        folder.suffix != _GONE
        and requests.exists()
        and any(request["do"] == "keep" for request in requests_in(requests.read_bytes()))
    )
