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
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.value import shortened
from engine.installation.connection import is_address
from engine.installation.control import Stopped
from engine.installation.installed import platform_here, python_here
from engine.installation.problems import (
    OTHER_SOURCE,
    answered,
    download,
    not_written,
    proxy_refused,
    refused,
    unreachable,
    untrusted,
)
from engine.installation.request import Source

_KEPT = (
    "HTTP_",
    "CUDA_DRIVER_VERSION",
    "AMD_GPU_ARCHITECTURE",
    "INSECURE_HOST",
    "KEYRING_PROVIDER",
    "INDEX_",
)
"""Of uv's own variables: those that say how to reach an index and which GPU to assume."""
_POLL_SECONDS = 0.1
_LONGEST_QUOTE = 400


def never() -> bool:
    """Return False, for a run of uv that is never stopped."""
    return False


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
    text: str = "",
    indexes: Sequence[str] = (),
    cache: Path | None = None,
    is_stopped: Callable[[], bool] = never,
) -> str:
    """Run uv with `text` as its input, and return its output.

    Raises ProblemError, and Stopped once `is_stopped()` is true. `source` only explains failures. `indexes`
    replace PyPI, in this order. Without a folder `cache` uv keeps nothing.
    """
    with tempfile.TemporaryDirectory(prefix="ammeter-uv-", ignore_cleanup_errors=True) as scratch:
        environment = _environment() | {"UV_CACHE_DIR": str(cache or Path(scratch, "cache"))}
        if indexes:
            # not among the arguments, where every user of the machine could read a password in an address
            *first, last = indexes
            environment |= {"UV_INDEX": " ".join(first), "UV_DEFAULT_INDEX": last}
        command = [str(find_uv()), *arguments, *_ALWAYS]
        try:
            process = subprocess.Popen(
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                creationflags=_NO_WINDOW,
            )
        except OSError as error:
            raise ProblemError(_no_uv(f"does not start: {error.strerror or error}", command[0])) from error
        with process:
            try:
                printed, said = _communicate(process, text, is_stopped)
            except BaseException:
                process.kill()
                raise
    if process.returncode:
        said = said or f"error: it ended with exit status {process.returncode}"
        raise ProblemError(explained(said, source, cache), detail=said)
    return printed


_ALWAYS = ("--no-config", "--no-progress", "--color=never", "--no-python-downloads", "--system-certs")
_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH")
        and (not name.startswith("UV_") or name.removeprefix("UV_").startswith(_KEPT))
        and name not in ("UV_INDEX_URL", "UV_INDEX_STRATEGY")
    }


def _communicate(
    process: subprocess.Popen[str], text: str, is_stopped: Callable[[], bool]
) -> tuple[str, str]:
    given: str | None = text
    while True:
        try:
            return process.communicate(given, timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            given = None
            if is_stopped():
                raise Stopped from None


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


def explained(said: str, source: Source, folder: Path | None = None) -> Problem:
    """Turn uv's error message into a problem. `folder` is where it wrote."""
    host = _host(said, source)
    if "invalid peer certificate" in said:
        return untrusted(host)
    if "proxy authorization required" in said or "(407" in said:
        return proxy_refused()
    if "tunnel error: unsuccessful" in said:
        remedy = f"Ask the proxy's administrator to allow it, or {OTHER_SOURCE}."
        return download(f"The proxy does not connect to {host}.", remedy)
    if "tunnel error" in said:
        proxies = getproxies()
        return unreachable(urlsplit(proxies.get("https") or proxies.get("all") or "").hostname or host)
    if "(Connect)" in said or "timed out" in said or "error sending request" in said:
        return unreachable(host)
    if status := re.search(r"\b(40[13]) (?:Unauthorized|Forbidden)", said):
        return refused(host, int(status[1]))
    if status := re.search(r"status \w+ error \((\d{3})", said):
        return answered(host, int(status[1]))
    if source.folder is not None and "Failed to read `--find-links`" in said:
        message = f"The folder of wheels {source.folder} cannot be read."
        return request_problem(message, "Check its name and your read permission.", value=source.folder)
    if "No solution found" in said:
        return _no_solution(said, source)
    if number := re.search(r"\(os error (\d+)\)", said):
        error = OSError(int(number[1]), os.strerror(int(number[1])))
        archive = re.search(r"Failed to extract archive: (?:.*[/\\])?(\S+)", said)
        # a file that a wheel has twice, whatever uv says of it first: its folders are new
        is_twice = error.errno in (errno.EEXIST, errno.EISDIR)
        if is_twice or (archive is not None and error.errno not in _OF_THE_DISK):
            wheel = archive or re.search(r"([^\s/\\`]+\.whl)", said)
            name = wheel[1] if wheel is not None else "A wheel"
            remedy = f"The wheel is faulty. {OTHER_SOURCE.capitalize()}."
            return download(f"{name} cannot be unpacked: {error.strerror}.", remedy)
        if folder is not None:
            return not_written(error, folder)
    return download(f"uv could not install PyTorch: {_causes(said)}", f"Try again, or {OTHER_SOURCE}.")


def _no_solution(said: str, source: Source) -> Problem:
    missing = re.search(r"[Bb]ecause ([\w.-]+)\S* was not found in", said)
    place = "the package index" if source.mirror is None else f"the mirror {_host('', source)}"
    if source.folder is not None:
        place = f"the folder {source.folder}"
    if missing is None:
        message = f"No build of PyTorch in {place} fits Python {python_here()} on {platform_here()}."
        return download(f"{message} uv says: {_causes(said)}", f"Choose another build, or {OTHER_SOURCE}.")
    remedy = f"Check its name, or {OTHER_SOURCE}."
    if source.folder is not None:
        remedy = f"Copy its wheel for Python {python_here()} on {platform_here()} into the folder."
    elif source.mirror is not None:
        remedy = "Check the mirror's address, which often ends in /simple."
    return download(f"The package {missing[1]} is not in {place}.", remedy)


def _host(said: str, source: Source) -> str:
    found = re.search(r"https?://[^\s)`]+", said)
    address = found[0] if found and is_address(found[0]) else source.mirror or "PyPI"
    return urlsplit(address).hostname or address


def _causes(said: str) -> str:
    lines = [line.strip() for line in said.partition("\nhint:")[0].splitlines()]
    words = [
        re.sub(r"^(error|cause): ", "", line).rstrip(".") for line in lines if not line.startswith("warn")
    ]
    return shortened(". ".join(word for word in words if word), _LONGEST_QUOTE) + "."
