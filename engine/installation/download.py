"""Downloads wheels in parallel, verifies each, and resumes after a lost connection, a pause or a kill.

uv discards a partial wheel, and PyTorch's are hundreds of megabytes, so uv does not download them.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from engine.experiment.paths import part_path
from engine.experiment.problem import ProblemError, request_error
from engine.installation import problems
from engine.installation.connection import Broken, Connections
from engine.installation.control import Control, Stopped
from engine.installation.request import Fetched, Plan, Wheel

_AT_ONCE = 3
_PIECE_BYTES = 2**18
_EVENT_SECONDS = 0.2
_AVERAGE_SECONDS = 5.0
_LEAST_AVERAGE_SECONDS = 1.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.5, 30.0


def wheel_path(wheel: Wheel, folder: Path) -> Path:
    """Return the path of the downloaded wheel: in `folder`, or its own path if its address is a file."""
    parts = urlsplit(wheel.address)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else folder / wheel.filename


class Downloads:
    """Downloads the wheels of a plan into a folder. Retries lost connections until it is stopped."""

    def __init__(self, plan: Plan, folder: Path, control: Control) -> None:
        self._folder, self._control = folder, control
        self._connections = Connections(plan.wanted.source.mirror)
        # the largest first, so that it does not come alone at the end
        wheels = sorted(plan.wheels, key=lambda wheel: -wheel.size_bytes)
        self._files = [_File(wheel, wheel_path(wheel, folder)) for wheel in wheels]
        self._waiting = iter(self._files)
        self._error: Exception | None = None
        self._is_over = False

    def fetch(self) -> Iterator[Fetched]:
        """Yield about five events a second until all wheels are complete. Raises ProblemError, Stopped."""
        with problems.writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(_AT_ONCE)]
        for thread in threads:
            thread.start()
        speed = _Speed()
        try:
            while alive := [thread for thread in threads if thread.is_alive()]:
                alive[0].join(_EVENT_SECONDS)
                if self._control.is_paused:
                    self._connections.close()
                    speed = _Speed()
                self._control.check()
                if self._error is not None:
                    raise self._error
                yield self._state(speed)
            if self._error is not None:
                raise self._error
            yield self._state(speed)
        finally:
            self._is_over = True
            # a read from a silent server ends too; a thread that is still connecting writes nothing any more
            self._connections.close()
            for thread in threads:
                thread.join(_EVENT_SECONDS)

    def _state(self, speed: _Speed) -> Fetched:
        total = sum(file.wheel.size_bytes for file in self._files)
        done = sum(file.done for file in self._files)
        per_second = speed.at(sum(file.received for file in self._files))
        at_work = [file for file in self._files if file.is_at_work]
        return Fetched(
            done_bytes=done,
            total_bytes=total,
            bytes_per_second=per_second,
            seconds_left=(total - done) / per_second if per_second else None,
            file=at_work[0].wheel.filename if at_work else "",
            retry=next((file.retry for file in at_work if file.retry is not None), None),
        )

    def _work(self) -> None:
        try:
            # several threads may take the next of a list's iterator
            while self._error is None and (file := next(self._waiting, None)) is not None:
                file.is_at_work = True
                self._fetch(file)
                file.is_at_work = False
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - raised again where the events are read
            self._error = error

    def _fetch(self, file: _File) -> None:
        if file.path.is_file():
            self._read(file, file.path)
            if file.is_right:
                return
        if file.path.parent != self._folder:
            message = f"{file.path.name} in {file.path.parent} is incomplete or no longer there."
            raise request_error(message, "Copy it there again.", value=file.path)
        with problems.writing(self._folder):
            file.path.unlink(missing_ok=True)
        for _ in range(2):
            self._receive_all(file)
            if file.is_right:
                with problems.writing(self._folder):
                    file.part.replace(file.path)
                return
            with problems.writing(self._folder):
                file.part.unlink()
        what = f"{file.wheel.filename} from {file.host}"
        message = f"{what} does not match the index. It was downloaded twice, and its SHA-256 is wrong."
        remedy = f"Something on the network changes it. Use another network, or {problems.OTHER_SOURCE}."
        raise ProblemError(problems.download(message, remedy))

    def _receive_all(self, file: _File) -> None:
        file.begin()
        if file.part.is_file() and file.wheel.sha256 is not None:
            self._read(file, file.part)
        wait, before = _FIRST_WAIT_SECONDS, file.done
        while file.done < file.wheel.size_bytes:
            self._check()
            try:
                self._receive(file)
            except Broken as broken:
                if self._control.is_paused:
                    continue
                text = str(broken)
                file.retry = f"{text[:1].upper()}{text[1:]}. Trying again."
                if file.done > before:
                    wait = _FIRST_WAIT_SECONDS
                before, until = file.done, time.monotonic() + wait
                while time.monotonic() < until:
                    self._check()
                    self._control.sleep(min(wait, _EVENT_SECONDS))
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _receive(self, file: _File) -> None:
        try:
            with self._connections.open(file.wheel.address, file.headers) as answer:
                if answer.status != http.client.PARTIAL_CONTENT:
                    # the server ignores ranges, or there is nothing to go on with
                    file.begin()
                elif not file.can_resume_with(answer):
                    file.begin()
                    raise Broken(f"{file.host} now has a different {file.wheel.filename}")
                file.etag = answer.headers.get("ETag")
                self._write(file, answer)
        except (OSError, http.client.HTTPException) as error:
            raise self._connections.broken(error, file.host) from error
        if file.done < file.wheel.size_bytes and not self._control.is_paused:
            raise Broken(f"the connection to {file.host} was lost")

    def _write(self, file: _File, answer: http.client.HTTPResponse) -> None:
        with problems.writing(self._folder), file.part.open("ab" if file.done else "wb") as part:
            while file.done <= file.wheel.size_bytes and not self._control.is_paused:
                try:
                    piece = answer.read1(_PIECE_BYTES)
                except (OSError, http.client.HTTPException) as error:
                    raise self._connections.broken(error, file.host) from error
                self._check()
                if not piece:
                    break
                part.write(piece)
                file.append(piece)
                file.received += len(piece)
                file.retry = None
            part.flush()
            os.fsync(part.fileno())

    def _read(self, file: _File, path: Path) -> None:
        file.begin()
        with problems.writing(self._folder), path.open("rb") as present:
            while piece := present.read(_PIECE_BYTES):
                self._check()
                file.append(piece)
        if file.done > file.wheel.size_bytes:
            file.begin()

    def _check(self) -> None:
        while self._control.is_paused and not self._is_over:
            self._control.sleep(_EVENT_SECONDS)
        if self._is_over or self._control.is_stopped:
            raise Stopped


class _File:
    def __init__(self, wheel: Wheel, path: Path) -> None:
        self.wheel, self.path = wheel, path
        self.part = part_path(path)
        self.host = urlsplit(wheel.address).hostname or wheel.address
        self.is_at_work = False
        self.received = 0  # over the network; what is done may come from an earlier attempt
        self.retry: str | None = None
        self.begin()

    def begin(self) -> None:
        """Forget all content."""
        self.done, self.etag = 0, None
        self._digest = hashlib.sha256()

    etag: str | None  # the server's name for the version of the file that has been received in part

    def append(self, piece: bytes) -> None:
        self.done += len(piece)
        self._digest.update(piece)

    @property
    def is_right(self) -> bool:
        """True if size and SHA-256 match the index, as far as it has them."""
        sha256 = self.wheel.sha256
        return self.done == self.wheel.size_bytes and (sha256 is None or self._digest.hexdigest() == sha256)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the request for the rest. Without a hash, only the server notices a changed file."""
        headers = {"Accept-Encoding": "identity"}
        if self.done and (self.wheel.sha256 is not None or self.etag is not None):
            headers["Range"] = f"bytes={self.done}-"
            if self.etag is not None:
                headers["If-Range"] = self.etag
        return headers

    def can_resume_with(self, answer: http.client.HTTPResponse) -> bool:
        """Return True if the answer is the rest of the file."""
        span, _, total = answer.headers.get("Content-Range", "").partition("/")
        return span.startswith(f"bytes {self.done}-") and total in ("*", str(self.wheel.size_bytes))


class _Speed:
    def __init__(self) -> None:
        self._moments: deque[tuple[float, int]] = deque()

    def at(self, received: int) -> float | None:
        """Return the bytes per second once `received` bytes have arrived. None until it is known."""
        now = time.monotonic()
        self._moments.append((now, received))
        while now - self._moments[0][0] > _AVERAGE_SECONDS:
            self._moments.popleft()
        before, then = self._moments[0]
        return (received - then) / (now - before) if now - before >= _LEAST_AVERAGE_SECONDS else None
