"""Archives from the network: downloaded in pieces, verified, unpacked beside their final place."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import shutil
import socket
import tarfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_PIECE_BYTES = 256 * 1024
_PATIENCE_SECONDS = 30.0
_UNFINISHED = ".unfinished-"
_NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Archive:
    """A file to download: its name, its addresses, and its MD5."""

    name: str
    urls: tuple[str, ...]
    md5: str


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """The download was asked to stop."""


class DownloadError(Exception):
    """A download failed; str() says why, as the second half of a sentence."""


def fetch(archive: Archive, folder: Path, must_end: Callable[[], bool], most_bytes: int) -> Iterator[int]:
    """Downloads an archive into a folder; yields the number of bytes of each piece.

    The addresses are tried in turn; one that sends more than `most_bytes` is given up. Raises DownloadError,
    Cancelled, and OSError where the file cannot be written.
    """
    reason = "its servers did not answer properly"
    for url in archive.urls:
        received = 0
        digest = hashlib.md5(usedforsecurity=False)
        with (folder / archive.name).open("wb") as file:
            for piece in _pieces(url):
                if must_end():
                    raise Cancelled
                if piece is None:
                    break
                if received + len(piece) > most_bytes:
                    reason = f"{archive.name} is larger than it should be"
                    break
                file.write(piece)
                digest.update(piece)
                received += len(piece)
                yield len(piece)
            else:
                if digest.hexdigest() == archive.md5:
                    return
                reason = f"{archive.name} arrived damaged or incomplete"
        if received:
            yield -received  # the next address begins again
    raise DownloadError(reason)


def unpack(archive: Path, into: Path) -> None:
    """Unpacks a .tar.gz into a folder, or a .gz beside its name there. Raises DownloadError, OSError."""
    try:
        if archive.name.endswith(".tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(into, filter="data")
        else:
            with gzip.open(archive) as packed, (into / archive.stem).open("wb") as file:
                shutil.copyfileobj(packed, file)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DownloadError(f"{archive.name} is damaged") from error


@contextlib.contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """A new folder within `folder`, deleted afterwards; so are those left by ended processes."""
    folder.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(folder)
    place = folder / f"{_UNFINISHED}{socket.gethostname()}-{_process_mark(psutil.Process())}"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _remove_left_behind(folder: Path) -> None:
    own_host = f"{_UNFINISHED}{socket.gethostname()}-"
    for place in folder.glob(f"{own_host}*"):
        mark = place.name.removeprefix(own_host)
        pid = mark.partition("-")[0]
        if pid.isdigit() and not _is_running(int(pid), mark):
            shutil.rmtree(place, ignore_errors=True)


def _is_running(pid: int, mark: str) -> bool:
    try:
        return _process_mark(psutil.Process(pid)) == mark
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _process_mark(process: psutil.Process) -> str:
    # pids are reused, a pid with its start time is not
    return f"{process.pid}-{process.create_time():.0f}"


def _pieces(url: str) -> Iterator[bytes | None]:
    """The content at an address, in pieces; None if it fails."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "Ammeter"})
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            while piece := answer.read(_PIECE_BYTES):
                yield piece
    except _NETWORK_ERRORS:
        yield None
