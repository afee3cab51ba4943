"""Paths of the program's files. These functions only compute; who writes makes the folders."""

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
    """The folder of the saved runs: AMMETER_HOME, or the platform's place for a user's data."""
    return from_environment("AMMETER_HOME") or platform_data()


def config_folder() -> Path:
    """The folder of settings and the user's presets: AMMETER_HOME, or the platform's place for settings."""
    return from_environment("AMMETER_HOME") or _platform_config()


def trust_path() -> Path:
    """The file that says whose code may run. AMMETER_HOME does not move it: that folder may be another's."""
    return _platform_config() / "trusted_code"


def machines_path() -> Path:
    """The file of the known machines, which AMMETER_HOME does not move either."""
    return trust_path().with_name("machines.toml")


def store_path() -> Path:
    """The file of the saved runs."""
    return data_folder() / "ammeter.sqlite"


def checkpoints_folder(store: Path) -> Path:
    """The folder of checkpoints beside the saved runs at `store`; each run has a subfolder."""
    return store.parent / "checkpoints"


def checkpoint_path(folder: Path, kind: Literal["best", "last", "rewind"]) -> Path:
    """A checkpoint's file in the folder of its run."""
    return folder / f"{kind}.pt"


def traces_folder(store: Path) -> Path:
    """The folder of profiles' traces beside the saved runs at `store`."""
    return store.parent / "traces"


def file_name_of(record_id: str) -> str:
    """A saved record's id in a file's name; a store from elsewhere may have any text as an id."""
    return re.sub(r"\W", "_", record_id)


def part_path(path: Path) -> Path:
    """A file's path while it is being written; a killed process may leave it behind."""
    return path.with_name(f".{path.name}.part")


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Writes a file, and its folder if need be, so that no reader finds half of it. Raises OSError."""
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
    """Return whether Windows reads a path as one of another machine, or of a device.

    Looking for such a path has Windows send the user's name and a hash of the password there.
    """
    return str(path).strip().replace("\\", "/").startswith(("//", "/??/"))


def is_in_use(error: OSError) -> bool:
    """True if Windows refused to replace or rename a file because a program has it open."""
    sharing_violation, lock_violation = 32, 33
    return getattr(error, "winerror", None) in (sharing_violation, lock_violation)


def datasets_folder() -> Path:
    """The folder of downloaded datasets: AMMETER_DATA, or beside the platform's user data."""
    return from_environment("AMMETER_DATA") or platform_data() / "datasets"


def keep_folders() -> None:
    """Writes relative folders of the environment in full, in a process that will move to another folder."""
    for name in ("AMMETER_HOME", "AMMETER_DATA", "AMMETER_ENGINE"):
        if (folder := from_environment(name)) is not None:
            os.environ[name] = str(folder)


def sockets_folder() -> Path | None:
    """Make the folder for sockets, which no other user can look into. None where there is none.

    A socket's path has at most 104 bytes: a name in it may take 40, and ssh adds some to it for a moment.
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
    """The platform's folder of the user's data."""
    return _at_home(platformdirs.user_data_path)


def _platform_config() -> Path:
    return _at_home(platformdirs.user_config_path)


def _at_home(find: Callable[..., Path]) -> Path:
    # a user of a container may have no home: nothing is read then, and what is written fails with this path
    with suppress(RuntimeError):
        if (path := find(_APPLICATION, appauthor=False)).is_absolute() or sys.platform == "win32":
            return path
    return Path("/nonexistent", _APPLICATION)


def from_environment(name: str) -> Path | None:
    """The folder that an environment variable names; None where it is unset or empty."""
    value = os.environ.get(name, "").strip()
    return Path(value).expanduser().absolute() if value else None
