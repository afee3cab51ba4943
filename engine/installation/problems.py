"""Problems on the way to packages, a sentence and a remedy each: for uv and for our own download."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem

OTHER_SOURCE = "choose a mirror or a folder of wheels"
ROOM = "Make room there, or set AMMETER_ENGINE to a folder on another disk; what is fetched is kept."


def download(message: str, remedy: str) -> Problem:
    """A problem of kind DOWNLOAD."""
    return Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy)


def unreachable(host: str) -> Problem:
    """No connection to the server."""
    return download(
        f"{host} cannot be reached.",
        f"Check the network, and HTTPS_PROXY if a proxy leads out of it; or {OTHER_SOURCE}.",
    )


def untrusted(host: str) -> Problem:
    """The server's certificate is of no known authority."""
    return download(
        f"The certificate of {host} is not trusted, so nothing was fetched from it.",
        "If your organisation reads encrypted connections, set SSL_CERT_FILE to its certificate's file.",
    )


def proxy_refused() -> Problem:
    """The proxy wants a name and a password (HTTP 407)."""
    return download(
        "The proxy asks for a name and a password (HTTP 407).",
        "Set HTTPS_PROXY to http://NAME:PASSWORD@HOST:PORT and try again.",
    )


def refused(host: str, status: int) -> Problem:
    """The server wants a name and a password, or forbids access (HTTP 401, 403)."""
    return download(
        f"{host} refuses access (HTTP {status}).",
        f"If it is a mirror, check its address, with a name and a password if it needs them; else "
        f"{OTHER_SOURCE}.",
    )


def no_address(who: str) -> Problem:
    """A server or an index leads to what is no address of a server, or to a file that no disk takes."""
    return download(f"{who} leads to an address that cannot be used.", f"Instead, {OTHER_SOURCE}.")


def answered(host: str, status: int) -> Problem:
    """The server answers with another status that says nothing about what to do."""
    return download(f"{host} answers with HTTP {status}.", f"Try again later, or {OTHER_SOURCE}.")


def not_written(error: OSError, folder: Path) -> Problem:
    """The engines' folder, or a file in it, could not be written."""
    if error.errno in _FULL:
        return Problem(kind=Kind.DISK_FULL, message=f"The disk is full at {folder}.", remedy=ROOM)
    return request_problem(
        f"The engine cannot be written to {folder}: {error.strerror or error}.",
        "Make the folder writable, or set AMMETER_ENGINE to a folder that is.",
        key="AMMETER_ENGINE",
        value=folder,
    )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns an OSError of what is written to the folder into a ProblemError."""
    try:
        yield
    except OSError as error:
        raise ProblemError(not_written(error, folder)) from error


# EDQUOT is missing on Windows; EFBIG: a limit on the size of files
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
