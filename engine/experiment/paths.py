"""Paths of the program's files. These functions do not create folders."""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import platformdirs

_APPLICATION = "Ammeter"


def data_folder() -> Path:
    """Return the folder of the saved runs: AMMETER_HOME, or the platform's user data folder."""
    return from_environment("AMMETER_HOME") or platform_data()


def config_folder() -> Path:
    """Return the folder of settings and the user's presets: AMMETER_HOME, or the platform's config folder."""
    return from_environment("AMMETER_HOME") or _platform_config()


def trust_path() -> Path:
    """Return the file of trusted code. AMMETER_HOME does not move it: that folder may be someone else's."""
    return _platform_config() / "trusted_code"


def machines_path() -> Path:
    """Return the file of the known machines, which AMMETER_HOME does not move either."""
    return trust_path().with_name("machines.toml")


def store_path() -> Path:
    """Return the database file of the saved runs."""
    return data_folder() / "ammeter.sqlite"


def checkpoints_folder(store: Path) -> Path:
    """Return the folder of checkpoints next to the database `store`. Each run has a subfolder."""
    return store.parent / "checkpoints"


def checkpoint_path(folder: Path, kind: Literal["best", "last", "rewind"]) -> Path:
    """Return a checkpoint's file in the folder of its run."""
    return folder / f"{kind}.pt"


def traces_folder(store: Path) -> Path:
    """Return the folder of profile traces next to the database `store`."""
    return store.parent / "traces"


def file_name_of(record_id: str) -> str:
    """Return a saved record's id as part of a file name. An imported store may have any text as an id."""
    return re.sub(r"\W", "_", record_id)


def part_path(path: Path) -> Path:
    """Return a file's temporary path while it is written. A killed process may leave it behind."""
    return path.with_name(f".{path.name}.part")


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file atomically, and create its folder if needed. Raises OSError."""
    part = part_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="utf-8", opener=functools.partial(os.open, mode=mode)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def plain_file(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a regular file, as the `opener` of `open` does. Raises OSError for anything else.

    Opening a named pipe would wait forever, and opening a device may do anything.
    """
    with suppress(FileNotFoundError):
        _require_file(Path(path).stat(), path)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), mode)
    try:
        _require_file(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_file(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def read_file(path: Path, most_bytes: int = 64 * 2**20) -> bytes:
    """Read a whole regular file. Raises OSError, also where it is larger than `most_bytes`."""
    with open(path, "rb", opener=plain_file) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes // 2**10:,} KiB", str(path))
    return content


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether Windows treats a path as one on a remote machine, or as a device.

    Looking up such a path makes Windows send the user's name and a password hash to that machine.
    """
    return str(path).strip().replace("\\", "/").startswith(("//", "/??/"))


def is_in_use(error: OSError) -> bool:
    """Return True if Windows refused to replace or rename a file because a program has it open."""
    sharing_violation, lock_violation = 32, 33
    return getattr(error, "winerror", None) in (sharing_violation, lock_violation)


def datasets_folder() -> Path:
    """Return the folder of downloaded datasets: AMMETER_DATA, or a subfolder of the user data folder."""
    return from_environment("AMMETER_DATA") or platform_data() / "datasets"


def keep_folders() -> None:
    """Make relative folders in the environment absolute, before the working directory changes."""
    for name in ("AMMETER_HOME", "AMMETER_DATA", "AMMETER_ENGINE"):
        if (folder := from_environment(name)) is not None:
            os.environ[name] = str(folder)


def sockets_folder() -> Path | None:
    """Create the private folder for sockets. Return None if that is not possible.

    A socket's path has at most 104 bytes. A file name in it may have 40, and ssh temporarily appends some.
    """
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere", "ammeter")
    for folder in (runtime, Path(f"/tmp/ammeter-{os.getuid()}")):
        if folder.is_absolute() and len(os.fsencode(folder)) < 48:
            with suppress(OSError):
                folder.mkdir(mode=0o700, exist_ok=True)
                found = folder.lstat()
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
                    return folder
    return None


def platform_data() -> Path:
    """Return the platform's user data folder."""
    return _at_home(platformdirs.user_data_path)


def _platform_config() -> Path:
    return _at_home(platformdirs.user_config_path)


def _at_home(find: Callable[..., Path]) -> Path:
    # a user of a container may have no home: nothing is read then, and what is written fails with this path
    with suppress(RuntimeError):
        if (path := find(_APPLICATION, appauthor=False)).is_absolute() or sys.platform == "win32":
            return path
    return Path("/nonexistent", _APPLICATION)


def expanded(path: str) -> Path:
    """Return the path with ~ replaced by the home folder. Unlike `Path.expanduser`, keep an unknown one."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def from_environment(name: str) -> Path | None:
    """Return the folder in an environment variable. None if it is unset or empty."""
    value = os.environ.get(name, "").strip()
    return Path(value).expanduser().absolute() if value else None
