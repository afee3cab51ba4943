"""Problems of downloading packages, with a sentence and a fix each, for uv and for our own download."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem

OTHER_SOURCE = "choose a mirror or a folder of wheels"
ROOM = "Free some space, or set AMMETER_ENGINE to a folder on another disk. Downloaded files are kept."


def download(message: str, remedy: str) -> Problem:
    """Return a problem of kind DOWNLOAD."""
    return Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy)


def unreachable(host: str) -> Problem:
    """Return the problem of a server that cannot be reached."""
    return download(
        f"{host} cannot be reached.",
        f"Check the network and, behind a proxy, HTTPS_PROXY. Otherwise {OTHER_SOURCE}.",
    )


def untrusted(host: str) -> Problem:
    """Return the problem of a certificate that is not from a known authority."""
    return download(
        f"The certificate of {host} is not trusted, so nothing was downloaded.",
        "If your organization inspects encrypted connections, set SSL_CERT_FILE to its certificate file.",
    )


def proxy_refused() -> Problem:
    """Return the problem of a proxy that requires a name and a password (HTTP 407)."""
    return download(
        "The proxy requires a name and a password (HTTP 407).",
        "Set HTTPS_PROXY to http://NAME:PASSWORD@HOST:PORT and try again.",
    )


def refused(host: str, status: int) -> Problem:
    """Return the problem of a server that requires a password or denies access (HTTP 401, 403)."""
    return download(
        f"{host} denied access (HTTP {status}).",
        f"For a mirror, check its address and, if needed, name and password. Otherwise {OTHER_SOURCE}.",
    )


def no_address(who: str) -> Problem:
    """Return the problem of an invalid address, or of a file name that is too long."""
    return download(f"{who} returned an address that cannot be used.", f"{OTHER_SOURCE.capitalize()}.")


def answered(host: str, status: int) -> Problem:
    """Return the problem of another HTTP status."""
    return download(f"{host} answered with HTTP {status}.", f"Try again later, or {OTHER_SOURCE}.")


def not_written(error: OSError, folder: Path) -> Problem:
    """Return the problem of a folder, or a file in it, that could not be written."""
    if error.errno in _FULL:
        return Problem(kind=Kind.DISK_FULL, message=f"The disk is full at {folder}.", remedy=ROOM)
    return request_problem(
        f"PyTorch cannot be written to {folder}: {error.strerror or error}.",
        "Make the folder writable, or set AMMETER_ENGINE to a folder that is.",
        key="AMMETER_ENGINE",
        value=folder,
    )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of writing to the folder into a ProblemError."""
    try:
        yield
    except OSError as error:
        raise ProblemError(not_written(error, folder)) from error


# EDQUOT is missing on Windows; EFBIG: a limit on the size of files
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
