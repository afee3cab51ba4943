"""Finds and runs uv, without the user's uv settings, and explains its errors."""

from __future__ import annotations

import errno
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies

import psutil

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.value import shortened
from engine.installation.installed import not_written, platform_here, python_here
from engine.installation.request import Source

OTHER_SOURCE = "choose a mirror or a folder of wheels"

_KEPT = (
    "HTTP_",
    "CUDA_DRIVER_VERSION",
    "AMD_GPU_ARCHITECTURE",
    "INSECURE_HOST",
    "KEYRING_PROVIDER",
    "INDEX_",
)
"""Of uv's own variables: those that say how to reach an index and which GPU to assume."""
_EACH_SECONDS = 0.3
_LONGEST_QUOTE = 400


def find_uv() -> Path:
    """Return AMMETER_UV, or uv next to Python, in its package or on the PATH. Raises ProblemError."""
    if named := os.environ.get("AMMETER_UV", "").strip():
        return Path(named)
    beside = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    if beside.exists():
        return beside
    if find_spec("uv") is not None:
        with suppress(FileNotFoundError):  # installed without its program; the PATH may have another
            return Path(importlib.import_module("uv").find_uv_bin())
    if (on_path := shutil.which("uv")) is not None:
        return Path(on_path)
    raise ProblemError(_no_uv("is missing", None))


def run_uv(
    arguments: Sequence[str],
    source: Source = Source(),  # noqa: B008 - frozen
    *,
    indexes: Sequence[str] = (),
    cache: Path | None = None,
) -> Generator[str]:
    """Run uv, and yield what it has printed so far, three times a second, until it has succeeded.

    Raises ProblemError if it fails. Closing the iterator ends uv and its children at once. `source` only
    explains failures. `indexes` replace PyPI, in this order. Without a folder `cache` uv keeps nothing.
    """
    with tempfile.TemporaryDirectory(prefix="ammeter-uv-", ignore_cleanup_errors=True) as scratch:
        environment = _environment() | {"UV_CACHE_DIR": str(cache or Path(scratch, "cache"))}
        if cache is not None:
            # a download of minutes outlasts a connection that is lost for one
            environment.setdefault("UV_HTTP_RETRIES", "6")
        if indexes:
            # not among the arguments, where every user of the machine could read a password in an address
            *first, last = indexes
            environment |= {"UV_INDEX": " ".join(first), "UV_DEFAULT_INDEX": last}
        printed = Path(scratch, "printed")
        with printed.open("wb") as output, _started(arguments, environment, output) as uv:
            try:
                while uv.poll() is None:
                    yield _read_output(printed)
                    with suppress(subprocess.TimeoutExpired):
                        uv.wait(_EACH_SECONDS)
            finally:
                _end_process(uv)
        said = _read_output(printed)
    if uv.returncode:
        said = said or f"error: it ended with exit status {uv.returncode}"
        raise ProblemError(explained(said, source, cache), detail=said)


def _started(
    arguments: Sequence[str], environment: dict[str, str], output: BinaryIO
) -> subprocess.Popen[bytes]:
    program = str(find_uv())
    try:
        return subprocess.Popen(
            [program, *arguments, *_ALWAYS],
            cwd=Path(output.name).parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            creationflags=_NO_WINDOW,
        )
    except OSError as error:
        raise ProblemError(_no_uv(f"does not start: {error.strerror or error}", program)) from error


def _end_process(uv: subprocess.Popen[bytes]) -> None:
    if uv.poll() is None:
        with suppress(psutil.Error):
            for child in psutil.Process(uv.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        uv.kill()


def _read_output(printed: Path) -> str:
    return printed.read_text("utf-8", errors="replace")


_ALWAYS = ("--no-config", "--color=never", "--no-python-downloads", "--system-certs")
_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH")
        and (not name.startswith("UV_") or name.removeprefix("UV_").startswith(_KEPT))
        and name not in ("UV_INDEX_URL", "UV_INDEX_STRATEGY")
    }


def _no_uv(why: str, program: str | None) -> Problem:
    remedy = "Reinstall Ammeter, or set AMMETER_UV to the path of uv."
    return request_problem(f"uv, which installs PyTorch, {why}.", remedy, key="AMMETER_UV", value=program)


_OF_THE_DISK = {
    *(errno.EPERM, errno.EACCES, errno.EIO, errno.EMFILE, errno.EROFS),
    *(errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)),
    # ERROR_WRITE_PROTECT and ERROR_DISK_FULL, as Windows numbers them
    *(19, 112),
}
"""Errors of the disk, not of the archive."""


_NETWORK = f"Check the network and, behind a proxy, HTTPS_PROXY. Otherwise {OTHER_SOURCE}."
_DAMAGED = "Something on the network or in the index changes it. Try again, use another network, or "
_FAILURES = (
    (
        "invalid peer certificate",
        "The certificate of {host} is not trusted, so nothing was downloaded.",
        "If your organization inspects encrypted connections, set SSL_CERT_FILE to its certificate file.",
    ),
    (
        r"proxy authorization required|\(407",
        "The proxy requires a name and a password (HTTP 407).",
        "Set HTTPS_PROXY to http://NAME:PASSWORD@HOST:PORT and try again.",
    ),
    (
        "tunnel error: unsuccessful",
        "The proxy does not connect to {host}.",
        f"Ask the proxy's administrator to allow it, or {OTHER_SOURCE}.",
    ),
    ("tunnel error", "{proxy} cannot be reached.", _NETWORK),
    (r"\(Connect\)|timed out|error sending request", "{host} cannot be reached.", _NETWORK),
    (
        "error decoding response body",
        "The connection was lost while {package} was being downloaded.",
        f"Check the network and try again. Complete packages are kept. Otherwise {OTHER_SOURCE}.",
    ),
    (
        r"\b(40[13]) (?:Unauthorized|Forbidden)",
        "{host} denied access (HTTP {0}).",
        f"For a mirror, check its address and, if needed, name and password. Otherwise {OTHER_SOURCE}.",
    ),
    (
        r"\((404|410) ",
        "{file} is not at {host} (HTTP {0}).",
        f"Check the mirror's address, if you use one, or {OTHER_SOURCE}.",
    ),
    (
        r"status \w+ error \((\d{3})",
        "{host} answered with HTTP {0}.",
        f"Try again later, or {OTHER_SOURCE}.",
    ),
    (
        "'Location' value",
        "{host} returned an address that cannot be used.",
        f"{OTHER_SOURCE.capitalize()}.",
    ),
    (
        "(?:Hash|Size) mismatch",
        "The downloaded wheel of {package} does not match the index, so it was not installed.",
        f"{_DAMAGED}{OTHER_SOURCE}.",
    ),
)
"""What uv says, as a pattern, the sentence, and the remedy."""


def explained(said: str, source: Source, folder: Path | None = None) -> Problem:
    """Turn uv's error message into a problem. `folder` is where it wrote."""
    for pattern, message, remedy in _FAILURES:
        if found := re.search(pattern, said):
            return _download(message.format(*found.groups(), **_host_names(said, source)), remedy)
    if source.folder is not None and "Failed to read `--find-links`" in said:
        message = f"The folder of wheels {source.folder} cannot be read."
        return request_problem(message, "Check its name and your read permission.", value=source.folder)
    if "No solution found" in said:
        return _no_solution(said, source)
    number = re.search(r"\(os error (\d+)\)", said)
    error = OSError(int(number[1]), os.strerror(int(number[1]))) if number else None
    # uv breaks a line before a long path
    archive = re.search(r"Failed to extract archive:\s+(?:.*[/\\])?(\S+)", said)
    # a file that a wheel has twice, whatever uv says of it first: its folders are new
    is_twice = error is not None and error.errno in (errno.EEXIST, errno.EISDIR)
    if is_twice or (archive is not None and (error is None or error.errno not in _OF_THE_DISK)):
        wheel = archive or re.search(r"([^\s/\\`]+\.whl)", said)
        why = error.strerror if error is not None else said.strip().rpartition("cause: ")[2].rstrip(".")
        again = f"Try again, or {OTHER_SOURCE}" if source.folder is None else "Copy it there again"
        name = wheel[1] if wheel is not None else "A wheel"
        return _download(
            f"{name} cannot be unpacked: {shortened(' '.join(str(why).split()), _LONGEST_QUOTE)}.",
            f"The wheel is damaged. {again}.",
        )
    if error is not None and folder is not None:
        return not_written(error, folder)
    return _download(f"uv could not install PyTorch: {_error_causes(said)}", f"Try again, or {OTHER_SOURCE}.")


def _download(message: str, remedy: str) -> Problem:
    return Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy)


def _host_names(said: str, source: Source) -> dict[str, str]:
    host, proxies = _index_host(said, source), getproxies()
    package = re.search(r"Failed to download `([^`]+)`", said)
    return {
        "host": host,
        "proxy": urlsplit(proxies.get("https") or proxies.get("all") or "").hostname or host,
        "file": unquote(_address(said, source).path.rstrip("/").rpartition("/")[2]) or "The index",
        "package": package[1].replace("==", " ") if package else "a package",
    }


def _no_solution(said: str, source: Source) -> Problem:
    missing = re.search(r"[Bb]ecause ([\w.-]+)\S* was not found in", said)
    place = "the package index" if source.mirror is None else f"the mirror {_index_host('', source)}"
    if source.folder is not None:
        place = f"the folder {source.folder}"
    if missing is None:
        message = f"No build of PyTorch in {place} fits Python {python_here()} on {platform_here()}."
        return _download(
            f"{message} uv says: {_error_causes(said)}", f"Choose another build, or {OTHER_SOURCE}."
        )
    remedy = f"Check its name, or {OTHER_SOURCE}."
    if source.folder is not None:
        remedy = f"Copy its wheel for Python {python_here()} on {platform_here()} into the folder."
    elif source.mirror is not None:
        remedy = "Check the mirror's address, which often ends in /simple."
    return _download(f"The package {missing[1]} is not in {place}.", remedy)


def _index_host(said: str, source: Source) -> str:
    return _address(said, source).hostname or "The package index"


def _address(said: str, source: Source) -> SplitResult:
    found = re.search(r"https?://[^\s)`]+", said)
    with suppress(ValueError):  # of an IPv6 address that is not one
        return urlsplit(found[0] if found else source.mirror or "")
    return urlsplit("")


def _error_causes(said: str) -> str:
    error = said[max(said.find("error:"), 0) :].partition("\nhint:")[0]
    lines = [line.strip() for line in error.splitlines()]
    words = [
        re.sub(r"^(error|cause): ", "", line).rstrip(".") for line in lines if not line.startswith("warn")
    ]
    return shortened(". ".join(word for word in words if word), _LONGEST_QUOTE) + "."
