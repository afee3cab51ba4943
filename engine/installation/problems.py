"""Problems on the way to packages, a sentence and a remedy each: for uv and for our own download."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.value import BYTES_PER_MIB
from engine.words.numbers import memory_text

OTHER_SOURCE = "choose a mirror or a folder of wheels"


def unreachable(host: str) -> Problem:
    """No connection to the server."""
    return _download(
        f"{host} cannot be reached.",
        f"Check the network, and HTTPS_PROXY if a proxy leads out of it; or {OTHER_SOURCE}.",
    )


def untrusted(host: str) -> Problem:
    """The server's certificate is of no known authority."""
    return _download(
        f"The certificate of {host} is not trusted, so nothing was fetched from it.",
        "If your organisation reads encrypted connections, set SSL_CERT_FILE to its certificate's file.",
    )


def proxy_refused() -> Problem:
    """The proxy wants a name and a password (HTTP 407)."""
    return _download(
        "The proxy asks for a name and a password (HTTP 407).",
        "Set HTTPS_PROXY to http://NAME:PASSWORD@HOST:PORT and try again.",
    )


def not_tunnelled(host: str) -> Problem:
    """The proxy answers, and does not connect to the server."""
    return _download(
        f"The proxy does not connect to {host}.",
        f"Ask who runs the proxy to allow it, or {OTHER_SOURCE}.",
    )


def refused(host: str, status: int) -> Problem:
    """The server wants a name and a password, or forbids access (HTTP 401, 403)."""
    return _download(
        f"{host} refuses access (HTTP {status}).",
        f"If it is a mirror, check its address, with a name and a password if it needs them; else "
        f"{OTHER_SOURCE}.",
    )


def not_there(file: str, host: str) -> Problem:
    """The server does not have the file (HTTP 404)."""
    return _download(
        f"{file} is not at {host} (HTTP 404).",
        f"Check the mirror's address if you gave one, or {OTHER_SOURCE}.",
    )


def no_address(who: str) -> Problem:
    """A server or an index leads to what is no address of a server, or to a file that no disk takes."""
    return _download(f"{who} leads to an address that cannot be used.", f"Instead, {OTHER_SOURCE}.")


def answered(host: str, status: int) -> Problem:
    """The server answers with another status that says nothing about what to do."""
    return _download(f"{host} answers with HTTP {status}.", f"Try again later, or {OTHER_SOURCE}.")


def damaged(file: str, host: str) -> Problem:
    """The file does not have the content that the index promises."""
    return _download(
        f"{file} from {host} is not what the index promises: it was fetched twice, and its SHA-256 is wrong.",
        f"Something on the way changes it: use another network, or {OTHER_SOURCE}.",
    )


def not_unpacked(wheel: str, why: str) -> Problem:
    """A wheel whose content cannot become files, such as a file with another one below it."""
    return _download(f"{wheel} cannot be unpacked: {why}.", f"The wheel is at fault: {OTHER_SOURCE}.")


def bad_copy(path: Path) -> Problem:
    """A wheel in the user's folder is gone, or is not what it was when uv looked at it."""
    return request_problem(
        f"{path.name} in {path.parent} is not whole, or is no longer there.",
        "Copy it there again.",
        value=path,
    )


def no_space(needed_bytes: int, free_bytes: int, folder: Path) -> Problem:
    """The disk lacks room."""
    needed, free = (memory_text(count / BYTES_PER_MIB) for count in (needed_bytes, free_bytes))
    return Problem(
        kind=Kind.DISK_FULL,
        message=f"The engine needs {needed}, and {free} are free at {folder}.",
        remedy=_ROOM,
    )


def not_written(error: OSError, folder: Path) -> Problem:
    """The engines' folder, or a file in it, could not be written."""
    if error.errno in _FULL:
        return Problem(
            kind=Kind.DISK_FULL,
            message=f"The disk is full at {folder}.",
            remedy=_ROOM,
        )
    return request_problem(
        f"The engine cannot be written to {folder}: {error.strerror or error}.",
        "Make the folder writable, or set AMMETER_ENGINE to a folder that is.",
        key="AMMETER_ENGINE",
        value=folder,
    )


_ROOM = "Make room there, or set AMMETER_ENGINE to a folder on another disk; what is fetched is kept."


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an OSError of what is written to the folder into a ProblemError."""
    try:
        yield
    except OSError as error:
        raise ProblemError(not_written(error, folder)) from error


# EDQUOT is missing on Windows; EFBIG: a limit on the size of files
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def _download(message: str, remedy: str) -> Problem:
    return Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy)
