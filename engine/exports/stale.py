"""The folders in which files are made before they are moved into place, and those that a kill left."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
from pathlib import Path

import psutil

_HOUR_SECONDS = 3600.0


def make_workplace(folder: Path) -> Path:
    """A new hidden folder in `folder`, which names the process that makes it. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f".ammeter-{_host()}-{os.getpid()}-", dir=folder))


def sweep(folder: Path) -> None:
    """Removes what programs of this machine and this user that were killed left in `folder`.

    It is an hour old at least. What cannot be looked at or removed stays.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        stale = [entry.path for entry in entries if _is_stale(entry)]
        for path in stale:
            shutil.rmtree(path, ignore_errors=True)


def _is_stale(entry: os.DirEntry[str]) -> bool:
    found = _NAME.fullmatch(entry.name)
    if found is None or found["host"] != _host() or not entry.is_dir(follow_symlinks=False):
        return False
    about = entry.stat(follow_symlinks=False)
    is_own = not hasattr(os, "getuid") or about.st_uid == os.getuid()
    return (
        is_own and time.time() - about.st_mtime > _HOUR_SECONDS and not psutil.pid_exists(int(found["pid"]))
    )


_NAME = re.compile(r"\.ammeter-(?P<host>[0-9a-f]{12})-(?P<pid>[0-9]{1,9})-\w+", re.ASCII)


def _host() -> str:
    """This machine in a name: a process's number says nothing of those of others that share the folder."""
    return hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:12]
